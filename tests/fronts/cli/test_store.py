"""`ebb sessions`, `undo`, `redo`, `verify`, `gc` and `export`: the store, looked after."""

import gc
import json
import os
import re
import stat
import time

import pytest

from ebbtide.store import open_store
from ebbtide.wire import WIRES
from ebbtide.wire.validity import violations
from fronts.cli.terminal import stored

SECRET = "ghp_" + "a1B2" * 9


class TestSessions:
    def test_the_table_has_id_project_title_messages_size_and_time(self, ebb, tmp_path):
        stored(tmp_path, project="/home/me/app", steps=3)

        head, row = ebb("sessions").text.splitlines()

        assert head.split() == ["session", "project", "title", "messages", "size", "changed"]
        assert re.match(r"nightly +/home/me/app +fix the gauge +8 +\d+\.\d KB +\d{4}-\d\d-\d\d \d\d:\d\d$", row)

    def test_json_has_the_same(self, ebb, tmp_path):
        stored(tmp_path, steps=3)

        (row,) = ebb("sessions", "--json").json

        assert (row["session"], row["title"], row["messages"]) == ("nightly", "fix the gauge", 8)

    def test_only_those_of_a_project(self, ebb, tmp_path):
        stored(tmp_path, "one", project="/a", steps=1)
        stored(tmp_path, "two", project="/b", steps=1)

        assert [one["session"] for one in ebb("sessions", "--project", "/b", "--json").json] == ["two"]

    def test_an_empty_store_is_no_error(self, ebb):
        result = ebb("sessions")

        assert (result.code, result.out) == (0, b"")
        assert "no sessions" in result.err

    def test_a_session_is_found_by_the_beginning_of_its_id_unless_two_begin_so(self, ebb, tmp_path):
        stored(tmp_path, "alpha-1", steps=1)
        stored(tmp_path, "alpha-2", steps=1)

        assert ebb("show", "alpha-1").code == 0
        result = ebb("show", "alpha")
        assert result.code == 2
        assert "alpha-1" in result.err
        assert "alpha-2" in result.err

    def test_two_projects_may_have_sessions_of_the_same_name(self, ebb, tmp_path):
        stored(tmp_path, "s", project="/a", steps=1)
        stored(tmp_path, "s", project="/b", steps=2)

        assert ebb("show", "s").code == 2
        assert len(ebb("show", "s", "--project", "/b", "--json").json) > len(
            ebb("show", "s", "--project", "/a", "--json").json
        )


class TestUndo:
    def test_undo_shows_what_returns_and_redo_removes_it_again(self, ebb, tmp_path):
        stored(tmp_path)
        stubs = ebb("show", "nightly", "--json").json
        newest = ebb("explain", "nightly", "--json").json[0]["batches"][-1]

        back = ebb("undo", "nightly", "--json").json

        assert back["batch"] == newest["id"]
        assert [one["id"] for one in back["edits"]] == [one["id"] for one in newest["edits"]]
        assert sum("edit" in one for one in ebb("show", "nightly", "--json").json) < sum("edit" in one for one in stubs)
        assert ebb("redo", "nightly").code == 0
        assert ebb("show", "nightly", "--json").json == stubs

    def test_a_batch_can_be_named(self, ebb, tmp_path):
        stored(tmp_path)
        first = ebb("explain", "nightly", "--json").json[0]["batches"][0]["id"]

        result = ebb("undo", "nightly", first)

        assert f"{first} is undone" in result.text
        assert "result of Read (src/f0.py)" in result.text
        assert ebb("explain", "nightly", "--json").json[0]["batches"][0]["undone"]

    def test_a_batch_that_is_not_there_is_bad_input(self, ebb, tmp_path):
        stored(tmp_path)

        result = ebb("undo", "nightly", "p999")

        assert result.code == 2
        assert "p999" in result.err

    @pytest.mark.parametrize("word", ["undo", "redo"])
    def test_nothing_to_do_is_done(self, ebb, tmp_path, word):
        stored(tmp_path, steps=1)

        result = ebb(word, "nightly")

        assert result.code == 0
        assert f"nothing to {word}" in result.err

    def test_a_session_of_a_project_is_undone_in_place(self, ebb, tmp_path):
        stored(tmp_path, project="/home/me/app")

        ebb("undo", "nightly")

        assert [one["session"] for one in ebb("sessions", "--json").json] == ["nightly"]
        assert ebb("explain", "nightly", "--json").json[0]["batches"][-1]["undone"]

    @pytest.mark.parametrize("word", ["undo", "redo"])
    def test_a_session_that_cannot_be_locked_is_reported_and_no_undo_is_claimed(self, ebb, tmp_path, word):
        stored(tmp_path)
        ebb("undo", "nightly")
        lock = tmp_path / "projects" / "_" / "nightly.lock"
        lock.unlink()
        lock.mkdir()

        result = ebb(word, "nightly")

        assert (result.code, result.out) == (1, b"")
        assert "nightly" in result.err


