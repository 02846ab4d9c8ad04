"""Words for items, edits and moments. Nothing here is made safe for a terminal: `screen` does that on the way out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from ebbtide.audit.history import Step
from ebbtide.core.stub import parse
from ebbtide.core.text.pluralize import pluralize
from ebbtide.core.tool_calls import file_path, media_blocks
from ebbtide.core.types import HARNESS, Edit, Item
from ebbtide.display import round_number, short_number
from ebbtide.runtime import Report

_ABOUT = 60  # characters of a path or type that help to recognise it


def item_told(item: Item, step: Step | None = None) -> str:
    """As in `result of Read (src/app.py)`."""
    if item.kind in ("call", "result"):
        call = item if item.kind == "call" else step.call_of(item) if step else None
        about = file_path(call) if call else ""
        return f"{item.kind} of {item.name or 'an unknown tool'}" + (f" ({_tail(about)})" if about else "")
    if item.kind in ("image", "document"):
        return f"{item.kind} {media_blocks(item)[:_ABOUT]}".rstrip()
    if item.kind == "text":
        return "reminder" if item.role == "user" and item.trust == HARNESS else f"{item.role} text"
    return item.kind


def covered_told(covered: Sequence[Item], edit: Edit, step: Step) -> str:
    """What an edit took out, in a few words."""
    if edit.insert_after:
        return "a note, added"
    if not covered:
        return "items that are not in the log"
    if len(covered) == 1:
        return item_told(covered[0], step)
    calls = [item for item in covered if item.kind == "call"]
    if len(covered) == 2 and len(calls) == 1 and covered[1].kind == "result":
        return f"{item_told(calls[0])} and its result"
    first, last = covered[0].message, covered[-1].message
    where = f"message {first}" if first == last else f"messages {first} to {last}"
    return f"{len(covered)} items, {where}"


def way_back(edit: Edit) -> list[str]:
    """Names under which the content is kept: of the edit's own record, or what its stub says."""
    told = [blob.name for blob in edit.blobs]
    stubs = [stub for item in edit.replacement if (stub := parse(item.text)) is not None]
    return list(dict.fromkeys([*told, *(stub.handle for stub in stubs if stub.handle)]))


def moment(at: float) -> str:
    """UTC, to the second; empty for a request that has no time."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S") if at >= 1e6 else ""


def report_told(report: Report) -> str:
    """One line on a request: how full it was, what it became, and what is left until the policy acts."""
    before, after = short_number(report.tokens_before), short_number(report.tokens_after)
    size = f"{before} tokens" if before == after else f"{before} → {after} tokens"
    left = f"context left until auto-compact: {report.context_left:.0%}"
    held = f", {pluralize(report.held, 'edit')} held" if report.held else ""
    return f"{size} of {round_number(report.window)} ({report.level}){held}; {left}"


def _tail(path: str) -> str:
    """A path is recognised by its end."""
    return path if len(path) <= _ABOUT else "…" + path[1 - _ABOUT :]
