"""Read the requests of one session into items, each time only the new messages, and write views back as messages.

Unchanged messages are recognized by identity (dicts) or by their bytes, and not hashed again. Do not change an old
message in place: pass a new object instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, takewhile
from typing import Any, NamedTuple

from ebbtide.core.errors import BadRequest
from ebbtide.core.tokens.estimator import Estimator
from ebbtide.core.types import HARNESS, OURS, Edit, Item
from ebbtide.core.view import View
from ebbtide.wire import FRONT_FIELDS, guess, recognize
from ebbtide.wire.blocks import (
    BY_ORDER,
    SCHEME,
    Block,
    answer_in_order,
    as_str,
    canonical_json,
    digest,
    group_by_message,
)
from ebbtide.wire.body import ParsedBody, is_equal, read_body, to_plain
from ebbtide.wire.protocol import Wire


class Request(NamedTuple):
    """One request, split into items."""

    wire: Wire
    body: ParsedBody
    items: tuple[Item, ...]
    unchanged_items: int
    """How many leading items the previous request had too."""
    first_items: list[int]
    """Index in `items` of each message's first item."""
    model: str
    max_output: int
    system: str
    """Hash of the system prompt, which is not part of any id."""
    tools: str
    overhead: tuple[int, int]
    """Tokens of system prompt and tools."""
    partial_history_reason: str
    """Why this body must be sent untouched, or ''."""
    thinking_bound_to_prefix: bool
    number: int
    """Which of the reader's requests this is: `unchanged_items` and `body.unchanged` compare with the one before."""

    @property
    def messages(self) -> list[Any]:
        return self.body.messages

    @property
    def fixed(self) -> int:
        """Tokens that no edit can remove: system prompt and tools, also where the system prompt is among the items."""
        return sum(self.overhead) + sum(item.tokens for item in takewhile(_is_system, self.items))

    def original(self, message: int) -> Any:
        messages = self.body.messages
        return messages[message] if 0 <= message < len(messages) else None

    def count_blocks(self, message: int) -> int:
        after = self.first_items[message + 1] if message + 1 < len(self.first_items) else len(self.items)
        return after - self.first_items[message]


def _is_system(item: Item) -> bool:
    return item.role == "system"


class _SystemAndTools(NamedTuple):
    """System prompt and tools, with their hashes and token counts."""

    values: list[Any]
    """Both, and the fields that hold more than they."""
    system: str
    tools: str
    overhead: tuple[int, int]


class ReplacedItems(NamedTuple):
    """A slice of all items that edits replaced. A compaction covers everything before it, too."""

    all: list[tuple[str, int]]
    """Fingerprint, and how often it had occurred when it was replaced."""
    first: int
    end: int

    def items(self) -> Sequence[tuple[str, int]]:
        return self.all[self.first : self.end]


