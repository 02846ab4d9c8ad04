"""Where edits lie among the originals, and what stands there instead.

Of two that meet the containing one shows, then the newer; an edit that does not hold waits for what it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ebbtide.core.types import OURS, Edit, Item


def span_of(edit: Edit, index: Mapping[str, int]) -> tuple[int, int] | None:
    """Where the edit lies, or None if it does not hold. An insertion lies at the item it follows."""
    if edit.head and edit.head not in index:
        return None
    first = index.get(edit.after or edit.first)
    last = index.get(edit.after or edit.last)
    if first is None or last is None or first > last:
        return None
    return first, last


Placed = dict[int, tuple[int, Edit]]
"""From the first covered place to the last one and the edit."""


def place(
    items: Sequence[Item], edits: Sequence[Edit], index: Mapping[str, int]
) -> tuple[Placed, dict[int, list[Edit]], list[Edit]]:
    """Edits that cover something, by its first place; insertions, by the place they follow; and what does not hold."""
    ranges = [(edit, span_of(edit, index)) for edit in edits]
    dormant = [edit for edit, span in ranges if span is None]
    covering = [(span, n, edit) for n, (edit, span) in enumerate(ranges) if span is not None and not edit.after]
    # Longest first, and of equals the newest: what is placed is never displaced.
    covering.sort(key=lambda one: (one[0][0] - one[0][1], -one[1]))
    placed: Placed = {}
    used = bytearray(len(items))
    for (lo, hi), _, edit in covering:
        if not any(used[lo : hi + 1]):
            used[lo : hi + 1] = b"\1" * (hi + 1 - lo)
            placed[lo] = (hi, edit)
    inserted: dict[int, list[Edit]] = {}
    inserting = [(edit, span) for edit, span in ranges if span is not None and edit.after]
    calls = {item.call_id for item in items if item.kind == "call"} if inserting else set[str]()
    for edit, span in inserting:
        # It leaves with the item it follows, and where a client has it already it is not made twice.
        if not used[span[0]] and not any(one.kind == "call" and one.call_id in calls for one in edit.put):
            inserted.setdefault(span[0], []).append(edit)
    return placed, inserted, dormant


def shown_by(
    items: Sequence[Item], placed: Placed, inserted: Mapping[int, list[Edit]], shown: Mapping[int, Sequence[Item]]
) -> tuple[tuple[Item, ...], dict[str, Edit]]:
    """The entries of a view, and which edit put each there. `shown` has what edits showed before, by identity."""
    entries: list[Item] = []
    owner: dict[str, Edit] = {}

    def put(edit: Edit, covered: Sequence[Item]) -> None:
        stands = shown.get(id(edit)) or stand_ins(edit, covered)
        owner.update((entry.id, edit) for entry in stands)
        entries.extend(stands)

    i = 0
    while i < len(items):
        if i in placed:
            hi, edit = placed[i]
            put(edit, items[i : hi + 1])
            i = hi + 1
            continue
        entries.append(items[i])
        for edit in inserted.get(i, ()):
            put(edit, ())
        i += 1
    return tuple(entries), owner


def stand_ins(edit: Edit, covered: Sequence[Item]) -> list[Item]:
    """What an edit shows for what it covers."""
    carried = {item.id for item in edit.put if item.id}
    kept = {one.id: one for one in covered if one.id in carried} if carried else {}
    return [_homed(edit, k, item, covered, kept.get(item.id)) for k, item in enumerate(edit.put)]


def _homed(edit: Edit, k: int, item: Item, covered: Sequence[Item], kept: Item | None) -> Item:
    """Give a stand-in its id and its message. All on one side stand in one: neighbours of one role are refused.

    `kept` is the original, where the edit carries one along.
    """
    side = _side(kept or item)
    ends = [one for one in (covered[0], covered[-1]) if _side(one) == side] if covered else []
    message = ends[0].message if ends else _NOWHERE[side]
    if kept is not None:
        alone = len(edit.put) == 1 or kept.message == message or kept.role != "user" or kept.kind == "opaque"
        return kept if alone else replace(kept, message=message)
    raw = item.raw
    if item.kind == "result":
        # A rewritten one keeps what its provider put beside the content.
        raw = next((one.raw for one in covered if (one.kind, one.call_id) == ("result", item.call_id)), None)
    return replace(item, id=f"{edit.id}/{k}", message=message, source=OURS, raw=raw)


_NOWHERE = {"user": -2, "assistant": -3, "system": -4}
"""Messages of stand-ins for a run that had none on their side."""


def _side(item: Item) -> str:
    return "assistant" if item.role == "assistant" else "system" if item.role == "system" else "user"
