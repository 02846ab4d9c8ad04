"""Cache breakpoints of the Converse API: a `cachePoint` block behind a tool, in the system prompt or behind a block."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ebbtide.core.cache.breakpoints import BreakpointSlot, Section
from ebbtide.core.types import FIVE_MINUTES, HOUR
from ebbtide.wire.bedrock_converse.blocks import CACHE_POINT, blocks_of, is_cache_point, with_cache_points
from ebbtide.wire.blocks import as_mapping

is_explicit = True

_TAIL = 40
"""Messages at the end that may carry a breakpoint: the provider does not look back further."""
_SHORT_TAIL = 6
"""The same where nothing was edited: the request extends the last one, so its newest messages are enough."""


def slots(
    body: Mapping[str, Any],
    tokens: Sequence[int],
    overhead: tuple[int, int],
    edit_ends: Sequence[int] = (),
    *,
    is_edited: bool = True,
) -> list[BreakpointSlot]:
    found: list[BreakpointSlot] = []
    tool_tokens, system_tokens = overhead
    found += [_slot("tools", n, 0, block, point, tool_tokens) for n, block, point in _entries(_tools(body))][-1:]
    system = list(_entries(body.get("system")))
    share = system_tokens // max(1, len(system))
    found += [
        _slot("system", n, 0, block, point, tool_tokens + share * (at + 1))
        for at, (n, block, point) in enumerate(system)
    ]
    messages = body["messages"]
    for i in _near_end(messages, edit_ends, _TAIL if is_edited else _SHORT_TAIL):
        before = tool_tokens + system_tokens + tokens[i]
        blocks = [
            _slot("messages", i, n, block, point, before)
            for n, block, point in with_cache_points(blocks_of(messages[i]))
        ]
        found += blocks
        if i in edit_ends and blocks:
            found[-1] = found[-1]._replace(settled=True)
    return found


def present(body: Mapping[str, Any], edit_ends: Sequence[int] = ()) -> tuple[tuple[int, ...], float]:
    messages = body["messages"]
    marked = [
        (i, point)
        for i in _near_end(messages, edit_ends)
        for _, _, point in with_cache_points(blocks_of(messages[i]))
        if point is not None
    ]
    ttl = min([_lifetime(point) for _, point in marked], default=FIVE_MINUTES)
    return tuple(dict.fromkeys(i for i, _ in marked)), ttl


def add(body: Mapping[str, Any], slots: Sequence[BreakpointSlot]) -> Mapping[str, Any]:
    """Return a copy with a cache point behind each of these blocks."""
    out = dict(body)
    in_messages: dict[int, list[BreakpointSlot]] = defaultdict(list)
    for slot in sorted(slots, key=lambda slot: slot.index, reverse=True):
        if slot.section == "messages":
            in_messages[slot.index].append(slot)
        elif slot.section == "system":
            out["system"] = _inserted(out["system"], slot.index, slot.ttl)
        else:
            out["toolConfig"] = {**out["toolConfig"], "tools": _inserted(_tools(out), slot.index, slot.ttl)}
    if in_messages:
        out["messages"] = list(out["messages"])
    for index, group in in_messages.items():
        content: Sequence[Any] = blocks_of(out["messages"][index])
        for slot in sorted(group, key=lambda slot: slot.block, reverse=True):
            content = _inserted(content, slot.block, slot.ttl)
        out["messages"][index] = {**out["messages"][index], "content": content}
    return out


def client_fields(_model: str, _ttl: float) -> Mapping[str, Any]:
    """A cache point is no field of a block."""
    return {}


def lifetimes(message: Any) -> list[float]:
    return [0.0 if point is None else _lifetime(point) for _, _, point in with_cache_points(blocks_of(message))] or [
        0.0
    ]


def outer_lifetimes(body: Mapping[str, Any]) -> tuple[float, float]:
    points = [
        point for part in (_tools(body), body.get("system")) for _, _, point in _entries(part) if point is not None
    ]
    return max(map(_lifetime, points), default=0.0), 0.0


def raise_front(body: Mapping[str, Any], marked_messages: Sequence[int] = ()) -> Mapping[str, Any]:
    own = [point for part in (_tools(body), body.get("system")) for _, _, point in _entries(part) if point is not None]
    contents = [blocks_of(body["messages"][i]) for i in marked_messages]
    others = [point for content in contents for _, _, point in with_cache_points(content) if point is not None]
    if not own or any("ttl" in as_mapping(point[CACHE_POINT]) for point in (*own, *others)):
        return body
    raised = dict(body)
    if isinstance(body.get("system"), list):
        raised["system"] = list(map(_raise, body["system"]))
    if isinstance(_tools(body), list):
        raised["toolConfig"] = {**body["toolConfig"], "tools": list(map(_raise, _tools(body)))}
    return raised


def session_fields(_body: Mapping[str, Any], *, key: str, retention: str = "") -> Mapping[str, Any]:
    del key, retention
    return {}


def _raise(block: Any) -> Any:
    return {CACHE_POINT: {**as_mapping(block[CACHE_POINT]), "ttl": "1h"}} if is_cache_point(block) else block


def _tools(body: Mapping[str, Any]) -> Any:
    return as_mapping(body.get("toolConfig")).get("tools")


def _entries(section: Any) -> Iterator[tuple[int, Any, Any]]:
    return with_cache_points(section if isinstance(section, list) else [])


def _near_end(messages: Sequence[Any], edit_ends: Sequence[int], tail: int = _TAIL) -> Iterator[int]:
    """Yield the messages where edits end, then the last ones."""
    start = max(0, len(messages) - tail)
    yield from sorted({i for i in edit_ends if 0 <= i < start})
    yield from range(start, len(messages))


def _inserted(blocks: Sequence[Any], index: int, ttl: float) -> list[Any]:
    lifetime: dict[str, str] = {"ttl": "1h"} if ttl >= HOUR else {}
    point = {CACHE_POINT: {"type": "default", **lifetime}}
    behind = (
        blocks[index + 2 :] if index + 1 < len(blocks) and is_cache_point(blocks[index + 1]) else blocks[index + 1 :]
    )
    return [*blocks[: index + 1], point, *behind]


def _lifetime(point: Any) -> float:
    return HOUR if as_mapping(as_mapping(point).get(CACHE_POINT)).get("ttl") == "1h" else FIVE_MINUTES


def _slot(section: Section, index: int, block: int, raw: Any, point: Any, tokens: int) -> BreakpointSlot:
    fields = as_mapping(raw)
    text = fields.get("text")
    eligible = "reasoningContent" not in fields and (text is None or bool(str(text).strip()))
    return BreakpointSlot(
        section=section,
        index=index,
        block=block,
        tokens_before=tokens,
        eligible=eligible,
        has_breakpoint=point is not None,
        ttl=_lifetime(point) if point is not None else FIVE_MINUTES,
    )
