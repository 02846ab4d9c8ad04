"""Ranks the hits of a search, and cuts an excerpt from each.

A hit ranks by its stage, then by how exactly it has the query's words, then by relevance and age.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from ebbtide.store.search.tables import EntryRow
from ebbtide.store.search.words import Query, Term

_NEWEST_BONUS = 0.3
"""How much more the newest text counts than the oldest: what was read last is what holds now."""
_KIND_WEIGHTS = {"thinking": 0.7, "call": 0.7}
"""Thoughts and calls count less than results."""
_MAX_OCCURRENCES = 50  # to look at: a name that is always inside longer ones is one by then
_NAME_CHAR = re.compile(r"[A-Za-z0-9_]")
_EXACT_TERMS = 8  # a query with more words is a sentence: its exact spelling says little

_BEFORE, _LENGTH = 80, 280
"""Characters of an excerpt before the match on its line, and in all: some three lines of a terminal."""
_EXCERPT_TERMS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    row: EntryRow
    score: float
    """Higher is better, among candidates of one stage."""
    stage: int
    terms: Sequence[Term] = ()
    """Set if any of them was enough: then more of them are better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    line: int
    """Of its beginning, counted from 1."""
    start: int
    """The offset of its first character in the text."""
    snippet: str
    spans: tuple[tuple[int, int], ...]
    """Matches, as offsets in the snippet."""


def rank(candidates: Iterable[Candidate], query: Query) -> list[list[Candidate]]:
    """Group equal texts, the newest of each first, and return the best group first."""
    groups: dict[str, list[Candidate]] = {}
    for candidate in sorted(candidates, key=lambda candidate: -candidate.row.place):
        groups.setdefault(candidate.row.entry.digest, []).append(candidate)
    newest = max((group[0].row.place for group in groups.values()), default=1)
    names = [term.written for term in query.terms] if len(query.terms) <= _EXACT_TERMS else []

    def key(group: list[Candidate]) -> tuple[int, bool, int, float, int]:
        first, place, entry = group[0], group[0].row.place, group[0].row.entry
        if first.terms:  # a sentence: its score says it all
            return first.stage, False, 0, -first.score, -place
        exact = sum(_has_name(entry.path, name) or _has_name(entry.text, name) for name in names)
        weight = _KIND_WEIGHTS.get(entry.kind, 1.0) * (1 + _NEWEST_BONUS * place / newest)
        return first.stage, query.text not in entry.text, -exact, -first.score * weight, -place

    return sorted(groups.values(), key=key)


def _has_name(text: str, name: str) -> bool:
    """Whether the text has the name in this case, and not inside a longer name."""
    spans = (match.span() for match in islice(re.finditer(re.escape(name), text), _MAX_OCCURRENCES))
    return any(not _NAME_CHAR.search(text[start - 1 : start] + text[end : end + 1]) for start, end in spans)


def build_excerpt(text: str, query: Query, terms: Sequence[Term]) -> Excerpt:
    """Cut a few lines around the best match. `terms` are what was looked for, the most specific first."""
    terms = terms[:_EXCERPT_TERMS]
    match = _find_best_match(text, query, terms)
    line_start = text.rfind("\n", 0, match) + 1
    start = max(line_start, match - _BEFORE)
    snippet = text[start : start + _LENGTH].rstrip()
    patterns = [re.escape(query.text), *(term.pattern for term in terms), *(re.escape(term.written) for term in terms)]
    patterns = sorted(dict.fromkeys(p for p in patterns if len(p) <= _LENGTH), key=len, reverse=True)
    matches = re.finditer("|".join(patterns), snippet, re.IGNORECASE)
    return Excerpt(
        line=text.count("\n", 0, start) + 1,
        start=start,
        snippet=snippet,
        spans=tuple(match.span() for match in matches if match[0]),
    )


def _find_best_match(text: str, query: Query, terms: Sequence[Term]) -> int:
    """Return the offset of the query, else of a term as written, else in another spelling; 0 if there is none."""
    # Words of one or two letters are everywhere.
    specific = [term for term in terms if len(term.written) > 2 or not term.written.isascii()] or terms
    for written in (query.text, *(term.written for term in specific)):
        if (offset := text.find(written)) >= 0:
            return offset
    lower = text.lower()
    # A few characters change their length in lower case; then the offsets differ.
    for written in [term.written.lower() for term in specific] if len(lower) == len(text) else ():
        if (offset := lower.find(written)) >= 0:
            return offset
    matches = (re.search(term.pattern, text, re.IGNORECASE) for term in specific)
    return next((match.start() for match in matches if match), 0)
