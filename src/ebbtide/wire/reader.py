"""Reads the requests of one session, each time only what is new, and writes views back.

Unchanged messages are recognised by identity (dicts) or comparison of bytes, never hashed again. Changing an old
message in place is not supported: an agent that does so must give a new object.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ebbtide.core.errors import BadRequest
from ebbtide.core.tokens.estimator import Estimator
from ebbtide.core.types import HARNESS, OURS, Item
from ebbtide.core.view import View
from ebbtide.wire import detect
from ebbtide.wire.blocks import Block, as_str, canonical_json, digest, fingerprint, group_by_message
from ebbtide.wire.body import SYSTEM_AND_TOOLS, ParsedBody, is_equal, read_body, to_plain
from ebbtide.wire.echoes import ReplacedItems
from ebbtide.wire.protocol import Wire


class Request(NamedTuple):
    """A body, read."""

    wire: Wire
    body: ParsedBody
    items: tuple[Item, ...]
    unchanged_items: int
    """Leading items that the request before already had."""
    first_items: list[int]
    """Place in `items` where each message begins."""
    model: str
    max_output: int
    system: str
    """Hash of the system prompt; it has no place in ids."""
    tools: str
    overhead: tuple[int, int]
    """Tokens of system prompt and tools."""
    partial_history_reason: str
    """Why this body must go out untouched, or empty."""
    thinking_bound_to_prefix: bool
    number: int
    """Which of the reader's requests this is: `unchanged_items` and `body.unchanged` compare with the one before."""

    @property
    def messages(self) -> list[Any]:
        return self.body.messages

    def original(self, message: int) -> Any:
        messages = self.body.messages
        return messages[message] if 0 <= message < len(messages) else None

    def count_blocks(self, message: int) -> int:
        after = self.first_items[message + 1] if message + 1 < len(self.first_items) else len(self.items)
        return after - self.first_items[message]


class _Around(NamedTuple):
    """System prompt and tools, and what is known of them."""

    values: tuple[Any, Any]
    system: str
    tools: str
    overhead: tuple[int, int]