class TestVerify:
    def test_a_sound_store_verifies_and_every_plan_can_be_repeated(self, ebb, tmp_path):
        stored(tmp_path)

        (row,) = ebb("verify", "--replan", "--json").json

        assert row["ok"]
        assert row["plans"] >= 2
        assert row["results"] > 0

    def test_a_changed_line_is_exit_code_1_and_named(self, ebb, tmp_path):
        stored(tmp_path, steps=3)
        log = tmp_path / "projects" / "_" / "nightly.jsonl"
        log.write_bytes(log.read_bytes().replace(b"fix the gauge", b"fix the gauze", 1))

        result = ebb("verify", "nightly")

        assert result.code == 1
        assert re.search(r"line \d+ is altered", result.text)

    def test_a_changed_result_is_found(self, ebb, tmp_path):
        stored(tmp_path)
        (tmp_path / "projects" / "_" / "nightly" / "tool-results" / "t0.txt").write_text("other")

        result = ebb("verify", "--all")

        assert result.code == 1
        assert "t0.txt" in result.text

    def test_a_plan_that_differs_when_repeated_is_found(self, ebb, tmp_path):
        """Records of a plan made under another window, rewritten with sound checksums."""
        stored(tmp_path)
        store = open_store(tmp_path)
        records = store.peek("nightly").read().records
        forged = [{**record, "window": 9_000} if record.get("kind") == "plan" else record for record in records]
        store.open("forged", now=time.time()).commit(forged, at=time.time())

        result = ebb("verify", "forged", "--replan")

        assert result.code == 1
        assert "is different now" in result.text

    def test_one_session_or_all_but_not_both(self, ebb, tmp_path):
        assert ebb("verify", "nightly", "--all").code == 2


class TestCollect:
    @pytest.fixture
    def old(self, tmp_path):
        stored(tmp_path, "old")
        gc.collect()  # a session that is still in memory is in use
        month_ago = time.time() - 40 * 86_400
        for path in tmp_path.rglob("*"):
            os.utime(path, (month_ago, month_ago))
        stored(tmp_path, "new", steps=2)
        return tmp_path

    def test_a_dry_run_reports_and_removes_nothing(self, ebb, old):
        result = ebb("gc", "--older-than", "30d", "--dry-run")

        assert "old.jsonl" in result.text
        assert "would be deleted" in result.err
        assert len(ebb("sessions", "--json").json) == 2

    def test_older_sessions_are_removed(self, ebb, old):
        assert ebb("gc", "--older-than", "30d", "--json").json["sessions"]
        assert [one["session"] for one in ebb("sessions", "--json").json] == ["new"]

    def test_younger_sessions_stay(self, ebb, old):
        assert ebb("gc", "--older-than", "50d", "--json").json["sessions"] == []

    def test_the_oldest_are_removed_until_the_store_is_small_enough(self, ebb, old):
        ebb("gc", "--max-bytes", "50k")

        assert [one["session"] for one in ebb("sessions", "--json").json] == ["new"]


