"""Rules about thinking (A37, A38), cache breakpoints (A45, A48, A49), system prompt and tools (A9, A25).

A surplus breakpoint is dropped from the earliest message: the latest ones cover most, and those on tools and system
prompt serve every request. Rules about single blocks (A34, A39, A40, A46, A47) are in `content`. A35, A36 and A63 need
the bytes that were sent before, which only the engine has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ebbtide.core.cache.prefix import are_same_objects
from ebbtide.core.texts import CONTINUE
from ebbtide.wire.anthropic.rules.content import TOOL_NAME, drop_blank_text, drop_breakpoint, is_breakpoint
from ebbtide.wire.anthropic.rules.structure import (
    THINKING,
    Block,
    BodyFacts,
    Message,
    blocks,
    drop_fields,
    ends_in_server_use,
    enumerate_from,
    kind,
    replace_blocks,
    role,
    takes_prefill,
    text_block,
)
from ebbtide.wire.protocol import Finding, Log
from ebbtide.wire.validity import SHAPE, Json

OPENERS = (*THINKING, "fallback", "compaction")
"""Blocks a turn may begin with under manual thinking; the last two replace thinking that was left out."""


def fix_thinking(
    body: Mapping[str, Json], messages: list[Message], facts: BodyFacts, log: Log
) -> tuple[Mapping[str, Json], list[Message]]:
    """Switch thinking off for a loop that began without it, and answer a final assistant message: we invent none."""
    last = len(messages) - 1
    index = _find_missing_thinking(facts)
    if index is not None and index == last and not ends_in_server_use(messages[-1]):
        log.note("A37", f"messages.{last}", "a final `assistant` message must start with a thinking block", "answered")
        return body, [*messages, {"role": "user", "content": CONTINUE}]
    if index is not None:
        problem = "Expected `thinking` or `redacted_thinking`"
        log.note("A37", f"messages.{index}.content.0.type", problem, "thinking switched off")
        return {key: value for key, value in body.items() if key != "thinking"}, messages
    if not _ends_in_thinking(facts):
        return body, messages
    problem = "When thinking is disabled, the final `assistant` message cannot contain `thinking`."
    log.note("A38", f"messages.{last}", problem, "thinking stripped")
    others = [block for block in blocks(messages[-1]) if kind(block) not in THINKING]
    return body, [*messages[:-1], replace_blocks(messages[-1], others)]


def _find_missing_thinking(facts: BodyFacts) -> int | None:
    """A37: the first assistant message of the open loop, if a thinking budget requires it to start with thinking."""
    if not facts.has_thinking_budget:
        return None
    first = _loop_start(facts.messages)
    if first is None or (first < facts.since and first != len(facts.messages) - 1):
        return None
    parts = blocks(facts.messages[first])
    return None if parts and kind(parts[0]) in OPENERS else first


def _loop_start(messages: Sequence[Json]) -> int | None:
    """Find where the open loop starts: after the last user message with more than results."""
    first = None
    for index in range(len(messages) - 1, -1, -1):
        if role(messages[index]) == "assistant":
            first = index
        elif role(messages[index]) == "user" and any(kind(block) != "tool_result" for block in blocks(messages[index])):
            break
    return first


def _ends_in_thinking(facts: BodyFacts) -> bool:
    """A38, for models that accept a final assistant message; a paused turn is sent back unchanged (A30)."""
    last = facts.messages[-1] if facts.messages else None
    if facts.is_thinking or role(last) != "assistant" or ends_in_server_use(last) or not takes_prefill(facts.model):
        return False
    return any(kind(block) in THINKING for block in blocks(last))


MAX_BREAKPOINTS = 4
_MALFORMED = "cache_control: Input should be 'ephemeral' with ttl '5m' or '1h'"


@dataclass(frozen=True, slots=True)
class _Breakpoint:
    section: str
    """`tools`, `system` or `messages`, in the order the provider reads them."""
    index: int
    block: int
    ttl: str

    @property
    def path(self) -> str:
        inside = f".content.{self.block}" if self.section == "messages" else ""
        return f"{self.section}.{self.index}{inside}.cache_control"


def _are_harmless(new: Sequence[_Breakpoint], before: int) -> bool:
    """Tell whether new breakpoints exceed neither the number nor, all being short, the order."""
    return len(new) + before <= MAX_BREAKPOINTS and all(
        point.ttl == "5m" for point in new if point.section == "messages"
    )


def fix_breakpoints(body: Mapping[str, Json], since: int, accepted: int | None, log: Log) -> Mapping[str, Json]:
    """`accepted` is the number of breakpoints in the messages before `since`, if it is known."""
    if _count_automatic(body) and not is_breakpoint(body["cache_control"]):
        log.note("A49", "cache_control", _MALFORMED, "mark dropped")
        body = {key: value for key, value in body.items() if key != "cache_control"}
    if accepted is not None and _are_harmless(list(_breakpoints(body, since)), accepted + _count_automatic(body)):
        return body
    breakpoints = list(_breakpoints(body))
    surplus = max(0, len(breakpoints) + _count_automatic(body) - MAX_BREAKPOINTS)
    removed = sorted(breakpoints, key=lambda point: point.section != "messages")[:surplus]
    for point in removed:
        log.note("A45", point.path, "A maximum of 4 blocks with cache_control may be provided.", "mark dropped")
        body = _replace_block(body, point, drop_fields(_block_at(body, point), "cache_control"))
    for point in _find_too_long([point for point in breakpoints if point not in removed]):
        log.note("A48", f"{point.path}.ttl", "a ttl='1h' block must not come after a ttl='5m' block", "shortened")
        block = _block_at(body, point)
        body = _replace_block(body, point, {**block, "cache_control": {**block["cache_control"], "ttl": "5m"}})
    return body


def _count_automatic(body: Mapping[str, Json]) -> int:
    """A top-level `cache_control` counts as one of the four."""
    return int(body.get("cache_control") is not None)


def _breakpoints(body: Mapping[str, Json], since: int = 0) -> Iterator[_Breakpoint]:
    for section in ("tools", "system"):
        section_blocks = body.get(section)
        for index, block in enumerate(section_blocks if isinstance(section_blocks, list) else ()):
            if isinstance(block, dict) and block.get("cache_control") is not None:
                yield _Breakpoint(section, index, 0, _ttl(block))
    for index, message in enumerate_from(body["messages"], since):
        for n, block in enumerate(blocks(message)):
            if block.get("cache_control") is not None:
                yield _Breakpoint("messages", index, n, _ttl(block))


def _ttl(block: Block) -> str:
    point = block["cache_control"]
    return "1h" if isinstance(point, dict) and point.get("ttl") == "1h" else "5m"


def _find_too_long(breakpoints: Sequence[_Breakpoint]) -> list[_Breakpoint]:
    """A48: find breakpoints of an hour after the first one of five minutes."""
    first = next((index for index, point in enumerate(breakpoints) if point.ttl == "5m"), len(breakpoints))
    return [point for point in breakpoints[first:] if point.ttl == "1h"]


def _block_at(body: Mapping[str, Json], point: _Breakpoint) -> Block:
    if point.section == "messages":
        return blocks(body["messages"][point.index])[point.block]
    block: Block = body[point.section][point.index]
    return block


def _replace_block(body: Mapping[str, Json], point: _Breakpoint, block: Block) -> Mapping[str, Json]:
    section = list(body[point.section])
    if point.section == "messages":
        parts = blocks(section[point.index])
        parts[point.block] = block
        section[point.index] = replace_blocks(section[point.index], parts)
    else:
        section[point.index] = block
    return {**body, point.section: section}


BAD_TOOL_NAME = "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"


def find_tool_problems(tools: Json) -> Iterator[Finding]:
    """A25: names are plain and unique, and not every tool is deferred. There is no repair: we cannot guess tools."""
    if tools is None:
        return
    if not isinstance(tools, list):
        yield Finding(SHAPE, "tools", "Input should be a valid list")
        return
    names: Counter[str] = Counter()
    for index, tool in enumerate(tools):
        if not isinstance(tool, dict):
            yield Finding(SHAPE, f"tools.{index}", "Input should be a valid dictionary")
            continue
        name = tool.get("name")
        if kind(tool) in ("", "custom") and not (isinstance(name, str) and TOOL_NAME.fullmatch(name)):
            yield Finding("A25", f"tools.{index}.name", BAD_TOOL_NAME)
        elif isinstance(name, str):
            names[name] += 1
            if names[name] == 2:
                yield Finding("A25", f"tools.{index}.name", "Tool names must be unique.")
    if tools and all(isinstance(tool, dict) and tool.get("defer_loading") is True for tool in tools):
        yield Finding("A25", "tools", "All tools have defer_loading set")


def fix_system_and_tools(body: Mapping[str, Json], log: Log) -> Mapping[str, Json]:
    """Drop nulls, blank texts and malformed breakpoints from system prompt and tools."""
    for field in ("system", "tools"):
        if field in body and body[field] is None:
            log.note("A10", field, "Input should be a valid list", "null field dropped")
            body = {key: value for key, value in body.items() if key != field}
    for field, fix in (("system", _fix_system), ("tools", _fix_tools)):
        if field not in body:
            continue
        value = fix(body[field], log)
        if value is not body[field]:
            body = {**body, field: value}
    return body


def _fix_system(system: Json, log: Log) -> Json:
    """A9: a system prompt is text, or blocks with text."""
    if isinstance(system, str):
        if not system or system.strip():
            return system
        log.note("A9", "system", "text content blocks must contain non-whitespace text", "made empty")
        return ""
    if not isinstance(system, list):
        log.note(SHAPE, "system", "Input should be a valid string or list")
        return system
    blocks = [block for index, part in enumerate(system) if (block := _fix_system_block(part, index, log)) is not None]
    return system if are_same_objects(system, blocks) else blocks


def _fix_system_block(part: Json, index: int, log: Log) -> Json:
    path = f"system.{index}"
    if isinstance(part, str) and part.strip():
        log.note(SHAPE, path, "Input should be a valid dictionary", "string made a text block")
        return text_block(part)
    if not isinstance(part, dict):
        log.note(SHAPE, path, "Input should be a valid dictionary", "dropped")
        return None
    if kind(part) == "text":
        part = drop_blank_text(part, path, log.note)
    return part if part is None else _drop_malformed_breakpoint(part, path, log)


def _fix_tools(tools: Json, log: Log) -> Json:
    if not isinstance(tools, list):
        return tools
    fixed = [_drop_malformed_breakpoint(tool, f"tools.{index}", log) for index, tool in enumerate(tools)]
    return tools if are_same_objects(tools, fixed) else fixed


def _drop_malformed_breakpoint(block: Json, path: str, log: Log) -> Json:
    """A49."""
    mark = block.get("cache_control") if isinstance(block, dict) else None
    return block if mark is None or is_breakpoint(mark) else drop_breakpoint(block, f"{path}.cache_control", log.note)
