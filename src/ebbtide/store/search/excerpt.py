"""A few lines around the place in a text that a query means, with the words it asked for marked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ebbtide.store.search.words import Query, Term

_BEFORE, _LENGTH = 80, 280
"""Characters before the match on its line, and in all: some three lines of a terminal."""
_TERMS = 12  # looked for one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    line: int
    """Where it begins, counted from 1."""
    start: int
    """Its first character's place in the text."""
    snippet: str
    spans: tuple[tuple[int, int], ...]
    """What matched, as places in the snippet."""


def build_excerpt(text: str, query: Query, terms: Sequence[Term]) -> Excerpt:
    """`terms` are what was looked for, the most telling first."""
    terms = terms[:_TERMS]
    at = _place(text, query, terms)
    line_start = text.rfind("\n", 0, at) + 1
    start = max(line_start, at - _BEFORE)
    snippet = text[start : start + _LENGTH].rstrip()
    return Excerpt(
        line=text.count("\n", 0, start) + 1, start=start, snippet=snippet, spans=_spans(snippet, query, terms)
    )


def _place(text: str, query: Query, terms: Sequence[Term]) -> int:
    """The query as it stands, else a term as it is written, else as it may be spelt; 0 where none is."""
    # Words of one or two letters stand everywhere.
    telling = [term for term in terms if len(term.written) > 2 or not term.written.isascii()] or terms
    for written in (query.text, *(term.written for term in telling)):
        if (at := text.find(written)) >= 0:
            return at
    low = text.lower()
    # A few characters change their length when lowered; then places would not agree.
    for written in [term.written.lower() for term in telling] if len(low) == len(text) else ():
        if (at := low.find(written)) >= 0:
            return at
    found = (re.search(term.pattern, text, re.IGNORECASE) for term in telling)
    return next((match.start() for match in found if match), 0)


def _spans(snippet: str, query: Query, terms: Sequence[Term]) -> tuple[tuple[int, int], ...]:
    wanted = [re.escape(query.text), *(term.pattern for term in terms), *(re.escape(term.written) for term in terms)]
    wanted = sorted(dict.fromkeys(one for one in wanted if len(one) <= _LENGTH), key=len, reverse=True)
    return tuple(found.span() for found in re.finditer("|".join(wanted), snippet, re.IGNORECASE) if found[0])
