"""When a pass may speak. A condition looks at the view and the plan_input, and `when` puts it before a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ebbtide.core.planner import Pass, PlanInput
from ebbtide.core.types import USER, Edit, Question
from ebbtide.core.view import View

Condition = Callable[[View, PlanInput], bool]


@dataclass(frozen=True, slots=True)
class ConditionalPass:
    """A pass behind a condition. A value, so that a policy's passes can be found and set again."""

    condition: Condition
    propose: Pass

    def __call__(self, view: View, plan_input: PlanInput) -> Iterable[Edit | Question]:
        return self.propose(view, plan_input) if self.condition(view, plan_input) else ()


def when(condition: Condition, propose: Pass) -> ConditionalPass:
    """The pass, silent unless the condition holds."""
    return ConditionalPass(condition, propose)


def above(utilisation: float) -> Condition:
    """More of the window is in use than this (R068)."""
    return lambda _, plan_input: plan_input.utilisation > utilisation


def idle_for(seconds: float) -> Condition:
    """The last call is at least so long ago; never before the first (R069)."""
    return lambda _, plan_input: plan_input.idle is not None and plan_input.idle >= seconds


def at_level(name: str) -> Condition:
    """The request has reached this level of the budget."""
    return lambda _, plan_input: plan_input.budget.levels.is_reached(plan_input.tokens, name)


def cold(_: View, plan_input: PlanInput) -> bool:
    """The provider keeps nothing of this request any more: a rewrite costs nothing extra (R133)."""
    return plan_input.is_cache_cold


def end_of_loop(view: View, _: PlanInput) -> bool:
    """The request ends with the user's words, after an assistant's: the tool loop before them is over."""
    spoken, back = False, reversed(view.entries)
    for entry in back:
        if entry.role != "user":
            return spoken and (entry.role == "assistant" or any(one.role == "assistant" for one in back))
        spoken = spoken or entry.trust <= USER
    return False


def any_of(*conditions: Condition) -> Condition:
    return lambda view, plan_input: any(condition(view, plan_input) for condition in conditions)


def all_of(*conditions: Condition) -> Condition:
    return lambda view, plan_input: all(condition(view, plan_input) for condition in conditions)