@dataclass(slots=True)
class Reader:
    """Reads one request after another and remembers the last one, so that only new messages are split and hashed."""

    estimator: Estimator
    wire: Wire | None = None
    """The only wire to read; None to detect it."""
    echoes: Mapping[str, Sequence[ReplacedItems]] = field(default_factory=dict)
    """What each replacement replaces, as `EchoedEdits.by_fingerprint`: replacements that come back are left alone."""
    pinned: Collection[str] = frozenset()
    """Ids of items that the user pinned."""
    model: str = ""
    """The model of a body that names none: some providers have it in the path."""
    _last: Request | None = None
    _wire: Wire | None = None
    """Of the last body, even if it was refused or forgotten."""
    _is_recognized: bool = False
    """Whether that body could be of no other wire, so that those that continue it need not be looked at."""
    _seen: dict[str, int] = field(default_factory=dict)
    """How often each fingerprint occurs in the last request."""
    _names: dict[str, str] = field(default_factory=dict)
    _system_and_tools: _SystemAndTools | None = None
    _number: int = 0

    def read(
        self, request: Mapping[str, Any] | bytes | bytearray | str | ParsedBody, *, at: float | None = None
    ) -> Request:
        """Read a request. Raise `BadRequest` if it is none."""
        try:
            return self._read(request, at)
        except RecursionError:
            self._last = None
            raise BadRequest("nested too deeply") from None

    def _read(self, request: Mapping[str, Any] | bytes | bytearray | str | ParsedBody, at: float | None) -> Request:
        last = self._last
        body = read_body(request, last.body if last else None)
        is_continued = last is not None and body.unchanged > 0 and last.wire.list_key == body.list_key
        wire = self.wire or (last.wire if last and is_continued and self._is_recognized else self._detect(body.tree))
        if wire.list_key not in body.tree:
            raise BadRequest(f"`{wire.list_key}` is missing", path=wire.list_key)
        if wire.list_key != body.list_key:
            raise BadRequest(f"beside `{wire.list_key}` there is another conversation", path=body.list_key)
        if last is not None and last.wire is not wire:
            last, body.unchanged = None, 0
        self._wire = wire
        self._number += 1
        self._last = None  # if this fails, the next request is read from its beginning
        system_and_tools = self._read_system_and_tools(wire, body.tree)
        items, firsts, same = self._read_items(wire, body, last, at)
        # Vertex AI has the model in the path.
        named = body.tree if "model" in body.tree or not self.model else {**body.tree, "model": self.model}
        self._last = Request(
            wire=wire,
            body=body,
            items=items,
            unchanged_items=same,
            first_items=firsts,
            model=as_str(body.tree.get(wire.turns.model_field)) or as_str(body.tree.get("model")) or self.model,
            max_output=wire.messages.max_output(body.tree),
            system=system_and_tools.system,
            tools=system_and_tools.tools,
            overhead=system_and_tools.overhead,
            partial_history_reason=wire.messages.partial_history_reason(body.tree),
            thinking_bound_to_prefix=wire.messages.thinking_bound_to_prefix(named),
            number=self._number,
        )
        return self._last

    def _detect(self, tree: Mapping[str, Any]) -> Wire:
        wire = recognize(tree)
        self._is_recognized = wire is not None
        return wire or guess(tree)

    @property
    def last_wire(self) -> Wire | None:
        return self._wire or self.wire

    def forget(self) -> None:
        """Read the next request from its beginning, because `pinned` or `echoes` changed."""
        self._last = None

    def predict_ids(self, wire: Wire, message: Any, after: Sequence[Item] | None = None) -> list[str]:
        """Return the ids that a message would get if it came next, or after these items. Nothing is remembered."""
        counts: dict[str, int] = {}
        ids = []
        newest = after is None or (self._last is not None and after is self._last.items)
        before = self._seen if newest or after is None else self._counts(after)
        for block in wire.messages.split(message, wire.list_key):
            mark = block.fingerprint
            occurrence = counts.get(mark) or before.get(mark, 0)
            ids.append(f"{mark}-{occurrence}")
            counts[mark] = occurrence + 1
        return ids

    def _read_items(
        self, wire: Wire, body: ParsedBody, last: Request | None, at: float | None
    ) -> tuple[tuple[Item, ...], list[int], int]:
        messages, split, key = body.messages, wire.messages.split, wire.list_key
        # Split all new messages first: if one is invalid, half of a request must not be counted.
        blocks_by_message = [split(messages[n], f"{key}.{n}") for n in range(body.unchanged, len(messages))]
        counts = iter(self._count_tokens([block for message_blocks in blocks_by_message for block in message_blocks]))
        unchanged, firsts = self._unchanged_items(last, body.unchanged)
        new, make_item, before = list[Item](), self._make_item, len(unchanged)
        for n, blocks in enumerate(blocks_by_message, body.unchanged):
            firsts.append(before + len(new))
            for block in blocks:
                if block.call_id == BY_ORDER and block.kind == "result":
                    block = block._replace(call_id=_find_answered_call(block, new, unchanged))
                new.append(make_item(block, n, at, next(counts)))
        return unchanged + tuple(new), firsts, before

    def _unchanged_items(self, last: Request | None, message_count: int) -> tuple[tuple[Item, ...], list[int]]:
        """Return the items of the messages that the last request had too, and the index of each message's first one."""
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
        """Count again after a replacement was dropped: what it replaced no longer counts."""
        self._seen = self._counts(items)

    def _counts(self, items: Sequence[Item]) -> dict[str, int]:
        """Count each fingerprint in these items, and in what our replacements among them replaced."""
        counts: dict[str, int] = {}
        for item in items:
            mark, _, number = item.id.rpartition("-")
            counts[mark] = int(number) + 1
            self._count_replaced(mark, int(number), item.call_id, counts)
        return counts

    def _count_replaced(self, mark: str, occurrence: int, call_id: str, counts: dict[str, int]) -> None:
        """Count what a replacement replaced, so that the next equal item gets the next number.

        The call of a result says which of equal replacements it is; of others the order of their edits does.
        """
        replacements = self.echoes.get(mark, ())
        if by_call := self.echoes.get(_key_of_result(mark, call_id)):
            replacements, occurrence = by_call, -1
        for replaced, times in replacements[occurrence].items() if occurrence < len(replacements) else ():
            counts[replaced] = max(times, counts.get(replaced, 0))

    def _make_item(self, block: Block, message: int, at: float | None, tokens: int) -> Item:
        kind, call_id, name, tier, source = block.kind, block.call_id, block.name, block.tier, block.source
        mark = block.fingerprint
        occurrence = self._seen.get(mark, 0)
        self._seen[mark] = occurrence + 1
        id = f"{mark}-{occurrence}"
        if call_id:
            if kind == "call":
                call_id = id if call_id == BY_ORDER else call_id
                self._names[call_id] = name
            name = name or self._names.get(call_id, "")
        if mark in self.echoes:
            # Our replacement comes back on the user's side, but the user did not write it.
            tier, source = max(tier, HARNESS), OURS
            self._count_replaced(mark, occurrence, call_id, self._seen)
        return Item(
            id=id, message=message, role=block.role, kind=kind, text=block.text, tokens=tokens,
            name=name if call_id else "", call_id=call_id, trust=tier, source=source, media=block.media, at=at,
            pinned=id in self.pinned, locked=block.locked, is_failed=block.is_failed, raw=block.raw,
        )  # fmt: skip

    def _count_tokens(self, blocks: list[Block]) -> list[int]:
        """Count the tokens of each block."""
        estimator = self.estimator
        counts = estimator.blocks([block.kind for block in blocks], [block.text for block in blocks])
        for n, block in enumerate(blocks):
            if block.signature:
                counts[n] = estimator.thinking(block.text, block.signature)
            elif block.media:
                counts[n] += sum(map(estimator.image, block.pixels)) + estimator.document(block.pages)
        return counts

    def _read_system_and_tools(self, wire: Wire, tree: Mapping[str, Any]) -> _SystemAndTools:
        system, tools = wire.messages.system_and_tools(tree)
        fields = (tree[name] for name in FRONT_FIELDS if name in tree)
        values = [system, tools, *(field for field in fields if field is not system and field is not tools)]
        previous = self._system_and_tools
        if previous is not None and is_equal(values, previous.values):
            return previous
        for name in FRONT_FIELDS & tree.keys():
            to_plain(tree[name], name)
        words = system if isinstance(system, str) else canonical_json(system) if system else ""
        schemas = tools if isinstance(tools, list) else []
        counted = sum(self.estimator.tool(canonical_json(tool)) for tool in schemas)
        overhead = self.estimator.text(words), counted
        self._system_and_tools = _SystemAndTools(values, digest(system), digest(tools), overhead)
        return self._system_and_tools


