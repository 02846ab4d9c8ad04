"""Which lines of a cleared text to keep: those with names that the rest of the request does not have.

A line is kept whole or not at all, so that the model reads what the tool wrote. `benchmarks/search.py` also tried to
count plain words for less and names of many results for more: it made no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ebbtide.core.text.preview import Preview
from ebbtide.core.types import Item
from ebbtide.facts.names import list_names, name_set

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
