"""Bind an edit to its history: which items it hides, and which items its text was made of.

An edit hides only items that it recorded, and is active only where all items that it was made of are still in the
conversation. In doubt the originals are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

from ebbtide.core.types import Answer, Binding, Edit, HistoryMark, Item

_MOVED_TAGS = ("<system-reminder", "<environment_context")
"""How reminders begin. Clients move them to the newest message, rewrite them or drop them."""
CLEARED_TEXTS = frozenset(
    (
        "[Old tool result content cleared]",  # Claude Code, OpenCode
        "[Old result cleared]",  # mini-claude
        "[Content snipped - re-read if needed]",  # mini-claude
        "[Output compacted - re-read if needed]",  # learn-claude-code v5
        "[cleared]",  # LangChain's ContextEditingMiddleware
    )
)
"""What known clients replace an old tool result by. Any other text is a change."""
_SAVED_TO = "<persisted-output>Tool result saved to: "
"""How Claude Code's own stub begins, followed by a path."""
_NUMBERS = re.compile(r"[0-9]+")
_LONGEST_STUB = 1_000
"""In characters. A longer text says more than where a result was saved."""


class Location(NamedTuple):
    """Where an edit lies in a conversation."""

    first: int
    last: int
    visible: tuple[int, ...] = ()
    """Indexes between them that the edit did not record: new reminders, which stay visible."""
    cleared: Mapping[str, int] = {}
    """From the id of a recorded result that the client has cleared to its index."""


def is_movable(item: Item) -> bool:
    """Whether clients are known to move or drop this part of a message."""
    return item.source == "reminder" and item.text.lstrip().startswith(_MOVED_TAGS)


def is_note(item: Item) -> bool:
    """Whether it is an operator note between messages. Some clients repeat such a note after every result."""
    return item.role == "system" and item.kind == "text"


def note_digest(note: Item) -> str:
    """Hash the text of a note without its numbers, such as the remaining tokens."""
    return blake2b(_NUMBERS.sub("", note.text).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def is_cleared(item: Item) -> bool:
    """Whether a known client has removed this result's text."""
    text = item.text
    if text in CLEARED_TEXTS:
        return True
    return text.startswith(_SAVED_TO) and text.endswith("</persisted-output>") and len(text) < _LONGEST_STUB


class Originals:
    """The items of a request, with an index by id."""

    __slots__ = ("_cleared", "_notes", "index", "items")

    def __init__(self, items: Sequence[Item], index: Mapping[str, int]) -> None:
        self.items, self.index = items, index
        self._cleared: dict[str, int] | None = None
        self._notes: frozenset[str] | None = None

    def locate(self, edit: Edit) -> Location | None:
        """Return where the edit lies; None if it is not active."""
        index, binding = self.index, edit.binding
        if binding is None or (edit.branch_tip and edit.branch_tip not in index):
            return None
        if any(id not in index and self._place(id, binding) is None for id in binding.sources):
            return None
        if binding.notes and not binding.notes <= self._words_of_notes():
            return None
        if edit.insert_after:
            place = index.get(edit.insert_after)
            return None if place is None else Location(place, place)
        return self._locate_hidden(binding)

    def missing_id(self, edit: Edit) -> str:
        """Return the id of a missing item that the edit needs, or ""."""
        index, binding = self.index, edit.binding
        if edit.branch_tip and edit.branch_tip not in index:
            return edit.branch_tip
        if edit.insert_after and edit.insert_after not in index:
            return edit.insert_after
        if binding is None:
            return ""
        needed = (*binding.sources, *binding.hidden)
        return next((id for id in needed if id not in index and self._place(id, binding) is None), "")

    def _place(self, id: str, binding: Binding) -> int | None:
        """Return the index of an item, or of the text by which the client replaced it."""
        place = self.index.get(id)
        call = self.index.get(binding.calls.get(id, "")) if place is None else None
        return place if call is None else self._cleared_results().get(self.items[call].call_id)

    def _cleared_results(self) -> dict[str, int]:
        """Indexes of cleared results, by the id of their call."""
        if self._cleared is None:
            results = ((n, item) for n, item in enumerate(self.items) if item.kind == "result")
            self._cleared = {item.call_id: n for n, item in results if item.call_id and is_cleared(item)}
        return self._cleared

    def _words_of_notes(self) -> frozenset[str]:
        if self._notes is None:
            self._notes = frozenset(note_digest(item) for item in self.items if is_note(item))
        return self._notes

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
        """Compare item by item. Return the indexes that stay visible, or None if there is a foreign item."""
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
            elif is_movable(item) or is_note(item):
                visible.append(place)
            else:
                return None
        return None if expected else tuple(visible)


def bind(covered: Sequence[Item], others: Sequence[Item], calls: Mapping[str, str], edit: Edit) -> Binding:
    """Bind an edit to the items it covers and to `others` that its text was made of.

    `calls` has the id of each call's item by the id of the call.
    """
    passing = [item for item in covered if is_movable(item) or is_note(item)]
    if len(passing) == len(covered):
        passing = []  # it hides nothing else, so it depends on them
    movable = frozenset(item.id for item in passing)
    hidden = [item for item in covered if item.id not in movable]
    sources = [item for item in others if edit.made_of == "all" or not (is_movable(item) or is_note(item))]
    results = [item for item in (*hidden, *sources) if item.kind == "result" and item.call_id in calls]
    direct_ids = {item.id for item in (*hidden, *sources)}
    answered = dict.fromkeys(calls[item.call_id] for item in results)
    # A model may have written about a reminder, so the reminder must still be present.
    read = movable if edit.made_of == "all" else frozenset()
    return Binding(
        hidden=tuple(item.id for item in hidden),
        movable=movable,
        notes=frozenset(note_digest(item) for item in passing if is_note(item)),
        sources=(*(item.id for item in sources), *(id for id in answered if id not in direct_ids), *sorted(read)),
        calls={item.id: calls[item.call_id] for item in results},
    )


def mark_history(items: Sequence[Item]) -> HistoryMark:
    """Identify a conversation, so that we recognize it when it has continued."""
    passing = tuple(item.id for item in items if is_movable(item) or is_note(item))
    *_, lasting = _lasting_marks(items)
    return HistoryMark(lasting, passing)


class UsableAnswers(Mapping[str, Answer]):
    """The answers about this conversation, as it is or as it was earlier.

    Finding them takes a hash of the whole conversation, so it is done when a pass asks: for most requests none does.
    """

    def __init__(self, answers: Mapping[str, Answer], items: Sequence[Item]) -> None:
        self._all, self._items = answers, items

    @cached_property
    def _usable(self) -> dict[str, Answer]:
        if not self._all:
            return {}
        marks, ids = set(_lasting_marks(self._items)), {item.id for item in self._items}
        return {
            key: answer
            for key, answer in self._all.items()
            if answer.history is not None and answer.history.lasting in marks and ids.issuperset(answer.history.passing)
        }

    def __getitem__(self, key: str) -> Answer:
        return self._usable[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._usable)

    def __len__(self) -> int:
        return len(self._usable)


def _lasting_marks(items: Iterable[Item]) -> Iterator[str]:
    """Yield, after each item that is no reminder or note, their number and the digest of their ids."""
    digest, count = blake2b(digest_size=8), 0
    yield f"{count}-{digest.hexdigest()}"
    for item in items:
        if not is_movable(item) and not is_note(item):
            digest.update(f"{item.id} ".encode())
            count += 1
            yield f"{count}-{digest.hexdigest()}"
