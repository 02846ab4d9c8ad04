"""Cache breakpoints of the Anthropic Messages API: `cache_control` on a tool, on the system prompt or on a block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ebbtide.core.cache.breakpoints import BreakpointSlot
from ebbtide.core.types import FIVE_MINUTES, HOUR
from ebbtide.wire.blocks import as_mapping, as_str

is_explicit = True

_INELIGIBLE = {"thinking", "redacted_thinking", "fallback", "compaction"}
"""Block types that take no breakpoint."""
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
    slots: list[BreakpointSlot] = []
    tool_tokens, system_tokens = overhead
    tools, system, messages = body.get("tools"), body.get("system"), body["messages"]
    if tools and isinstance(tools, list):
        slots.append(_slot("tools", len(tools) - 1, 0, tools[-1], tool_tokens))
    if isinstance(system, str) and system:
        slots.append(_slot("system", 0, 0, {"text": system}, tool_tokens + system_tokens))
    elif isinstance(system, list):
        share = system_tokens // max(1, len(system))
        slots += [_slot("system", i, 0, block, tool_tokens + share * (i + 1)) for i, block in enumerate(system)]
    for i in _near_end(messages, edit_ends, _TAIL if is_edited else _SHORT_TAIL):
        content = messages[i].get("content")
        before = tool_tokens + system_tokens + tokens[i]
        blocks = _as_blocks(content)
        slots += [_slot("messages", i, j, block, before) for j, block in enumerate(blocks)]
        if i in edit_ends and blocks:
            slots[-1] = slots[-1]._replace(settled=True)
    if body.get("cache_control"):
        _mark_automatic(slots, body["cache_control"])
    return slots


def present(body: Mapping[str, Any], edit_ends: Sequence[int] = ()) -> tuple[tuple[int, ...], float]:
    messages = body["messages"]
    marked = [(i, control) for i in _near_end(messages, edit_ends) for control in _controls(messages[i])]
    if body.get("cache_control") and messages:
        marked.append((len(messages) - 1, body["cache_control"]))
    ttl = min([_lifetime(control) for _, control in marked], default=FIVE_MINUTES)
    return tuple(dict.fromkeys(i for i, _ in marked)), ttl


def add(body: Mapping[str, Any], slots: Sequence[BreakpointSlot]) -> Mapping[str, Any]:
    out = dict(body)
    for name in {slot.section for slot in slots}:
        out[name] = list(_as_blocks(out[name]))
    for slot in slots:
        control, section = _breakpoint(slot.ttl), out[slot.section]
        if slot.section == "messages":
            content = list(_as_blocks(section[slot.index]["content"]))
            content[slot.block] = {**content[slot.block], **control}
            section[slot.index] = {**section[slot.index], "content": content}
        else:
            section[slot.index] = {**section[slot.index], **control}
    return out


def client_fields(model: str, ttl: float) -> Mapping[str, Any]:
    return _breakpoint(ttl) if "claude" in model else {}


def lifetimes(message: Any) -> list[float]:
    content = message.get("content")
    return [_block_lifetime(block) for block in content] if isinstance(content, list) else [0.0]


def outer_lifetimes(body: Mapping[str, Any]) -> tuple[float, float]:
    parts = (_as_list(body.get("tools")), _as_list(body.get("system")))
    marked = [block for part in parts for block in part if "cache_control" in block]
    return max(map(_block_lifetime, marked), default=0.0), _block_lifetime(body)


def raise_front(body: Mapping[str, Any], marked_messages: Sequence[int] = ()) -> Mapping[str, Any]:
    front = {name: body[name] for name in ("tools", "system") if isinstance(body.get(name), list)}
    own = [as_mapping(block).get("cache_control") for part in front.values() for block in part]
    others = [control for i in marked_messages for control in _controls(body["messages"][i])]
    controls = [control for control in (*own, *others, body.get("cache_control")) if control is not None]
    if not any(own) or any("ttl" in as_mapping(control) for control in controls):
        return body
    return {**body, **{name: [_raise(block) for block in part] for name, part in front.items()}}


def session_fields(_body: Mapping[str, Any], *, key: str, retention: str = "") -> Mapping[str, Any]:
    del key, retention
    return {}


def _raise(block: Any) -> Any:
    control = as_mapping(block).get("cache_control")
    return {**block, "cache_control": {**control, "ttl": "1h"}} if isinstance(control, Mapping) else block


def _near_end(messages: Sequence[Any], edit_ends: Sequence[int], tail: int = _TAIL) -> Iterator[int]:
    """Yield the messages where edits end, then the last ones."""
    start = max(0, len(messages) - tail)
    yield from sorted({i for i in edit_ends if 0 <= i < start})
    yield from range(start, len(messages))


def _mark_automatic(slots: list[BreakpointSlot], control: Any) -> None:
    """Mark where the provider sets a top-level `cache_control`: on the last block that can have one (A45)."""
    last = next((n for n in reversed(range(len(slots))) if slots[n].eligible), None)
    if last is not None and slots[last].section == "messages":
        slots[last] = slots[last]._replace(has_breakpoint=True, ttl=_lifetime(control))


def _breakpoint(ttl: float) -> dict[str, Any]:
    lifetime: dict[str, str] = {"ttl": "1h"} if ttl >= HOUR else {}
    return {"cache_control": {"type": "ephemeral", **lifetime}}


def _block_lifetime(block: Any) -> float:
    control = as_mapping(block).get("cache_control")
    return _lifetime(control) if control else 0.0


def _as_blocks(content: Any) -> list[Any]:
    """Return content as blocks: a string is short for one text block, and only a block takes a breakpoint."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else _as_list(content)


def _as_list(part: Any) -> list[Any]:
    return part if isinstance(part, list) else []


def _controls(message: Any) -> list[Any]:
    content = message.get("content")
    blocks = map(as_mapping, content) if isinstance(content, list) else ()
    return [block["cache_control"] for block in blocks if "cache_control" in block]


def _lifetime(control: Any) -> float:
    return HOUR if as_mapping(control).get("ttl") == "1h" else FIVE_MINUTES


def _slot(section: Any, index: int, block: int, raw: Any, tokens: int) -> BreakpointSlot:
    fields = as_mapping(raw)
    text, control = fields.get("text"), fields.get("cache_control")
    eligible = as_str(fields.get("type")) not in _INELIGIBLE and (text is None or bool(str(text).strip()))
    return BreakpointSlot(
        section=section,
        index=index,
        block=block,
        tokens_before=tokens,
        eligible=eligible,
        has_breakpoint=bool(control),
        ttl=_lifetime(control) if control else FIVE_MINUTES,
    )
