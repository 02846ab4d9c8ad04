"""The page in a real browser: a person finds what is in the context, and where the rest went."""

import re
import shlex

import pytest

from ebbtide.runtime import Context
from fronts.cli.terminal import recorded, run_program
from fronts.proxy.agent import Agent, looping
from fronts.proxy.proxy_runner import proxied
from fronts.ui.browser_page import WAIT, looking, needs_chromium, opened, until
from fronts.ui.inspector import BilledAgent, library, running
from runtime.sessions import EARLY, Clock, body, loop
from upstream.server import Upstream

pytestmark = needs_chromium
TOKENS = re.compile(r"^−[\d.]+k? tokens$")
MONEY = re.compile(r"^−?\$\d")


def texts(page, selector):
    return [text.strip() for text in page.locator(selector).all_inner_texts()]


def test_from_the_list_to_the_removed_content(chromium, address):
    """The click path: search, session, stub, the original in full, through its handle."""
    with looking(chromium, address) as watched:
        page = watched.page
        page.fill("input[type=search]", "修好 night")
        until(page, "document.querySelectorAll('.session').length === 1")
        opened(page)
        page.locator(".item.stub .fold").first.click()
        page.wait_for_selector(".originals .item")
        if not page.locator(".originals .text").count():
            page.locator(".originals .fold", has_text="tool result").first.click()
        page.locator(".originals .link").first.click()
        until(page, "document.querySelector('.originals pre').textContent.length > 4000")

        assert "reading = level - datum" in page.locator(".originals pre").first.inner_text()
        assert "token" not in page.url
        assert not watched.misdeeds()


def test_from_the_list_to_a_recalled_blob(chromium, address):
    with looking(chromium, address) as watched:
        page = watched.page
        opened(page)
        page.locator(".tabs button", has_text="Recall").click()
        page.fill(".recall input[type=search]", "datum 潮位")
        page.wait_for_selector(".hit mark >> text=潮位")
        hit = page.locator(".hit", has_text="src/tide/gauge.py").first
        assert "datum" in [text.casefold() for text in hit.locator("mark").all_inner_texts()]
        hit.locator(".fold").click()
        hit.locator(".link").click()
        until(page, "document.querySelector('.hit .text pre').textContent.length > 4000")

        assert not watched.misdeeds()


def test_the_chart_shows_each_call_with_its_compactions_and_cache_breaks(chromium, address):
    with looking(chromium, address) as watched:
        page = watched.page
        opened(page)
        told = page.locator(".chart").get_attribute("aria-label")
        keys = " ".join(texts(page, ".legend .key"))
        page.locator(".chart .u-over").click(position={"x": 400, "y": 60})
        page.wait_for_selector(".stepper b >> text=/^([4-9])$/")
        picked = page.locator(".stepper b").inner_text()

        assert re.search(
            r"16 calls, [\d,]+ tokens in the newest, window of 20k; [1-9]\d* summar(y|ies), [1-9]\d* cache", told
        )
        for part in (
            "tool results",
            "tool calls",
            "placeholders",
            "window 20k",
            "without Ebbtide",
            "summary",
            "cache break",
        ):
            assert part in keys
        until(page, f"document.querySelector('.legend .which').textContent.startsWith('Call {picked}')")
        assert f"at={picked}" in page.evaluate("location.href")


def test_the_request_shown_for_a_call_is_the_one_that_was_sent(chromium, address):
    with looking(chromium, address) as watched:
        page = watched.page
        opened(page)
        for _ in range(14):
            page.locator(".stepper button").first.click()
        page.wait_for_selector(".stepper b >> text=/^2$/")
        until(page, "!document.querySelector('.item.ghost') && document.querySelectorAll('.item').length === 4")
        shown = " ".join(texts(page, ".item"))

        assert "step 0" in shown
        assert "step 1" not in shown
        assert page.locator(".item.stub").count() == 0
        assert page.locator(".tide").count() == 1


def test_an_edit_has_an_author_a_reason_tokens_money_and_two_sides(chromium, address):
    with looking(chromium, address) as watched:
        page = watched.page
        opened(page)
        page.keyboard.press("2")
        page.wait_for_selector(".edit")
        for selector, looks in ((".edit .number:not(.money)", TOKENS), (".edit .money", MONEY)):
            assert all(looks.match(text) for text in texts(page, selector))
        assert all(texts(page, ".edit .by"))
        assert all(texts(page, ".edit .why"))
        page.locator(".edit > .fold", has_text="clear_results").first.click()
        page.wait_for_selector(".diff .gone")
        assert "reading = level - datum" in page.locator(".diff .gone").first.inner_text()
        assert "[ebb:" in page.locator(".diff .new").first.inner_text()

        assert page.locator("button", has_text="Undo").count() == 0
        assert not watched.misdeeds()


