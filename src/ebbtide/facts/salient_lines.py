"""Which lines of a text that leaves are worth a place: those with names that nothing else in the request has.

A line is kept whole, as it was, or not at all: what the model reads is what the tool said. A line is worth the names in
it that stand nowhere else, for the room that it takes. What was searched for and made no difference (`benchmarks/
search.py`): plain words for less than names, names of many results for more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ebbtide.core.text.preview import Preview
from ebbtide.core.types import Item
from ebbtide.facts.identifiers import names_in, names_of

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
        """`entries` are those that stay."""
        return cls(names_of("\n".join([entry.text for entry in entries])))

    def lines(self, text: str, count: Callable[[str], int], most: int) -> str:
        """The lines worth most for their length, in their order, in at most so many tokens."""
        if most <= 0:
            return ""
        visible, lines = self.visible, text.split("\n")
        rated: list[tuple[float, int, list[str]]] = []
        for place, line in enumerate(lines):
            if len(line) > LONGEST:
                continue
            names = [name for name in dict.fromkeys(names_in(line)) if name not in visible]
            if names:
                rated.append((-len(names) / (_BREAK + len(line)), place, names))
        kept: list[int] = []
        for _, place, names in sorted(rated):
            if all(name in visible for name in names) or (cost := count(lines[place]) + 1) > most:
                continue
            most -= cost
            kept.append(place)
            visible.update(names)
        return "\n".join([lines[place] for place in sorted(kept)])

    def after(self, preview: Preview, most: int) -> Preview:
        """A preview, and below it the lines of the rest that are worth a place."""

        def shown(text: str, count: Callable[[str], int]) -> str:
            first = preview(text, count)
            self.visible |= names_of(first)
            more = self.lines(text, count, most)
            return f"{first}\n[...]\n{more}" if more else first

        return shown
