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

    excerpt = build_excerpt("first\nsecond\n    x = parseHeader(y)\nlast", query, query.terms)

    assert (excerpt.line, excerpt.snippet) == (3, "    x = parseHeader(y)\nlast")
    assert [excerpt.snippet[a:b] for a, b in excerpt.spans] == ["parseHeader"]


@given(st.text(max_size=600), st.text(min_size=1, max_size=20))
def test_an_excerpt_is_a_bounded_piece_of_the_text_and_contains_its_highlights(text, asked):
    query = parse_query(asked)

    excerpt = build_excerpt(text, query, query.terms)

    assert excerpt.snippet == text[excerpt.start : excerpt.start + len(excerpt.snippet)]
    assert len(excerpt.snippet) <= 280
    assert excerpt.line == text.count("\n", 0, excerpt.start) + 1
    ends = [0, *(place for span in excerpt.spans for place in span), len(excerpt.snippet)]
    assert ends == sorted(ends)


def test_a_match_far_into_a_long_line_is_still_shown():
    query = parse_query("needle")

    excerpt = build_excerpt("x" * 5000 + " needle " + "y" * 5000, query, query.terms)

    assert "needle" in excerpt.snippet
    assert len(excerpt.snippet) <= 280
