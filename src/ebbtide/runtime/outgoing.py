"""Writes a view as the request body to send: valid, and with cache breakpoints.

Messages that the request before had as well are not written again. `reapply_edits` does the same without a session.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from ebbtide.core.cache.breakpoints import BreakpointSlot, BreakpointStrategy
from ebbtide.core.cache.prefix import PrefixHashes, count_same_objects, needs_breakpoints
from ebbtide.core.types import FIVE_MINUTES, FRONT, HOUR, Edit, Item
from ebbtide.core.view import View
from ebbtide.policy import Policy
from ebbtide.runtime.validation import Cache
from ebbtide.wire import WIRES, detect
from ebbtide.wire.blocks import digest, group_by_message, is_original
from ebbtide.wire.body import read_body
from ebbtide.wire.protocol import Repair
from ebbtide.wire.reader import EchoedEdits, Reader, Request, block_fingerprints, write_group
from ebbtide.wire.validity import repair


@dataclass(frozen=True, slots=True)
class _Columns:
    """Figures of the messages written so far. Requests that extend each other share the lists, which only grow."""

    starts: list[int] = field(default_factory=list)
    """Index of the first entry of each message."""
    messages: list[Any] = field(default_factory=list)
    """As written, before repair."""
    tokens: list[int] = field(default_factory=list)
    """Estimated tokens up to the end of each message."""
    breakpoints: list[int] = field(default_factory=list)
    """The client's own breakpoints up to the end of each message."""
    call_ids: set[str] = field(default_factory=set)

    def first(self, count: int, entries: Sequence[Item]) -> _Columns:
        """Return the columns of the first `count` messages, which have these entries. They are shared if that is all
        there is, and else copied: another request has grown the lists, or this one is shorter."""
        if count == len(self.starts):
            return self
        return _Columns(
            self.starts[:count],
            self.messages[:count],
            self.tokens[:count],
            self.breakpoints[:count],
            {entry.call_id for entry in entries if entry.kind == "call"},
        )


class Outgoing(NamedTuple):
    """A request as it is sent, kept so that the next request writes only what is new.

    It has 16 fields because each saves the next request a walk over all messages. It is a tuple because one or two are
    built for every request.
    """

    columns: _Columns
    body: Mapping[str, Any] = {}
    """Valid, with the client's own breakpoints only."""
    marked_body: Mapping[str, Any] = {}
    """The same with ours, see `add_breakpoints`."""
    breakpoints: tuple[BreakpointSlot, ...] = ()
    """Those that we added."""
    edits: tuple[Edit, ...] = ()
    terms: tuple[str, str, str] = ("", "", "")
    """Model, system prompt and tools that the messages were checked with."""
    entries: tuple[Item, ...] = ()
    hashes: PrefixHashes = PrefixHashes()
    message_count: int = 0
    """How many hashes there are: one for each message before repair."""
    repairs: tuple[Repair, ...] = ()
    edit_end: int = -1
    """Index of the last message that an edit wrote, edits on arrival apart; -1 if there is none."""
    standing: int = FRONT
    """Index of the last message that the newest batch of edits left as it was, although edits had written it."""
    hour: tuple[int, ...] = ()
    """What our breakpoints ask to keep for an hour, see `plan_hour`."""
    has_session_fields: bool = False
    """Whether `marked_body` has a cache key or a retention of ours."""
    previous_edit_end: int = -1
    """The same before the newest batch, if the messages up to there are unchanged: the provider still has them."""
    is_reusable: bool = True
    """Every group of entries gave one message, and none needed repair."""
    marked_messages: Mapping[int, tuple[Any, Any]] = {}
    """Messages that carry a breakpoint of ours, by identity of the message without it: that message, and the copy."""

    @property
    def tokens(self) -> int:
        return self.tokens_in(self.message_count)

    @property
    def edit_ends(self) -> tuple[int, int]:
        """Messages that deserve a breakpoint however far back they are."""
        return self.previous_edit_end, self.edit_end

    def tokens_in(self, messages: int) -> int:
        """Return the estimated tokens of the first messages."""
        return self.columns.tokens[messages - 1] if messages else 0

    def entries_in(self, messages: int) -> int:
        return self.columns.starts[messages] if messages < self.message_count else len(self.entries)

    def client_breakpoints_in(self, messages: int) -> int:
        return self.columns.breakpoints[messages - 1] if messages else 0

    def cut(self, entries: int) -> Outgoing:
        """Keep the messages that end at or before this entry."""
        count = self.message_count
        if entries < len(self.entries):
            count = bisect_right(self.columns.starts, entries, hi=count) - 1
        shared = self.entries if count == self.message_count else self.entries[: self.columns.starts[count]]
        columns = self.columns.first(count, shared)
        if columns is self.columns:
            return self
        edit_end = self.edit_end if self.edit_end < count else -1
        standing = self.standing if self.standing < count else FRONT
        hashes = self.hashes.extend_from(count, ())
        return self._replace(
            entries=shared, columns=columns, hashes=hashes, message_count=count, edit_end=edit_end, standing=standing
        )


