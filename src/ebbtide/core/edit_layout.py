"""Bind edits to the items they were made from, find where they lie among the originals, and build a view's entries.

An edit hides only items that it recorded, and is active only where all items that it was made of are still in the
conversation; in doubt the originals are shown. Where two edits overlap, the containing one is visible, then the newer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

from ebbtide.core.types import OURS, Answer, Binding, Edit, HistoryMark, Item

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
    # A model may have written about reminders and notes, so they must still be present. Of a note that is repeated with
    # other numbers, such as the tokens left, one with the same words is enough. A system prompt stands alone.
    is_read = edit.made_of == "all"
    notes = [item for item in (*passing, *(others if is_read else ())) if is_note(item)]
    words = Counter(map(note_digest, notes))
    repeated = {item.id for item in notes if words[note_digest(item)] > 1}
    sources = [
        item for item in others if item.id not in repeated and (is_read or not (is_movable(item) or is_note(item)))
    ]
    results = [item for item in (*hidden, *sources) if item.kind == "result" and item.call_id in calls]
    direct_ids = {item.id for item in (*hidden, *sources)}
    answered = dict.fromkeys(calls[item.call_id] for item in results)
    read = [item.id for item in passing if is_read and item.id not in repeated]
    return Binding(
        hidden=tuple(item.id for item in hidden),
        movable=movable,
        notes=frozenset(words),
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


# --- the layout of a view ---------------------------------------------------------------------------------------------


def edit_range(edit: Edit, index: Mapping[str, int]) -> tuple[int, int] | None:
    """Return the first and last index that an edit names, or None if they are missing; for an insertion its anchor."""
    first = index.get(edit.insert_after or edit.first)
    last = index.get(edit.insert_after or edit.last)
    if first is None or last is None or first > last:
        return None
    return first, last


Placed = dict[int, tuple[Location, Edit]]
"""From the first covered index to the location of the edit, and the edit."""


class Layout(NamedTuple):
    """Where the visible edits are."""

    placed: Placed
    """Edits that cover something and that no larger one hides."""
    inserted: dict[int, list[Edit]]
    """Insertions, by the index of the item that they follow."""
    dormant_ids: frozenset[str]
    """Ids of missing items that edits need. If one appears, the layout must be computed again."""


def lay_out(originals: Originals, edits: Sequence[Edit]) -> Layout:
    """Place the edits: the longest first, and of equal ones the newest. A placed edit is never moved."""
    covering = [(n, edit) for n, edit in enumerate(edits) if not edit.insert_after]
    sizes = {n: _size(edit) for n, edit in covering}
    covering.sort(key=lambda item: (-sizes[item[0]], -item[0]))
    placed: Placed = {}
    awaited: set[str] = set()
    used = bytearray(len(originals.items))
    for _, edit in covering:
        if _is_hidden(edit, originals.index, used):
            continue
        location = originals.locate(edit)
        if location is None:
            awaited.add(originals.missing_id(edit))
            continue
        first, end = location.first, location.last + 1
        if not any(used[first:end]):
            used[first:end] = b"\1" * (end - first)
            placed[first] = (location, edit)
    inserted: dict[int, list[Edit]] = {}
    inserting = [edit for edit in edits if edit.insert_after]
    calls = {item.call_id for item in originals.items if item.kind == "call"} if inserting else set[str]()
    for edit in inserting:
        location = originals.locate(edit)
        if location is None:
            awaited.add(originals.missing_id(edit))
        # An insertion is hidden with its anchor, and is not repeated if the client has sent it already.
        elif _may_follow(location.first, used, placed) and not any(
            item.kind == "call" and item.call_id in calls for item in edit.replacement
        ):
            inserted.setdefault(location.first, []).append(edit)
        awaited.update(item.call_id for item in edit.replacement if item.call_id)
    return Layout(placed, inserted, frozenset(awaited - {""}))


def _may_follow(place: int, used: bytearray, placed: Placed) -> bool:
    """Whether the item at this index is still visible, itself or as its single replacement."""
    if not used[place]:
        return True
    location, edit = placed.get(place, (None, None))
    return location is not None and edit is not None and location.first == location.last and len(edit.replacement) == 1


def _size(edit: Edit) -> int:
    return len(edit.binding.hidden) + len(edit.binding.movable) if edit.binding else 0


def _is_hidden(edit: Edit, index: Mapping[str, int], used: bytearray) -> bool:
    """Whether a larger edit covers all of this one. Then it does not matter whether it is active."""
    hidden = edit.binding.hidden if edit.binding else ()
    places = [index.get(id) for id in (*hidden[:1], *hidden[-1:])]
    return bool(places) and all(place is not None and used[place] for place in places)


def show_edits(items: Sequence[Item], layout: Layout) -> tuple[tuple[Item, ...], dict[str, Edit]]:
    """Return the entries of a view, and the edit of each replacement."""
    entries: list[Item] = []
    owner: dict[str, Edit] = {}

    def show(edit: Edit, location: Location | None) -> None:
        shown_items = replacements(edit, items, location)
        owner.update((entry.id, edit) for entry in shown_items)
        entries.extend(shown_items)

    i = 0
    while i < len(items):
        if i in layout.placed:
            location, edit = layout.placed[i]
            show(edit, location)
            entries.extend(items[place] for place in location.visible)
            i = location.last
        else:
            entries.append(items[i])
        for edit in layout.inserted.get(i, ()):
            show(edit, None)
        i += 1
    return tuple(entries), owner


def replacements(edit: Edit, items: Sequence[Item], location: Location | None) -> list[Item]:
    """Return what an edit shows. A reminder that it kept and that the client has dropped is left out."""
    covered = items[location.first : location.last + 1] if location else ()
    carried = {item.id for item in edit.replacement if item.id}
    originals = {item.id: item for item in covered if item.id in carried} if carried else {}
    if location and carried:
        originals |= {id: items[place] for id, place in location.cleared.items() if id in carried}
    return [
        _place_replacement(edit, k, item, covered, originals.get(item.id))
        for k, item in enumerate(edit.replacement)
        if not item.id or item.id in originals
    ]


def _place_replacement(edit: Edit, k: int, item: Item, covered: Sequence[Item], original: Item | None) -> Item:
    """Give a replacement its id and its message. All of one side share a message: providers refuse two of one role.

    `kept` is the original, where the edit carries one along.
    """
    side = _side(original or item)
    ends = [other for other in (covered[0], covered[-1]) if _side(other) == side] if covered else []
    message = ends[0].message if ends else _NOWHERE[side]
    if original is not None:
        alone = (
            len(edit.replacement) == 1
            or original.message == message
            or original.role != "user"
            or original.kind == "opaque"
        )
        return original if alone else replace(original, message=message)
    raw, is_failed = item.raw, item.is_failed
    if item.kind == "result":
        # A rewritten one keeps what its provider put beside the content.
        result = next((other for other in covered if (other.kind, other.call_id) == ("result", item.call_id)), None)
        raw, is_failed = (result.raw, result.is_failed) if result else (None, False)
    return replace(item, id=f"{edit.id}/{k}", message=message, source=OURS, is_failed=is_failed, raw=raw)


_NOWHERE = {"user": -2, "assistant": -3, "system": -4}
"""Message indexes of replacements for a run without a message of their side."""


def _side(item: Item) -> str:
    return "assistant" if item.role == "assistant" else "system" if item.role == "system" else "user"
