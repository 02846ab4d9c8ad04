"""Transcripts hold whatever a tool printed. In a real browser none of it is ever more than text."""

import json
import re
from dataclasses import replace

import pytest

from ebbtide.audit.history import build_history
from ebbtide.fronts.cli.export import _FORMATS
from ebbtide.fronts.cli.html_report import build_page as report_page
from ebbtide.fronts.cli.statement import build_statement
from ebbtide.runtime import Context
from ebbtide.store import open_store
from fronts.ui.browser_page import PAYLOADS, looking, needs_chromium, opened, reading, until
from fronts.ui.inspector import library, running
from runtime.sessions import Clock, body

pytestmark = needs_chromium
TALL = 4000
"""Pixels: a page so high shows much at once, and little is scrolled."""
_MAIN = "document.getElementById('main')"
_MARKUP = (
    "main script, main img, main iframe, main object, main embed, main style, main link, main form, "
    # Of links there is one of our own: the way back to the list.
    "main a:not(.back[href='#/'])"
)


ANSWERED = (101, 151, 299)
"""Of the sessions that are named by a payload: those in which a model spoke, so that they can be played again."""


def conversation():
    """Each payload as what the user says, what the model says, a tool's name, its input, and its output."""
    messages = [{"role": "user", "content": f"begin {PAYLOADS[0]}"}]
    for n, payload in enumerate(PAYLOADS):
        name, given = (payload, {"file_path": payload}) if n % 2 else ("Bash", {"command": payload})
        call = {"type": "tool_use", "id": f"t{n}", "name": name, "input": given}
        output = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"error: {payload}\n" + "src/a.py: x\n" * 9}
        words = {"type": "text", "text": f"I want {payload}"}
        messages.append({"role": "assistant", "content": [{"type": "text", "text": f"I will {payload}"}, call]})
        messages.append({"role": "user", "content": [output, words]})
    return messages


def pictures():
    """Each payload as the address of a picture, the id of a call, a tool's name, and the name of who speaks."""
    messages = [{"role": "system", "content": f"instructions {PAYLOADS[7]}"}]
    for n, payload in enumerate(PAYLOADS):
        shown = {"type": "image_url", "image_url": {"url": payload if n % 2 else f"data:{payload};base64,aGk="}}
        call = {"id": payload, "type": "function", "function": {"name": payload, "arguments": json.dumps({payload: 1})}}
        messages.append(
            {"role": "user", "name": payload, "content": [{"type": "text", "text": f"see {payload}"}, shown]}
        )
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": payload, "content": f"{payload}\n" + "src/a.py: x\n" * 40})
    return messages


def sessions(root):
    """Two that hold everything, two that had to shrink, and one for each payload, named by it."""
    # What is written need not outlive a power cut: three hundred waits for a disk are long.
    messages, store = conversation(), open_store(root, durable=False)
    options = {"store": store, "project": PAYLOADS[4], "clock": Clock()}
    Context(session=f"wide {PAYLOADS[2]}", model=PAYLOADS[1], window=1_000_000, **options).prepare(body(messages))
    tight = Context(session=f"tight {PAYLOADS[3]}", model=PAYLOADS[1], window=30_000, **options)
    for nth, upto in enumerate(range(1, len(messages) + 1, 50)):
        tight.prepare({**body(messages[:upto]), "model": PAYLOADS[nth * 20]})
    drawn = pictures()
    tools = [{"type": "function", "function": {"name": PAYLOADS[0], "description": PAYLOADS[5], "parameters": {}}}]
    for name, window in (("pictures", 1_000_000), ("squeezed", 60_000)):
        seen = Context(session=name, model=PAYLOADS[1], window=window, **options)
        for upto in (301, 901):
            seen.prepare({"model": PAYLOADS[5], "messages": drawn[:upto], "tools": tools})
    for nth, payload in enumerate(PAYLOADS):
        one = Context(session=payload, project=payload, model=payload, store=store, window=20_000, clock=Clock())
        one.prepare({**body([{"role": "user", "content": f"named {payload}"}]), "model": payload})
        if nth in ANSWERED:
            said = {"type": "message", "model": payload, "content": [{"type": "text", "text": payload}]}
            one.record({"role": "assistant", **said})


@pytest.fixture(scope="module")
def where(tmp_path_factory):
    found = tmp_path_factory.mktemp("hostile")
    sessions(found)
    return found


@pytest.fixture(scope="module")
def hostile(where, tmp_path_factory):
    """Over the store, and over recorded files that are named by payloads."""
    files = []
    for payload in PAYLOADS[:38]:
        name = payload.replace("/", "_").replace("\0", "")[:200]
        file = tmp_path_factory.mktemp("recorded") / f"{name}.json"
        told = [{"role": "user", "content": payload}, {"role": "assistant", "content": payload, "model": payload}]
        file.write_text(json.dumps([{"id": f"file {payload}", "messages": told}]))
        files.append(str(file))
    with running(library(where, *files, window=30_000)) as address:
        yield address


