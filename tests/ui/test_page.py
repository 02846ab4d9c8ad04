"""The page in a real browser: a person finds their way, and nothing in a transcript ever runs."""

import re

import pytest

from drive.sessions import Clock, body, loop
from ebbtide.drive import Context
from ui.browsing import PAYLOADS, browser, looking, needs_chromium, until
from ui.inspected import Talker, library, running

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    where = tmp_path_factory.mktemp("store")
    Talker(where, session="other").steps(1)
    Talker(where).steps(16)
    return where


def opened(page, name="nightly"):
    page.locator(".session", has_text=name).click()
    page.wait_for_selector(".chart canvas")
    page.wait_for_selector(".item:not(.ghost)")


def test_from_the_list_to_what_was_taken_out(chromium, root):
    """The click path: search, session, stub, the original in full, through its handle."""
    with running(library(root)) as address, looking(chromium, address) as watched:
        page = watched.page
        page.fill("input[type=search]", "night")
        until(page, "document.querySelectorAll('.session').length === 1")
        opened(page)
        stub = page.locator(".item.stub").first
        stub.locator(".fold").first.click()
        page.wait_for_selector(".originals .item .text")
        page.locator(".originals .link").first.click()
        until(page, "document.querySelector('.originals pre').textContent.length > 4000")

        assert "reading = level - datum" in page.locator(".originals pre").first.inner_text()
        assert "token" not in page.url
        assert not watched.misdeeds()


def test_every_view_shows_its_part(chromium, root):
    with running(library(root)) as address, looking(chromium, address) as watched:
        page = watched.page
        opened(page)
        page.keyboard.press("2")
        page.locator(".edit .fold").first.click()
        page.wait_for_selector(".diff .gone")
        page.keyboard.press("3")
        page.wait_for_selector(".strip")
        page.wait_for_selector(".bill .broke")
        page.keyboard.press("4")
        page.wait_for_selector(".facts >> text=src/f3.py")
        page.keyboard.press("5")
        page.fill(".recall input[type=search]", "datum")
        page.wait_for_selector(".hit mark >> text=datum")
        page.keyboard.press("Escape")
        page.keyboard.press("6")
        page.wait_for_selector(".compare select")

        assert not watched.misdeeds()


def test_it_is_worked_by_keyboard_alone(chromium, root):
    with running(library(root)) as address, looking(chromium, address) as watched:
        page = watched.page
        page.keyboard.press("?")
        page.wait_for_selector(".help")
        page.keyboard.press("Escape")
        page.wait_for_selector(".help", state="detached")
        page.keyboard.press("/")
        page.keyboard.type("nightly")
        until(page, "document.querySelectorAll('.session').length === 1")
        page.keyboard.press("Escape")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_selector(".item:not(.ghost)")
        page.keyboard.press("ArrowLeft")
        page.wait_for_selector(".stepper b >> text=15")
        page.wait_for_selector(".item:not(.ghost)")
        page.keyboard.press("ArrowDown")
        page.wait_for_selector(".row.cursor .fold:focus")
        page.keyboard.press("Enter")
        page.wait_for_selector(".row.cursor .text")
        page.keyboard.press("Escape")
        page.wait_for_selector(".session")

        assert not watched.misdeeds()


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_sticks_out_at_either_width(chromium, root, width):
    with running(library(root)) as address, looking(chromium, address, width=width) as watched:
        page = watched.page
        opened(page)
        for tab in range(6):
            page.locator(".tabs button").nth(tab).click()
            page.wait_for_timeout(150)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate("document.getElementById('main').scrollWidth") <= width


def test_the_theme_and_the_language_are_chosen_and_kept(chromium, root):
    with running(library(root)) as address, looking(chromium, address, color_scheme="light") as watched:
        page = watched.page
        assert page.evaluate("document.documentElement.dataset.theme") == "light"
        page.keyboard.press("d")
        page.get_by_text("中文").click()
        page.wait_for_selector("h1 >> text=会话")
        page.reload()
        page.wait_for_selector("h1 >> text=会话")

        assert page.evaluate("document.documentElement.dataset.theme") == "dark"


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
        page.keyboard.press("Home")
        page.wait_for_selector(".row[data-row='0'] >> text=fix the gauge")


