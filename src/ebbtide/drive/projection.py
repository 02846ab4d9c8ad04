"""From a view to the body that goes out: written, hardened, marked. Only what is new is written again."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from ebbtide.core.marks import Place, Strategy
from ebbtide.core.types import Edit, Item
from ebbtide.core.view import View
from ebbtide.wire.reading import Request, write_group
from ebbtide.wire.shape import grouped
from ebbtide.wire.validity import Repair, harden


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """What went out, kept to extend it next time. The tuples run in step: one place a message."""

    edits: tuple[Edit, ...] = ()
    around: tuple[str, str, str] = ("", "", "")
    """Model, system prompt and tools: the hardener has judged them."""
    entries: tuple[Item, ...] = ()
    starts: tuple[int, ...] = ()
    """Place in `entries` where each message begins."""
    written: tuple[Any, ...] = ()
    """Messages before hardening."""
    chain: tuple[str, ...] = ()
    """Chained hash after each message."""
    tokens: tuple[int, ...] = ()
    marked: tuple[int, ...] = ()
    """Breakpoints in each message, whoever set them."""
    calls: AbstractSet[str] = frozenset()
    """Ids of all calls, for the hardener."""
    tree: Mapping[str, Any] = field(default_factory=dict, repr=False)
    repairs: tuple[Repair, ...] = ()
    reusable: bool = True
    """Each group of entries gave one message, and none needed repair."""

    def upto(self, entries: int) -> Projection:
        """The messages that end at or before this entry."""
        n = bisect_right(self.starts, entries)
        if entries < len(self.entries):
            n -= 1
        if n == len(self.starts):
            return self
        gone = {entry.call_id for entry in self.entries[self.starts[n] :] if entry.kind == "call"}
        return Projection(
            entries=self.entries[: self.starts[n]],
            starts=self.starts[:n],
            written=self.written[:n],
            chain=self.chain[:n],
            tokens=self.tokens[:n],
            marked=self.marked[:n],
            calls=self.calls - gone,
        )


_NEAR = 24
"""Entries at the end that may differ from the last time: clients move cache marks there."""


def project(request: Request, view: View, last: Projection | None) -> Projection:
    """Write and harden a view. What the last one began with, and needed no repair, is not touched again."""
    kept = _NOTHING
    if last is not None and last.edits is view.edits and last.reusable:
        kept = last.upto(_alike(last.entries, view.entries))
    new = view.entries[len(kept.entries) :]
    groups = [group for _, group in grouped(new)]
    written = [write_group(request, view, group) for group in groups]
    flat = [message for messages in written for message in messages]
    whole = [*kept.written, *flat]
    # An edit that only drops owns no entry.
    edited = view.owner or len(view.entries) != len(view.items)
    tree: Mapping[str, Any] = {**request.body.tree, request.wire.key: whole} if edited else request.body.tree
    around = (request.model, request.system, request.tools)
    tree, repairs = _hardened(request, tree, kept if last is not None and last.around == around else _NOTHING)
    return Projection(
        edits=view.edits,
        around=around,
        entries=view.entries,
        starts=kept.starts + _starts(len(kept.entries), groups),
        written=tuple(whole),
        chain=kept.chain + _chained(kept.chain[-1] if kept.chain else "", groups),
        tokens=kept.tokens + tuple(sum(entry.tokens for entry in group) for group in groups),
        marked=kept.marked + tuple(request.wire.breakpoints(message) for message in flat),
        calls=kept.calls | {entry.call_id for entry in new if entry.kind == "call"},
        tree=tree,
        repairs=repairs,
        reusable=not repairs and all(len(messages) == 1 for messages in written),
    )


_NOTHING = Projection()


def _alike(before: Sequence[Item], now: Sequence[Item]) -> int:
    """How many leading entries are the same objects, where they differ only near the end; else none."""
    most = min(len(before), len(now))
    n = next((n for n in range(most, max(0, most - _NEAR), -1) if before[n - 1] is now[n - 1]), 0)
    return n if before[:n] == now[:n] else 0


def _starts(first: int, groups: Sequence[Sequence[Item]]) -> tuple[int, ...]:
    return tuple(accumulate((len(group) for group in groups[:-1]), initial=first)) if groups else ()


def _hardened(
    request: Request, tree: Mapping[str, Any], accepted: Projection
) -> tuple[Mapping[str, Any], tuple[Repair, ...]]:
    wire: Any = request.wire.name
    return harden(wire, tree, since=len(accepted.written), taken=accepted.calls, marked=sum(accepted.marked))


def _chained(link: str, groups: Sequence[Sequence[Item]]) -> tuple[str, ...]:
    """An entry's id says all of its content, so the ids of a message chain instead of its bytes."""
    chain = []
    for group in groups:
        told = "\0".join([link, *(entry.id for entry in group)])
        link = hashlib.blake2b(told.encode(), digest_size=8).hexdigest()
        chain.append(link)
    return tuple(chain)


def marked(request: Request, made: Projection, strategy: Strategy) -> tuple[Mapping[str, Any], tuple[Place, ...]]:
    """The body with breakpoints where the strategy wants them, beside the client's own."""
    messages = made.tree[request.wire.key]
    if len(messages) != len(made.tokens):
        # Hardening merged or added messages: spread evenly, since only sums and order matter here.
        share = sum(made.tokens) // max(1, len(messages))
        tokens: Sequence[int] = [share] * len(messages)
    else:
        tokens = made.tokens
    system, tools = request.overhead
    places = request.wire.places(made.tree, tokens, (tools, system))
    chosen = strategy(places, model=request.model)
    return (request.wire.mark(made.tree, chosen), chosen) if chosen else (made.tree, ())