def _find_answered_call(result: Block, *earlier_items: Sequence[Item]) -> str:
    """Return the id of the call that a result without an id answers: the first open one of its name in this step.

    The step's items are at the end of `earlier_items`, newest sequence first. '' if there is no open call.
    """
    answered, calls = set[str](), list[Item]()
    has_model_items = False
    for item in chain.from_iterable(map(reversed, earlier_items)):
        if item.role == "assistant":
            has_model_items = True
            if item.kind == "call":
                calls.append(item)
        elif has_model_items:
            break
        elif item.kind == "result":
            answered.add(item.call_id)
    open_calls = [call for call in reversed(calls) if call.call_id not in answered]
    (chosen,) = answer_in_order([(call.name, "") for call in open_calls], [(result.name, "")])
    return "" if chosen is None else open_calls[chosen].call_id


# --- replacements that a client sends back ----------------------------------------------------------------------------
#
# A client that keeps the body we sent has our replacements in its history. An id tells equal items apart by counting
# them. If the first of two was replaced, its replacement shows that it was there: so the second stays the second, and
# the edit of the first does not apply to it.


@dataclass(slots=True)
class EchoedEdits:
    """The replacements of one session, in the order of their edits."""

    by_fingerprint: dict[str, list[ReplacedItems]] = field(default_factory=dict)
    """What a block with this fingerprint replaces. Equal replacements are listed in the order of their edits.

    Also by fingerprint and call, for results whose content does not name their call: many of those may be equal.
    """
    _replaced: list[tuple[str, int]] = field(default_factory=list)
    _known: set[tuple[str, str]] = field(default_factory=set)

    def learn(self, wire: Wire, edits: Sequence[Edit]) -> EchoedEdits:
        """Add edits; those that are known already are skipped."""
        for edit in edits:
            key = (wire.name, edit.id)
            if key in self._known:
                continue
            self._known.add(key)
            start = len(self._replaced)
            self._replaced += _replaced_ends(edit).items()
            # The replacement of a run hides the edits within it, and their replacements do not come back.
            replaced = ReplacedItems(self._replaced, start if edit.first == edit.last else 0, len(self._replaced))
            for mark in _replacement_fingerprints(wire, edit):
                self.by_fingerprint.setdefault(mark, []).append(replaced)
            for mark, call_id in _replaced_results(wire, edit):
                self.by_fingerprint.setdefault(_key_of_result(mark, call_id), []).append(replaced)
        return self