def test_a_running_session_grows_before_ones_eyes(chromium, tmp_path):
    talker = Talker(tmp_path).steps(3)
    with running(library(tmp_path)) as address, looking(chromium, address) as watched:
        page = watched.page
        opened(page)
        page.wait_for_selector(".chip.live.on")
        talker.step(3)
        page.wait_for_selector(".stepper >> text=4 of 4")

        assert not watched.misdeeds()


def test_a_batch_is_undone_and_brought_back_on_the_page(chromium, tmp_path):
    talker = Talker(tmp_path).steps(10)
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


def test_without_the_token_the_page_is_locked(chromium, root):
    with running(library(root)) as address:
        context = chromium.new_context()
        page = context.new_page()
        for wrong in (address.partition("#")[0], f"{address}x"):
            page.goto("about:blank")
            page.goto(wrong)
            page.wait_for_selector(".trouble >> text=token")
            assert page.locator(".session").count() == 0
        context.close()


# --- hostile transcripts ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Every payload as output, as words, as a file's name and as a command; in titles and projects, too."""
    where = tmp_path_factory.mktemp("hostile")
    messages = [{"role": "user", "content": PAYLOADS[0]}]
    for n, (first, second, third) in enumerate(zip(PAYLOADS[::3], PAYLOADS[1::3], PAYLOADS[2::3], strict=True)):
        name = "Bash" if n % 2 else "Write"
        given = {"command": second} if n % 2 else {"file_path": second, "content": second}
        call = {"type": "tool_use", "id": f"t{n}", "name": name, "input": given}
        messages.append({"role": "assistant", "content": [{"type": "text", "text": first}, call]})
        output = f"error: {third}\n" + "src/tide/gauge.py: reading\n" * 40
        messages.append(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{n}", "content": output}]}
        )
    options = {"model": PAYLOADS[1], "store": where, "project": f"/home/{PAYLOADS[4][:40]}", "clock": Clock()}
    wide = Context(session=f"wide {PAYLOADS[2]}", window=1_000_000, **options)
    wide.prepare({**body(messages), "model": PAYLOADS[1]})
    tight = Context(session=f"tight {PAYLOADS[3]}", window=16_000, **options)
    for upto in range(1, len(messages) + 1, 40):
        tight.prepare({**body(messages[:upto]), "model": PAYLOADS[1]})
    return where


def scrolled(page):
    """All text that a list shows on the way from its top to its end."""
    texts, last = [], -1
    page.evaluate("document.getElementById('main').scrollTop = 0")
    while True:
        until(page, "!document.querySelector('.item.ghost')")
        texts.append(page.locator("main").text_content())
        at = page.evaluate(
            "(() => { const m = document.getElementById('main'); m.scrollTop += 600; return m.scrollTop })()"
        )
        if at == last:
            return "\n".join(texts)
        last = at
        page.wait_for_timeout(60)


def test_three_hundred_payloads_are_text_and_execute_nothing(chromium, hostile):
    assert len(set(PAYLOADS)) == 300
    with running(library(hostile, window=12_000)) as address, looking(chromium, address) as watched:
        page = watched.page
        shown = page.locator("main").text_content()
        opened(page, "wide")
        shown += scrolled(page)

        missing = [payload for payload in PAYLOADS if f"{payload.split()[0]} " not in shown]
        assert not missing
        assert "<img src=x onerror=window.pwned=1>" in shown
        assert not watched.misdeeds()


def test_payloads_in_edits_ledger_recall_and_cache_are_text_too(chromium, hostile):
    with running(library(hostile, window=12_000)) as address, looking(chromium, address) as watched:
        page = watched.page
        opened(page, "tight")
        page.locator(".item.stub .fold").first.click()
        page.wait_for_selector(".originals .item")
        page.keyboard.press("2")
        for nth in range(3):
            page.locator(".edit .fold").nth(nth).click()
            page.wait_for_selector(".diff .gone")
            assert "x" in page.locator(".diff").text_content()
        page.keyboard.press("3")
        page.wait_for_selector(".strip")
        page.keyboard.press("4")
        page.wait_for_selector(".facts")
        facts = page.locator(".ledger").text_content()
        page.keyboard.press("5")
        page.fill(".recall input[type=search]", "onerror script")
        page.wait_for_selector(".hit mark")
        page.locator(".hit .fold").first.click()
        page.wait_for_selector(".hit .text")

        assert len(set(re.findall(r"x\d+ ", facts))) > 20
        assert page.locator("main script, main img, main iframe, main object, main embed, main style").count() == 0
        assert not watched.misdeeds()
