"""Names without prose, by the file or the item they were seen in: a few tokens each, and a pointer to the rest."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from itertools import groupby
from typing import NamedTuple

from ebbtide.facts.identifiers import ENDS, reuse_probability, trim_name
from ebbtide.facts.lines import to_one_line
from ebbtide.facts.model import NameStats, SessionFacts
from ebbtide.facts.paths import base_name

_SHORTEST = 4
"""Characters: a number of four digits is a name; what trimming leaves of others may be none."""
_WIDTH = 200
"""Of a label."""
_WORTH_A_HANDLE = 4
"""Names from one item, below which a handle costs more than they do."""


class RankedNames(NamedTuple):
    """Names in some order, and of each what is known of it."""

    short: list[str]
    seen: list[NameStats]


def rank_names(ledger: SessionFacts, known: Set[str]) -> RankedNames:
    """Names that are no plain words and not known yet, most likely needed for their price first."""
    files, now, everything = _suffixes(ledger), ledger.tokens, ledger.names
    found, rates = RankedNames([], []), list[float]()
    # Names that came with one item are rated alike.
    likely: dict[tuple[object, ...], float] = {}
    for name, seen in everything.items():
        cost = seen.cost
        if not cost or name in files:
            continue
        if seen.item_count == 1 and not seen.assistant_count and not seen.user_count and name.isdigit():
            # A line's number, a size: nobody spoke of it.
            continue
        short = trim_name(name) if name[-1] in ENDS else name
        if len(short) < _SHORTEST or short in known or (short is not name and (short in everything or short in files)):
            continue
        alike = (*seen[:5], name[0].isdigit())
        if (rate := likely.get(alike)) is None:
            rate = likely[alike] = reuse_probability(name, seen, now)
        found.short.append(short)
        found.seen.append(seen)
        rates.append(-rate / cost)
    order = _in_order(rates, found.short)
    return RankedNames([found.short[n] for n in order], [found.seen[n] for n in order])


def _in_order(rates: Sequence[float], names: Sequence[str]) -> list[int]:
    """Places by rate, equals by name. Most are equals of some others, and numbers are sooner compared than names."""
    order = sorted(range(len(rates)), key=rates.__getitem__)
    alike = groupby(order, key=rates.__getitem__)
    return [n for _, some in alike for n in sorted(some, key=names.__getitem__)]


def rank_words(ledger: SessionFacts, known: Set[str]) -> list[str]:
    """Plain words that the assistant or the user wrote and that stand nowhere else: what recall can be asked with."""
    rated: dict[str, float] = {}
    said = {word.casefold() for word in known}
    for name, seen in ledger.names.items():
        if seen.cost or not (seen.assistant_count or seen.user_count) or name in known:
            continue
        word = trim_name(name)
        if word.casefold() not in said:
            rated[word] = max(rated.get(word, 0.0), reuse_probability(name, seen, ledger.tokens))
    return sorted(rated, key=lambda word: (-rated[word], word))


class NameIndex:
    """Names by the file or item they were seen in."""

    def __init__(self, ledger: SessionFacts, names: RankedNames) -> None:
        self._names = names.short
        self._places = [seen.path or f"#{ledger.handles[seen.last_item]}" for seen in names.seen]
        self._base = {place: base_name(place) for place in set(self._places)}
        self._label = {name: to_one_line(name, _WIDTH) for name in {*self._base, *self._base.values()}}

    def lines(self, n: int) -> list[str]:
        """Of the first n names a line for each place, best first; names that stand alone come together at the end."""
        groups: defaultdict[str, list[str]] = defaultdict(list)
        for place, name in zip(self._places[:n], self._names, strict=False):
            groups[place].append(name)
        bases = Counter(map(self._base.__getitem__, groups))
        lines, alone = [], []
        for place, found in groups.items():
            if place == "#" or (len(found) < _WORTH_A_HANDLE and place.startswith("#")):
                alone += found
                continue
            base = self._base[place]
            lines.append(f"{self._label[base if bases[base] == 1 else place]}: {' '.join(found)}")
        return lines + ([f"elsewhere: {' '.join(alone)}"] if alone else [])


def _suffixes(ledger: SessionFacts) -> set[str]:
    """Every way to name a known file from its end: `c.py`, `b/c.py`, ..."""
    found: set[str] = set()
    for path in ledger.files:
        parts = path.strip("/").split("/")
        found.update("/".join(parts[n:]) for n in range(len(parts)))
    return found