def test_the_cache_map_says_what_was_warm_and_why_it_broke(chromium, address):
    with looking(chromium, address) as watched:
        page = watched.page
        opened(page)
        page.keyboard.press("3")
        page.wait_for_selector(".strip")
        page.locator(".bill", has=page.locator(".broke")).first.click()
        page.wait_for_selector(".onecall .broke")
        told = page.locator(".onecall").inner_text()

        assert "reason for the cache break: " in told
        assert "edit " in told
        assert "cached: " in told
        assert "cache breakpoint" in told
        assert re.search(r"written to cache\s+[\d,]{4,}", told)


def test_facts_and_comparison_are_shown(chromium, address):
    with looking(chromium, address) as watched:
        page = watched.page
        opened(page)
        page.keyboard.press("4")
        page.wait_for_selector(".facts >> text=src/f3.py")
        page.locator(".fact", has_text="修好潮位计").first.click()
        page.wait_for_selector(".facts .text")
        page.keyboard.press("6")
        page.locator(".compare select").nth(1).select_option("raw")
        page.locator(".compare .main").click()
        page.wait_for_selector(".arm")

        assert texts(page, ".arm h3") == ["default", "raw"]
        assert all(MONEY.match(text) for text in texts(page, ".arm .sum"))
        assert not watched.misdeeds()


def test_it_is_worked_by_keyboard_alone(chromium, address):
    with looking(chromium, address) as watched:
        page = watched.page
        page.keyboard.press("?")
        page.wait_for_selector(".help button:focus")
        page.keyboard.press("Escape")
        page.wait_for_selector(".help", state="detached")
        page.keyboard.press("/")
        page.wait_for_selector("input:focus")
        page.keyboard.type("nightly")
        until(page, "document.querySelectorAll('.session').length === 1")
        page.keyboard.press("ArrowDown")
        page.wait_for_selector(".row.cursor .session:focus")
        page.keyboard.press("Enter")
        page.wait_for_selector(".item:not(.ghost)")
        page.keyboard.press("ArrowLeft")
        page.wait_for_selector(".stepper b >> text=15")
        page.wait_for_selector(".item:not(.ghost)")
        page.keyboard.press("ArrowDown")
        page.wait_for_selector(".row.cursor .fold:focus")
        page.keyboard.press("Enter")
        page.wait_for_selector(".row.cursor .text")
        page.keyboard.press("Enter")
        page.wait_for_selector(".row.cursor .text", state="detached")
        page.keyboard.press("/")
        page.wait_for_selector(".recall input:focus")
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        page.wait_for_selector(".session")

        assert not watched.misdeeds()


def test_a_button_that_has_the_focus_is_what_enter_presses(chromium, address):
    with looking(chromium, address) as watched:
        page = watched.page
        opened(page)
        page.locator(".item .fold").first.click()
        page.wait_for_selector(".item .text")
        page.locator(".stepper button").first.focus()
        page.keyboard.press("Enter")
        page.wait_for_selector(".stepper b >> text=15")


def test_ten_thousand_items_are_a_few_rows_in_the_page(chromium, tmp_path):
    context = Context(store=tmp_path, session="long", model="claude-opus-4-5", window=2_000_000, clock=Clock())
    context.prepare(body(loop(3334, lines=1)))
    with running(library(tmp_path)) as address, looking(chromium, address) as watched:
        page = watched.page
        opened(page, "long")
        page.keyboard.press("End")
        until(page, "document.querySelector('.row.cursor .tool')")

        assert page.locator(".row.cursor").get_attribute("data-row") == "10002"
        assert page.locator(".row").count() < 60
        for share in (0.25, 0.5, 0.75):
            page.evaluate(f"main => main.scrollTop = {share} * main.scrollHeight", page.query_selector("#main"))
            until(page, f"Math.abs(document.querySelector('.row').dataset.row - {share * 10_002}) < 1500")
            until(page, "!document.querySelector('.item.ghost')")
            assert page.locator(".row").count() < 60
        page.keyboard.press("Home")
        page.wait_for_selector(".row[data-row='0'] >> text=fix the gauge")


