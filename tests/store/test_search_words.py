"""How a text becomes words, and what of it is shown."""

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.store.search.hits import build_excerpt
from ebbtide.store.search.words import parse_query, split_words, trigrams


def test_words_are_the_small_words_of_names_and_pairs_of_characters():
    assert split_words("parseHTTPHeader snake_case x86_64 连接被") == "parse http header snake case x86 64 连接 接被 被"


def test_trigrams_are_every_three_neighbours_once():
    assert trigrams("ABABA") == ("aba", "bab")


def test_an_excerpt_begins_on_the_line_of_the_match_and_marks_it():
    query = parse_query("parse_header")

    shown = build_excerpt("first\nsecond\n    x = parseHeader(y)\nlast", query, query.terms)

    assert (shown.line, shown.snippet) == (3, "    x = parseHeader(y)\nlast")
    assert [shown.snippet[a:b] for a, b in shown.spans] == ["parseHeader"]


@given(st.text(max_size=600), st.text(min_size=1, max_size=20))
def test_an_excerpt_is_a_bounded_piece_of_the_text_and_contains_its_highlights(text, asked):
    query = parse_query(asked)

    shown = build_excerpt(text, query, query.terms)

    assert shown.snippet == text[shown.start : shown.start + len(shown.snippet)]
    assert len(shown.snippet) <= 280
    assert shown.line == text.count("\n", 0, shown.start) + 1
    ends = [0, *(place for span in shown.spans for place in span), len(shown.snippet)]
    assert ends == sorted(ends)


def test_a_match_far_into_a_long_line_is_still_shown():
    query = parse_query("needle")

    shown = build_excerpt("x" * 5000 + " needle " + "y" * 5000, query, query.terms)

    assert "needle" in shown.snippet
    assert len(shown.snippet) <= 280
