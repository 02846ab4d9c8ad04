"""The assistant's own sentences, the densest account of the work there is. A sentence is worth the names in it that are
likely to be needed and that nothing chosen before it holds; so the choice is made one by one.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Set
from typing import NamedTuple

from ebbtide.ledger.facts import Ledger
from ebbtide.ledger.identifiers import is_word, names_in, need
from ebbtide.ledger.lines import one_line

_ENDS = re.compile(r"\n+|(?<=[.!?])\s+|(?<=[。！？；])")
_SHORTEST, _WIDTH = 16, 320
"""Shorter says "Done."; longer is a table or a paste."""
_WORD = 0.5
"""A plain word tells less than a name."""


class Sentence(NamedTuple):
    order: int
    place: int
    """Among the sentences of its message."""
    text: str


def chosen_notes(ledger: Ledger, known: Set[str], room: int, count: Callable[[str], int]) -> list[Sentence]:
    """Sentences that say most for their tokens beyond what is known, until the room is full, best first."""
    covered = set(known)
    worth: dict[str, float] = {}
    heap: list[tuple[float, int, int, Sentence, frozenset[str]]] = []
    for sentence in _sentences(ledger):
        names = frozenset(name for name in names_in(sentence.text) if name in ledger.seen)
        for name in names - worth.keys():
            worth[name] = need(name, ledger.seen[name], ledger.tokens) * (_WORD if is_word(name) else 1.0)
        gain = sum(worth[name] for name in names - covered)
        if gain > 0:
            tokens = count(sentence.text + "\n")
            heap.append((-gain / tokens, sentence.order, sentence.place, sentence, names))
    heapq.heapify(heap)
    chosen: list[Sentence] = []
    while heap and room > 0:
        _, order, place, sentence, names = heapq.heappop(heap)
        tokens = count(sentence.text + "\n")
        rate = sum(worth[name] for name in names - covered) / tokens
        if rate <= 0:
            continue
        if heap and -rate > heap[0][0]:
            heapq.heappush(heap, (-rate, order, place, sentence, names))
            continue
        room -= tokens
        covered |= names
        chosen.append(sentence)
    return chosen


def note_lines(sentences: list[Sentence]) -> list[str]:
    """In the order they were said, a line for each message."""
    lines: dict[int, list[str]] = {}
    for sentence in sorted(sentences):
        lines.setdefault(sentence.order, []).append(sentence.text)
    return [f"- {' '.join(said)}" for said in lines.values()]


def _sentences(ledger: Ledger) -> Iterator[Sentence]:
    said: set[str] = set()
    for note in ledger.notes:
        for place, part in enumerate(_ENDS.split(note.text)):
            text = one_line(part.strip(" \t-*#|>"), _WIDTH)
            if len(text) >= _SHORTEST and text not in said:
                said.add(text)
                yield Sentence(note.order, place, text)
