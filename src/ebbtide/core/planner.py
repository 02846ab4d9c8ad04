"""Make a plan: which edits to apply to the view of one request.

Passes run in order, gentlest first, and propose edits, best first. `make_plan` runs them in four steps:

1. `arrival` passes see what was never sent. They alone may edit results that the model has not read.
2. `always` passes run on every request and decide themselves whether to act.
3. `pressure` passes run over a threshold, or when the cache is cold anyway, until the request is down at low water.
   A batch that would rewrite a cached prefix must pay for itself, unless the threshold forces it.
4. `last_resort` passes run while the request is over the hard threshold.

An invalid edit is left out and reported, and so is a pass that raises: the others run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from ebbtide.core.cache.economics import calls_ahead, calls_to_break_even
from ebbtide.core.cuts import find_loop_start
from ebbtide.core.edit_rules import rejection_reason, unseen_reason
from ebbtide.core.plan_input import Budget, Pass, PlanInput
from ebbtide.core.types import Edit, Item, Question
from ebbtide.core.view import View

_MAX_PROPOSALS = 1_000
"""How many edits a pass may propose, with four more for each entry. A pass that proposes more may never end."""


class Failure(NamedTuple):
    """A pass that raised. Everything that it proposed is left out."""

    name: str
    reason: str
    error: Exception


class Plan(NamedTuple):
    """What was decided for one request."""

    before: View
    after: View
    edits: tuple[Edit, ...] = ()
    questions: tuple[Question, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0
    level: str = "calm"
    """The level before any edit."""
    deferred_reason: str = ""
    """Why possible edits were not made."""
    rejected: tuple[tuple[Edit, str], ...] = ()
    """Invalid edits, with the reason: each is a bug of a pass."""
    failures: tuple[Failure, ...] = ()


def make_plan(
    view: View,
    pressure: Sequence[Pass],
    budget: Budget,
    plan_input: PlanInput | None = None,
    *,
    arrival: Sequence[Pass] = (),
    always: Sequence[Pass] = (),
    last_resort: Sequence[Pass] = (),
) -> Plan:
    """Run the passes over a view. Pure: equal input gives equal bytes."""
    start = plan_input or PlanInput(budget=budget, tokens=view.tokens + budget.overhead)
    draft = _Draft(view, start)
    for run_pass in arrival:
        draft.run(run_pass, is_arrival=True)
    for run_pass in always:
        draft.run(run_pass)
    draft, deferred_reason = _relieve_pressure(draft, pressure)
    for run_pass in last_resort:
        if draft.plan_input.tokens <= budget.levels.hard:
            break
        draft.run(run_pass, target=budget.levels.hard)
    edits: tuple[Edit, ...] = ()
    after = view
    if draft.edits:
        edits, after = _finish_edits(view, draft)
    return Plan(
        before=view,
        after=after,
        edits=edits,
        questions=tuple(draft.questions),
        tokens_before=start.tokens,
        tokens_after=draft.plan_input.after_freeing(draft.view.tokens - after.tokens).tokens,
        level=start.level,
        deferred_reason=deferred_reason,
        rejected=tuple(draft.rejected),
        failures=tuple(draft.failures),
    )


@dataclass(slots=True)
class _Draft:
    """The plan so far: the view with the edits taken, and the plan input after them."""

    view: View
    plan_input: PlanInput
    edits: list[Edit] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    rejected: list[tuple[Edit, str]] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def run(self, run_pass: Pass, *, target: int | None = None, is_arrival: bool = False) -> None:
        """Take the edits of a pass, in its order, until the request is at `target`. The view changes once, at the end.

        Users write passes too. If one raises, all that it proposed is left out and the draft stays as it was.
        """
        questions, rejected = len(self.questions), len(self.rejected)
        try:
            edits = self._take_edits(run_pass, target, is_arrival)
            if edits:
                self._apply(edits, is_arrival)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other passes run
            del self.questions[questions:], self.rejected[rejected:]
            self.failures.append(Failure(_pass_name(run_pass), f"{type(error).__name__}: {str(error)[:200]}", error))

    def _take_edits(self, run_pass: Pass, target: int | None, is_arrival: bool) -> list[Edit]:
        edits: list[Edit] = []
        freed, limit = 0, _MAX_PROPOSALS + 4 * len(self.view.entries)
        for number, proposal in enumerate(islice(run_pass(self.view, self.plan_input), limit + 1)):
            if number == limit:
                raise RuntimeError(f"it proposed more than {limit:,} edits")
            if isinstance(proposal, Question):
                self.questions.append(proposal)
                continue
            if not isinstance(proposal, Edit):
                raise TypeError(f"it proposed {type(proposal).__name__!r}, which is no Edit")
            edit = self.view.bind(proposal)
            reason = rejection_reason(self.view, edit) or ("" if is_arrival else unseen_reason(self.view, edit))
            if reason:
                self.rejected.append((edit, reason))
                continue
            if edit.saved <= 0 and not edit.insert_after:
                continue
            edits.append(edit)
            freed += edit.saved
            if target is not None and self.plan_input.tokens - round(freed * self.plan_input.scale) <= target:
                break
        return edits

    def _apply(self, edits: Sequence[Edit], is_arrival: bool) -> None:
        after = self.view.apply(edits)
        # What this pass freed counts before a heavier pass is considered (R043).
        scale = self.plan_input.scale_new / self.plan_input.scale if is_arrival else 1.0
        plan_input = self.plan_input.after_freeing(round((self.view.tokens - after.tokens) * scale))
        if plan_input.tokens > plan_input.budget.levels.hard and plan_input.message_overhead:
            # Of a thousand short messages this is most of what they cost. It matters where the request would be
            # refused otherwise; elsewhere the next bill shows it.
            removed_messages = max(0, self.view.message_count - after.message_count)
            plan_input = plan_input.after_freeing(plan_input.message_overhead * removed_messages)
        if plan_input.scale_new == 0 and any(edit.first != edit.last for edit in edits):
            # The last bill says nothing about the size after a compaction (R044).
            estimate = after.tokens + plan_input.budget.overhead
            plan_input = plan_input._replace(tokens=min(plan_input.tokens, estimate))
        self.view, self.plan_input = after, plan_input
        self.edits.extend(edits)


def _pass_name(run_pass: Pass) -> str:
    """Return the name of the pass function, also of one with settings or a condition around it."""
    inner: object = run_pass
    while (wrapped := getattr(inner, "func", None) or getattr(inner, "propose", None)) is not None:
        inner = wrapped
    return str(getattr(inner, "__name__", type(inner).__name__))


def _relieve_pressure(draft: _Draft, passes: Sequence[Pass]) -> tuple[_Draft, str]:
    """Run the pressure passes if a threshold calls for it. Return also why a possible batch was not made."""
    start, levels = draft.plan_input, draft.plan_input.budget.levels
    is_forced = start.trigger != "auto" or levels.is_reached(start.tokens, "auto")
    if not is_forced and not _is_pressure_due(start):
        return draft, ""
    # What is rejected or fails is reported in any case, so both drafts share those lists.
    trial = replace(
        draft, plan_input=start._replace(forced=is_forced), edits=[*draft.edits], questions=[*draft.questions]
    )
    # A person who asks for it wants it done, however much room there is.
    target = levels.low if start.trigger != "manual" else -1
    for run_pass in passes:
        if trial.plan_input.tokens <= target:
            break
        trial.run(run_pass, target=target)
    edits = trial.edits[len(draft.edits) :]
    if not edits or start.trigger != "auto" or not start.cached_entries or levels.is_reached(start.tokens, "hard"):
        return trial, ""
    has_questions = len(trial.questions) > len(draft.questions)
    reason = "" if has_questions else _too_little_reason(start, trial.plan_input)
    if not reason and not is_forced:
        reason = _too_costly_reason(draft.view, trial.view, edits, start)
    return (draft, reason) if reason else (trial, "")


def _is_pressure_due(start: PlanInput) -> bool:
    """Whether the request is over the soft level, or over the first one where the cache is cold anyway."""
    return start.budget.levels.is_reached(start.tokens, "warning" if start.is_cache_cold else "soft")


def _too_little_reason(start: PlanInput, end: PlanInput) -> str:
    """Return why a batch should wait: it costs the cached prefix and frees too little. Else ""."""
    freed, least = start.tokens - end.tokens, start.budget.levels.least
    return f"it would free {freed:,} tokens, and a batch is worth it from {least:,} on" if freed < least else ""


def _too_costly_reason(before: View, after: View, edits: Sequence[Edit], start: PlanInput) -> str:
    """Return why a batch would cost more than it saves in the calls to come (design, Economics). Else ""."""
    removed = before.tokens - after.tokens
    first = min(before.index[edit.first or edit.insert_after] for edit in edits)
    rewritten = sum(item.tokens for item in before.originals[first:]) - removed
    calls = calls_to_break_even(removed=removed, put=0, after=max(0, rewritten), prices=start.prices)
    expected = calls_ahead(tokens=start.tokens, high=start.budget.levels.auto, growth=start.growth)
    if calls < expected:
        return ""
    return f"a rewrite now pays after {calls:.0f} calls, and {expected:.0f} are expected"


def _finish_edits(view: View, draft: _Draft) -> tuple[tuple[Edit, ...], View]:
    """Merge what larger edits hide, drop the thinking that the edits invalidate, and return the final view too."""
    merged = _merge_hidden_edits(view, draft.edits)
    thinking = [view.bind(edit) for edit in _drop_invalid_thinking(view, merged, draft.plan_input)]
    edits = (*merged, *thinking)
    return edits, draft.view if edits == tuple(draft.edits) else view.apply(edits)


def _merge_hidden_edits(view: View, edits: Sequence[Edit]) -> list[Edit]:
    """Leave out edits inside a larger one of the same plan: a result that was cleared and then compacted needs no stub.

    The larger edit takes over their savings, and the blobs that its text still names.
    """
    spans = [
        (view.index[edit.insert_after or edit.first], view.index[edit.insert_after or edit.last]) for edit in edits
    ]
    wide = [n for n, (first, last) in enumerate(spans) if first < last]
    if not wide:
        return list(edits)
    saved = [edit.saved for edit in edits]
    blobs = [list(edit.blobs) for edit in edits]
    hidden: set[int] = set()
    for n, (first, last) in enumerate(spans):
        owners = [
            m for m in wide if m != n and spans[m][0] <= first and last <= spans[m][1] and spans[m] != (first, last)
        ]
        if owners:
            hidden.add(n)
            owner = owners[-1]
            saved[owner] += edits[n].saved
            text = "".join(item.text for item in edits[owner].replacement)
            blobs[owner] += [blob for blob in edits[n].blobs if blob.name in text and blob not in blobs[owner]]
    return [
        replace(edit, saved=saved[n], blobs=tuple(blobs[n])) if n in wide else edit
        for n, edit in enumerate(edits)
        if n not in hidden
    ]


def _drop_invalid_thinking(view: View, edits: Sequence[Edit], plan_input: PlanInput) -> list[Edit]:
    """Drop the signed thinking after the first changed item: the edits invalidate it (A63).

    Where thinking is not bound to its prefix, that of the open loop stays: it must open the assistant's turn (A37).
    """
    first_changed = min(view.index[edit.first or edit.insert_after] for edit in edits)
    covered = {i for edit in edits if edit.first for i in range(view.index[edit.first], view.index[edit.last] + 1)}
    end = len(view.entries) if plan_input.thinking_bound_to_prefix else find_loop_start(view)
    return [
        drop_item(entry, by="thinking", reason="bound to what an edit changed")
        for entry in view.entries[:end]
        if entry.kind == "thinking"
        and not entry.locked
        and entry.id not in view.edit_by_entry
        and view.index[entry.id] >= first_changed
        and view.index[entry.id] not in covered
    ]


def drop_item(item: Item, *, by: str, reason: str) -> Edit:
    """Build an edit that removes one item."""
    return Edit(by=by, first=item.id, last=item.id, reason=reason, saved=max(1, item.tokens))