def write_outgoing(request: Request, view: View, previous: Outgoing | None) -> Outgoing:
    """Write the view as a valid body. Messages that `previous` had, and that needed no repair, are taken over."""
    is_reused = previous is not None and previous.edits is view.edits and previous.is_reusable
    base = previous if previous is not None and is_reused else Outgoing(_Columns())
    base = base.cut(_count_same_entries(base.entries, view))
    terms = (request.model, request.system, request.tools)
    checked = base.message_count if base.terms == terms else 0
    groups, written = _write_new_messages(request, view, base)
    body: Mapping[str, Any] = request.body.tree
    if view.has_edits:
        messages = [*base.columns.messages, *(message for messages in written for message in messages)]
        body = {**body, request.wire.list_key: messages}
    body, repairs = repair(
        request.wire,
        body,
        since=checked,
        call_ids=base.columns.call_ids if checked else set[str](),
        breakpoints=base.client_breakpoints_in(checked),
        model=request.model,
    )
    edit_end = base.edit_end
    if view.edit_by_entry:
        for number, group in enumerate(groups, base.message_count):
            if any(_is_edited(view, entry) for entry in group):
                edit_end = number
    hashes = _add_messages(request, base, groups, written, has_edits=bool(view.edit_by_entry))
    previous_edit_end = -1 if is_reused or previous is None else _unchanged_edit_end(hashes, previous)
    return Outgoing(
        body=body,
        marked_body=body,
        edits=view.edits,
        terms=terms,
        entries=view.entries,
        columns=base.columns,
        hashes=hashes,
        message_count=len(hashes),
        repairs=repairs,
        edit_end=edit_end,
        previous_edit_end=previous_edit_end,
        standing=max(base.standing, previous_edit_end),
        is_reusable=not repairs and all(len(messages) == 1 for messages in written),
        marked_messages=base.marked_messages,
    )


def _write_new_messages(request: Request, view: View, base: Outgoing) -> tuple[list[list[Item]], list[list[Any]]]:
    """Return the entries of each new message, and the messages written from them."""
    groups = [group for _, group in group_by_message(view.entries[len(base.entries) :])]
    if view.has_edits:
        groups = _join_groups(groups, request.wire.messages.must_join)
    else:
        new = request.messages[base.message_count :]
        if len(groups) == len(new):
            # Every message has a group at least, so each is complete and is sent unchanged.
            return groups, [[message] for message in new]
    written = [write_group(request, view, group) for group in groups]
    return _split_groups(groups, written)


def _split_groups(groups: list[list[Item]], written: list[list[Any]]) -> tuple[list[list[Item]], list[list[Any]]]:
    """Let each entry that is a message of its own be one, so that the next request can take it over.

    A note in place of one of two calls made at the same time: OpenAI's Responses writes an item for each.
    """
    split: list[tuple[list[Item], list[Any]]] = []
    for group, messages in zip(groups, written, strict=True):
        if len(messages) == len(group) and not all(is_original(entry) for entry in group):
            split += [([entry], [message]) for entry, message in zip(group, messages, strict=True)]
        else:
            split.append((group, messages))
    return [group for group, _ in split], [messages for _, messages in split]