def block_fingerprints(wire: Wire, messages: Sequence[Any]) -> list[str]:
    """Return the fingerprints of all blocks of these messages, in order."""
    return [
        block.fingerprint
        for n, message in enumerate(messages)
        for block in wire.messages.split(message, f"{wire.list_key}.{n}")
    ]


def _replaced_ends(edit: Edit) -> dict[str, int]:
    """Count the items at the edit's ends. One that the edit keeps comes back as itself, and is not replaced."""
    kept_ids = {item.id for item in edit.replacement}
    replaced: dict[str, int] = {}
    for id in (edit.first, edit.last):
        mark, _, number = id.rpartition("-")
        if id not in kept_ids and number.isdecimal():
            replaced[mark] = max(replaced.get(mark, 0), int(number) + 1)
    return replaced


def _replacement_fingerprints(wire: Wire, edit: Edit) -> set[str]:
    return {mark for item in edit.replacement if not item.id for mark in _fingerprints(wire, item)}


def _fingerprints(wire: Wire, replacement: Item) -> Iterator[str]:
    for form in wire.messages.replacement_forms(replacement):
        yield from block_fingerprints(wire, wire.messages.join(None, [form]))


def _replaced_results(wire: Wire, edit: Edit) -> Iterator[tuple[str, str]]:
    """Yield the fingerprints of results whose content does not name the call they answer, each with that call."""
    for item in edit.replacement:
        if not item.id and item.kind == "result" and item.call_id.startswith(f"{SCHEME}-"):
            for mark in _fingerprints(wire, item):
                yield mark, item.call_id


def _key_of_result(mark: str, call_id: str) -> str:
    return f"{mark} {call_id}"


# --- writing ----------------------------------------------------------------------------------------------------------


def write_messages(request: Request, view: View) -> list[Any]:
    """Write the entries of a view as messages. A message without an edit is the client's own object."""
    return [message for _, group in group_by_message(view.entries) for message in write_group(request, view, group)]


def write_group(request: Request, view: View, group: Sequence[Item]) -> list[Any]:
    """Write the entries of one message."""
    message = group[0].message
    original = request.original(message)
    if original is None or _has_edit(view, group):
        return request.wire.messages.join(original, group)
    is_complete = len(group) == request.count_blocks(message) and group[-1].message == message
    return [original] if is_complete else request.wire.messages.join(original, group)


def _has_edit(view: View, group: Sequence[Item]) -> bool:
    return bool(view.edit_by_entry) and any(entry.id in view.edit_by_entry for entry in group)
