"""`ebb explain`, `why`, `show` and `diff`: who took what out, and the way back."""

import json
import re
import shlex

import pytest

from fronts.cli.terminal import LINES, PRESSED, recorded, request, stored, written

EVIL = "\x1b]0;owned\x07 \x1b[2J \x9b31m \u202egnp.exe\u2069 \u200b\x00\x7f end"


class TestExplain:
    def test_every_edit_of_a_stored_session_has_author_object_reason_and_tokens(self, ebb, tmp_path):
        stored(tmp_path)

        told = ebb("explain", "nightly", "--json").json[0]

        assert told["requests"] == 25
        assert len(told["batches"]) >= 2
        edit = told["batches"][0]["edits"][0]
        assert (edit["by"], edit["what"]) == ("clear_results", "result of Read (src/f0.py)")
        assert edit["why"]
        assert edit["tokens"] > 0
        assert edit["kept"] == ["t0.txt"]
        assert edit["rewritten"] >= 0
        assert edit["breaks_even"] >= 0

    def test_a_recorded_session_is_replayed_call_by_call(self, ebb, tmp_path):
        told = ebb("explain", recorded(tmp_path / "s.jsonl"), *PRESSED, "--json").json[0]

        assert told["requests"] == 24
        assert [batch["request"] for batch in told["batches"]] == sorted(batch["request"] for batch in told["batches"])
        assert told["batches"][0]["request"] < 24

    def test_a_bill_for_another_request_is_not_believed(self, ebb, tmp_path):
        """After the first edit the recorded usage is that of a request which was never sent."""
        told = ebb("explain", recorded(tmp_path / "s.jsonl", usage=26_000), *PRESSED, "--json").json[0]

        assert told["batches"][0]["tokens_before"] > 26_000
        assert told["batches"][-1]["tokens_before"] < 26_000

    @pytest.mark.parametrize("policy", ["default", "mini-claude"])
    def test_a_request_is_explained_as_fit_would_fit_it(self, ebb, tmp_path, policy):
        """By a seed's policy too, whose own count `fit` does not believe."""
        path = written(tmp_path / "r.json", request(48))
        pressed = (*PRESSED, "--policy", policy)

        edits = ebb("explain", path, *pressed, "--json").json[0]["batches"][0]["edits"]
        report = json.loads(ebb("fit", path, *pressed, "--explain", "--json").err)

        assert [(edit["by"], edit["first"]) for edit in edits] == [(one["by"], one["first"]) for one in report["edits"]]
        assert not any(one["kept"] for one in edits)

    def test_dollars_follow_the_table_or_the_given_price(self, ebb, tmp_path):
        pytest.importorskip("genai_prices")
        stored(tmp_path)

        by_table = ebb("explain", "nightly", "--json").json[0]["savings"]
        savings = ebb("explain", "nightly", "--price", "7", "--json").json[0]["savings"]
        other = ebb("explain", "nightly", "--price", "claude-haiku-4-5", "--json").json[0]["savings"]

        assert by_table["prices"].startswith("prices of anthropic claude-")
        assert savings["saved_usd"] == pytest.approx(savings["saved"] * 7 / 1e6, abs=1e-5)
        assert by_table["saved_usd"] == pytest.approx(savings["saved"] * 5 / 1e6, abs=1e-5), "Opus 4.5 costs 5 dollars"
        assert other["saved_usd"] == pytest.approx(savings["saved"] * 1 / 1e6, abs=1e-5)
        assert "no price is known for whatever" in ebb("explain", "nightly", "--price", "whatever").err
        assert re.search(r"saved -?[\d.]+k? \(-?\$\d", ebb("explain", "nightly", "--all").text)

    def test_a_model_without_a_price_has_no_dollars(self, ebb, tmp_path):
        path = written(tmp_path / "r.json", {**request(), "model": "my-own-finetune"})
        text = ebb("explain", path, *PRESSED).text

        assert "$" not in text
        assert "no price is known for my-own-finetune" in text

    def test_worth_grows_with_every_request_and_edits_add_up(self, ebb, tmp_path):
        stored(tmp_path)

        told = ebb("explain", "nightly", "--json").json[0]
        first, *_, last = told["batches"]

        assert first["requests_held"] > last["requests_held"]
        assert first["net"] > last["net"]
        assert first["rewritten"] > 0
        assert first["net"] == pytest.approx(sum(edit["worth"] for edit in first["edits"]), abs=1)
        assert told["savings"]["saved"] == pytest.approx(sum(batch["net"] for batch in told["batches"]), abs=5)

    def test_when_nothing_was_removed_it_says_so(self, ebb, tmp_path):
        assert "Nothing was removed, in 1 call." in ebb("explain", written(tmp_path / "r.json", request(1))).text

    def test_requests_that_did_not_fit_are_reported_and_the_replay_continues(self, ebb, tmp_path):
        path = recorded(tmp_path / "s.jsonl", steps=4)

        result = ebb("explain", path, "--window", "50", "--json")

        assert result.code == 0
        assert result.json[0]["refusals"]


