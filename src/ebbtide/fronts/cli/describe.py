"""Describes items, edits, times and reports in a few words. `screen` makes the text safe for a terminal."""

from __future__ import annotations

from datetime import UTC, datetime

from ebbtide.audit.history import Step
from ebbtide.core.text.preview import pluralize
from ebbtide.core.tool_calls import file_path, media_blocks
from ebbtide.core.types import HARNESS, Edit, Item
from ebbtide.display import round_number, short_number
from ebbtide.runtime import Report

MAX_PATH = 60  # characters of a path or media type


def describe_item(item: Item, step: Step | None = None, width: int = MAX_PATH) -> str:
    """As in `result of Read (src/app.py)`."""
    if item.kind in ("call", "result"):
        call = item if item.kind == "call" else step.find_call(item) if step else None
        path = file_path(call) if call else ""
        return f"{item.kind} of {item.name or 'an unknown tool'}" + (f" ({path_end(path, width)})" if path else "")
    if item.kind in ("image", "document"):
        return f"{item.kind} {media_blocks(item)[:MAX_PATH]}".rstrip()
    if item.kind == "text":
        return "reminder" if item.role == "user" and item.trust == HARNESS else f"{item.role} text"
    return item.kind


def describe_edit(edit: Edit, step: Step, width: int = MAX_PATH) -> str:
    """Say what an edit removed; paths are cut to `width` characters."""
    if edit.insert_after:
        return "a note, added"
    covered = step.covered_items(edit)
    if not covered:
        return "items that are not in the log"
    if len(covered) == 1:
        return describe_item(covered[0], step, width)
    if [item.kind for item in covered] == ["call", "result"]:
        return f"{describe_item(covered[0], None, width)} and its result"
    first, last = covered[0].message, covered[-1].message
    where = f"message {first}" if first == last else f"messages {first} to {last}"
    return f"{len(covered)} items, {where}"


def format_time(at: float) -> str:
    """UTC, to the second; empty if the time is unknown."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S") if at >= 1e6 else ""


def describe_report(report: Report, scale: float = 1.0) -> str:
    """One line on a request: its size before and after, and how much context is left.

    `scale` is how many times higher than estimated the report counts tokens.
    """
    before, after = (short_number(round(tokens / scale)) for tokens in (report.tokens_before, report.tokens_after))
    size = f"{before} tokens" if before == after else f"{before} → {after} tokens"
    margin = f", counted {scale - 1:.0%} higher to be sure" if scale > 1 else ""
    active = f"; {pluralize(report.held, 'edit')} active" if report.held else ""
    left = f"context left until it acts: {report.context_left:.0%}"
    return f"{size} of {round_number(report.window)}{margin}{active}; {left}"


def path_end(path: str, width: int) -> str:
    return path if len(path) <= width else "…" + path[1 - width :]
