"""`ebb recall`: people find and read what was recorded, with hits marked and secrets masked."""

import os
import shlex

import pytest

from ebbtide.runtime import Context
from fronts.cli.terminal import LINES, on_a_terminal, run_program, stored

SECRET = "sk-ant-api03-" + "Zq7" * 12


def talk(home, session, *texts, project=""):
    context = Context(model="claude-opus-4-5", store=home, session=session, project=project)
    messages = [{"role": "user" if n % 2 == 0 else "assistant", "content": text} for n, text in enumerate(texts)]
    context.prepare({"model": "claude-opus-4-5", "max_tokens": 100, "messages": messages})


def test_a_hit_shows_its_source_and_how_to_read_all_of_it(ebb):
    stored(ebb.home)

    result = ebb("recall", "src/f3.py", "--session", "nightly", "--json")
    hit = next(hit for hit in result.json["hits"] if hit["kind"] == "result")

    assert (hit["name"], hit["path"], hit["message"], hit["line"]) == ("Read", "src/f3.py", 8, 1)
    assert hit["file"].endswith("tool-results/t3.txt")
    told = ebb("recall", "src/f3.py")
    assert f"{hit['handle']} · result of Read (src/f3.py) · message 8 · line 1" in told.text
    assert "ebb recall --read" in told.err


def test_the_printed_command_reads_the_full_text_wherever_the_session_is(ebb):
    stored(ebb.home / "agents", project="/src/app")

    result = ebb("recall", "src/f3.py", "--store", "agents", "--project", "/src/app")
    ran = ebb(*shlex.split(result.err.partition("full texts: ebb ")[2]))

    assert (ran.code, "src/f3.py" in ran.text) == (0, True)


def test_a_handle_gives_the_exact_text_in_pages(ebb):
    messages = stored(ebb.home)
    content = messages[8]["content"][0]["content"]

    first = ebb("recall", "--read", "t3.txt", "--end", "100")
    rest = ebb("recall", "--read", "t3.txt", "--start", "100", "--end", "999999", "--raw")

    assert (first.text, first.code) == (content[:100], 0)
    assert "characters 0 to 100 of" in first.err
    assert "--start 100" in first.err
    assert rest.text == content[100:]
    assert ebb("recall", "--read", "t3.txt", "--json").json["next"] is None


def test_matches_are_marked_on_a_terminal_and_plain_elsewhere(ebb):
    talk(ebb.home, "s", "where is the needle in this hay")
    env = {"EBB_HOME": str(ebb.home), "HOME": str(ebb.home)}

    code, screen = on_a_terminal("recall", "needle", env={**env, "NO_COLOR": ""})
    _, plain = on_a_terminal("recall", "needle", env={**env, "NO_COLOR": "1"})

    assert code == 0
    assert "\x1b[1;30;43mneedle\x1b[0m" in screen
    assert "\x1b[1;30;43m" not in plain
    assert "\x1b" not in run_program("recall", "needle", env=env).stdout.decode()


def test_secrets_are_masked_unless_asked_for(ebb):
    talk(ebb.home, "s", f"export ANTHROPIC_API_KEY={SECRET} and a needle")

    for args in (("recall", "needle"), ("recall", "needle", "--json"), ("recall", "Zq7")):
        assert "Zq7Zq7" not in ebb(*args).text
    hit = ebb("recall", "needle", "--json").json["hits"][0]
    assert [hit["snippet"][a:b] for a, b in hit["spans"]] == ["needle"]
    page = ebb("recall", "--read", hit["handle"])
    assert SECRET not in page.text
    assert "1 secret masked" in page.err
    assert SECRET in ebb("recall", "--read", hit["handle"], "--raw").text
    assert SECRET in ebb("recall", "needle", "--raw").text


@pytest.mark.parametrize("start", range(0, 60, 7))
def test_a_secret_is_masked_wherever_a_page_is_cut(ebb, start):
    talk(ebb.home, "s", f"key {SECRET} end, a needle")
    handle = ebb("recall", "needle", "--json").json["hits"][0]["handle"]

    text = ebb("recall", "--read", handle, "--start", start, "--end", start + 20).text

    assert "Zq7" not in text


def test_a_terminal_is_not_moved_by_what_was_recorded(ebb):
    talk(ebb.home, "s", "needle \x1b[2J\x1b]0;owned\x07 \u202e tail")

    for args in (
        ("recall", "needle"),
        ("recall", "--read", ebb("recall", "needle", "--json").json["hits"][0]["handle"]),
    ):
        text = ebb.on_a_terminal(*args).text
        assert "\\x1b[2J" in text
        assert "\x1b[2J" not in text
        assert "\u202e" not in text


def test_across_shows_the_session_of_each_hit(ebb):
    talk(ebb.home, "one", "alpha first", project="/p")
    talk(ebb.home, "two", "alpha second", project="/p")
    talk(ebb.home, "three", "alpha third", project="/q")

    result = ebb("recall", "alpha", "--session", "one", "--across")

    assert "session one" in result.text
    assert "session two" in result.text
    assert "third" not in result.text
    assert "session" not in ebb("recall", "alpha", "--session", "one").text


def test_chinese_is_found(ebb):
    talk(ebb.home, "s", "数据库连接被拒绝")

    assert "数据库连接被拒绝" in ebb("recall", "拒绝").text


def test_the_limit_is_kept(ebb):
    talk(ebb.home, "s", *(f"alpha number {n}" for n in range(9)))

    assert len(ebb("recall", "alpha", "--limit", "3", "--json").json["hits"]) == 3


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ((), "give either a text to search for"),
        (("needle", "--read", "x"), "give either a text to search for"),
        (("--read", "deadbeef"), "not a handle of this session"),
        (("--read", "/etc/passwd"), "not a handle of this session"),
        (("--read", "../s.jsonl"), "not a handle of this session"),
        (("...",), "letter"),
        (("x", "--limit", "0"), "limit"),
        (("x", "--session", "nobody"), "nobody"),
    ],
)
def test_an_impossible_request_is_reported_with_code_2(ebb, args, why):
    talk(ebb.home, "s", "alpha")

    result = ebb("recall", *args)

    assert (result.code, result.out) == (2, b"")
    assert why in result.err


def test_an_empty_result_is_reported_on_stderr(ebb):
    talk(ebb.home, "s", "alpha")

    result = ebb("recall", "zebra")

    assert (result.code, result.out) == (0, b"")
    assert "nothing" in result.err


def test_the_index_is_at_the_root_and_is_private(ebb):
    stored(ebb.home)

    assert LINES.strip() in ebb("recall", "datum").text
    assert os.stat(ebb.home / "index.sqlite").st_mode & 0o777 == 0o600


def test_help_shows_how_it_is_called(ebb):
    assert "ebb recall" in ebb("recall", "--help").text
