"""How passes act together where a seed's order needs more than a list.

Each combination is a value that shows its passes, so that settings reach them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ebbtide.core.offload import original_of
from ebbtide.core.planner import Pass, PlanInput
from ebbtide.core.types import Edit, Question
from ebbtide.core.view import View

SHORTENING_PASSES = frozenset(("offload_results", "limit_output", "truncate_results", "budget_results"))
"""Passes that leave a part of a result standing."""


@dataclass(frozen=True, slots=True)
class PassGroup:
    """Passes that see each other's edits, and all go by the gauge as it was before the first of them.

    The engine lowers the gauge after each pass; a seed that looks only at the last bill does not.
    """

    passes: tuple[Pass, ...]

    def __call__(self, view: View, plan_input: PlanInput) -> Iterable[Edit | Question]:
        for propose in self.passes:
            made = list(propose(view, plan_input))
            yield from made
            if made:
                view = view.apply(step for step in made if isinstance(step, Edit))


@dataclass(frozen=True, slots=True)
class OnOriginals:
    """A pass that may take out what the named passes only shortened. Other stand-ins stay closed to it."""

    shortened_by: frozenset[str]
    propose: Pass

    def __call__(self, view: View, plan_input: PlanInput) -> Iterator[Edit | Question]:
        if not any(edit.by in self.shortened_by for edit in view.edits):
            yield from self.propose(view, plan_input)
            return
        under = View.of(view.originals, (edit for edit in view.edits if edit.by not in self.shortened_by))
        shown = {original_of(view, entry).id: entry.tokens for entry in view.results}
        for step in self.propose(under, plan_input):
            # What leaves is what was shown, not the whole that lies under it.
            yield replace(step, saved=_saved(step, shown)) if isinstance(step, Edit) else step


def _saved(edit: Edit, shown: dict[str, int]) -> int:
    if edit.first != edit.last or edit.first not in shown:
        return edit.saved
    return shown[edit.first] - sum(item.tokens for item in edit.replacement)
