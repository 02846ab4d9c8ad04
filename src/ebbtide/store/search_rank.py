"""Which hit comes first: the one that says it as the query does, then the one that says it most, then the newest."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ebbtide.store.search_words import Query

_NEWER = 0.3
"""How much more the newest counts than the oldest: what was read last is what holds now, unless it says far less."""
_KINDS = {"thinking": 0.7, "call": 0.7}
"""What was thought about or asked for is less than what was found."""
_TERMS = 32  # terms looked for word by word: a long query is a sentence, and exactness says little about it


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    id: int
    place: int
    """The later recorded, the higher."""
    kind: str
    digest: str
    text: str
    score: float
    """The higher the better, among candidates of one stage."""
    stage: int


def ranked(candidates: Iterable[Candidate], query: Query) -> list[list[Candidate]]:
    """Groups of equal texts, the newest of each first; the best group first."""
    groups: dict[str, list[Candidate]] = {}
    for one in sorted(candidates, key=lambda one: -one.place):
        groups.setdefault(one.digest, []).append(one)
    newest = max((group[0].place for group in groups.values()), default=1)
    patterns = exact_patterns(query)

    def key(group: list[Candidate]) -> tuple[int, int, float, int]:
        one = group[0]
        exact = sum(bool(written in one.text and pattern.search(one.text)) for written, pattern in patterns)
        weight = _KINDS.get(one.kind, 1.0) * (1 + _NEWER * one.place / newest)
        return one.stage, -exact, -one.score * weight, -one.place

    return sorted(groups.values(), key=key)


def exact_patterns(query: Query) -> list[tuple[str, re.Pattern[str]]]:
    """Each term as it is written, case and all, and not within a longer name."""
    return [
        (term.written, re.compile(rf"(?<![A-Za-z0-9_]){re.escape(term.written)}(?![A-Za-z0-9_])"))
        for term in query.terms[:_TERMS]
    ]
