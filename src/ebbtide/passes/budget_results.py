"""Shortens results in the history to a number of characters, head and tail, as the window fills (R121-R122).

A result is always cut from its text before any budget, so that the marker gives the whole loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ebbtide.core.offload import Offloader, original_of, readable
from ebbtide.core.planner import PlanInput
from ebbtide.core.preset_stubs import render_budgeted
from ebbtide.core.text.preview import head_and_tail
from ebbtide.core.tool_calls import describe_item
from ebbtide.core.types import OURS, Edit, Item
from ebbtide.core.view import View

BY = "budget_results"


def budget_results(
    view: View,
    plan_input: PlanInput,
    *,
    loose: tuple[float, int] = (
        0.50,
        30_000,
    ),  # from this share of the window in use, characters that a result may have (R067)
    tight: tuple[float, int] = (0.70, 15_000),  # the same above this share
    room: int = 80,  # characters for the marker
    marker: Callable[[int], str] = render_budgeted,
) -> Iterator[Edit]:
    """Shorten results over the budget to head and tail. Lists of parts (R121) and unseen results stay whole."""
    if plan_input.utilisation < loose[0]:
        return
    max_chars = tight[1] if plan_input.utilisation > tight[0] else loose[1]
    offloader = Offloader(by=BY, view=view, plan_input=plan_input)
    for entry in view.results:
        if len(entry.text) <= max_chars or entry.locked or entry.pinned or entry.id in view.unseen_ids:
            continue
        edit = view.edit_by_entry.get(entry.id)
        if (edit is None and entry.source == OURS) or (edit and edit.first != edit.last):
            continue
        item = original_of(view, entry)
        if item.media or describe_item(item) is not None:
            continue
        _, blobs = offloader.save_blob(entry.call_id, *readable(item))
        text = head_and_tail(_unbudgeted(view, entry), (max_chars - room) // 2, marker)
        yield offloader.rewrite(entry, text, f"at {plan_input.utilisation:.0%}, over {max_chars} chars", blobs)


def _unbudgeted(view: View, entry: Item) -> str:
    """The text before any budget: the original, or the preview of an offloaded result."""
    edit = view.edit_by_entry.get(entry.id)
    if edit is None or edit.by != BY:
        return entry.text
    earlier = [
        other for other in view.active_edits if (other.first, other.last) == (edit.first, edit.last) and other.by != BY
    ]
    return earlier[-1].replacement[0].text if earlier and earlier[-1].replacement else original_of(view, entry).text
