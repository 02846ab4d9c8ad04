"""Combinations of passes, where the order of a reference agent needs more than a list.

Each combination is a value that shows its passes, so that settings can reach them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from ebbtide.core.offload import original_of
from ebbtide.core.planner import Pass, PlanInput
from ebbtide.core.stub import Template, render
from ebbtide.core.types import Edit, Question
from ebbtide.core.view import View
from ebbtide.passes import clear_results, evict

SHORTENING_PASSES = frozenset(("offload_results", "limit_output", "truncate_results", "budget_results"))
"""Passes that leave a part of a result."""


@dataclass(frozen=True, slots=True)
class PassGroup:
    """Passes that see each other's edits, but all go by the context size before the first of them.

    The planner lowers the size after each pass; an agent that looks only at the last bill does not.
    """

    passes: tuple[Pass, ...]

    def __call__(self, view: View, plan_input: PlanInput) -> Iterable[Edit | Question]:
        for propose in self.passes:
            steps = list(propose(view, plan_input))
            yield from steps
            if steps:
                view = view.apply(step for step in steps if isinstance(step, Edit))


@dataclass(frozen=True, slots=True)
class OnOriginals:
    """A pass that sees the originals of results which the named passes shortened, and so may clear them."""

    shortened_by: frozenset[str]
    propose: Pass

    def __call__(self, view: View, plan_input: PlanInput) -> Iterator[Edit | Question]:
        if not any(edit.by in self.shortened_by for edit in view.edits):
            yield from self.propose(view, plan_input)
            return
        original_view = View.of(view.originals, (edit for edit in view.edits if edit.by not in self.shortened_by))
        shown_tokens = {original_of(view, entry).id: entry.tokens for entry in view.results}
        for step in self.propose(original_view, plan_input):
            # It saves what was shown, not the whole original.
            yield replace(step, saved=_saved(step, shown_tokens)) if isinstance(step, Edit) else step


def _saved(edit: Edit, shown_tokens: dict[str, int]) -> int:
    if edit.first != edit.last or edit.first not in shown_tokens:
        return edit.saved
    return shown_tokens[edit.first] - sum(item.tokens for item in edit.replacement)


def evict_oldest(stub: Template = render) -> tuple[Pass, ...]:
    """The last resort if there is no summary (D17): old exchanges, then results, then all but the last message.

    The user's messages stay. No reference agent has this step, but without it a preset whose summary failed would send
    a request that no provider accepts.
    """
    return (
        partial(evict, stub=stub),
        OnOriginals(SHORTENING_PASSES, partial(clear_results, keep_results=0)),
        partial(evict, keep=1, stub=stub),
    )
