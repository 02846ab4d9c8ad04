"""Rules that one item keeps by itself, and that no two items share an id. Each mends or drops it, and notes why."""

from __future__ import annotations

from ebbtide.wire.findings import SHAPE, Json, Log, as_text, safe_id
from ebbtide.wire.openai_responses.rules.items import (
    CALL_ID,
    ITEM_ID,
    OUTPUT_TYPES,
    OUTPUTS,
    PREFIXES,
    TEXT_OUTPUTS,
    VOID,
    At,
    Item,
    anonymous,
    kind,
)

NEEDS_CALL_ID = ("function_call", "custom_tool_call", *TEXT_OUTPUTS)
"""Types that are nothing without a `call_id`; the others pair by it only if they have one."""


def cleaned(item: Json, at: int, stored: bool, log: Log) -> Item | None:
    """What one item keeps by itself; None if it cannot stay. A note without a repair means: refuse."""
    path = f"input.{at}"
    if not kind(item):
        log.note(SHAPE, path, "expected an input item", "dropped")
        return None
    mended = _worded(item, path, log) if kind(item) == "message" else _typed_call(item, path, log)
    if mended is None:
        return None
    mended = _call_ids(mended, path, log)
    if kind(mended) == "reasoning":
        return _reasoned(mended, path, stored, log)
    return _identified(mended, path, stored, log)


def _worded(item: Item, path: str, log: Log) -> Item | None:
    """A message says something, in a string or in parts."""
    content = item.get("content")
    if isinstance(content, str):
        return item
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        if len(parts) == len(content):
            return item
        log.note(SHAPE, f"{path}.content", "expected content parts", "the rest dropped")
        return {**item, "content": parts}
    if content is None:
        log.note(SHAPE, f"{path}.content", "expected a string or an array", "dropped")
        return None
    log.note(SHAPE, f"{path}.content", "expected a string or an array", "made text")
    return {**item, "content": as_text(content)}


def _typed_call(item: Item, path: str, log: Log) -> Item | None:
    """A call has a name and its arguments as text; an output has text or parts."""
    name = kind(item)
    field = {"function_call": "arguments", "custom_tool_call": "input"}.get(name)
    if field and not isinstance(item.get("name"), str):
        log.note(SHAPE, f"{path}.name", "expected a string", "dropped")
        return None
    if field and not isinstance(item.get(field), str):
        log.note(SHAPE, f"{path}.{field}", "expected a string", "made text")
        return {**item, field: "{}" if item.get(field) is None else as_text(item[field])}
    if name in TEXT_OUTPUTS and not isinstance(item.get("output"), str | list):
        log.note(SHAPE, f"{path}.output", "expected a string or an array", "made text")
        return {**item, "output": "" if item.get("output") is None else as_text(item["output"])}
    return item


def _call_ids(item: Item, path: str, log: Log) -> Item:
    """R10: at most 64 characters, mapped alike on both ends."""
    name = kind(item)
    if name not in NEEDS_CALL_ID and (item.get("call_id") is None or name not in {*OUTPUTS, *OUTPUT_TYPES}):
        return item
    identity = safe_id(item.get("call_id"), "call_", CALL_ID)
    if identity == item.get("call_id"):
        return item
    problem = "string too long. Expected a string with maximum length 64"
    log.note("R10", f"{path}.call_id", problem, "id mapped")
    return {**item, "call_id": identity}


def _identified(item: Item, path: str, stored: bool, log: Log) -> Item | None:
    """R5, R8: no reference to what was not stored, and an id that fits its type; it may also be left out."""
    name, identity = kind(item), item.get("id")
    if name == "item_reference" and not stored:
        log.note("R5", path, f"Item with id '{as_text(identity)}' not found. {_NOT_STORED}", "dropped")
        return None
    if name == "item_reference" or identity is None or _fits(name, identity):
        return item
    expected = (
        f"that begins with '{PREFIXES[name]}'" if name in PREFIXES else "of letters, numbers, underscores or dashes"
    )
    log.note("R8", f"{path}.id", f"Expected an ID {expected}.", "id dropped")
    return anonymous(item)


_NOT_STORED = "Items are not persisted when `store` is set to false."


def _reasoned(item: Item, path: str, stored: bool, log: Log) -> Item:
    """R5, R8, R15 for reasoning. One that cannot stay is marked, and goes with its followers' ids."""
    if item is VOID:
        return item
    identity = item.get("id")
    if identity is not None and not _fits("reasoning", identity):
        log.note("R8", f"{path}.id", "Expected an ID that begins with 'rs'.", "reasoning dropped")
        return VOID
    if identity is not None and not stored and not item.get("encrypted_content"):
        log.note("R5", path, f"Item with id '{identity}' not found. {_NOT_STORED}", "reasoning dropped")
        return VOID
    if not isinstance(item.get("summary"), list):
        log.note("R15", f"{path}.summary", "Missing required parameter", "made empty")
        return {**item, "summary": []}
    return item


def _fits(name: str, identity: Json) -> bool:
    prefix = PREFIXES.get(name, "")
    return isinstance(identity, str) and identity.startswith(prefix) and ITEM_ID.fullmatch(identity) is not None


def unique(entries: list[At], log: Log) -> list[At]:
    """R9: a second copy goes; a different item under the same id keeps its content and loses the id."""
    items_by_id: dict[str, Item] = {}
    unique_entries = []
    for entry in entries:
        identity = entry.item.get("id")
        if not isinstance(identity, str) or identity not in items_by_id or kind(entry.item) in OUTPUT_TYPES:
            unique_entries.append(entry)
            if isinstance(identity, str):
                items_by_id.setdefault(identity, entry.item)
            continue
        problem = f"Duplicate item found with id {identity}. Remove duplicate items from your input and try again."
        copy = entry.item == items_by_id[identity] or kind(entry.item) not in PREFIXES
        log.note("R9", f"input.{entry.at}", problem, "dropped" if copy else "id dropped")
        if kind(entry.item) == "reasoning":
            unique_entries.append(At(entry.at, VOID))
        elif not copy:
            unique_entries.append(At(entry.at, anonymous(entry.item)))
    return unique_entries