@dataclass(slots=True)
class Reader:
    """The memory that makes reading cost what is new."""

    estimator: Estimator
    wire: Wire | None = None
    """Told by the caller, or found from the first body."""
    echoes: Mapping[str, Sequence[ReplacedItems]] = field(default_factory=dict)
    """What each replacement replaces, as `EchoedEdits.by_fingerprint`: replacements that come back are left alone."""
    pinned: Collection[str] = frozenset()
    """Ids of items that a person wants to stay."""
    _last: Request | None = None
    _wire: Wire | None = None
    """Of the last body that was read, also where it was refused or is forgotten."""
    _seen: dict[str, int] = field(default_factory=dict)
    """How often each content occurs in the last request."""
    _names: dict[str, str] = field(default_factory=dict)
    _around: _Around | None = None
    _number: int = 0

    def read(
        self, request: Mapping[str, Any] | bytes | bytearray | str | ParsedBody, *, at: float | None = None
    ) -> Request:
        """Items of a request, the new ones made anew. BadRequest where it is none."""
        try:
            return self._read(request, at)
        except RecursionError:
            self._last = None
            raise BadRequest("nested too deeply") from None

    def _read(self, request: Mapping[str, Any] | bytes | bytearray | str | ParsedBody, at: float | None) -> Request:
        last = self._last
        body = read_body(request, last.body if last else None)
        wire = self.wire or detect(body.tree)
        if wire.list_key not in body.tree:
            raise BadRequest(f"`{wire.list_key}` is missing", path=wire.list_key)
        if last is not None and last.wire is not wire:
            last, body.unchanged = None, 0
        self._wire = wire
        self._number += 1
        self._last = None  # should this fail, the next one is read whole: what they share has grown already
        surroundings = self._surroundings(wire, body.tree)
        items, firsts, same = self._items(wire, body, last, at)
        self._last = Request(
            wire=wire,
            body=body,
            items=items,
            unchanged_items=same,
            first_items=firsts,
            model=as_str(body.tree.get("model")),
            max_output=wire.messages.max_output(body.tree),
            system=surroundings.system,
            tools=surroundings.tools,
            overhead=surroundings.overhead,
            partial_history_reason=wire.messages.partial_history_reason(body.tree),
            thinking_bound_to_prefix=wire.messages.thinking_bound_to_prefix(body.tree),
            number=self._number,
        )
        return self._last

    @property
    def last_wire(self) -> Wire | None:
        return self._wire or self.wire

    def forget(self) -> None:
        """Read the next request whole: what is pinned or ours has changed."""
        self._last = None

    def predict_ids(self, wire: Wire, message: Any, after: Sequence[Item] | None = None) -> list[str]:
        """The ids a message would get if it came next, or after these items, without reading it in."""
        counts: dict[str, int] = {}
        ids = []
        newest = after is None or (self._last is not None and after is self._last.items)
        before = self._seen if newest or after is None else self._counts(after)
        for block in wire.messages.split(message, wire.list_key):
            mark = fingerprint(block.role, block.kind, block.canonical)
            occurrence = counts.get(mark) or before.get(mark, 0)
            ids.append(f"{mark}-{occurrence}")
            counts[mark] = occurrence + 1
        return ids

    def _items(
        self, wire: Wire, body: ParsedBody, last: Request | None, at: float | None
    ) -> tuple[tuple[Item, ...], list[int], int]:
        messages, blocks, key = body.messages, wire.messages.split, wire.list_key
        # All of the new messages first: one that is no message must not leave half of a request counted.
        blocks_by_message = [blocks(messages[n], f"{key}.{n}") for n in range(body.unchanged, len(messages))]
        counts = iter(self._counted([block for message_blocks in blocks_by_message for block in message_blocks]))
        unchanged, firsts = self._kept(last, body.unchanged)
        new, item, before = list[Item](), self._item, len(unchanged)
        for n, found in enumerate(blocks_by_message, body.unchanged):
            firsts.append(before + len(new))
            for block in found:
                new.append(item(block, n, at, next(counts)))
        return unchanged + tuple(new), firsts, before

    def _kept(self, last: Request | None, message_count: int) -> tuple[tuple[Item, ...], list[int]]:
        """The items of the first messages of the last request, which this one has too, and where each begins."""
        if last is None or not message_count:
            self._seen = {}
            return (), []
        if message_count == len(last.first_items):
            return last.items, last.first_items
        first = last.first_items[message_count]
        dropped, unchanged = last.items[first:], last.items[:first]
        for item in dropped:
            self._seen[item.id.rpartition("-")[0]] -= 1
        if any(item.source == OURS for item in dropped):
            self._recount(unchanged)
        return unchanged, last.first_items[:message_count]

    def _recount(self, items: Sequence[Item]) -> None:
        """A stand-in went, and what it stood for is no longer counted."""
        self._seen = self._counts(items)

    def _counts(self, items: Sequence[Item]) -> dict[str, int]:
        """How often each content occurs in these, and in what stand-ins of ours among them stand for."""
        counts: dict[str, int] = {}
        for item in items:
            mark, _, number = item.id.rpartition("-")
            counts[mark] = int(number) + 1
            self._count_left(mark, int(number), counts)
        return counts

    def _count_left(self, mark: str, occurrence: int, counts: dict[str, int]) -> None:
        """What left for a stand-in of ours was there: the next of its equals is the next."""
        replacements = self.echoes.get(mark, ())
        for replaced, times in replacements[occurrence].items() if occurrence < len(replacements) else ():
            counts[replaced] = max(times, counts.get(replaced, 0))

    def _item(self, block: Block, message: int, at: float | None, tokens: int) -> Item:
        kind, call_id, name, tier, source = block.kind, block.call_id, block.name, block.tier, block.source
        mark = fingerprint(block.role, kind, block.canonical)
        occurrence = self._seen.get(mark, 0)
        self._seen[mark] = occurrence + 1
        if call_id:
            if kind == "call":
                self._names[call_id] = name
            name = name or self._names.get(call_id, "")
        if mark in self.echoes:
            # A note of ours comes back on the user's side, and is not the user's words for it.
            tier, source = max(tier, HARNESS), OURS
            self._count_left(mark, occurrence, self._seen)
        id = f"{mark}-{occurrence}"
        return Item(
            id=id, message=message, role=block.role, kind=kind, text=block.text, tokens=tokens,
            name=name if call_id else "", call_id=call_id, trust=tier, source=source, media=block.media, at=at,
            pinned=id in self.pinned, locked=block.locked, raw=block.raw,
        )  # fmt: skip

    def _counted(self, blocks: list[Block]) -> list[int]:
        """Tokens of each."""
        estimator = self.estimator
        counts = estimator.blocks([block.kind for block in blocks], [block.text for block in blocks])
        for n, block in enumerate(blocks):
            if block.signature:
                counts[n] = estimator.thinking(block.text, block.signature)
            elif block.media:
                counts[n] += sum(map(estimator.image, block.pixels)) + estimator.document(block.pages)
        return counts

    def _surroundings(self, wire: Wire, tree: Mapping[str, Any]) -> _Around:
        system, tools = wire.messages.system_and_tools(tree)
        previous = self._around
        if previous is not None and is_equal((system, tools), previous.values):
            return previous
        for name in SYSTEM_AND_TOOLS & tree.keys():
            to_plain(tree[name], name)
        words = system if isinstance(system, str) else canonical_json(system) if system else ""
        schemas = tools if isinstance(tools, list) else []
        counted = sum(self.estimator.tool(canonical_json(tool)) for tool in schemas)
        overhead = self.estimator.text(words), counted
        self._around = _Around((system, tools), digest(system), digest(tools), overhead)
        return self._around


def write_messages(request: Request, view: View) -> list[Any]:
    """The entries of a view as messages. Whole untouched messages are the same objects."""
    return [message for _, group in group_by_message(view.entries) for message in write_group(request, view, group)]


def write_group(request: Request, view: View, group: Sequence[Item]) -> list[Any]:
    """Entries that stand together in one message."""
    message = group[0].message
    original = request.original(message)
    if original is None or _touched(view, group):
        return request.wire.messages.join(original, group)
    is_complete = len(group) == request.count_blocks(message) and group[-1].message == message
    return [original] if is_complete else request.wire.messages.join(original, group)


def _touched(view: View, group: Sequence[Item]) -> bool:
    return bool(view.edit_by_entry) and any(entry.id in view.edit_by_entry for entry in group)
