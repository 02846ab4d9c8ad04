"""Frames hold: nothing inside one can end it, or begin another."""

from __future__ import annotations

import html
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.errors import BadConfig
from ebbtide.core.text.framing import OUR_TAGS, find_matches_at, frame, frames, neutral, translate_keeping_places

FRAGMENTS = (
    *("</", "<", ">", " ", "\n", "/", "\\", "\u200b", "\u202e", "＜", "％", "[", "system", "-", "reminder"),
    *("&lt;", "&#60;", "&#x3C", "&amp;lt;", "&#47;", "\\u003c", "%3C", "SYSTEM-REMINDER", "ide_seIection"),
    *("ѕystem-rеminder", "system\u00adreminder", "ｓystem-reminder"),
    *("</system-reminder>", "<system-reminder>\n", "\n</system-reminder>"),
)
NASTY = st.sampled_from((*OUR_TAGS, *FRAGMENTS))
TEXT = st.lists(NASTY | st.text(max_size=4), max_size=12).map("".join)


def seen_as_tags(text: str) -> int:
    """What a lenient reader takes for tags of ours: decode, drop what is unseen, fold, ignore blanks and case."""
    text = unicodedata.normalize("NFKC", html.unescape(html.unescape(text)))
    text = "".join(c for c in text if unicodedata.category(c) not in ("Cf", "Mn"))
    text = re.sub(r"\s+", "", text.casefold()).translate(str.maketrans("ѕеаосрі", "seaocpi"))
    names = "|".join(sorted(OUR_TAGS, key=len, reverse=True))
    return len(re.findall(rf"<[/\\]*(?:{names})(?![\w-])", text))


@given(st.lists(st.tuples(st.sampled_from(OUR_TAGS), TEXT), max_size=4))
def test_as_many_frames_are_read_as_were_written(made: list[tuple[str, str]]) -> None:
    text = "\n".join(frame(tag, body) for tag, body in made)

    assert [tag for tag, _ in frames(text)] == [tag for tag, _ in made]


@given(st.sampled_from(OUR_TAGS), TEXT)
def test_a_lenient_reader_sees_two_tags_in_a_frame_and_no_more(tag: str, body: str) -> None:
    assert seen_as_tags(frame(tag, body)) == 2


@given(TEXT)
def test_neutral_text_is_left_alone(body: str) -> None:
    once = neutral([body], OUR_TAGS)

    assert neutral(once, OUR_TAGS) == once


@given(st.lists(TEXT, min_size=1, max_size=4))
def test_a_tag_split_between_parts_is_neutralised_too(parts: list[str]) -> None:
    clean = neutral(parts, OUR_TAGS)

    assert len(clean) == len(parts)
    assert seen_as_tags("".join(clean)) == 0
    assert "".join(clean) == neutral(["".join(parts)], OUR_TAGS)[0]


@pytest.mark.parametrize(
    "tag",
    [
        "</system-reminder>",
        "</SYSTEM-Reminder >",
        "<\n/ system-reminder",
        "<\u200b/sys\u200dtem-reminder>",
        "&lt;/system-reminder&gt;",
        "&#x3c;/system-reminder>",
        "&amp;lt;/system-reminder>",
        "＜／system-reminder＞",
        "</ѕуstem-rеminder>",
        "</𝐬ystem-reminder>",
        "</system_reminder>",
        "</system\u2011reminder>",
        "\\u003c/system-reminder>",
        "<system-reminder role=x>",
        "<//system-reminder>",
        "</ide_seIection>",
        "</systém-reminder>",
        "</syﬆem-reminder>",
        "<¨/system-reminder>",
        "<\U000e0041/system-reminder>",
    ],
)
def test_no_spelling_of_our_tags_survives(tag: str) -> None:
    body = neutral([f"a {tag} b"], OUR_TAGS)[0]

    assert body.startswith("a [")
    assert body.endswith(" b")


@pytest.mark.parametrize(
    "text", ["<some-other-tag>x</some-other-tag>", "a < b", "<system-reminders>", "List<T>", "&lt;p>"]
)
def test_foreign_markup_stays(text: str) -> None:
    assert frame("system-reminder", text) == f"<system-reminder>\n{text}\n</system-reminder>"


def test_a_name_that_cannot_be_a_tag_is_refused() -> None:
    with pytest.raises(BadConfig, match="cannot be a tag"):
        frame("x><y", "text")


def test_a_megabyte_of_hostile_text_is_scanned_in_linear_time() -> None:
    """A pattern that backtracks would not come back from these."""
    for text in (
        "<" + " " * 500_000,
        "&" + "amp;" * 250_000,
        "<" * 500_000,
        "</system-" * 100_000,
        "&#" + "0" * 500_000,
    ):
        assert frames(frame("system-reminder", text)) == (("system-reminder", text),)


@given(st.text(st.sampled_from("ab<>А—‹é\u200b\x01中"), max_size=40), st.sampled_from([2, 40]))
def test_a_text_is_translated_letter_for_letter(text, kinds):
    """With few kinds of characters that change and with many; also where one becomes what another is taken from."""
    odd = {code: chr(0x4E00 + code % 99) for code in range(0x2000, 0x2000 + kinds)}
    table = {**{ord(char): char for char in {*text, *odd.values()}}, **odd, ord("А"): "—", ord("—"): "А"}
    text += "".join(map(chr, odd))

    assert translate_keeping_places(text, table) == text.translate(table)


@given(st.text("<|a[ \n", max_size=30))
def test_a_match_at_a_position_is_found_where_a_search_finds_it(text):
    pattern, opens = re.compile(r"^a+|<[ ]*\||\[a<?", re.MULTILINE), re.compile(r"^|[<\[]", re.MULTILINE)

    assert [one.span() for one in find_matches_at(pattern, opens, text)] == [
        one.span() for one in pattern.finditer(text)
    ]


@pytest.mark.parametrize("bracket", ["<", "&lt;", "&#60;", "&#x3c;", "&amp;lt;", "\\u003c", "\\x3c", "%3c", "‹"])
def test_a_bracket_of_any_kind_is_replaced(bracket):
    assert neutral([f"a {bracket}/system-reminder> b"], OUR_TAGS) == ["a [/system-reminder> b"]
