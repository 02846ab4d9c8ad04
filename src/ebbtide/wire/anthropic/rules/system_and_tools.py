"""What stands before the messages: `system` (A9, A49) and `tools` (A25)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from ebbtide.wire.anthropic.rules.blocks import kind, same_parts, text
from ebbtide.wire.anthropic.rules.content import TOOL_NAME, is_mark, spoken_text, unmarked
from ebbtide.wire.findings import SHAPE, Finding, Json, Log

BAD_NAME = "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"


def broken_tools(tools: Json) -> Iterator[Finding]:
    """A25: names are plain and unique, and not every tool is deferred. A tool list cannot be guessed: refused."""
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
            yield Finding("A25", f"tools.{index}.name", BAD_NAME)
        elif isinstance(name, str):
            names[name] += 1
            if names[name] == 2:
                yield Finding("A25", f"tools.{index}.name", "Tool names must be unique.")
    if tools and all(isinstance(tool, dict) and tool.get("defer_loading") is True for tool in tools):
        yield Finding("A25", "tools", "All tools have defer_loading set")


def mended(body: Mapping[str, Json], log: Log) -> Mapping[str, Json]:
    """System and tools without nulls, blank text and malformed marks."""
    for field in ("system", "tools"):
        if field in body and body[field] is None:
            log.note("A10", field, "Input should be a valid list", "null field dropped")
            body = {key: value for key, value in body.items() if key != field}
    for field, mend in (("system", _system), ("tools", _tools)):
        if field not in body:
            continue
        value = mend(body[field], log)
        if value is not body[field]:
            body = {**body, field: value}
    return body


def _system(system: Json, log: Log) -> Json:
    """A9: a system prompt is words, or blocks with words in them."""
    if isinstance(system, str):
        if not system or system.strip():
            return system
        log.note("A9", "system", "text content blocks must contain non-whitespace text", "made empty")
        return ""
    if not isinstance(system, list):
        log.note(SHAPE, "system", "Input should be a valid string or list")
        return system
    blocks = [block for index, part in enumerate(system) if (block := _system_block(part, index, log)) is not None]
    return system if same_parts(system, blocks) else blocks


def _system_block(part: Json, index: int, log: Log) -> Json:
    path = f"system.{index}"
    if isinstance(part, str) and part.strip():
        log.note(SHAPE, path, "Input should be a valid dictionary", "string made a text block")
        return text(part)
    if not isinstance(part, dict):
        log.note(SHAPE, path, "Input should be a valid dictionary", "dropped")
        return None
    if kind(part) == "text":
        part = spoken_text(part, path, log.note)
    return part if part is None else _well_marked(part, path, log)


def _tools(tools: Json, log: Log) -> Json:
    if not isinstance(tools, list):
        return tools
    fixed = [_well_marked(tool, f"tools.{index}", log) for index, tool in enumerate(tools)]
    return tools if same_parts(tools, fixed) else fixed


def _well_marked(block: Json, path: str, log: Log) -> Json:
    """A49."""
    mark = block.get("cache_control") if isinstance(block, dict) else None
    return block if mark is None or is_mark(mark) else unmarked(block, f"{path}.cache_control", log.note)