class TestWhy:
    def test_the_edit_the_reason_and_how_to_read_it_back(self, ebb, tmp_path):
        stored(tmp_path)

        result = ebb("why", LINES + "0", "nightly")

        assert "result of Read (src/f0.py) (message 2) was removed" in result.text
        assert "clear_results" in result.text
        assert "ebb show nightly --handle t0.txt" in result.text
        assert re.search(r"ebb undo nightly p\d+", result.text)

    def test_every_printed_recovery_command_works(self, ebb, tmp_path):
        messages = stored(tmp_path)
        blame = ebb("why", LINES + "0", "nightly", "--json").json["taken_out"][0]

        by_handle, by_item, undo = (way.split()[1:] for way in blame["back"])

        original = messages[2]["content"][0]["content"]
        assert ebb(*by_handle).out.decode() == original
        assert original in ebb(*by_item).text
        assert ebb(*undo).code == 0
        assert ebb("why", LINES + "0", "nightly", "--json").json["taken_out"][0]["undone"]

    def test_every_printed_recovery_command_works_for_a_session_elsewhere_and_for_a_log_path(self, ebb, tmp_path):
        original = stored(tmp_path / "two words", project="/src/app")[2]["content"][0]["content"]
        (log,) = (tmp_path / "two words").rglob("nightly.jsonl")

        elsewhere = ebb("why", LINES + "0", "--store", "two words", "--project", "/src/app", "--json").json
        by_path = ebb("why", LINES + "0", log, "--json").json

        for way in [*elsewhere["taken_out"][0]["back"], *by_path["taken_out"][0]["back"]]:
            result = ebb(*shlex.split(way)[1:])
            assert result.code == 0, result.err
            assert " undo " in way or original in result.text

    def test_text_the_model_still_sees_is_reported_as_present(self, ebb, tmp_path):
        stored(tmp_path, steps=3)

        result = ebb("why", "FIX THE gauge")

        assert result.text.startswith("The model still sees it: message 0 of nightly, user text")

    def test_text_that_was_never_in_the_conversation_is_reported(self, ebb, tmp_path):
        stored(tmp_path, steps=3)

        result = ebb("why", "unheard of")

        assert result.code == 0
        assert "never in the conversation" in result.text

    def test_a_recorded_file_can_be_searched(self, ebb, tmp_path):
        result = ebb("why", LINES + "0", recorded(tmp_path / "s.jsonl"), *PRESSED)

        assert "was removed" in result.text

    def test_an_empty_question_is_refused(self, ebb):
        assert ebb("why", " ").code == 2


class TestShow:
    def test_stubs_are_marked_with_their_edit(self, ebb, tmp_path):
        stored(tmp_path)

        result = ebb("show", "nightly")

        assert re.search(r"^result of Read · \d+ tokens · ~ by clear_results: ", result.text, re.MULTILINE)
        assert "the gauge is fixed" in result.text

    def test_raw_shows_the_originals(self, ebb, tmp_path):
        messages = stored(tmp_path)

        texts = [one["text"] for one in ebb("show", "nightly", "--raw", "--json").json]

        assert messages[2]["content"][0]["content"] in texts
        assert not [text for text in texts if text.startswith("[ebb:")]

    def test_an_earlier_request_is_shown_as_it_was_sent(self, ebb, tmp_path):
        stored(tmp_path)
        first = ebb("explain", "nightly", "--json").json[0]["batches"][0]["request"]

        def stubs(at):
            return [one for one in ebb("show", "nightly", "--at", at, "--json").json if "edit" in one]

        assert stubs(first - 1) == []
        assert stubs(first)

    def test_a_batch_that_was_undone_is_in_the_requests_before_and_not_after(self, ebb, tmp_path):
        messages = stored(tmp_path)
        batch = ebb("explain", "nightly", "--json").json[0]["batches"][-1]
        ebb("undo", "nightly")
        more = [{"role": "assistant", "content": "done"}, {"role": "user", "content": "thanks"}]
        body = {"model": "claude-opus-4-5", "max_tokens": 10, "messages": [*messages, *more]}
        ebb("fit", "--session", "nightly", stdin=json.dumps(body).encode())

        def by_batch(at):
            made = {edit["id"] for edit in batch["edits"]}
            shown = ebb("show", "nightly", "--at", at, "--json").json
            return [one for one in shown if one.get("edit", {}).get("id") in made]

        assert by_batch(batch["request"])
        assert not by_batch(26)

    def test_a_stored_original_is_written_byte_for_byte(self, ebb, tmp_path):
        odd = "caf\u00e9 \x1b[31m \r\n\x00\u202e" * 3000
        body = request(0)
        use = {"type": "tool_use", "id": "odd", "name": "Bash", "input": {}}
        body["messages"] += [{"role": "assistant", "content": [use]}]
        body["messages"] += [
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "odd", "content": odd}]}
        ]
        ebb("fit", written(tmp_path / "r.json", body), "--window", "30k", "--session", "s")

        assert ebb("show", "s", "--handle", "odd.txt").out == odd.encode()

    @pytest.mark.parametrize("handle", ["nothing.txt", "../nightly.jsonl", "/etc/hostname", ".."])
    def test_an_unknown_handle_is_refused(self, ebb, tmp_path, handle):
        stored(tmp_path, steps=20)

        result = ebb("show", "nightly", f"--handle={handle}")

        assert (result.code, result.out) == (2, b"")

    def test_another_programs_session_in_the_store_is_shown(self, ebb, tmp_path):
        place = tmp_path / "projects" / "-home-me-app"
        place.mkdir(parents=True)
        recorded(place / "s1.jsonl", steps=2)

        assert "fix the gauge" in ebb("show", "s1").text