class TestExport:
    @pytest.fixture
    def talk(self, ebb, tmp_path):
        """A session in which somebody said a secret, and pasted a fence."""
        body = {
            "model": "claude-opus-4-5",
            "max_tokens": 100,
            "messages": [
                {"role": "user", "content": f"use {SECRET} please\x1b[31m"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Sh", "input": {"password": "hunter22"}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "```\nfenced\n```"}]},
            ],
        }  # fmt: skip
        assert ebb("fit", "--session", "talk", stdin=json.dumps(body).encode()).code == 0
        return body

    @pytest.mark.parametrize("form", ["jsonl", "anthropic", "markdown"])
    def test_secrets_are_masked_in_every_format_and_counted(self, ebb, talk, form):
        result = ebb("export", "talk", "--format", form)

        assert SECRET not in result.text
        assert "hunter22" not in result.text
        assert "[redacted: github-token]" in result.text
        assert "1 github-token" in result.err

    def test_unless_redaction_is_turned_off(self, ebb, talk):
        result = ebb("export", "talk", "--no-redact")

        assert SECRET in result.text
        assert result.err == ""

    def test_jsonl_is_one_record_a_line_and_reads_as_a_session(self, ebb, talk, tmp_path):
        (tmp_path / "out.jsonl").write_bytes(ebb("export", "talk", "--no-redact").out)

        assert all(json.loads(row) for row in (tmp_path / "out.jsonl").read_text().splitlines())

    def test_an_anthropic_export_is_a_request_that_a_provider_accepts(self, ebb, tmp_path):
        stored(tmp_path)

        body = ebb("export", "nightly", "--format", "anthropic").json

        assert violations(WIRES["anthropic"], {**body, "max_tokens": 10}) == []
        assert "[ebb: result of Read" in json.dumps(body)

    def test_a_session_of_another_wire_is_translated(self, ebb):
        chat = [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "look"},
            {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "grep", "arguments": '{"p": "x"}'}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "found"},
        ]  # fmt: skip
        ebb("fit", "--session", "chat", stdin=json.dumps({"model": "gpt-5", "messages": chat}).encode())

        body = ebb("export", "chat", "--format", "anthropic").json

        assert violations(WIRES["anthropic"], {**body, "max_tokens": 10}) == []
        assert body["messages"][1]["content"][0]["input"] == {"p": "x"}
        assert body["messages"][2]["content"][0]["content"] == "found"

    def test_markdown_shows_everything_and_no_text_closes_its_fence(self, ebb, talk):
        text = ebb("export", "talk", "--format", "markdown").text

        assert "## User" in text
        assert "````\n```\nfenced\n```\n````" in text
        assert "\x1b" not in text

    def test_a_file_is_private_to_its_owner(self, ebb, talk, tmp_path):
        result = ebb("export", "talk", "-o", tmp_path / "out.jsonl")

        assert result.out == b""
        assert stat.S_IMODE((tmp_path / "out.jsonl").stat().st_mode) == 0o600

    def test_a_place_that_cannot_be_written_is_bad_input(self, ebb, talk, tmp_path):
        assert ebb("export", "talk", "-o", tmp_path / "no" / "where").code == 2


def test_long_work_shows_a_bar_on_a_terminal_only(ebb, tmp_path):
    stored(tmp_path, steps=2)

    assert "verifying" in ebb.on_a_terminal("verify").err
    assert "verifying" not in ebb("verify").err


def test_a_handle_on_a_terminal_is_made_visible(ebb, tmp_path):
    open_store(tmp_path).open("s", now=1.0).save_blob("h.txt", "red \x1b[31m")
    stored(tmp_path, "s", steps=1)

    assert ebb.on_a_terminal("show", "s", "--handle", "h.txt").text == "red \\x1b[31m\n"
    assert ebb("show", "s", "--handle", "h.txt").text == "red \x1b[31m"
