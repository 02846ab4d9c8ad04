"""Claude Code's own sessions: found, listed, and taken by their ids."""

import json
import os

import pytest

from ebbtide.formats.claude_folder import list_claude_sessions
from fronts.cli.terminal import recorded, stored

FIRST, SECOND, THIRD = (
    "4f1c0000-0000-4000-8000-000000000001",
    "4f1c0000-0000-4000-8000-000000000002",
    "9a2b0000-0000-4000-8000-000000000003",
)


@pytest.fixture
def claude(tmp_path, monkeypatch):
    """Three sessions, the third the newest, in a folder that is told by the environment."""
    home = tmp_path / "claude"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home))
    for at, name in enumerate((FIRST, SECOND, THIRD)):
        kept(home, name, at=1_700_000_000 + at)
    return home


def kept(home, name, *, project="-home-me-app", steps=4, at=1_700_000_000, rows=()):
    path = home / "projects" / project / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    recorded(path, steps, usage=900)
    lines = [json.loads(line) | {"cwd": "/home/me/app"} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*rows, *lines]))
    os.utime(path, (at, at))
    return path


def test_sessions_are_listed_newest_first_with_what_distinguishes_them(ebb, claude):
    result = ebb("sessions", "--claude", "--json")
    first = result.json[0]

    assert [row["session"] for row in result.json] == [THIRD, SECOND, FIRST]
    assert first["folder"] == "/home/me/app"
    assert first["title"]
    assert first["model"] == "claude-opus-4-5"
    assert (first["messages"], first["counted"]) == (9, True)
    assert first["tokens"] == 914


def test_the_table_has_a_row_for_each_and_none_of_the_agents_that_a_session_started(ebb, claude):
    kept(claude, "agent-7c")
    kept(claude, "0c" * 16, rows=[{"type": "user", "isSidechain": True, "message": {"content": "sub"}}])
    kept(claude, "empty", steps=0)

    result = ebb("sessions", "--claude")

    assert len(result.text.splitlines()) == 1 + 3
    assert THIRD in result.text.splitlines()[1]


@pytest.mark.parametrize(
    ("rows", "title"),
    [
        ([{"type": "summary", "summary": "Mend the gauge", "leafUuid": "x"}], "Mend the gauge"),
        ([{"type": "user", "isMeta": True, "message": {"content": "Caveat: not this"}}], "look at all the files"),
        ([{"type": "user", "message": {"content": "<command-name>/clear</command-name>"}}], "look at all the files"),
        ([{"type": "user", "message": {"content": [{"type": "text", "text": "as a block"}]}}], "as a block"),
    ],
)
def test_a_title_is_the_given_one_or_the_users_first_words(claude, rows, title):
    path = kept(claude, "titled", rows=rows, at=1_800_000_000)
    words = json.loads(path.read_text().splitlines()[len(rows)])["message"]["content"]
    path.write_text(path.read_text().replace(json.dumps(words), json.dumps("look at all the files"), 1))

    assert list_claude_sessions(claude)[0].title == title


def test_only_the_ends_of_a_long_file_are_read_and_the_count_is_marked_as_a_guess(ebb, claude):
    path = kept(claude, "long", steps=300, at=1_800_000_000)
    middle = path.stat().st_size // 2
    with path.open("r+b") as file:
        file.seek(middle)
        file.write(b"\0" * 1000)
    os.utime(path, (1_800_000_000, 1_800_000_000))

    one = list_claude_sessions(claude)[0]

    assert one.session == "long"
    assert not one.counted
    assert 500 < one.messages < 700
    assert one.tokens == 914
    assert "~" in ebb("sessions", "--claude").text


def test_the_last_bill_is_found_before_a_result_that_fills_the_end(claude):
    path = kept(claude, "wide", at=1_800_000_000)
    result = {"type": "user", "message": {"content": "x" * 200_000}}
    path.write_text(path.read_text() + json.dumps(result) + "\n")

    assert list_claude_sessions(claude)[0].tokens == 914


@pytest.mark.parametrize("name", ["last", THIRD, "9a2b"])
@pytest.mark.parametrize("command", ["context", "explain"])
def test_a_session_is_chosen_by_its_id_its_beginning_or_as_the_last(ebb, claude, command, name):
    assert ebb(command, "--claude", name).code == 0


def test_without_the_option_the_stores_sessions_are_first_and_then_claude_codes(ebb, claude, tmp_path):
    assert "a session of Claude Code" in ebb("context", "9a2b").err
    assert "a session of Claude Code" in ebb("context", "last").err

    stored(tmp_path, steps=2)
    assert "Claude Code" not in ebb("context", "last").err


def test_replay_accepts_them_too(ebb, claude):
    result = ebb("replay", "9a2b", "--policies", "default", "--no-recall", "--json", "--workers", "1")

    assert result.code == 0, result.err
    assert THIRD in result.text


@pytest.mark.parametrize("command", [["context", "--claude"], ["replay"]])
def test_two_sessions_that_begin_alike_are_both_named(ebb, claude, command):
    result = ebb(*command, "4f1c")

    assert result.code == 2
    assert FIRST in result.err
    assert SECOND in result.err


@pytest.mark.parametrize("name", ["nobody", "../../etc/passwd", "../-home-me-app/" + FIRST, "*"])
def test_a_name_that_none_has_is_answered_with_those_there_are_and_opens_nothing(ebb, claude, name):
    result = ebb("context", "--claude", name)

    assert result.code == 2
    assert THIRD in result.err


def test_an_empty_list_is_reported(ebb, tmp_path, monkeypatch):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "none"))

    assert "no sessions of Claude Code" in ebb("context", "--claude").err
    assert ebb("sessions", "--claude").code == 0
    assert "ebb sessions --claude" in ebb("context").err
