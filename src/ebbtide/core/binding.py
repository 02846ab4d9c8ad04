"""Binds an edit to the history it was made in: which items it hides, and which its text was made of.

The rule, both ways: an edit hides only items that it recorded, and holds only where all items that it was made of are
still in the conversation. When in doubt the original is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ebbtide.core.types import Binding, Edit, Item

_MOVED_TAGS = ("<system-reminder", "<environment_context")
"""How reminders begin that clients move to the newest message, rewrite or drop."""
CLEARED_TEXTS = frozenset(
    (
        "[Old tool result content cleared]",  # Claude Code, OpenCode
        "[Old result cleared]",  # mini-claude
        "[Content snipped - re-read if needed]",  # mini-claude
        "[Output compacted - re-read if needed]",  # learn-claude-code v5
        "[cleared]",  # LangChain's ContextEditingMiddleware
    )
)
"""What known clients put in the place of an old tool result. Any other text is a change."""
_SAVED_TO = "<persisted-output>Tool result saved to: "
"""How Claude Code's own stub begins, followed by a path."""
_LONGEST_STUB = 1_000
"""Characters. A longer text says more than where a result was saved."""


class Location(NamedTuple):
    """Where an edit lies in a conversation."""

    first: int
    last: int
    visible: tuple[int, ...] = ()
    """Places in between that the edit never recorded: new reminders, which stay in sight."""
    cleared: Mapping[str, int] = {}
    """Where the client cleared a recorded result: from its recorded id to its place."""


def is_movable(item: Item) -> bool:
    """Whether clients are known to move or drop this part of a message."""
    return item.source == "reminder" and item.text.lstrip().startswith(_MOVED_TAGS)


def is_cleared(item: Item) -> bool:
    """Whether a known client took this result's text away."""
    text = item.text
    if text in CLEARED_TEXTS:
        return True
    return text.startswith(_SAVED_TO) and text.endswith("</persisted-output>") and len(text) < _LONGEST_STUB


class Originals:
    """The items of a request, and where each is."""

    __slots__ = ("_cleared", "index", "items")

    def __init__(self, items: Sequence[Item], index: Mapping[str, int]) -> None:
        self.items, self.index = items, index
        self._cleared: dict[str, int] | None = None

    def locate(self, edit: Edit) -> Location | None:
        """Where the edit lies; None where it does not hold."""
        index, binding = self.index, edit.binding
        if binding is None or (edit.head and edit.head not in index):
            return None
        if any(id not in index and self._place(id, binding) is None for id in binding.sources):
            return None
        if edit.after:
            place = index.get(edit.after)
            return None if place is None else Location(place, place)
        return self._locate_hidden(binding)

    def missing(self, edit: Edit) -> str:
        """The id of an item without which the edit cannot hold, or empty."""
        index, binding = self.index, edit.binding
        if edit.head and edit.head not in index:
            return edit.head
        if edit.after and edit.after not in index:
            return edit.after
        if binding is None:
            return ""
        needed = (*binding.sources, *binding.hidden)
        return next((id for id in needed if id not in index and self._place(id, binding) is None), "")

    def _place(self, id: str, binding: Binding) -> int | None:
        """Where an item is, or the text with which the client cleared it."""
        place = self.index.get(id)
        call = self.index.get(binding.calls.get(id, "")) if place is None else None
        return place if call is None else self._cleared_results().get(self.items[call].call_id)

    def _cleared_results(self) -> dict[str, int]:
        """Places of cleared results, by the id of their call."""
        if self._cleared is None:
            results = ((n, item) for n, item in enumerate(self.items) if item.kind == "result")
            self._cleared = {item.call_id: n for n, item in results if item.call_id and is_cleared(item)}
        return self._cleared

    def _locate_hidden(self, binding: Binding) -> Location | None:
        items, hidden = self.items, binding.hidden
        first, last = (self._place(id, binding) for id in (hidden[0], hidden[-1])) if hidden else (None, None)
        if first is None or last is None or first > last:
            return None
        visible: tuple[int, ...] | None = ()
        cleared: dict[str, int] = {}
        if [item.id for item in items[first : last + 1]] != list(hidden):
            visible = self._match(binding, first, last, cleared)
        if visible is None:
            return None
        while first > 0 and items[first - 1].id in binding.movable:
            first -= 1
        while last + 1 < len(items) and items[last + 1].id in binding.movable:
            last += 1
        return Location(first, last, visible, cleared)

    def _match(self, binding: Binding, first: int, last: int, cleared: dict[str, int]) -> tuple[int, ...] | None:
        """Compare item by item. Returns the places that stay in sight, None where something else stands there."""
        visible: list[int] = []
        rest = iter(binding.hidden)
        expected = next(rest, "")
        for place in range(first, last + 1):
            item = self.items[place]
            if item.id == expected:
                expected = next(rest, "")
            elif expected and self._place(expected, binding) == place:
                cleared[expected] = place
                expected = next(rest, "")
            elif item.id in binding.movable:
                continue
            elif is_movable(item) or (item.role == "system" and item.kind == "text"):
                visible.append(place)
            else:
                return None
        return None if expected else tuple(visible)


def bind(
    covered: Sequence[Item], others: Iterable[Item], calls: Mapping[str, str], repeated: frozenset[str]
) -> Binding:
    """Bind an edit to the items it covers and to `others` that its text was made of.

    `calls` has the id of the item by the id of the call; `repeated` are ids of notes that were repeated since.
    """
    movable = frozenset(item.id for item in covered if item.id in repeated or is_movable(item))
    if len(movable) == len(covered):
        movable = frozenset()  # it hides nothing else, so it hangs on them
    hidden = [item for item in covered if item.id not in movable]
    sources = [item for item in others if item.id not in repeated and not is_movable(item)]
    results = [item for item in (*hidden, *sources) if item.kind == "result" and item.call_id in calls]
    named = {item.id for item in (*hidden, *sources)}
    answered = dict.fromkeys(calls[item.call_id] for item in results)
    return Binding(
        hidden=tuple(item.id for item in hidden),
        movable=movable,
        sources=(*(item.id for item in sources), *(id for id in answered if id not in named)),
        calls={item.id: calls[item.call_id] for item in results},
    )