def test_a_session_of_a_running_proxy_appears_and_grows_before_ones_eyes(chromium, tmp_path):
    BilledAgent(tmp_path, session="other").steps(1)
    with (
        Upstream(looping("anthropic")) as upstream,
        proxied(upstream.url, store=tmp_path) as proxy,
        running(library(tmp_path)) as address,
        looking(chromium, address) as watched,
    ):
        agent = Agent("anthropic", proxy.port, upstream, x_session_id="one-agent-0001")
        agent.turn(0)
        proxy.settle()
        page = watched.page
        opened(page, "Go through the code")
        page.wait_for_selector(".chip.live.on")
        page.wait_for_selector(".stepper >> text=1 of 1")
        agent.turn(1, stream=True)
        proxy.settle()
        page.wait_for_selector(".stepper >> text=2 of 2")
        page.wait_for_selector(".item >> text=src/f0.py")
        page.locator(".chip.live").click()
        agent.turn(2)
        proxy.settle()
        page.wait_for_selector(".stepper >> text=2 of 3")

        assert not watched.misdeeds()


def test_a_batch_is_undone_and_brought_back_on_the_page(chromium, tmp_path):
    talker = BilledAgent(tmp_path, policy=EARLY).steps(10)
    with running(library(tmp_path), allow_undo=True) as address, looking(chromium, address) as watched:
        page = watched.page
        opened(page)
        page.keyboard.press("2")
        page.locator(".batch button", has_text="Undo").first.click()
        page.wait_for_selector(".batch.undone")
        undone = len(talker.context.edits())
        page.locator(".batch button", has_text="Redo").first.click()
        page.wait_for_selector(".batch.undone", state="detached")

        assert undone < len(talker.context.edits())
        assert not watched.misdeeds()


def test_without_the_token_the_page_is_locked(chromium, address):
    context = chromium.new_context()
    context.set_default_timeout(WAIT)
    page = context.new_page()
    for wrong in (address.partition("#")[0], f"{address}x"):
        page.goto("about:blank")
        page.goto(wrong)
        page.wait_for_selector(".trouble >> text=token")
        assert page.locator(".session").count() == 0
    context.close()


def test_an_empty_store_says_what_to_do(chromium, tmp_path):
    with running(library(tmp_path)) as address:
        context = chromium.new_context()
        context.set_default_timeout(WAIT)
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("main >> text=ebb ui --example")
        context.close()


def test_a_session_names_its_tab_and_links_back_to_the_list(chromium, tmp_path):
    path = recorded(tmp_path / "s.jsonl", steps=3)
    path.write_text(path.read_text().replace("fix the gauge", "<b>fix</b> \u202e it"))
    with running(library(tmp_path / "agents", str(path))) as address:
        context = chromium.new_context()
        context.set_default_timeout(WAIT)
        page = context.new_page()
        page.goto(address)
        page.locator(".session").click()
        page.wait_for_selector(".title .back")
        until(page, "document.title.endsWith(' · Ebbtide')")  # named after it was drawn
        assert "\u202e" not in page.title()
        page.locator(".title .back").click()
        page.wait_for_selector(".session")
        until(page, "document.title === 'Ebbtide'")
        context.close()


def test_a_placeholder_is_copied_explained_and_found_again_from_its_edit(chromium, address):
    with looking(chromium, address, permissions=["clipboard-read", "clipboard-write"]) as watched:
        page = watched.page
        opened(page)
        for _ in range(4):
            page.locator(".stepper button").first.click()
        page.wait_for_selector(".stepper b >> text=12")
        stub = page.locator(".item.stub", has_text="clear_results").first
        stub.locator(".actions button", has_text="Copy").click()
        stub.locator(".actions >> text=Copied").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        stub.locator(".actions button", has_text="Why").click()
        page.wait_for_selector(".diff .gone")
        gone, reason = page.locator(".diff").first.inner_text(), texts(page, ".row.cursor .why")
        page.locator("button", has_text="Show the placeholder").click()
        page.wait_for_selector(".row.cursor .item.stub")

        assert copied.count("reading = level - datum") > 100
        assert "[ebb:" in gone
        assert re.search(r"not used for \d+ calls|\d+ calls? old", reason[0])
        assert not watched.misdeeds()


