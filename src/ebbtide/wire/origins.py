"""Finds where the blocks of a prepared request come from, for adapters that keep objects of their own."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ebbtide.core.types import Item
from ebbtide.wire.blocks import is_original
from ebbtide.wire.protocol import Wire
from ebbtide.wire.reader import block_fingerprints


class Origin(NamedTuple):
    """A block of the request that was passed to `prepare`."""

    message: int
    """Which message."""
    block: int
    """Which block of the message; 0 if its content is a text."""


def find_origins(
    wire: Wire, messages: Sequence[Any], items: Sequence[Item], entries: Iterable[Item]
) -> list[list[Origin | None]]:
    """Return for each message where its blocks come from; None for a block that is new or was changed.

    `items` are the request's own, and `entries` what the view sends. Both are in the order of the messages, so of equal
    blocks each finds its own origin.
    """
    places = _places(items)
    positions: dict[str, list[int]] = {}
    sent = [entry for entry in entries if is_original(entry)]
    for position, entry in enumerate(sent):
        positions.setdefault(entry.id.rpartition("-")[0], []).append(position)
    origins, after = list[list[Origin | None]](), 0
    for message in messages:
        found: list[Origin | None] = []
        for fingerprint in block_fingerprints(wire, [message]):
            candidates = positions.get(fingerprint, [])
            at = bisect_left(candidates, after)
            if at == len(candidates):
                found.append(None)
                continue
            after = candidates[at] + 1
            found.append(places[sent[candidates[at]].id])
        origins.append(found)
    return origins


def _places(items: Sequence[Item]) -> Mapping[str, Origin]:
    """Return the place of each item by its id."""
    places: dict[str, Origin] = {}
    message, block = -1, 0
    for item in items:
        block = block + 1 if item.message == message else 0
        message = item.message
        places[item.id] = Origin(message, block)
    return places
