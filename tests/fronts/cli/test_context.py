"""`ebb context`: the grid and the table of R241, for requests, recorded sessions and stored ones."""

import json
import re

import pytest

from ebbtide.window_usage import CELLS, WindowUsage
from fronts.cli.terminal import recorded, request, stored, written


def window(**parts):
    told = {"system": 2_200, "tools": 16_600, "unrecorded": 0, "messages": (("tool results", 156_100),)}
    fixed = {"model": "claude-haiku-4-5-20251001", "size": 200_000, "tokens": 172_000, "is_billed": True}
    return WindowUsage(**{**fixed, "auto_at": 155_000, **told, **parts})


class TestCells:
    def test_claude_codes_sample_is_87_used_and_13_of_buffer(self):
        """174.9k of 200k and a buffer of 22.5 %: more than all, so the buffer gets what is left."""
        cells = window().cells()

        assert cells.count("system") == 1
        assert cells.count("tools") == 8
        assert cells.count("tool results") == 78
        assert cells[87:] == ["buffer"] * 13

    def test_a_window_half_empty_shows_free_cells_before_the_buffer(self):
        cells = window(messages=(("user", 41_200),)).cells()

        assert cells == ["system"] + ["tools"] * 8 + ["user"] * 21 + ["free"] * 48 + ["buffer"] * 22

    def test_an_overfull_window_is_all_used(self):
        assert set(window(messages=(("user", 900_000),)).cells()) <= {"system", "tools", "user"}

    @pytest.mark.parametrize("tokens", [0, 1, 999, 31_337, 190_000, 10**9])
    def test_there_are_always_a_hundred(self, tokens):
        assert len(window(messages=(("user", tokens),)).cells()) == CELLS


def test_header_grid_and_table_of_a_request(ebb, tmp_path):
    body = request(8, system="Be terse. " * 50, tools=[{"name": "Read", "input_schema": {"type": "object"}}])

    result = ebb("context", written(tmp_path / "r.json", body), "--window", "100k")
    rows = result.text.splitlines()

    assert result.code == 0
    assert re.search(r"claude-opus-4-5 · \d+k/100k tokens \(\d+%\)$", rows[1])
    grid = [re.match(r"  ([■·▒] ?){10}", row) for row in rows[1:11]]
    assert all(grid)
    for name in ("System prompt", "System tools", "Messages", "  ■ Tool results", "Autocompact buffer", "Free space"):
        assert re.search(rf"{name}: [\d.]+k? tokens \(\d+\.\d%\)", result.text), name
    assert "Context left until auto-compact: " in result.text


def test_ascii_has_no_other_character(ebb, tmp_path):
    result = ebb("context", written(tmp_path / "r.json", request(8)), "--ascii")

    assert result.text.isascii()
    assert "# # " in result.text


def test_the_header_of_a_recorded_session_is_what_was_billed(ebb, tmp_path):
    told = ebb("context", recorded(tmp_path / "s.jsonl", usage=123_000), "--json").json

    assert (told["tokens"], told["billed"]) == (123_005, True)
    assert sum(one["tokens"] for one in told["categories"][:3]) == told["categories"][2]["tokens"] > 0
    assert len(told["cells"]) == 100


def test_any_call_of_a_session_can_be_shown(ebb, tmp_path):
    path = recorded(tmp_path / "s.jsonl", steps=9)

    early, late = (ebb("context", path, "--at", n, "--json").json for n in (2, 9))

    assert early["categories"][3]["tokens"] < late["categories"][3]["tokens"]
    assert late == ebb("context", path, "--json").json


@pytest.mark.parametrize("at", ["0", "10", "-1"])
def test_a_call_that_is_not_there_is_bad_input(ebb, tmp_path, at):
    result = ebb("context", recorded(tmp_path / "s.jsonl", steps=9), "--at", at)

    assert result.code == 2
    assert "9 requests" in result.err


def test_a_recorded_session_may_be_read_from_stdin(ebb, tmp_path):
    path = recorded(tmp_path / "s.jsonl", steps=3)

    assert ebb("context", "-", "--json", stdin=path.read_bytes()).json == ebb("context", path, "--json").json


def test_a_stored_session_shows_our_stubs_and_is_found_by_id_and_by_path(ebb, tmp_path):
    stored(tmp_path)
    log = tmp_path / "projects" / "_" / "nightly.jsonl"

    told = ebb("context", "nightly", "--json").json

    assert "our stubs" in {message["name"] for message in told["messages"]}
    assert ebb("context", log, "--json").json == told
    assert ebb("context", "--json").json == told


def test_a_stored_session_is_compared_with_the_window_it_used(ebb, tmp_path):
    stored(tmp_path, window=30_000)

    assert ebb("context", "nightly", "--json").json["window"] == 30_000
    assert ebb("context", "nightly", "--at", "1", "--json").json["window"] == 30_000
    assert ebb("context", "nightly", "--window", "64k", "--json").json["window"] == 64_000


def test_a_policy_moves_the_buffer(ebb, tmp_path):
    path = written(tmp_path / "r.json", request(2))

    ours, theirs = (
        json.loads(ebb("context", path, "--policy", name, "--json").out) for name in ("default", "opencode")
    )

    assert ours["auto_at"] != theirs["auto_at"]
