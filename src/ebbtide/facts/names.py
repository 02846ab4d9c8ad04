"""Names (identifiers, paths, hashes, numbers): finding them, guessing which will be needed, keeping lines with them.

The weights come from a logistic fit on half of the recorded sessions; `benchmarks/retention.py` measures the other
half. A name that the assistant used once it uses again, and so do names that are recent or stand in many items.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field

from ebbtide.core.text.preview import Preview
from ebbtide.core.texts import NAMES_ELSEWHERE
from ebbtide.core.types import Item
from ebbtide.facts.model import NameStats, SessionFacts, base_name, to_one_line

IDENTIFIER = re.compile(r"(?<!\\)[A-Za-z_][A-Za-z0-9_\-./]{6,79}|\b[0-9a-f]{7,40}\b|\b\d{4,}\b")
"""Words of seven or more letters, paths, hashes, numbers of four or more digits. Not the letter of an escape."""
_TRAILING = "./-"
"""Characters that may follow a name without being part of it."""
_MIN_CHARS = 4
"""The shortest name is a number of four digits."""
_LABEL_CHARS = 200
_MIN_NAMES_FOR_HANDLE = 4
"""With fewer names from one item, its handle would cost more than the names."""
_PLAIN = re.compile(r"(?:[A-Z]?[a-z]+|[A-Z]+)[-./]*")
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+|[^A-Za-z\d]")
_BASE, _SPREAD, _ASSISTANT, _ASSISTANT_MORE, _USER = -2.7, 0.42, 2.1, 0.15, 0.5
_AGE, _AGE_OF_USE = 0.31, 0.30
_DIGITS, _NAME = 1.2, 0.4
"""Numbers and hashes come back less often than words; names a little less."""
_AGE_UNIT = 1000.0
"""Age counts in thousands of tokens, as a logarithm."""
_SEPARATORS_TO_BLANKS = bytes(
    byte if byte >= 128 or chr(byte).isalnum() or chr(byte) in "_-./\\" else 32 for byte in range(256)
)
"""Turns ASCII into blanks, except for the characters that a name can hold or that decide where one begins."""


def list_names(text: str) -> list[str]:
    """All names in the text, in order, repeated as they occur."""
    return IDENTIFIER.findall(text)


def name_set(text: str) -> set[str]:
    """The distinct names in the text. Looks at each distinct word once, which is faster than `list_names`."""
    plain = text.encode("utf-8", "surrogatepass").translate(_SEPARATORS_TO_BLANKS).decode("utf-8", "surrogatepass")
    return set(IDENTIFIER.findall(" ".join([word for word in set(plain.split()) if len(word) >= _MIN_CHARS])))


def name_cost(name: str) -> int:
    """Rough number of tokens to write the name; 0 for a plain word, which is more likely prose than a name."""
    return 0 if _PLAIN.fullmatch(name) else 1 + len(_PARTS.findall(trim_name(name)))


def trim_name(name: str) -> str:
    """The name without a sentence's or a path's final punctuation."""
    return name.rstrip(_TRAILING)


def reuse_probability(name: str, stats: NameStats, now: int, *, is_word: bool = False) -> float:
    """How likely the assistant is to write the name in its next thirty calls, from 0 to 1."""
    score = _BASE + _SPREAD * math.log(stats.item_count) - _AGE * math.log1p((now - stats.last_position) / _AGE_UNIT)
    if stats.assistant_count:
        score += _ASSISTANT + _ASSISTANT_MORE * math.log1p(stats.assistant_count)
        score -= _AGE_OF_USE * math.log1p((now - stats.last_use) / _AGE_UNIT)
    if stats.user_count:
        score += _USER
    rarity = _DIGITS if name[0].isdigit() else 0.0 if is_word else _NAME
    return 1 / (1 + math.exp(-(score - rarity)))


def rank_names(facts: SessionFacts, known_names: Set[str]) -> list[str]:
    """Names that are neither plain words nor known, those most likely needed for their cost first.

    A long session has tens of thousands of names. Most stand in one item only, and share their probability with the
    others of that item.
    """
    file_names = _path_suffixes(facts)
    probabilities: dict[tuple[NameStats, bool], float] = {}
    ranked: list[tuple[float, str, str]] = []
    for name, stats in facts.names.items():
        cost = facts.name_costs[name]
        if not cost or name in file_names:
            continue
        is_number = name[0].isdigit()
        if is_number and stats.item_count == 1 and not (stats.assistant_count or stats.user_count) and name.isdigit():
            continue  # a line number or a size in some output
        short = name
        if name[-1] in _TRAILING:
            short = trim_name(name)
            if len(short) < _MIN_CHARS or short in file_names or short in facts.names:
                continue
        if short in known_names:
            continue
        key = (stats, is_number)
        if key not in probabilities:
            probabilities[key] = reuse_probability(name, stats, facts.tokens)
        ranked.append((-probabilities[key] / cost, short, name))
    ranked.sort()
    return [name for _, _, name in ranked]


def rank_words(facts: SessionFacts, known_names: Set[str]) -> list[str]:
    """Plain words that the assistant or the user wrote and that are not known: words to search the history with."""
    scores: dict[str, float] = {}
    known_words = {word.casefold() for word in known_names}
    for name, stats in facts.names.items():
        if not (stats.assistant_count or stats.user_count) or facts.name_costs[name] or name in known_names:
            continue
        word = trim_name(name)
        if word.casefold() not in known_words:
            probability = reuse_probability(name, stats, facts.tokens, is_word=True)
            scores[word] = max(scores.get(word, 0.0), probability)
    return sorted(scores, key=lambda word: (-scores[word], word))


class NameIndex:
    """Names grouped by the file or the item that they were last seen in."""

    def __init__(self, facts: SessionFacts, names: Sequence[str]) -> None:
        stats = [facts.names[name] for name in names]
        self._names = [trim_name(name) for name in names]
        self._sources = [seen.path or f"#{facts.handles[seen.last_item]}" for seen in stats]
        self._base = {source: base_name(source) for source in set(self._sources)}
        self._label = {name: to_one_line(name, _LABEL_CHARS) for name in {*self._base, *self._base.values()}}

    def lines(self, count: int) -> list[str]:
        """The first `count` names, one line for each source. Names without a source worth naming come last."""
        groups: defaultdict[str, list[str]] = defaultdict(list)
        for source, name in zip(self._sources[:count], self._names, strict=False):
            groups[source].append(name)
        base_counts = Counter(map(self._base.__getitem__, groups))
        lines: list[str] = []
        elsewhere: list[str] = []
        for source, names in groups.items():
            if source == "#" or (len(names) < _MIN_NAMES_FOR_HANDLE and source.startswith("#")):
                elsewhere += names
                continue
            base = self._base[source]
            lines.append(f"{self._label[base if base_counts[base] == 1 else source]}: {' '.join(names)}")
        return lines + ([f"{NAMES_ELSEWHERE} {' '.join(elsewhere)}"] if elsewhere else [])


def _path_suffixes(facts: SessionFacts) -> set[str]:
    """Every way to name a known file from its end: `c.py`, `b/c.py`, ..."""
    suffixes: set[str] = set()
    for path in facts.files:
        parts = path.strip("/").split("/")
        suffixes.update("/".join(parts[n:]) for n in range(len(parts)))
    return suffixes


# --- lines worth keeping ----------------------------------------------------------------------------------------------


MAX_LINE_CHARS = 240
"""A longer line is data, and would take all the room."""
_LINE_COST = 8
"""Characters that a line costs besides its own."""


@dataclass(slots=True)
class SalientLines:
    """Chooses lines from one text after another. Knows the names in the rest of the request and in the lines chosen."""

    known_names: set[str] = field(default_factory=set)

    @classmethod
    def beside_entries(cls, entries: Iterable[Item]) -> SalientLines:
        """Start from the names in the entries that stay."""
        return cls(name_set("\n".join([entry.text for entry in entries])))

    def select(self, text: str, count: Callable[[str], int], max_tokens: int) -> str:
        """The lines with the most new names per character, in order, within `max_tokens`."""
        if max_tokens <= 0:
            return ""
        known_names, lines = self.known_names, text.split("\n")
        scored: list[tuple[float, int, list[str]]] = []
        for index, line in enumerate(lines):
            if len(line) > MAX_LINE_CHARS:
                continue
            names = [name for name in dict.fromkeys(list_names(line)) if name not in known_names]
            if names:
                scored.append((-len(names) / (_LINE_COST + len(line)), index, names))
        chosen: list[int] = []
        for _, index, names in sorted(scored):
            if all(name in known_names for name in names) or (cost := count(lines[index]) + 1) > max_tokens:
                continue
            max_tokens -= cost
            chosen.append(index)
            known_names.update(names)
        return "\n".join([lines[index] for index in sorted(chosen)])

    def extend_preview(self, preview: Preview, max_tokens: int) -> Preview:
        """A preview that is followed by the salient lines of the rest."""

        def extended(text: str, count: Callable[[str], int]) -> str:
            head = preview(text, count)
            self.known_names |= name_set(head)
            lines = self.select(text, count, max_tokens)
            return f"{head}\n[...]\n{lines}" if lines else head

        return extended
