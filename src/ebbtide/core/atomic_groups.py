"""What stays brings along what no provider takes it without: a call its result, and reasoning what it led to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import dropwhile, groupby

from ebbtide.core.types import Item


def expand_to_atomic_groups(items: Sequence[Item], ids: Collection[str]) -> frozenset[str]:
    """These, and all that must stay with them (R3, R4)."""
    calls = {item.call_id for item in items if item.call_id and item.id in ids}
    found = set(ids)
    for bound in _bound(items):
        if any(item.id in found or item.call_id in calls for item in bound):
            found |= {item.id for item in bound}
            calls |= {item.call_id for item in bound if item.call_id}
    return frozenset(found | {item.id for item in items if item.call_id in calls})


def _bound(items: Sequence[Item]) -> Iterator[list[Item]]:
    """What the assistant said from an opaque block on, up to the next word of others. Thinking may leave by itself."""
    for spoken, run in groupby(items, key=lambda item: item.role == "assistant"):
        if spoken:
            from_opaque = dropwhile(lambda item: item.kind != "opaque", run)
            yield [item for item in from_opaque if item.kind != "thinking"]