def _add_messages(
    request: Request, base: Outgoing, groups: Sequence[list[Item]], written: Sequence[list[Any]], *, has_edits: bool
) -> PrefixHashes:
    """Add messages to the columns of `base`, and return all hashes. `has_edits` if some entries may be ours."""
    columns, start = base.columns, len(base.entries)
    last_hash, new_hashes = base.hashes[-1] if start else "", list[str]()
    tokens, breakpoints = base.tokens, base.client_breakpoints_in(base.message_count)
    count_breakpoints = request.wire.messages.count_breakpoints
    for group, messages in zip(groups, written, strict=True):
        columns.starts.append(start)
        start += len(group)
        for entry in group:
            tokens += entry.tokens
            if entry.kind == "call":
                columns.call_ids.add(entry.call_id)
        # Hash fingerprints, not bytes: they are equal whether we wrote a block or a client sends it back. The id of an
        # original has its fingerprint, and a number that tells equal items apart.
        prints = (
            _fingerprints(request, group, messages) if has_edits else [entry.id.rpartition("-")[0] for entry in group]
        )
        last_hash = blake2b("\0".join([last_hash, *prints]).encode(), digest_size=8).hexdigest()
        new_hashes.append(last_hash)
        for message in messages:
            breakpoints += count_breakpoints(message)
        columns.tokens.append(tokens)
        columns.breakpoints.append(breakpoints)
        columns.messages.extend(messages)
    return base.hashes.extend_from(base.message_count, new_hashes)


def _fingerprints(request: Request, group: Sequence[Item], messages: Sequence[Any]) -> list[str]:
    """Return the fingerprints of the blocks of one message."""
    if all(is_original(entry) for entry in group):
        return [entry.id.rpartition("-")[0] for entry in group]
    return block_fingerprints(request.wire, messages)


_ON_ARRIVAL = frozenset({"offload_results", "offload_input", "limit_output", "truncate_results", "recall"})
"""Passes that edit what was never sent: such an edit is no border between cached and changed messages."""


def _is_edited(view: View, entry: Item) -> bool:
    edit = view.edit_by_entry.get(entry.id)
    return edit is not None and edit.by not in _ON_ARRIVAL


def _unchanged_edit_end(hashes: PrefixHashes, previous: Outgoing) -> int:
    """Return the last edited message of the previous request if the messages up to it are unchanged, else -1."""
    end = previous.edit_end
    is_same = 0 <= end < min(len(hashes), len(previous.hashes)) and hashes[end] == previous.hashes[end]
    return end if is_same else -1


