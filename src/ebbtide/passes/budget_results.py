"""As the window fills, results in history shrink to a budget of characters: head and tail (R121-R122).

The budget tightens with utilisation. A result is always cut from what it was before any budget, never from an already
budgeted text, so the marker tells the whole loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ebbtide.core.offload import Offloader, original_of, readable
from ebbtide.core.planner import PlanInput
from ebbtide.core.stub import render_budgeted
from ebbtide.core.text.preview import head_and_tail
from ebbtide.core.tool_calls import describe_item
from ebbtide.core.types import OURS, Edit, Item
from ebbtide.core.view import View

BY = "budget_results"


def budget_results(
    view: View,
    plan_input: PlanInput,
    *,
    loose: tuple[float, int] = (0.50, 30_000),  # from this utilisation on, chars (R067)
    tight: tuple[float, int] = (0.70, 15_000),  # above this one
    room: int = 80,  # chars for the marker: 46 and the number's digits
    marker: Callable[[int], str] = render_budgeted,
) -> Iterator[Edit]:
    """Shrink results of text over the budget. Lists of parts stay whole (R121), and so does what is not seen yet."""
    if plan_input.utilisation < loose[0]:
        return
    most = tight[1] if plan_input.utilisation > tight[0] else loose[1]
    offloader = Offloader(by=BY, view=view, plan_input=plan_input)
    for entry in view.results:
        if len(entry.text) <= most or entry.locked or entry.pinned or entry.id in view.unseen_ids:
            continue
        owner = view.edit_by_entry.get(entry.id)
        if (owner is None and entry.source == OURS) or (owner and owner.first != owner.last):
            continue
        item = original_of(view, entry)
        if item.media or describe_item(item) is not None:
            continue
        _, blobs = offloader.save_blob(entry.call_id, *readable(item))
        text = head_and_tail(_unbudgeted(view, entry), (most - room) // 2, marker)
        yield offloader.rewrite(entry, text, f"at {plan_input.utilisation:.0%}, over {most} chars", blobs)


def _unbudgeted(view: View, entry: Item) -> str:
    """The text before any budget: the original's, or the preview of an offloaded one."""
    owner = view.edit_by_entry.get(entry.id)
    if owner is None or owner.by != BY:
        return entry.text
    earlier = [
        edit for edit in view.active_edits if (edit.first, edit.last) == (owner.first, owner.last) and edit.by != BY
    ]
    return earlier[-1].replacement[0].text if earlier and earlier[-1].replacement else original_of(view, entry).text
