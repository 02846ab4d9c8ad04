"""Cuts new results that are still too long after they were offloaded to head and tail (R099-R101).

The whole result is saved all the same: nothing is cut that was not saved (R104).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ebbtide.core.offload import Offloader, original_of, readable
from ebbtide.core.planner import PlanInput
from ebbtide.core.preset_stubs import render_truncated
from ebbtide.core.text.preview import head_and_tail
from ebbtide.core.types import OURS, Edit
from ebbtide.core.view import View


def truncate_results(
    view: View,
    plan_input: PlanInput,
    *,
    limit: int = 50_000,  # characters (R099)
    room: int = 60,  # characters for the marker
    marker: Callable[[int], str] = render_truncated,
) -> Iterator[Edit]:
    """Cut new results, and the previews of offloaded ones, to the limit, head and tail."""
    offloader = Offloader(by="truncate_results", view=view, plan_input=plan_input)
    for entry in view.entries[plan_input.first_unsent :]:
        if entry.kind != "result" or entry.media or len(entry.text) <= limit or entry.locked or entry.pinned:
            continue
        if entry.source == OURS and entry.id not in view.edit_by_entry:
            continue
        _, blobs = offloader.save_blob(entry.call_id, *readable(original_of(view, entry)))
        text = head_and_tail(entry.text, (limit - room) // 2, marker)
        yield offloader.rewrite(entry, text, f"{len(entry.text)} chars, over {limit}", blobs)