def histories(where):
    store = open_store(where)
    for session in store.list_sessions():
        log = store.peek(session.session, project=session.project)
        yield build_history(log.read().records, session=session.session)


def scrolled(page, selector, *, hints=False):
    """All texts that a list shows on the way from its top to its end; or its hints, shown under the mouse."""
    read = "all => all.map((one) => one.title)" if hints else "all => all.map((one) => one.textContent)"
    texts, last = set(), -1
    page.evaluate("document.getElementById('main').scrollTop = 0")
    while True:
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        until(page, "!document.querySelector('.item.ghost')")
        texts |= set(page.locator(selector).evaluate_all(read))
        at = page.evaluate(f"{_MAIN}.scrollTop += {TALL // 2}, {_MAIN}.scrollTop")
        if at == last:
            return texts
        last = at


def numbers(texts):
    """Which payloads these are: each begins with a number of its own."""
    return {int(n) for text in texts for n in re.findall(r"x(\d+) ", text)}


ALL = set(range(300))


def test_three_hundred_payloads_in_a_transcript_are_text_and_execute_nothing(chromium, hostile):
    assert len(set(PAYLOADS)) == 300
    with looking(chromium, hostile, height=TALL) as watched:
        page = watched.page
        page.fill("input[type=search]", "wide")
        until(page, "document.querySelectorAll('.session').length === 1")
        opened(page, "wide")
        shown = scrolled(page, ".item")

        for part in ("user", "assistant", "tool call", "tool result"):
            assert numbers(text for text in shown if text.startswith(part)) == ALL, part
        assert any("<img src=x onerror=window.pwned=1>" in text for text in shown)
        assert page.locator(_MARKUP).count() == 0
        assert not watched.misdeeds()


def test_names_of_sessions_projects_and_models_are_text_too(chromium, hostile):
    with looking(chromium, hostile, height=TALL) as watched:
        page = watched.page
        assert numbers(scrolled(page, ".session .name")) == ALL
        for part in (".session", ".session .project [title]"):
            assert numbers(scrolled(page, part, hints=True)) == ALL, part
        for name in (f"x{nth}" for nth in ANSWERED):
            page.fill("input[type=search]", f"named {name}")
            until(page, "document.querySelectorAll('.session').length === 1")
            opened(page, name)
            chips = page.locator(".chips").all_text_contents()
            assert chips[0].count(f"{name} ") == 2, "the model's name and the project's"
            page.keyboard.press("6")
            page.locator(".compare .main").click()
            page.wait_for_selector(f".compare .faint >> text={name}")
            page.evaluate("document.activeElement.blur()")
            page.keyboard.press("Escape")
            page.wait_for_selector(".session")

        assert page.locator(_MARKUP).count() == 0
        assert not watched.misdeeds()


def test_payloads_in_edits_facts_recall_and_cache_are_text_too(chromium, hostile):
    with looking(chromium, hostile) as watched:
        page = watched.page
        page.fill("input[type=search]", "tight")
        until(page, "document.querySelectorAll('.session').length === 1")
        opened(page, "tight")
        assert len(numbers(page.locator(".chips").all_text_contents())) > 10
        page.locator(".item.stub .fold").first.click()
        page.wait_for_selector(".originals .item")
        page.keyboard.press("2")
        for nth in range(3):
            page.locator(".edit > .fold").nth(nth).click()
            page.wait_for_selector(".diff .gone")
            assert numbers(page.locator(".diff").all_text_contents())
        page.keyboard.press("3")
        page.wait_for_selector(".strip")
        page.keyboard.press("4")
        page.wait_for_selector(".facts")
        facts = page.locator(".ledger").all_text_contents()
        page.keyboard.press("5")
        page.fill(".recall input[type=search]", "onerror script")
        page.wait_for_selector(".hit mark")
        page.locator(".hit .fold").first.click()
        page.wait_for_selector(".hit .text")

        assert len(numbers(facts)) > 40
        assert page.locator(_MARKUP).count() == 0
        assert not watched.misdeeds()


