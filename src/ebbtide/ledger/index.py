"""Names without prose, by the file or the item they were seen in: a few tokens each, and a pointer to the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from typing import TypeAlias

from ebbtide.ledger.facts import Ledger, Seen
from ebbtide.ledger.identifiers import is_word, need, price
from ebbtide.ledger.lines import one_line
from ebbtide.ledger.paths import base_name

Names: TypeAlias = Sequence[tuple[str, Seen]]

_SHORTEST = 4
"""Characters: a number of four digits is a name; what trimming leaves of others may be none."""
_WIDTH = 200
"""Of a label."""
_WORTH_A_HANDLE = 4
"""Names from one item, below which a handle costs more than they do."""


def ranked_names(ledger: Ledger, known: Set[str]) -> list[tuple[str, Seen]]:
    """Names that are no plain words and not known yet, most likely needed for their price first."""
    files = _suffixes(ledger)
    rated = []
    for name, seen in ledger.seen.items():
        if is_word(name) or name in files:
            continue
        if name.isdigit() and seen.items == 1 and not seen.spoken and not seen.said:
            # A line's number, a size: nobody spoke of it.
            continue
        bare = name.rstrip("./-")
        if len(bare) < _SHORTEST or bare in known or (bare != name and (bare in ledger.seen or bare in files)):
            continue
        rated.append((-need(name, seen, ledger.tokens) / price(bare), bare, seen))
    rated.sort(key=lambda row: row[:2])
    return [(name, seen) for _, name, seen in rated]


def ranked_words(ledger: Ledger, known: Set[str]) -> list[str]:
    """Plain words that the assistant or the user wrote and that stand nowhere else: what recall can be asked with."""
    rated: dict[str, float] = {}
    said = {word.casefold() for word in known}
    for name, seen in ledger.seen.items():
        word = name.rstrip("./-")
        if (seen.spoken or seen.said) and is_word(name) and name not in known and word.casefold() not in said:
            rated[word] = max(rated.get(word, 0.0), need(name, seen, ledger.tokens))
    return sorted(rated, key=lambda word: (-rated[word], word))


def index_lines(ledger: Ledger, names: Names) -> list[str]:
    """A line for each file or item, best first; names that stand alone come together at the end."""
    groups: dict[str, list[str]] = {}
    for name, seen in names:
        groups.setdefault(seen.path or f"#{ledger.handles[seen.order]}", []).append(name)
    bases = Counter(map(base_name, groups))
    lines, alone = [], []
    for place, found in groups.items():
        if place.startswith("#") and len(found) < _WORTH_A_HANDLE:
            alone += found
            continue
        label = one_line(base_name(place) if bases[base_name(place)] == 1 else place, _WIDTH)
        lines.append(f"{label}: {' '.join(found)}")
    return lines + ([f"elsewhere: {' '.join(alone)}"] if alone else [])


def _suffixes(ledger: Ledger) -> set[str]:
    """Every way to name a known file from its end: `c.py`, `b/c.py`, ..."""
    found: set[str] = set()
    for path in ledger.files:
        parts = path.strip("/").split("/")
        found.update("/".join(parts[n:]) for n in range(len(parts)))
    return found
