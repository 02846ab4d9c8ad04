"""Old images and documents become a line that says what they were. An image is paid for on every request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ebbtide.core.cuts import find_turn_starts
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
    keep: int = 3,  # newest, wherever they stand
    stub: Template = render,
) -> Iterator[Edit]:
    """Clear media older than the newest ones, oldest first, and none of the live request. Text beside them stays."""
    live = find_turn_starts(view)[-1] if find_turn_starts(view) else len(view.entries)
    media = [(i, entry) for i, entry in enumerate(view.entries) if entry.kind in ("image", "document") or entry.media]
    offloader = Offloader(by="clear_media", view=view, plan_input=plan_input)
    for i, entry in media[: max(0, len(media) - keep)]:
        if not _may_leave(view, entry) or (i >= live and entry.kind != "result"):
            continue
        yield _result(offloader, entry, stub) if entry.kind == "result" else _alone(offloader, entry, stub)


def _may_leave(view: View, entry: Item) -> bool:
    return can_offload(view, replace(entry, text=entry.text or entry.kind))


def _alone(offloader: Offloader, entry: Item, stub: Template) -> Edit:
    content = block(entry)
    path, blobs = offloader.save_blob(entry.kind, content, ".json") if content else ("", ())
    line = stub(describe("", kind=entry.kind, about=media_blocks(entry), tokens=entry.tokens, path=path))
    edit = offloader.rewrite(entry, line, f"old {entry.kind}", blobs)
    return replace(edit, replacement=(replace(edit.replacement[0], kind="text"),))


def _result(offloader: Offloader, entry: Item, stub: Template) -> Edit:
    path, blobs = offloader.save_blob(entry.call_id, *readable(entry))
    tokens = max(0, entry.tokens - offloader.count_tokens(entry, entry.text))
    line = stub(describe("", kind="image", name=tool_name(offloader.view, entry), tokens=tokens, path=path))
    return offloader.rewrite(entry, f"{entry.text}\n{line}" if entry.text else line, "old image in a result", blobs)