class TestDiff:
    def test_before_and_after_of_each_edit(self, ebb, tmp_path):
        stored(tmp_path)
        batch = ebb("explain", "nightly", "--json").json[0]["batches"][0]

        result = ebb("diff", "nightly", "--edit", batch["id"])

        assert result.text.count("\n+[ebb: result of Read ") == len(batch["edits"])
        assert "\n-" + LINES in result.text

    def test_an_edit_is_found_by_the_beginning_of_its_id(self, ebb, tmp_path):
        messages = stored(tmp_path)
        edit = ebb("explain", "nightly", "--json").json[0]["batches"][0]["edits"][1]

        told = ebb("diff", "nightly", "--edit", edit["id"][:12], "--json").json

        assert [one["edit"] for one in told] == [edit["id"]]
        assert told[0]["before"][0]["text"] == messages[4]["content"][0]["content"]

    def test_an_edit_that_is_not_there_is_bad_input(self, ebb, tmp_path):
        stored(tmp_path, steps=3)

        assert ebb("diff", "nightly", "--edit", "p999").code == 2


class TestHostileText:
    """Whatever a tool printed, the terminal stays as it was."""

    @pytest.fixture
    def home(self, tmp_path):
        messages = [{"role": "user", "content": f"hello {EVIL}"}]
        for n in range(24):
            use = {"type": "tool_use", "id": f"t{n}", "name": "Bash", "input": {"file_path": EVIL}}
            back = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"{EVIL} {n}\n" * 200}
            messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [back]}]
        written(tmp_path / "r.json", {"model": f"claude {EVIL}", "max_tokens": 100, "messages": messages})
        return tmp_path

    @pytest.mark.parametrize(
        "words",
        [
            ["sessions"],
            ["show", "s"],
            ["diff", "s"],
            ["explain", "s"],
            ["why", "end", "s"],
            ["context", "s"],
            ["undo", "s"],
        ],
        ids=lambda words: words[0],
    )
    def test_it_is_made_visible(self, ebb, home, words):
        assert ebb("fit", "r.json", *PRESSED, "--session", "s", "--explain").code == 0

        result = ebb.on_a_terminal(*words)
        bare = re.sub(
            r"\x1b\[[\d;]*[mK]|\x1b\[\?25[hl]|\x1b\[\d*[AG]", "", result.text + result.err
        )  # what rich writes

        assert result.code == 0
        assert not set(bare) & set("\x1b\x07\x9b\u202e\u2069\u200b\x00")
        assert "\\x1b" in bare

    def test_the_report_of_fit_lets_no_control_characters_through(self, ebb, home):
        result = ebb("fit", "r.json", *PRESSED, "--explain")

        assert not set(result.err) & set("\x1b\x07\x9b\u202e\u2069\u200b\x00")

    def test_json_is_plain_ascii(self, ebb, home):
        ebb("fit", "r.json", *PRESSED, "--session", "s")

        out = ebb("show", "s", "--json").out

        assert out.isascii()
        assert not set(out) & {0x00, 0x07, 0x1B, 0x7F}


def test_a_long_item_is_cut_and_shown_in_full_on_request(ebb, tmp_path):
    stored(tmp_path, steps=2)

    assert "… 139 more lines" in ebb("show", "nightly").text
    assert ebb("show", "nightly", "--full").text.count(LINES) == 300