def test_addresses_of_pictures_ids_of_calls_and_names_of_files_are_text_too(chromium, hostile, where):
    names = [path.name for path in where.rglob("tool-results/*")]
    assert len(names) > 100
    assert all(re.fullmatch(r"[\w.~-]+", name, re.ASCII) for name in names), "no name on disk is a payload"
    with looking(chromium, hostile, height=TALL) as watched:
        page = watched.page
        page.fill("input[type=search]", "openai-chat ·")
        until(page, "document.querySelectorAll('.session').length === 38")
        assert numbers(page.locator(".session .project").all_text_contents()) == set(range(38)), "names of files"
        page.fill("input[type=search]", "pictures")
        until(page, "document.querySelectorAll('.session').length === 1")
        opened(page, "pictures")
        shown = scrolled(page, ".item")
        for part in ("user", "tool call"):
            assert numbers(text for text in shown if text.startswith(part)) == ALL, part
        page.keyboard.press("Escape")
        page.fill("input[type=search]", "squeezed")
        until(page, "document.querySelectorAll('.session').length === 1")
        opened(page, "squeezed")
        page.keyboard.press("2")
        page.locator(".edit > .fold").first.click()
        page.wait_for_selector(".diff .gone")

        assert page.locator(_MARKUP).count() == 0
        assert not watched.misdeeds()


def test_a_report_with_every_name_a_payload_runs_nothing(chromium, where, tmp_path):
    """Session, models, tools, files and reasons of 304 sessions on one page, opened from the disk as people do."""
    statements = [build_statement(history, None) for history in histories(where)]
    first = next(n for n, statement in enumerate(statements) if statement.groups and statement.largest)
    # A user's own pass may have any name and give any reason.
    group, item = statements[first].groups[0], statements[first].largest[0]
    groups = [replace(group, by=text, what=text, why=text) for text in PAYLOADS]
    largest = [replace(item, by=text, what=text, stored_name=text) for text in PAYLOADS]
    statements[first] = replace(statements[first], groups=groups, largest=largest)
    file = tmp_path / "report.html"
    file.write_text(report_page(statements), encoding="utf-8")

    with reading(chromium, file) as watched:
        names, facts = (numbers(watched.page.locator(part).all_text_contents()) for part in ("h1", "header .soft"))
        cells = [numbers(watched.page.locator(f"td:nth-child({n})").all_text_contents()) for n in (2, 3, 4)]
        policy = watched.page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")

        assert names == facts == ALL
        assert all(cell == ALL for cell in cells)
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert watched.page.locator("script, img, iframe, object, embed, link, form, a, base").count() == 0
        assert not watched.misdeeds()


def test_an_export_is_text_to_a_browser(chromium, where, tmp_path):
    store = open_store(where)
    for part, form, ending in (
        ("wide", "jsonl", ".jsonl"),
        ("tight", "anthropic", ".json"),
        ("pictures", "markdown", ".md"),
    ):
        (info,) = (session for session in store.list_sessions() if session.session.startswith(part))
        records = store.peek(info.session, project=info.project).read().records
        file = tmp_path / f"{part}{ending}"
        file.write_bytes(_FORMATS[form](records, build_history(records, session=info.session)))
        with reading(chromium, file) as watched:
            assert "x299 " in watched.page.locator("body").inner_text()
            assert watched.page.locator("script, img, iframe, a").count() == 0
            assert not watched.misdeeds()


def test_the_watch_sees_a_report_that_would_run_something(chromium, where, tmp_path):
    """Were a payload to stand in the page as markup, its policy would stop it; and without a policy it runs."""
    page = report_page(
        [build_statement(history, None) for history in histories(where) if history.session.startswith("x3 ")]
    )
    broken = page.replace("<main>", f"<main>{PAYLOADS[3]}")
    bare = re.sub(r"<meta http-equiv[^>]*>", "", broken)
    done = []
    for text in (broken, bare):
        file = tmp_path / "broken.html"
        file.write_text(text, encoding="utf-8")
        with reading(chromium, file) as watched:
            done.append(" ".join(watched.misdeeds()))

    assert "policy img-src" in done[0]
    assert "a payload ran" not in done[0]
    assert "a payload ran" in done[1]


def test_the_watch_sees_what_would_be_done(chromium, hostile):
    """Were the page to put a payload in as markup, the policy would stop it, and this is how the tests would know."""
    with looking(chromium, hostile) as watched:
        put = "() => { const one = document.createElement('script'); one.textContent = 'pwned=1'; document.body.append(one); }"
        refused = (
            "() => { try { document.body.innerHTML = '<img src=x onerror=alert(1)>'; return 0 } catch { return 1 } }"
        )
        assert watched.page.evaluate(refused)
        with pytest.raises(Exception, match="TrustedScript"):
            watched.page.evaluate(put)
        watched.page.evaluate("() => { new Image().src = 'http://evil.example/x' }")
        until(watched.page, "window.stopped.length > 2")

        told = " ".join(watched.misdeeds())
        assert "policy img-src" in told
        assert "policy require-trusted-types-for" in told
        assert "a payload ran" not in told