def _join_groups(
    groups: Sequence[list[Item]], must_join: Callable[[Sequence[Item], Sequence[Item]], bool]
) -> list[list[Item]]:
    """Join neighbours that an edit brought together, so that `repair` need not do it with every request.

    Neighbours that the client sent as such are left to `repair`, which reports them.
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


def _count_same_entries(previous: tuple[Item, ...], view: View) -> int:
    """Count the leading entries that are the same objects: an equal one may have other bytes."""
    grown, count = view.grown_from
    return count if grown is previous else count_same_objects(previous, view.entries)


def needs_marks(request: Request, outgoing: Outgoing) -> bool:
    """Whether the provider would cache nothing of this request: it needs breakpoints, and the client set none."""
    cache = request.wire.cache
    if not cache.is_explicit or not needs_breakpoints(request.model):
        return False
    return not outgoing.client_breakpoints_in(outgoing.message_count) and not any(cache.outer_lifetimes(outgoing.body))


def add_breakpoints(
    request: Request, outgoing: Outgoing, strategy: BreakpointStrategy, hour: Sequence[int] = ()
) -> Outgoing:
    """Add cache breakpoints where the strategy wants them, beside the client's own.

    `hour` is what to keep for an hour: indexes of messages, and `FRONT`.
    """
    body, key = outgoing.body, request.wire.list_key
    messages, count = body[key], outgoing.message_count
    tokens: Sequence[int] = outgoing.columns.tokens[:count]
    edit_ends: Sequence[int] = outgoing.edit_ends
    if len(messages) != count:
        # Repair merged or added messages: spread the tokens evenly, since only sums and order matter here.
        share = outgoing.tokens // max(1, len(messages))
        tokens, edit_ends = [share * n for n in range(1, len(messages) + 1)], ()
        hour = [place for place in hour if place == FRONT]
    system, tools = request.overhead
    is_edited = outgoing.edit_end >= 0 or bool(outgoing.edits)
    slots = request.wire.cache.slots(body, tokens, (tools, system), (*edit_ends, *hour), is_edited=is_edited)
    chosen = strategy(_ask_for_an_hour(slots, hour) if hour else slots, model=request.model)
    if not chosen:
        return outgoing
    marked = request.wire.cache.add(body, chosen)
    indexes = {slot.index for slot in chosen if slot.section == "messages"}
    sent, copies = _reuse_copies(outgoing.marked_messages, messages, marked[key], indexes)
    hours = [slot.index if slot.section == "messages" else FRONT for slot in chosen if slot.ttl >= HOUR]
    return outgoing._replace(
        marked_body={**marked, key: sent},
        breakpoints=chosen,
        marked_messages=copies,
        hour=tuple(sorted(set(hours))) if hour else (),
    )


_MAX_SETTLED = 3
"""Of four breakpoints, one stays for the newest message."""


def _ask_for_an_hour(slots: Sequence[BreakpointSlot], hour: Sequence[int]) -> list[BreakpointSlot]:
    """Set the lifetimes, and choose the front and the places for an hour before the ends of edits.

    Longer lifetimes come first (A48), so everything up to the last place for an hour asks for one.
    """
    front = [n for n, slot in enumerate(slots) if slot.section != "messages" and slot.eligible][-1:]
    ends = [n for n, slot in enumerate(slots) if slot.settled]
    places = [n for n in ends if slots[n].index in hour]
    others = [n for n in reversed(ends) if n not in places]
    settled = set([*front, *places, *others][:_MAX_SETTLED])
    last = max(hour)
    return [
        slot._replace(
            settled=n in settled,
            ttl=HOUR if slot.section != "messages" or slot.index <= last else slot.ttl,
        )
        if slot.section != "messages" or slot.settled or slot.index <= last
        else slot
        for n, slot in enumerate(slots)
    ]


def raise_lifetimes(request: Request, outgoing: Outgoing) -> Outgoing:
    """Let the client's own breakpoints on system prompt and tools ask for an hour, unless any says how long."""
    counts, count = outgoing.columns.breakpoints, outgoing.message_count
    has_own = [bisect_left(counts, n, hi=count) for n in range(1, outgoing.client_breakpoints_in(count) + 1)]
    if len(outgoing.body[request.wire.list_key]) != count:
        return outgoing  # repair merged messages: their indexes do not fit
    if request.wire.cache.raise_front(outgoing.body, has_own) is outgoing.body:
        return outgoing
    raised = request.wire.cache.raise_front(outgoing.marked_body, ())
    return outgoing._replace(marked_body=raised, hour=tuple(sorted({FRONT, *outgoing.hour})))


_OPENAIS = re.compile(r"(gpt-(?!oss)|chatgpt-|codex-|o\d(-|$))")
"""How OpenAI's own models are named. Those of other servers get no key, unless the caller asks for it."""


def session_fields(request: Request, cache: Cache, session: str) -> Mapping[str, Any]:
    """Return the fields that keep a session's cache together at the provider, where the client set none.

    The key names nothing: it is a hash of the project, the session and the first message.
    """
    if cache.key is None and not _OPENAIS.match(request.model):
        return {}
    first = request.items[0].id if request.items else ""
    key = "" if cache.key is False else f"ebb-{digest([session, first])}"
    return request.wire.cache.session_fields(request.body.tree, key=key, retention=cache.retention or "")


