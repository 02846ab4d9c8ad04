"""From a view to the body that goes out: written, hardened, marked. Only what is new is written again."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from ebbtide.core.cache.breakpoints import BreakpointSlot, BreakpointStrategy
from ebbtide.core.cache.prefix_hashes import PrefixHashes, leading_matches
from ebbtide.core.types import Edit, Item
from ebbtide.core.view import View
from ebbtide.wire.blocks import fingerprint, group_by_message, is_original
from ebbtide.wire.protocol import Repair
from ebbtide.wire.reader import Request, write_group
from ebbtide.wire.validity import repair


@dataclass(slots=True, kw_only=True)
class Outgoing:
    """What went out, kept to extend it next time: the lists grow in place, one place a message."""

    edits: tuple[Edit, ...] = ()
    around: tuple[str, str, str] = ("", "", "")
    """Model, system prompt and tools: the hardener has judged them."""
    entries: tuple[Item, ...] = ()
    starts: list[int] = field(default_factory=list)
    """Place in `entries` where each message begins."""
    written: list[Any] = field(default_factory=list)
    """Messages before hardening."""
    chain: PrefixHashes = field(default_factory=PrefixHashes)
    """Chained hash after each message."""
    tokens: list[int] = field(default_factory=list)
    """Up to and with each message."""
    marked: list[int] = field(default_factory=list)
    """Breakpoints up to and with each message, whoever set them."""
    calls: set[str] = field(default_factory=set)
    """Ids of all calls, for the hardener."""
    tree: Mapping[str, Any] = field(default_factory=dict, repr=False)
    repairs: tuple[Repair, ...] = ()
    settled: int = -1
    """The last message that an edit wrote, but for edits of what had just arrived; -1 if there is none."""
    was_settled: int = -1
    """The same before the newest batch, where that left it as it was: there the provider still reads."""
    reusable: bool = True
    """Each group of entries gave one message, and none needed repair."""
    stamped: dict[int, tuple[Any, Any]] = field(default_factory=dict, repr=False)
    """Messages that carry a breakpoint of ours, by the identity of the one without: it and its copy."""

    @property
    def ends(self) -> tuple[int, int]:
        """Where edits end, and ended before: messages worth a mark however far back."""
        return self.was_settled, self.settled

    def cut(self, entries: int) -> None:
        """Keep the messages that end at or before this entry."""
        if entries == len(self.entries):
            return
        n = bisect_right(self.starts, entries) - 1
        self.calls -= {entry.call_id for entry in self.entries[self.starts[n] :] if entry.kind == "call"}
        self.entries = self.entries[: self.starts[n]]
        self.chain = self.chain.extend_from(n, ())
        for run in (self.starts, self.written, self.marked):
            del run[n:]
        self.tokens = self.tokens[:n]  # a report may hold the longer one
        self.settled = self.settled if self.settled < n else -1

    def add(
        self, request: Request, groups: Sequence[Sequence[Item]], written: Sequence[Sequence[Any]], authored: bool
    ) -> None:
        """Messages, one for each group of entries; `authored` where some of these may be ours."""
        at, links = len(self.entries), list[str]()
        link = self.chain[-1] if at else ""
        tokens, marks = self.tokens_in(len(self.tokens)), self.marks_in(len(self.marked))
        breakpoints = request.wire.cache.count
        for group, messages in zip(groups, written, strict=True):
            self.starts.append(at)
            at += len(group)
            for entry in group:
                tokens += entry.tokens
                if entry.kind == "call":
                    self.calls.add(entry.call_id)
            # Fingerprints chain instead of bytes: the same whether we authored a block or a client feeds it back. Of an
            # original its id says it, but for the number that tells equals apart.
            told = (
                _fingerprints(request, group, messages)
                if authored
                else [entry.id.rpartition("-")[0] for entry in group]
            )
            link = blake2b("\0".join([link, *told]).encode(), digest_size=8).hexdigest()
            links.append(link)
            for message in messages:
                marks += breakpoints(message)
            self.tokens.append(tokens)
            self.marked.append(marks)
            self.written += messages
        self.chain = self.chain.extend_from(len(self.chain), links)

    def tokens_in(self, messages: int) -> int:
        """Of the first so many messages."""
        return self.tokens[messages - 1] if messages else 0

    def entries_in(self, messages: int) -> int:
        return self.starts[messages] if messages < len(self.starts) else len(self.entries)

    def marks_in(self, messages: int) -> int:
        return self.marked[messages - 1] if messages else 0


def _fingerprints(request: Request, group: Sequence[Item], messages: Sequence[Any]) -> list[str]:
    """Of the blocks of one message."""
    if all(is_original(entry) for entry in group):
        return [entry.id.rpartition("-")[0] for entry in group]
    wire = request.wire
    blocks = [block for message in messages for block in wire.messages.split(message, wire.list_key)]
    return [fingerprint(block.role, block.kind, block.canonical) for block in blocks]


def write_outgoing(request: Request, view: View, last: Outgoing | None) -> Outgoing:
    """Write and harden a view. What the last one began with, and needed no repair, is not touched again.

    `last` is taken over: it must not be used afterwards.
    """
    made = last if last is not None and last.edits is view.edits and last.reusable else Outgoing()
    made.reusable = False  # until all of this has gone well
    made.cut(_same_entries(made.entries, view))
    around = (request.model, request.system, request.tools)
    accepted = len(made.written) if made.around == around else 0
    groups, written = _written(request, view, made)
    tree: Mapping[str, Any] = request.body.tree
    if view.has_edits:
        whole = [*made.written, *(message for messages in written for message in messages)]
        tree = {**tree, request.wire.list_key: whole}
    known, marks = (made.calls, made.marks_in(accepted)) if accepted else (set[str](), 0)
    made.tree, made.repairs = repair(request.wire, tree, since=accepted, call_ids=known, breakpoints=marks)
    if view.edit_by_entry:
        first = len(made.starts)
        ends = [n for n, group in enumerate(groups, first) if any(_is_settled(view, entry) for entry in group)]
        made.settled = ends[-1] if ends else made.settled
    made.add(request, groups, written, bool(view.edit_by_entry))
    made.was_settled = _still(made, last)
    made.edits, made.around, made.entries = view.edits, around, view.entries
    made.reusable = not made.repairs and set(map(len, written)) <= {1}
    return made


def _written(request: Request, view: View, made: Outgoing) -> tuple[list[list[Item]], list[list[Any]]]:
    """What is new of a view: the entries of each message, and the messages that they make."""
    groups = [group for _, group in group_by_message(view.entries[len(made.entries) :])]
    if not view.has_edits:
        new = request.messages[len(made.written) :]
        if len(groups) == len(new):
            # Every message has a group at least: each is whole, and goes out as it came.
            return groups, [[message] for message in new]
    else:
        groups = _joined(groups, request.wire.messages.must_join)
    return groups, [write_group(request, view, group) for group in groups]


_ARRIVING = frozenset({"offload_results", "offload_input", "limit_output", "truncate_results", "recall"})
"""Who changes what was never sent: where they did, old and new have not met yet."""


def _still(made: Outgoing, last: Outgoing | None) -> int:
    """Where edits ended before, if a new batch left all up to there as it was."""
    at = last.settled if last is not None and last is not made else -1
    kept = last is not None and 0 <= at < len(made.chain) and at < len(last.chain) and made.chain[at] == last.chain[at]
    return at if kept else -1


def _is_settled(view: View, entry: Item) -> bool:
    owner = view.edit_by_entry.get(entry.id)
    return owner is not None and owner.by not in _ARRIVING


def _joined(
    groups: Sequence[list[Item]], must_join: Callable[[Sequence[Item], Sequence[Item]], bool]
) -> list[list[Item]]:
    """Join neighbours that an edit brought together, so that `repair` need not do it with every request.

    Neighbours that came as such are left to `repair`, which reports them.
    """
    joined: list[list[Item]] = []
    for group in groups:
        last = joined[-1] if joined else None
        if last and _side(last) == _side(group) and must_join(last, group):
            last += group
        else:
            joined.append(group)
    return joined


def _side(group: Sequence[Item]) -> str:
    return group[0].role if group[0].role in ("assistant", "system") else "user"


def _same_entries(before: tuple[Item, ...], view: View) -> int:
    """How many leading entries are the same objects: an equal one may have other bytes."""
    grown, count = view.grown_from
    return count if grown is before else leading_matches([*map(id, before)], [*map(id, view.entries)])


def add_breakpoints(
    request: Request, made: Outgoing, strategy: BreakpointStrategy
) -> tuple[Mapping[str, Any], tuple[BreakpointSlot, ...]]:
    """The body with breakpoints where the strategy wants them, beside the client's own."""
    messages = made.tree[request.wire.list_key]
    tokens: Sequence[int] = made.tokens
    if len(messages) != len(tokens):
        # Hardening merged or added messages: spread evenly, since only sums and order matter here.
        share = made.tokens_in(len(made.tokens)) // max(1, len(messages))
        tokens = [share * n for n in range(1, len(messages) + 1)]
    system, tools = request.overhead
    ends = made.ends if len(messages) == len(made.tokens) else ()
    places = request.wire.cache.slots(made.tree, tokens, (tools, system), ends)
    chosen = strategy(places, model=request.model)
    if not chosen:
        return made.tree, ()
    tree = request.wire.cache.add(made.tree, chosen)
    marked_at = {place.index for place in chosen if place.section == "messages"}
    return {**tree, request.wire.list_key: _as_before(made, messages, tree[request.wire.list_key], marked_at)}, chosen


def _as_before(made: Outgoing, bare: Sequence[Any], stamped: Sequence[Any], places: Iterable[int]) -> list[Any]:
    """Where a message carries what it carried the last time it is the same object: what wrote it then knows it."""
    now: dict[int, tuple[Any, Any]] = {}
    out = list(stamped)
    for n in places:
        _, copy = made.stamped.get(id(bare[n]), (None, None))
        out[n] = copy if copy == out[n] else out[n]
        now[id(bare[n])] = (bare[n], out[n])
    made.stamped = now
    return out
