"""Which hit comes first: the one that says it as the query does, then the one that says it most, then the newest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ebbtide.store.search.words import Query, Term

_NEWER = 0.3
"""How much more the newest counts than the oldest: what was read last is what holds now, unless it says far less."""
_KINDS = {"thinking": 0.7, "call": 0.7}
"""What was thought about or asked for is less than what was found."""
_OCCURRENCES = 50  # a name that is always a part of others is one by then
_TERMS = 8  # looked for as written: of a query with more words, which is a sentence, spelling says little


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    id: int
    place: int
    """The later recorded, the higher."""
    kind: str
    digest: str
    path: str
    text: str
    score: float
    """The higher the better, among candidates of one stage."""
    stage: int
    terms: Sequence[Term] = ()
    """Of which any was enough: the more of them it holds, the better."""


def ranked(candidates: Iterable[Candidate], query: Query) -> list[list[Candidate]]:
    """Groups of equal texts, the newest of each first; the best group first."""
    groups: dict[str, list[Candidate]] = {}
    for one in sorted(candidates, key=lambda one: -one.place):
        groups.setdefault(one.digest, []).append(one)
    newest = max((group[0].place for group in groups.values()), default=1)
    names = [term.written for term in query.terms] if len(query.terms) <= _TERMS else []

    def key(group: list[Candidate]) -> tuple[int, bool, int, float, int]:
        one = group[0]
        exact = sum(_names(one.path, name) or _names(one.text, name) for name in names)
        weight = _KINDS.get(one.kind, 1.0) * (1 + _NEWER * one.place / newest)
        if one.terms:
            weight *= _held(one)
        return one.stage, query.text not in one.text, -exact, -one.score * weight, -one.place

    return sorted(groups.values(), key=key)


def _names(text: str, name: str) -> bool:
    """As it is written, case and all, and not within a longer name."""
    at = text.find(name)
    for _ in range(_OCCURRENCES):
        if at < 0:
            return False
        end = at + len(name)
        if not _goes_on(text[at - 1 : at]) and not _goes_on(text[end : end + 1]):
            return True
        at = text.find(name, end)
    return False


def _held(one: Candidate) -> int:
    text = one.text.lower()
    return sum(term.written.lower() in text for term in one.terms)


def _goes_on(char: str) -> bool:
    return char == "_" or (char.isascii() and char.isalnum())