def add_session_fields(outgoing: Outgoing, fields: Mapping[str, Any]) -> Outgoing:
    return outgoing._replace(marked_body={**outgoing.marked_body, **fields}, has_session_fields=True)


def remove_signatures(request: Request, outgoing: Outgoing, count: int) -> Outgoing:
    """Leave out the signatures of the first `count` messages of the request, which the provider refused."""
    remove, key = request.wire.remove_signatures, request.wire.list_key
    messages, starts = outgoing.marked_body[key], outgoing.columns.starts
    if remove is None:
        return outgoing
    if len(messages) == outgoing.message_count:
        is_foreign = [outgoing.entries[starts[n]].message < count for n in range(len(messages))]
    else:
        is_foreign = [True] * len(messages)  # repair merged messages: their indexes do not fit
    sent = [remove(message) if old else message for message, old in zip(messages, is_foreign, strict=True)]
    return outgoing._replace(marked_body={**outgoing.marked_body, key: sent})


def marked_messages(request: Request, outgoing: Outgoing) -> tuple[Sequence[int], float]:
    """Return the messages that carry a breakpoint, ours or the client's, and the shortest lifetime among them."""
    has_client_marks = outgoing.client_breakpoints_in(outgoing.message_count) > 0
    if not outgoing.breakpoints and not has_client_marks:
        return (), FIVE_MINUTES
    if has_client_marks or "cache_control" in outgoing.body:
        return request.wire.cache.present(outgoing.marked_body, outgoing.edit_ends)
    ours = [slot for slot in outgoing.breakpoints if slot.section == "messages"]
    return tuple(dict.fromkeys(slot.index for slot in ours)), min([slot.ttl for slot in ours], default=FIVE_MINUTES)


def _reuse_copies(
    known: Mapping[int, tuple[Any, Any]], bare: Sequence[Any], marked: Sequence[Any], indexes: Iterable[int]
) -> tuple[list[Any], dict[int, tuple[Any, Any]]]:
    """Use the last request's object for a message with the same breakpoint: `emit` knows that object's bytes."""
    copies: dict[int, tuple[Any, Any]] = {}
    sent = list(marked)
    for n in indexes:
        _, copy = known.get(id(bare[n]), (None, None))
        sent[n] = copy if copy == sent[n] else sent[n]
        copies[id(bare[n])] = (bare[n], sent[n])
    return sent, copies


class ReappliedRequest(NamedTuple):
    body: Any
    """In the form of the input; the same object if no edit applies."""
    tokens: int
    """As the policy's estimator counts, without calibration."""
    tokens_untouched: int
    edited: bool


def reapply_edits(
    body: Mapping[str, Any] | bytes | str, edits: Sequence[Edit], *, policy: Policy, wire: str | None = None
) -> ReappliedRequest:
    """Apply recorded edits to a body, and plan nothing: what `prepare` would send if it had nothing to add.

    For requests that must not change a session (a count, a client's own compaction), and as the fallback after an error
    of ours. Uses no lock, no log and no memory.
    """
    parsed = read_body(body, None)
    format_ = WIRES[wire] if wire else detect(parsed.tree)
    echoes = EchoedEdits().learn(format_, edits)
    request = Reader(policy.estimator, wire=format_, echoes=echoes.by_fingerprint).read(parsed)
    if request.partial_history_reason:
        return ReappliedRequest(body, 0, 0, False)
    view = View.of(request.items, edits)
    outgoing = write_outgoing(request, view, None)
    if policy.marks is not None and view.has_edits:
        outgoing = add_breakpoints(request, outgoing, policy.marks)
    overhead = sum(request.overhead)
    untouched = sum(item.tokens for item in view.originals)
    return ReappliedRequest(
        request.body.emit(outgoing.marked_body), view.tokens + overhead, untouched + overhead, view.has_edits
    )
