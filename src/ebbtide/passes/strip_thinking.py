"""Thinking of finished turns goes; nobody reads it again. That of the open loop stays: the provider wants it (A37)."""

from __future__ import annotations

from collections.abc import Iterator

from ebbtide.core.cuts import find_loop_start
from ebbtide.core.offload import newest_turns
from ebbtide.core.planner import PlanInput, drop_item
from ebbtide.core.types import Edit
from ebbtide.core.view import View


def strip_thinking(view: View, plan_input: PlanInput, *, keep_turns: int = 0) -> Iterator[Edit]:
    """Drop thinking before the newest turns and before the open loop. The log keeps it; a stub would be of no use."""
    del plan_input
    for entry in view.entries[: _finished(view, keep_turns)]:
        if entry.kind == "thinking" and not entry.locked and not entry.pinned and not view.is_ours(entry):
            yield drop_item(entry, by="strip_thinking", reason="thinking of a finished turn")


def _finished(view: View, keep_turns: int) -> int:
    """Where what may change ends. A request that ends with the assistant's words is about to be continued."""
    continued = bool(view.entries) and view.entries[-1].role == "assistant"
    return min(newest_turns(view, keep_turns + continued), find_loop_start(view))
