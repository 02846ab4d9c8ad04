"""Replaces old images and documents by a line that says what they were. An image is paid for on every request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ebbtide.core.edit_rules import find_turn_starts
from ebbtide.core.offload import Offloader, can_offload, describe, readable
from ebbtide.core.planner import PlanInput
from ebbtide.core.stub import Template, render
from ebbtide.core.tool_calls import block, media_blocks, tool_name
from ebbtide.core.types import Edit, Item
from ebbtide.core.view import View


def clear_media(
    view: View,
    plan_input: PlanInput,
    *,
    keep: int = 3,  # newest images and documents
    stub: Template = render,
) -> Iterator[Edit]:
    """Clear all but the newest media, oldest first, except in the newest user turn. Text beside them stays."""
    turn_starts = find_turn_starts(view)
    newest_turn = turn_starts[-1] if turn_starts else len(view.entries)
    media = [(n, entry) for n, entry in enumerate(view.entries) if entry.kind in ("image", "document") or entry.media]
    offloader = Offloader(by="clear_media", view=view, plan_input=plan_input)
    for n, entry in media[: max(0, len(media) - keep)]:
        if not _can_clear(view, entry) or (n >= newest_turn and entry.kind != "result"):
            continue
        yield _clear_in_result(offloader, entry, stub) if entry.kind == "result" else _clear(offloader, entry, stub)


def _can_clear(view: View, entry: Item) -> bool:
    return can_offload(view, replace(entry, text=entry.text or entry.kind))


def _clear(offloader: Offloader, entry: Item, stub: Template) -> Edit:
    content = block(entry)
    path, blobs = offloader.save_blob(entry.kind, content, ".json") if content else ("", ())
    line = stub(describe("", kind=entry.kind, about=media_blocks(entry), tokens=entry.tokens, path=path))
    edit = offloader.rewrite(entry, line, f"old {entry.kind}", blobs)
    return replace(edit, replacement=(replace(edit.replacement[0], kind="text"),))


def _clear_in_result(offloader: Offloader, entry: Item, stub: Template) -> Edit:
    path, blobs = offloader.save_blob(entry.call_id, *readable(entry))
    tokens = max(0, entry.tokens - offloader.count_tokens(entry, entry.text))
    line = stub(describe("", kind="image", name=tool_name(offloader.view, entry), tokens=tokens, path=path))
    return offloader.rewrite(entry, f"{entry.text}\n{line}" if entry.text else line, "old image in a result", blobs)