def test_the_command_that_puts_it_back_is_shown_and_works(chromium, tmp_path):
    talker = BilledAgent(tmp_path, policy=EARLY).steps(10)
    shown = library(tmp_path)
    shown.store_path = str(tmp_path)
    with running(shown) as address, looking(chromium, address) as watched:
        page = watched.page
        opened(page)
        page.locator(".item.stub .actions button", has_text="Put back").first.click()
        command = page.locator(".putback code").first.inner_text()
    before = len(talker.context.edits())
    name, *arguments = shlex.split(command)
    done = run_program(*arguments)

    assert name == "ebb"
    assert done.returncode == 0, done.stderr
    assert len(talker.context.edits()) < before


def test_a_placeholder_is_put_back_on_the_page_if_that_is_allowed(chromium, tmp_path):
    talker = BilledAgent(tmp_path, policy=EARLY).steps(10)
    before = len(talker.context.edits())
    with running(library(tmp_path), allow_undo=True) as address, looking(chromium, address) as watched:
        page = watched.page
        opened(page)
        page.locator(".item.stub .actions button", has_text="Put back").first.click()
        page.locator(".putback .main").click()
        page.wait_for_selector(".actions >> text=Put back.")

        assert len(talker.context.edits()) < before
        assert not watched.misdeeds()


def test_title_rows_and_tabs_are_there_while_the_requests_are_still_walked_through(chromium, address):
    """What takes seconds for thousands of calls holds up nothing else."""
    with looking(chromium, address) as watched:
        page, held = watched.page, []
        page.route(re.compile(r"/api/session/\w+(/calls)?(\?.*)?$"), lambda route: held.append(route))
        page.locator(".session[title=nightly]").click()
        page.wait_for_selector(".title h1 >> text=fix the gauge")
        page.wait_for_selector(".item.stub .actions")
        page.wait_for_selector(".stepper >> text=16 of 16")
        assert page.locator(".timeline.waiting").count() == 1
        assert page.locator(".story.faint").count() == 1
        until(page, "true")
        assert len(held) == 2
        for route in held:
            route.continue_()
        page.wait_for_selector(".chart canvas")
        page.wait_for_selector(".story >> text=without Ebbtide")

        assert not watched.misdeeds()


def test_a_session_begins_with_what_happened_and_the_figures_follow_the_selected_call(chromium, address):
    with looking(chromium, address) as watched:
        page = watched.page
        opened(page)
        told = page.locator(".story").inner_text()
        newest = texts(page, "dl.figures dd")
        page.locator(".chart .u-over").click(position={"x": 120, "y": 60})
        until(page, "document.querySelector('.stepper b').textContent < 10")
        earlier = texts(page, "dl.figures dd")

    assert re.search(r"\$[\d.]+", told)
    assert "in a window of 20k" in told
    assert newest[:2] != earlier[:2]
    assert newest[-1] == earlier[-1], "what the whole session saved"


@pytest.mark.parametrize(("width", "height", "most"), [(1280, 800, 480), (390, 844, 500)])
def test_the_content_begins_high_on_the_page(chromium, address, width, height, most):
    with looking(chromium, address, width=width, height=height) as watched:
        page = watched.page
        opened(page)
        page.wait_for_selector(".story:not(.faint)")

        assert page.locator(".item").first.bounding_box()["y"] <= most


def test_a_session_of_one_call_is_drawn(chromium, address):
    with looking(chromium, address, color_scheme="dark") as watched:
        page = watched.page
        opened(page, "other")
        colours = page.evaluate(
            """() => {
              const canvas = document.querySelector(".chart canvas");
              const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
              const seen = {};
              for (let n = 0; n < data.length; n += 4) {
                const name = data.slice(n, n + 3).join();
                seen[name] = (seen[name] ?? 0) + (data[n + 3] === 255);
              }
              return seen;
            }"""
        )

        # The user's words, in the colour of the legend; without the column nothing has it.
        assert colours.get("242,193,78", 0) > 20
        assert not watched.misdeeds()


def test_only_a_session_that_changes_is_called_live(chromium, tmp_path):
    BilledAgent(tmp_path).steps(2)
    with running(library(tmp_path)) as address, looking(chromium, address) as watched:
        opened(watched.page)
        watched.page.wait_for_selector(".story:not(.faint)")

        assert watched.page.locator(".chip.live").count() == 0
