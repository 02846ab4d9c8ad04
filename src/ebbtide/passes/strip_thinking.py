"""Drops thinking of finished turns. In the open tool loop it stays, because providers demand it (A37)."""

from __future__ import annotations

from collections.abc import Iterator

from ebbtide.core.edit_rules import drop_item, find_loop_start
from ebbtide.core.offload import newest_turns
from ebbtide.core.planner import PlanInput
from ebbtide.core.types import Edit
from ebbtide.core.view import View


def strip_thinking(view: View, plan_input: PlanInput, *, keep_turns: int = 0) -> Iterator[Edit]:
    """Drop thinking before the newest turns and before the open tool loop. The log keeps it."""
    del plan_input
    for entry in view.entries[: _finished_end(view, keep_turns)]:
        if entry.kind == "thinking" and not entry.locked and not entry.pinned and not view.is_ours(entry):
            yield drop_item(entry, by="strip_thinking", reason="thinking of a finished turn")


def _finished_end(view: View, keep_turns: int) -> int:
    """Where finished turns end. If the assistant wrote last, its turn goes on."""
    is_continued = bool(view.entries) and view.entries[-1].role == "assistant"
    return min(newest_turns(view, keep_turns + is_continued), find_loop_start(view))
