"""What a batch of edits does to the cached prefix: recorded when it is made, since only then both views are at hand."""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.core.cuts import covered_range
from ebbtide.core.prefix import common_prefix_length
from ebbtide.core.types import Edit
from ebbtide.core.view import View


def rewrite_cost(
    before: View, after: View, edits: Sequence[Edit], warm: int, *, each: float = 1.0
) -> dict[str, object]:
    """In estimated tokens. `warm` leading entries of the view before were in the provider's cache.

    `out`: what the view lost in all. `after`: kept, warm, behind the first change, so written again. `put`: stand-ins
    for what was warm. `fresh`: which of the edits, by place in the batch, changed nothing that was warm. `each` is what
    the policy counts for a token of an item when it adds up a request.
    """
    edge = _edge(before, warm)
    fresh = [n for n, edit in enumerate(edits) if before.index[edit.insert_after or edit.first] >= edge]
    told = {"out": round((before.tokens - after.tokens) * each), "after": 0, "put": 0, "fresh": fresh}
    old = {edit.id for n, edit in enumerate(edits) if n not in set(fresh)}
    if not old:
        return told
    stays = {entry.id for entry in after.entries}
    known = {entry.id for entry in before.entries}
    first = common_prefix_length([entry.id for entry in before.entries], [entry.id for entry in after.entries])
    kept = sum(entry.tokens for entry in before.entries[first:warm] if entry.id in stays)
    new = [entry for entry in after.entries if entry.id not in known and entry.id in after.edit_by_entry]
    put = sum(entry.tokens for entry in new if after.edit_by_entry[entry.id].id in old)
    return {**told, "after": round(kept * each), "put": round(put * each)}


def _edge(view: View, warm: int) -> int:
    """Place in `items` of the first original that no warm entry stands for."""
    covered = covered_range(view, 0, warm)
    return view.index[covered[1]] + 1 if covered else 0
