"""Where edits lie among the originals, and what stands there instead.

Of two that meet the containing one shows, then the newer; an edit that does not hold waits for what it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ebbtide.core.edit_binding import Location, Originals
from ebbtide.core.types import OURS, Edit, Item


def named_range(edit: Edit, index: Mapping[str, int]) -> tuple[int, int] | None:
    """The places that a new edit names, or None where they are not there. An insertion lies at the item it follows."""
    first = index.get(edit.insert_after or edit.first)
    last = index.get(edit.insert_after or edit.last)
    if first is None or last is None or first > last:
        return None
    return first, last


Placed = dict[int, tuple[Location, Edit]]
"""From the first covered place to where the edit lies, and the edit."""


class Layout(NamedTuple):
    """Where edits lie."""

    placed: Placed
    """Those that cover something and that no larger one hides."""
    inserted: dict[int, list[Edit]]
    """Insertions, by the place they follow."""
    dormant_ids: frozenset[str]
    """Ids of items without which an edit does not hold: where one comes, edits are laid out anew."""


def lay_out(originals: Originals, edits: Sequence[Edit]) -> Layout:
    """Find where each edit lies. What is placed is never displaced: the longest first, and of equals the newest."""
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
            awaited.add(originals.missing(edit))
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
            awaited.add(originals.missing(edit))
        # It leaves with the item it follows, and where a client has it already it is not made twice.
        elif _may_follow(location.first, used, placed) and not any(
            item.kind == "call" and item.call_id in calls for item in edit.replacement
        ):
            inserted.setdefault(location.first, []).append(edit)
        awaited.update(item.call_id for item in edit.replacement if item.call_id)
    return Layout(placed, inserted, frozenset(awaited - {""}))


def _may_follow(place: int, used: bytearray, placed: Placed) -> bool:
    """Whether the item at this place is still in sight, as it was or as the one item that stands for it."""
    if not used[place]:
        return True
    location, edit = placed.get(place, (None, None))
    return location is not None and edit is not None and location.first == location.last and len(edit.replacement) == 1


def _size(edit: Edit) -> int:
    return len(edit.binding.hidden) + len(edit.binding.movable) if edit.binding else 0


def _is_hidden(edit: Edit, index: Mapping[str, int], used: bytearray) -> bool:
    """Whether a larger edit already covers all of this one. Then nobody needs to know whether it holds."""
    hidden = edit.binding.hidden if edit.binding else ()
    places = [index.get(id) for id in (*hidden[:1], *hidden[-1:])]
    return bool(places) and all(place is not None and used[place] for place in places)


def show_edits(items: Sequence[Item], layout: Layout) -> tuple[tuple[Item, ...], dict[str, Edit]]:
    """The entries of a view, and which edit put each there."""
    entries: list[Item] = []
    owner: dict[str, Edit] = {}

    def put(edit: Edit, location: Location | None) -> None:
        shown_items = replacements(edit, items, location)
        owner.update((entry.id, edit) for entry in shown_items)
        entries.extend(shown_items)

    i = 0
    while i < len(items):
        if i in layout.placed:
            location, edit = layout.placed[i]
            put(edit, location)
            entries.extend(items[place] for place in location.visible)
            i = location.last
        else:
            entries.append(items[i])
        for edit in layout.inserted.get(i, ()):
            put(edit, None)
        i += 1
    return tuple(entries), owner


def replacements(edit: Edit, items: Sequence[Item], location: Location | None) -> list[Item]:
    """What an edit shows for what it covers. A reminder that it carried along and that the client dropped is gone."""
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
    """Give a stand-in its id and its message. All on one side stand in one: neighbours of one role are refused.

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
"""Messages of stand-ins for a run that had none on their side."""


def _side(item: Item) -> str:
    return "assistant" if item.role == "assistant" else "system" if item.role == "system" else "user"
