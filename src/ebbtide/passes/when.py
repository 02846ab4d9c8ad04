"""Conditions for passes: `when(condition, pass)` runs the pass only if the condition holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ebbtide.core.planner import Pass, PlanInput
from ebbtide.core.types import USER, Edit, Question
from ebbtide.core.view import View

Condition = Callable[[View, PlanInput], bool]


@dataclass(frozen=True, slots=True)
class ConditionalPass:
    """A pass that runs under a condition. A value, so that settings can reach the pass inside."""

    condition: Condition
    propose: Pass

    def __call__(self, view: View, plan_input: PlanInput) -> Iterable[Edit | Question]:
        return self.propose(view, plan_input) if self.condition(view, plan_input) else ()


def when(condition: Condition, propose: Pass) -> ConditionalPass:
    """Run the pass only if the condition holds."""
    return ConditionalPass(condition, propose)


def above(utilisation: float) -> Condition:
    """More than this share of the window is in use (R068)."""
    return lambda _, plan_input: plan_input.utilisation > utilisation


def idle_for(seconds: float) -> Condition:
    """The last call was at least so many seconds ago; false before the first call (R069)."""
    return lambda _, plan_input: plan_input.idle is not None and plan_input.idle >= seconds


def at_level(name: str) -> Condition:
    """The request has reached this threshold."""
    return lambda _, plan_input: plan_input.budget.levels.is_reached(plan_input.tokens, name)


def cold(_: View, plan_input: PlanInput) -> bool:
    """The provider has nothing of this request cached any more, so a rewrite costs nothing extra (R133)."""
    return plan_input.is_cache_cold


def end_of_loop(view: View, _: PlanInput) -> bool:
    """The request ends with a user message after an assistant message: the tool loop before it is over."""
    has_user_message, backwards = False, reversed(view.entries)
    for entry in backwards:
        if entry.role != "user":
            is_answer = entry.role == "assistant" or any(earlier.role == "assistant" for earlier in backwards)
            return has_user_message and is_answer
        has_user_message = has_user_message or entry.trust <= USER
    return False


def any_of(*conditions: Condition) -> Condition:
    return lambda view, plan_input: any(condition(view, plan_input) for condition in conditions)


def all_of(*conditions: Condition) -> Condition:
    return lambda view, plan_input: all(condition(view, plan_input) for condition in conditions)
