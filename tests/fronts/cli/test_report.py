"""`ebb report`: sums that close, data that spreadsheets cannot run, and a page that loads and runs nothing."""

import base64
import csv
import hashlib
import io
import re
import shutil
import xml.etree.ElementTree as ET

import pytest

from ebbtide.runtime import Context
from fronts.cli.terminal import PRESSED, recorded, stored
from runtime.sessions import body, loop

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
EVIL = "claude-<script>alert(1)</script>\"'&\x1b[2J\u202e"
SECRET = "ghp_" + "a1B2" * 10


def page_of(ebb, tmp_path, *args):
    out = tmp_path / "page.html"
    result = ebb("report", *args, "--html", out)
    assert result.code == 0, result.err
    return out.read_text(encoding="utf-8")


class TestFigures:
    def test_the_edits_add_up_and_the_calls_close(self, ebb, tmp_path):
        stored(tmp_path)

        told = ebb("report", "nightly", "--json").json[0]
        sums, calls, edits = told["savings"], told["calls"], told["edits"]

        assert len(calls) == sums["requests"] == sums["billed_requests"] == 25
        assert sums["saved"] == pytest.approx(sum(edit["worth"] for edit in edits), abs=0.1 * len(edits))
        assert sums["drift"] == pytest.approx(sum(call["drift"] for call in calls), abs=3)
        assert all(call["billed"] == pytest.approx(call["expected"] + call["drift"], abs=0.2) for call in calls)
        assert sums["saved"] <= min(sums["billed"], sums["expected"] - sums["without_bill"]) + 0.2

    def test_the_table_says_who_what_and_when_it_pays_and_the_sums_below(self, ebb, tmp_path):
        stored(tmp_path)

        text = ebb("report", "nightly", "--calls").text

        assert re.search(r"clear_results\s+result of Read \(src/f0\.py\)", text)
        assert re.search(r"\d+ edits, \d+ paid back; .* tokens removed, .* written to the cache again\.", text)
        assert "from 25 bills for 25 calls" in text
        assert "the bills differ from the estimate by" in text
        assert re.search(
            r"^call\s+tokens\s+without Ebbtide\s+expected\s+billed\s+difference\s+saved", text, re.MULTILINE
        )

    def test_a_recording_is_replayed_and_its_own_bills_are_shown_beside_it(self, ebb, tmp_path):
        path = recorded(tmp_path / "s.jsonl", usage=26_000)

        told = ebb("report", path, *PRESSED, "--json").json[0]
        html = page_of(ebb, tmp_path, path, *PRESSED)

        assert told["stored"] is False
        assert told["savings"]["billed_requests"] == 0, "the bills of the recording are of other requests"
        assert "When it was recorded" in html
        assert "This is a replay of a recording: both bills are simulated." in html
        assert "Bill against estimate" not in html

    def test_a_session_without_edits_saves_nothing_and_says_so(self, ebb, tmp_path):
        stored(tmp_path, steps=2)

        assert "Nothing was removed, so nothing was saved." in ebb("report", "nightly").text
        assert "Nothing was removed" in page_of(ebb, tmp_path, "nightly")

    def test_the_example_needs_no_file(self, ebb):
        result = ebb("report", "--example", "--window", "60k", "--price", "3", "--json")

        assert result.json[0]["savings"]["saved_usd"] > 0


class TestCsv:
    @pytest.mark.parametrize("what", ["calls", "edits"])
    def test_rows_have_as_many_cells_as_the_head(self, ebb, tmp_path, what):
        stored(tmp_path)

        head, *rows = csv.reader(io.StringIO(ebb("report", "nightly", "--csv", what).text))

        assert len(rows) >= 5
        assert {len(row) for row in rows} == {len(head)}

    def test_no_cell_is_a_formula(self, ebb, tmp_path):
        messages = loop(2)
        context = Context(model="x", window=30_000, store=tmp_path, session="evil")
        context.prepare({**body(messages[:1]), "model": '=HYPERLINK("http://evil")'})

        (row,) = list(csv.DictReader(io.StringIO(ebb("report", "evil", "--csv").text)))

        assert row["model"].startswith("'=")


class TestPage:
    def test_it_runs_nothing_and_loads_nothing(self, ebb, tmp_path):
        stored(tmp_path)
        html = page_of(ebb, tmp_path, "nightly")
        style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()

        assert f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'" in html
        assert not re.search(
            r"<script|javascript:|\son\w+=|\sstyle=|\ssrc=|\shref=|https?://|url\(|@import|<iframe", html
        )

    def test_every_picture_is_well_formed_and_has_a_name(self, ebb, tmp_path):
        stored(tmp_path)
        pictures = re.findall(r"<svg.*?</svg>", page_of(ebb, tmp_path, "nightly"), re.DOTALL)

        assert [ET.fromstring(one).get("aria-label") for one in pictures] == [
            "Tokens per call, with and without edits",
            "Bill per call by kind of token",
            "Savings over the calls",
        ]
        assert not re.search(r"nan|inf", "".join(pictures))

    def test_transcript_text_is_escaped(self, ebb, tmp_path):
        messages = loop(24)
        for message in messages:
            for block in message["content"] if isinstance(message["content"], list) else ():
                if block.get("type") == "tool_use":
                    block["input"] = {"file_path": f"src/<img src=x onerror=alert(1)>{SECRET}.py"}
        context = Context(window=30_000, store=tmp_path, session="evil")
        for n in range(1, len(messages) + 1, 2):
            context.prepare({**body(messages[:n]), "model": EVIL})
        html = page_of(ebb, tmp_path, "evil")

        assert "result of Read" in html
        assert "<script" not in html
        assert "<img" not in html
        assert "&lt;script&gt;" in html
        assert SECRET not in html
        assert "[redacted: github-token]" in html
        assert not set(html) & set("\x1b\u202e")
        assert SECRET not in ebb("report", "evil").text + ebb("report", "evil", "--json").text

    def test_the_report_does_not_reveal_the_files_path(self, ebb, tmp_path):
        path = recorded(tmp_path / "s.jsonl")

        html = page_of(ebb, tmp_path, path, *PRESSED)

        assert "<h1>s.jsonl</h1>" in html
        assert str(tmp_path) not in html

    def test_a_report_that_cannot_be_written_is_reported(self, ebb, tmp_path):
        stored(tmp_path)
        result = ebb("report", "nightly", "--html", tmp_path / "no" / "page.html")

        assert result.code == 2
        assert "cannot be written" in result.err

    @pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
    def test_a_browser_shows_it_on_a_phone_without_complaint(self, ebb, tmp_path):
        sync_api = pytest.importorskip("playwright.sync_api")
        stored(tmp_path)
        page_of(ebb, tmp_path, "nightly")
        with sync_api.sync_playwright() as play:
            browser = play.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"], timeout=120_000
            )
            page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
            complaints, asked = [], []
            page.on("console", lambda message: complaints.append(message.text))
            page.on("request", lambda request: asked.append(request.url))
            page.goto(f"file://{tmp_path / 'page.html'}", timeout=120_000)
            wide = page.evaluate("document.documentElement.scrollWidth")
            dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
            browser.close()

        assert complaints == []
        assert len(asked) == 1
        assert wide <= 390
        assert dark == "rgb(17, 22, 28)"
