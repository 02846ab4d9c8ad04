"""Which lines of a text that leaves are worth a place: those with names that nothing else in the request has.

A line is kept whole, as it was, or not at all: what the model reads is what the tool said. A line is worth the names in
it that stand nowhere else, for the room that it takes. What was searched for and made no difference (`benchmarks/
search.py`): plain words for less than names, names of many results for more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ebbtide.core.preview import Preview
from ebbtide.core.types import OURS, Item
from ebbtide.ledger.identifiers import names_in, names_of

LONGEST = 240
"""Characters of a line. Longer ones are data, and one would take all the room."""
_BREAK = 8
"""Characters that a line costs besides its own."""


class Row(NamedTuple):
    """A line of a text that has names in it."""

    place: int
    tokens: int
    """What it takes to keep it; 0 where nobody has counted yet."""
    names: tuple[str, ...]


@dataclass(slots=True)
class Texts:
    """What was found in texts before anybody asked. A memo: lines and names come out the same with it and without."""

    rows: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    """Of results, by their text."""
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of what surely stays, by its text."""
    _one: dict[str, str] = field(default_factory=dict)
    """Each name once: a conversation says the same ones over and over."""
    _at: int = 0
    _edits: object = None

    def read(self, entries: Sequence[Item], edits: object, count: Callable[[str], int], room: int) -> None:
        """Read on in what stands in a request, so many tokens. Where there are new `edits`, what left is let go."""
        if edits is not self._edits:
            self._let_go({entry.text for entry in entries})
            self._edits, self._at = edits, 0
        while self._at < len(entries) and room > 0:
            entry = entries[self._at]
            self._at += 1
            if entry.kind == "result" and entry.source != OURS and entry.text not in self.rows:
                self.rows[entry.text] = tuple(self._counted(entry.text.split("\n"), count))
                room -= entry.tokens
            elif _stays(entry) and entry.text not in self.names:
                self.names[entry.text] = tuple(map(self._name, names_of(entry.text)))
                room -= entry.tokens

    def _counted(self, lines: Sequence[str], count: Callable[[str], int]) -> Iterator[Row]:
        for place, _, names in _rows(lines):
            yield Row(place, _cost(lines[place], count), tuple(map(self._name, names)))

    def _name(self, name: str) -> str:
        return self._one.setdefault(name, name)

    def _let_go(self, stay: set[str]) -> None:
        self.rows = {text: rows for text, rows in self.rows.items() if text in stay}
        self.names = {text: names for text, names in self.names.items() if text in stay}
        self._one = {}


def _stays(entry: Item) -> bool:
    """Whether it surely stays where results leave: words, calls, and what an earlier batch left of a result."""
    return entry.kind in ("text", "call") or (entry.kind == "result" and entry.source == OURS)


@dataclass(slots=True)
class Telling:
    """The names that stand in what stays: what a conversation says elsewhere, and the lines kept so far."""

    visible: set[str] = field(default_factory=set)
    texts: Texts | None = None

    @classmethod
    def beside(cls, entries: Iterable[Item], texts: Texts | None = None) -> Telling:
        """`entries` are those that stay."""
        kept = [entry.text for entry in entries]
        known = texts.names if texts is not None else {}
        visible = names_of("\n".join([text for text in kept if text not in known]))
        return cls(visible.union(*[known[text] for text in kept if text in known]), texts)

    def lines(self, text: str, count: Callable[[str], int], most: int) -> str:
        """The lines worth most for their length, in their order, in at most so many tokens."""
        if most <= 0:
            return ""
        visible, lines = self.visible, text.split("\n")
        known = self.texts.rows.get(text) if self.texts is not None else None
        rated: list[tuple[float, int, int, list[str]]] = []
        for place, tokens, named in _rows(lines) if known is None else known:
            names = [name for name in named if name not in visible]
            if names:
                rated.append((-len(names) / (_BREAK + len(lines[place])), place, tokens, names))
        kept: list[int] = []
        for _, place, tokens, names in sorted(rated):
            if all(name in visible for name in names) or (cost := tokens or _cost(lines[place], count)) > most:
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


def _rows(lines: Sequence[str]) -> Iterator[Row]:
    for place, line in enumerate(lines):
        if len(line) <= LONGEST and (names := names_in(line)):
            yield Row(place, 0, tuple(dict.fromkeys(names)))


def _cost(line: str, count: Callable[[str], int]) -> int:
    return count(line) + 1
