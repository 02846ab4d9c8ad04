"""Sentences worth keeping: the user's constraints, and what the assistant said about its work."""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Iterator, Sequence, Set
from typing import NamedTuple

from ebbtide.facts.model import SessionFacts
from ebbtide.facts.names import list_names, reuse_probability
from ebbtide.facts.text import to_one_line

_CONSTRAINT_WORDS = re.compile(
    r"\b(?:must|never|always|don'?t|do not|should(?:n'?t| not)?|shall|only|instead|rather than|avoid|required?|"
    r"prefer(?:red|ably)?|requirement|ensure|make sure|needs? to|has to|have to|no longer|stop \w+ing|"
    r"keep (?:it|the|in mind)|let'?s|we(?:'ll| will) (?:use|go)|go with|decided?|agreed|important|remember|note that|"
    r"from now on|by default|without|not allowed|forbidden|at (?:most|least)|use \S+ (?:not|over|for))\b"
    r"|必须|不要|不能|不得|不许|别(?!的|人)|禁止|务必|只(?:能|用|要|需|有|在)|仅|改用|改成|换成|优先|应该|应当|不应|需要|"
    r"要求|一律|始终|总是|从现在起|记住|注意|避免|确保|保证|决定|同意|就用|使用|而不是|默认",
    re.IGNORECASE,
)
"""Words that rule something in or out."""
_CONSTRAINT_ENDS = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+")
_MAX_MESSAGE, _MAX_CONSTRAINT = 3_000, 240
"""Characters: a longer message holds a pasted document between the user's own words; a longer rule is an essay."""
_MIN_CONSTRAINT = 4
"""Characters: 不要动它 is a whole rule."""
_TAG = re.compile(r"</?[A-Za-z][\w-]*>")
_SENTENCE_ENDS = re.compile(r"\n+|(?<=[.!?])\s+|(?<=[。！？；])")
_MIN_SENTENCE, _MAX_SENTENCE = 16, 320
"""Characters: a shorter one says "Done."; a longer one is a table or a paste."""
_PLAIN_WORD = 0.5
"""What a plain word is worth, compared to a name."""


def find_constraints(text: str) -> Iterator[str]:
    """The user's sentences that constrain the work, in order. Markup, code and quoted lines are not theirs."""
    if text.lstrip().startswith("<"):
        return
    third = _MAX_MESSAGE // 3
    typed = text if len(text) <= _MAX_MESSAGE else f"{text[:third]}\n{text[-third:]}"
    in_code = False
    for part in _CONSTRAINT_ENDS.split(typed):
        line = part.strip()
        if line.startswith("```"):
            in_code = not in_code
        elif in_code or len(line) < _MIN_CONSTRAINT or line.startswith(("|", ">", "+", "@@")) or _TAG.search(line):
            continue
        elif _CONSTRAINT_WORDS.search(line):
            yield to_one_line(line.lstrip("-* "), _MAX_CONSTRAINT)


class Sentence(NamedTuple):
    """A sentence of the assistant, on one line."""

    order: int
    position: int
    """Among the sentences of its message."""
    text: str


def choose_sentences(
    facts: SessionFacts, known_names: Set[str], max_tokens: int, count: Callable[[str], int]
) -> list[Sentence]:
    """The assistant's sentences that say most beyond `known_names` for their tokens, best first.

    A sentence is worth the names in it that are likely needed and that no sentence chosen before it has. Its worth only
    falls as others are chosen: if the top of the heap is still the best at its new worth, it is the best of all.
    """
    covered = set(known_names)
    worth: dict[str, float] = {}

    def rate(names: list[str], tokens: int) -> float:
        # A set has no order and a sum of floats depends on it: `fsum` does not.
        return math.fsum([worth[name] for name in names if name not in covered]) / tokens

    heap: list[tuple[float, Sentence, list[str], int]] = []
    for sentence in _unique_sentences(facts):
        names = [name for name in set(list_names(sentence.text)) if name in facts.names]
        for name in names:
            if name not in worth:
                is_word = not facts.name_costs[name]
                probability = reuse_probability(name, facts.names[name], facts.tokens, is_word=is_word)
                worth[name] = probability * (_PLAIN_WORD if is_word else 1.0)
        if any(name not in covered for name in names):
            tokens = count(sentence.text + "\n")
            heap.append((-rate(names, tokens), sentence, names, tokens))
    heapq.heapify(heap)
    chosen: list[Sentence] = []
    while heap and max_tokens > 0:
        _, best, names, tokens = heapq.heappop(heap)
        best_rate = rate(names, tokens)
        if best_rate <= 0:
            continue
        if heap and -best_rate > heap[0][0]:
            heapq.heappush(heap, (-best_rate, best, names, tokens))
            continue
        max_tokens -= tokens
        covered.update(names)
        chosen.append(best)
    return chosen


def sentence_lines(sentences: Sequence[Sentence]) -> list[str]:
    """The sentences in the order they were said, one line for each message."""
    lines: dict[int, list[str]] = {}
    for sentence in sorted(sentences):
        lines.setdefault(sentence.order, []).append(sentence.text)
    return [f"- {' '.join(texts)}" for texts in lines.values()]


def _unique_sentences(facts: SessionFacts) -> Iterator[Sentence]:
    seen_lines: set[str] = set()
    for message in facts.assistant_texts:
        for position, part in enumerate(_SENTENCE_ENDS.split(message.text)):
            line = to_one_line(part.strip(" \t-*#|>"), _MAX_SENTENCE)
            if len(line) >= _MIN_SENTENCE and line not in seen_lines:
                seen_lines.add(line)
                yield Sentence(message.order, position, line)
