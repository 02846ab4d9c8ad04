"""The assistant's own sentences, the densest account of the work there is. A sentence is worth the names in it that are
likely to be needed and that nothing chosen before it holds; so the choice is made one by one.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Iterator, Set
from typing import NamedTuple

from ebbtide.facts.identifiers import list_names, reuse_probability
from ebbtide.facts.lines import to_one_line
from ebbtide.facts.model import Sentence, SessionFacts

_ENDS = re.compile(r"\n+|(?<=[.!?])\s+|(?<=[。！？；])")
_SHORTEST, _WIDTH = 16, 320
"""Shorter says "Done."; longer is a table or a paste."""
_WORD = 0.5
"""A plain word tells less than a name."""


class ChosenSentence(NamedTuple):
    """A sentence, and where it stands."""

    order: int
    place: int
    text: str


def split_sentences(text: str) -> Iterator[Sentence]:
    for place, part in enumerate(_ENDS.split(text)):
        line = to_one_line(part.strip(" \t-*#|>"), _WIDTH)
        if len(line) >= _SHORTEST:
            yield Sentence(index=place, text=line, names=frozenset(list_names(line)))


def choose_sentences(
    ledger: SessionFacts, known: Set[str], room: int, count: Callable[[str], int]
) -> list[ChosenSentence]:
    """Sentences that say most for their tokens beyond what is known, until the room is full, best first."""
    covered, seen, now = set(known), ledger.names, ledger.tokens
    worth: dict[str, float] = {}
    heap: list[tuple[float, ChosenSentence, list[str], int]] = []
    for order, sentence in _unique_sentences(ledger):
        names = [name for name in sentence.names if name in seen]
        for name in names:
            if name not in worth:
                found = seen[name]
                worth[name] = reuse_probability(name, found, now) * (1.0 if found.cost else _WORD)
        # A set has no order, and sums of floats depend on it: `fsum` does not.
        gain = math.fsum([worth[name] for name in names if name not in covered])
        if gain > 0:
            tokens = ledger.line_tokens.count_line(sentence.text, count)
            heap.append((-gain / tokens, ChosenSentence(order, sentence.index, sentence.text), names, tokens))
    heapq.heapify(heap)
    chosen: list[ChosenSentence] = []
    while heap and room > 0:
        _, best, names, tokens = heapq.heappop(heap)
        rate = math.fsum([worth[name] for name in names if name not in covered]) / tokens
        if rate <= 0:
            continue
        if heap and -rate > heap[0][0]:
            heapq.heappush(heap, (-rate, best, names, tokens))
            continue
        room -= tokens
        covered.update(names)
        chosen.append(best)
    return chosen


def sentence_lines(chosen: list[ChosenSentence]) -> list[str]:
    """In the order they were said, a line for each message."""
    lines: dict[int, list[str]] = {}
    for one in sorted(chosen):
        lines.setdefault(one.order, []).append(one.text)
    return [f"- {' '.join(said)}" for said in lines.values()]


def _unique_sentences(ledger: SessionFacts) -> Iterator[tuple[int, Sentence]]:
    said: set[str] = set()
    for note in ledger.assistant_texts:
        for sentence in note.sentences:
            if sentence.text not in said:
                said.add(sentence.text)
                yield note.order, sentence
