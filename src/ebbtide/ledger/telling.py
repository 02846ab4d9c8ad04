"""Which lines of a text that leaves are worth a place: those with names that nothing else in the request has.

A line is kept whole, as it was, or not at all: what the model reads is what the tool said. A line is worth the names in
it that stand nowhere else, for the room that it takes. What was searched for and made no difference (`benchmarks/
search.py`): plain words for less than names, names of many results for more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ebbtide.core.preview import Preview
from ebbtide.core.types import Item
from ebbtide.ledger.identifiers import names_in, names_of

LONGEST = 240
"""Characters of a line. Longer ones are data, and one would take all the room."""
_BREAK = 8
"""Characters that a line costs besides its own."""


@dataclass(slots=True)
class Telling:
    """The names that stand in what stays: what a conversation says elsewhere, and the lines kept so far."""

    visible: set[str] = field(default_factory=set)

    @classmethod
    def beside(cls, entries: Iterable[Item]) -> Telling:
        """Results are what leaves; words and calls stay."""
        kept = (entry.text for entry in entries if entry.kind in ("text", "call"))
        return cls(names_of("\n".join(kept)))

    def lines(self, text: str, count: Callable[[str], int], most: int) -> str:
        """The lines worth most for their length, in their order, in at most so many tokens."""
        rated: list[tuple[float, int, str, set[str]]] = []
        for n, line in enumerate(text.split("\n") if most > 0 else ()):
            if len(line) > LONGEST:
                continue
            names = {name for name in names_in(line) if name not in self.visible}
            if names:
                rated.append((-len(names) / (_BREAK + len(line)), n, line, names))
        kept: list[tuple[int, str]] = []
        for _, n, line, names in sorted(rated, key=lambda one: one[:2]):
            if names <= self.visible or (cost := count(line) + 1) > most:
                continue
            most -= cost
            kept.append((n, line))
            self.visible |= names
        return "\n".join(line for _, line in sorted(kept))

    def after(self, preview: Preview, most: int) -> Preview:
        """A preview, and below it the lines of the rest that are worth a place."""

        def shown(text: str, count: Callable[[str], int]) -> str:
            first = preview(text, count)
            self.visible |= names_of(first)
            more = self.lines(text, count, most)
            return f"{first}\n[...]\n{more}" if more else first

        return shown
