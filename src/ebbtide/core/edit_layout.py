"""Find where each edit lies among the originals, and build the entries of a view.

Where two edits overlap, the containing one is visible, then the newer. An edit whose items are missing is dormant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ebbtide.core.edit_binding import Location, Originals
from ebbtide.core.types import OURS, Edit, Item


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
    raw = item.raw
    if item.kind == "result":
        # A rewritten one keeps what its provider put beside the content.
        raw = next((other.raw for other in covered if (other.kind, other.call_id) == ("result", item.call_id)), None)
    return replace(item, id=f"{edit.id}/{k}", message=message, source=OURS, raw=raw)


_NOWHERE = {"user": -2, "assistant": -3, "system": -4}
"""Message indexes of replacements for a run without a message of their side."""


def _side(item: Item) -> str:
    return "assistant" if item.role == "assistant" else "system" if item.role == "system" else "user"
