"""Previews keep what decides, and no cut parts a character."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.text.preview import clip, decisive_lines, essence, first_chars, head_and_tail, head_chars, head_lines
from talk import quarter


def count(text):
    return len(text)


@pytest.mark.parametrize(
    ("text", "preview"),
    [
        ("x" * 2000, "x" * 2000),
        ("x" * 2001, "x" * 2000),
        ("a" * 1001 + "\n" + "b" * 2000, "a" * 1001),  # the newline is past the half
        ("a" * 1000 + "\n" + "b" * 2000, "a" * 1000 + "\n" + "b" * 999),  # at the half: it is not
        ("a" * 1999 + "\n" + "b" * 50, "a" * 1999),
        ("a" * 2000 + "\n" + "b" * 50, "a" * 2000),
    ],
)
def test_a_preview_ends_with_a_line_in_its_second_half(text, preview):
    """R110."""
    assert head_chars(2000)(text, count) == preview


def test_the_first_lines():
    """R102, and acceptance check 26."""
    text = "\n".join(f"line {n}" for n in range(100))

    assert head_lines(10)(text, count).split("\n") == [f"line {n}" for n in range(10)]
    assert head_lines(200)(text, count) == text
    assert head_lines(200)("", count) == ""


def test_the_first_characters():
    assert first_chars(5)("abcdefgh", count) == "abcde"


def test_head_and_tail_say_what_is_missing():
    assert head_and_tail("a" * 10 + "b" * 10, 3, lambda n: f"<{n}>") == "aaa<14>bbb"


@pytest.mark.parametrize(
    "whole",
    ["e\u0301", "\ud83d\ude00", "👩\u200d💻", "👍🏽", "🇩🇪", "\r\n", "कि"],
    ids=["accent", "surrogates", "joined", "skin", "flag", "crlf", "vowel sign"],
)
def test_no_cut_splits_a_visible_character(whole):
    text = f"ab{whole}cd"
    for at in range(3, 2 + len(whole)):
        head, tail = clip(text, 0, at), clip(text, at, len(text))

        assert head == "ab"
        assert tail in ("cd", f"{whole}cd")


def test_two_flags_may_be_parted_between_them():
    assert clip("🇩🇪🇫🇷", 0, 2) == "🇩🇪"
    assert clip("🇩🇪🇫🇷", 0, 3) == "🇩🇪"


@given(st.text(st.characters(exclude_categories=()), max_size=60), st.integers(-5, 70), st.integers(-5, 70))
def test_a_clip_is_part_of_the_requested_range(text, start, stop):
    part = clip(text, start, stop)

    assert part in text[max(0, start) : max(0, stop)]


def test_an_endless_cluster_is_still_cut():
    assert clip("a" + "\u0301" * 1000, 0, 500)


LOG = "\n".join(
    [
        *(f"compiling {n}" for n in range(900)),
        "ValueError: no such column",
        *(f"linking {n}" for n in range(900)),
        "exit code 3",
    ]
)


def test_the_essence_keeps_head_tail_and_the_line_that_decides():
    shown = essence(300)(LOG, quarter)

    assert shown.startswith("compiling 0\n")
    assert shown.endswith("\nexit code 3")
    assert "\nValueError: no such column\n" in shown


@given(
    st.text(st.sampled_from("ab\n错误é error"), min_size=1, max_size=40),
    st.integers(1, 200),
    st.integers(0, 300),
    st.sampled_from([quarter, len, lambda text: 2 * len(text)]),
)
def test_the_essence_never_exceeds_its_tokens(text, times, tokens, count):
    assert count(essence(tokens)(text * times, count)) <= tokens


def test_a_short_text_is_its_own_essence():
    assert essence(300)("all of it", quarter) == "all of it"


@pytest.mark.parametrize(
    ("line", "decides"),
    [
        ("ValueError: bad", True),
        ("E   AssertionError", True),
        ("3 failed, 10 passed", True),
        ("Process exited with code 2", True),
        ("exit status: 1", True),
        ("exit code 0", False),
        ("编译失败", True),
        ("error: the build failed with exit code 2", True),
        ("all is well", False),
        ("failover is on", False),
    ],
)
def test_which_lines_decide(line, decides):
    assert decisive_lines(f"before\n{line}\nafter") == ((line,) if decides else ())


def test_the_first_and_last_of_many_decisive_lines_are_kept():
    text = "\n".join(f"error {n}" for n in range(100))

    assert decisive_lines(text, most=4) == ("error 0", "error 1", "error 98", "error 99")


def test_in_an_endless_output_either_end_is_searched():
    text = "\n".join(("error one", "x" * 600_000, "error two", "x" * 600_000, "error three"))

    assert decisive_lines(text) == ("error one", "error three")


def test_a_decisive_line_is_clipped_around_what_decides():
    (line,) = decisive_lines("x" * 10_000 + " error here " + "y" * 10_000)

    assert "error here" in line
    assert len(line) <= 200


_TELLS = re.compile(
    r"error|exception|traceback|segfault|错误|失败|异常|\b(panic|fatal|fail(ed|ure|s)?|denied|not found|refused)\b"
    r"|\b(time(d)? ?out|abort(ed)?)\b|\bexit(ed)?( with)?( code| status)?[ :=]+[1-9]",
    re.IGNORECASE,
)
_PIECES = """ERROR,exception,tracebacK,\u017fegfault,Fail,failures,TIMED OUT,timeout,times,aborted,exit 1,
Exited with code: 3,exit 0,not found,nota,refu\u017fed,den\u0131ed,\u0130t,失败,_, ,.,é,x"""


@given(st.lists(st.lists(st.sampled_from(re.split(",\n?", _PIECES)), min_size=1, max_size=5).map("".join), max_size=12))
def test_every_line_that_says_how_it_ended_is_found_however_it_is_written(lines):
    """Also with letters that only count as others where case does not: a long s, a dotless i."""
    told = tuple(line.strip() for line in lines if _TELLS.search(line))

    assert decisive_lines("\n".join(lines)) == told
