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
from ebbtide.facts.identifiers import list_names, name_set

MAX_LINE_CHARS = 240
"""Characters of a line. Longer ones are data, and one would take all the room."""
_BREAK = 8
"""Characters that a line costs besides its own."""


@dataclass(slots=True)
class SalientLines:
    """The names that stand in what stays: what a conversation says elsewhere, and the lines kept so far."""

    known_names: set[str] = field(default_factory=set)

    @classmethod
    def beside_entries(cls, entries: Iterable[Item]) -> SalientLines:
        """`entries` are those that stay."""
        return cls(name_set("\n".join([entry.text for entry in entries])))

    def select(self, text: str, count: Callable[[str], int], most: int) -> str:
        """The lines worth most for their length, in their order, in at most so many tokens."""
        if most <= 0:
            return ""
        visible, lines = self.known_names, text.split("\n")
        rated: list[tuple[float, int, list[str]]] = []
        for place, line in enumerate(lines):
            if len(line) > MAX_LINE_CHARS:
                continue
            names = [name for name in dict.fromkeys(list_names(line)) if name not in visible]
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

    def extend_preview(self, preview: Preview, most: int) -> Preview:
        """A preview, and below it the lines of the rest that are worth a place."""

        def shown(text: str, count: Callable[[str], int]) -> str:
            first = preview(text, count)
            self.known_names |= name_set(first)
            more = self.select(text, count, most)
            return f"{first}\n[...]\n{more}" if more else first

        return shown
