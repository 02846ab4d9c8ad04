"""Make a plan: which edits to apply to the view of one request. What it depends on is in `PlanInput`.

Passes run in order, gentlest first, and propose edits, best first. `make_plan` runs them in four steps:

1. `arrival` passes see what was never sent. They alone may edit results that the model has not read.
2. `always` passes run on every request and decide themselves whether to act.
3. `pressure` passes run over a threshold, or when the cache is cold anyway, until the request is down at low water.
   A batch that would rewrite a cached prefix must pay for itself, unless the threshold forces it.
4. `last_resort` passes run while the request is over the hard threshold.

An invalid edit is left out and reported, and so is a pass that raises: the others run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from ebbtide.core.cache.prefix import Prices, calls_ahead, calls_to_break_even, cheapest_spread
from ebbtide.core.edit_rules import (
    covered_range,
    drop_invalid_thinking,
    merge_hidden_edits,
    rejection_reason,
    unseen_reason,
)
from ebbtide.core.stub import BlobNames
from ebbtide.core.types import COMPACTION_PASSES, Answer, Edit, Question, Trigger
from ebbtide.core.view import View

LEVELS = ("calm", "warning", "soft", "auto", "hard", "blocking")
"""From nothing to do, to refuse. The presets map their own levels onto these."""
_FALLING = LEVELS[:0:-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """At how many tokens of the whole request each level begins."""

    warning: int
    soft: int
    auto: int
    """High water: make edits until the request is down at `low`."""
    hard: int
    """The request must end at or below this."""
    blocking: int
    """Refuse the request, where the policy says so."""
    low: int
    least: int = 0
    """What a batch below the hard level must free, and how far below high water it must end, or a compaction joins it.

    Less would have to be repeated a few turns later.
    """
    patience: float = 0.0
    """How many times the cheapest spread a request grows above `low` before a batch, where that is below `auto`. With 0
    the window alone decides."""
    inclusive: bool = False
    """Whether a level is reached at exactly its value (`>=`) or only above it (`>`)."""

    def is_reached(self, tokens: int, level: str) -> bool:
        threshold: int = getattr(self, level)
        return tokens >= threshold if self.inclusive else tokens > threshold

    def level_at(self, tokens: int) -> str:
        """Return the highest level that is reached."""
        for level in _FALLING:
            if self.is_reached(tokens, level):
                return level
        return LEVELS[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The window and the thresholds that follow from it."""

    window: int
    max_output: int = 0
    """The request's own `max_tokens`: a reply must fit too."""
    levels: Thresholds
    overhead: int = 0
    """Tokens of the request outside the view: system prompt and tools."""
    fixed: int = 0
    """Those, and system messages in the view that nothing removes."""

    @property
    def message_budget(self) -> int:
        """Tokens that the conversation may take."""
        return max(0, self.levels.blocking - max(self.fixed, self.overhead))


class CompactionInput(NamedTuple):
    """What is known about compaction, besides the view.

    It stays flat, at 16 fields, because the log records it so: a plan must be repeatable from the record.
    """

    answers: Mapping[str, Answer] = {}
    """By the key of the question. Not recorded with the plan: answers are records of their own."""
    asks: bool = False
    """Whether a model can be asked: there is one, and it has not failed too often."""
    live: bool = False
    """Whether files and notes can be read as they are now."""
    focus: str = ""
    """What a person wants to keep above all."""
    instructions: tuple[str, ...] = ()
    """What the project says about summaries."""
    summary: str = ""
    """A person's own summary instead of a model's."""
    first: str = ""
    """Compact from this item on, if a person said so; else from the beginning."""
    last: str = ""
    """Compact up to this item, if a person said so."""
    after: int | None = None
    """Tokens of the request after the newest compaction; None before the first."""
    stalled: bool = False
    """The last compactions made no room."""
    forbidden: bool = False
    """A hook forbade compaction this time. Not recorded: a plan without compaction is the same."""
    waiting: bool = False
    """A model is being asked in the background: only the hard level compacts without its answer."""
    way: str = "path"
    """How the model can read what was removed: by `path`, by `tool`, or `off`, not at all."""
    transcript: str = ""
    """Where the whole conversation can be read."""
    tool: str = ""
    """The tool by which the model can find and read what was removed."""
    children: tuple[tuple[str, str], ...] = ()
    """Finished sub-agents with their results. Not recorded: they are records of their own."""


def _quarter(text: str) -> int:
    return -(-len(text) // 4)


class PlanInput(NamedTuple):
    """What a pass may know besides the view.

    All of it is passed in and recorded, so that a plan can be made again. It stays flat, at 22 fields, because a pass
    reads two or three of them and the log records them side by side.
    """

    budget: Budget
    tokens: int
    """Size of the whole request, based on the last usage where there is one."""
    scale: float = 1.0
    """How much `tokens` falls for each estimated token that is removed: calibration and safety margins."""
    scale_new: float = 1.0
    """The same for entries that were never sent: 0 where `tokens` is the last bill, which does not include them."""
    utilisation: float = 0.0
    """`tokens` over the space that the policy counts as usable."""
    cached_entries: int = 0
    """How many leading entries the provider still has cached."""
    kept_entries: int = 0
    """The same if everything after them has expired, because they alone are kept for an hour; else 0."""
    first_unsent: int = 0
    """Index of the first entry that was never sent: from there on changes are free."""
    idle: float | None = None
    """Seconds since the last call; None before the first."""
    trigger: Trigger = "auto"
    target: int | None = None
    """Tokens of results that a clear may keep, if a person or the caller named it (R136)."""
    growth: int = 0
    """Tokens that a call adds, on average so far."""
    prices: Prices = Prices(read=0.1, write=1.25)
    count_tokens: Callable[[str], int] = _quarter
    """How the policy counts the tokens of a text. Not recorded: it follows from the policy."""
    result_overhead: int = 0
    """Tokens around the text of a result or a stub. Not recorded: it follows from the policy."""
    message_overhead: int = 0
    """Tokens around the content of a message. Not recorded: it follows from the policy."""
    blob_names: BlobNames | None = None
    """Where removed content is stored; None if nothing is stored."""
    thinking_bound_to_prefix: bool = False
    """Signed thinking is bound to everything before it (A63)."""
    cleared: frozenset[str] = frozenset()
    """Call ids of results that the client had cleared before its session was resumed here (R149)."""
    compaction: CompactionInput = CompactionInput()
    forced: bool = False
    """The request was over high water at the start, so it is rewritten anyway. The planner sets it."""
    now: float = 0.0

    @property
    def level(self) -> str:
        return self.budget.levels.level_at(self.tokens)

    @property
    def is_cache_cold(self) -> bool:
        """The provider has nothing of this request cached any more, or only what is kept for an hour: a rewrite of the
        rest costs nothing extra (R133)."""
        return self.idle is not None and (self.cached_entries == 0 or self.kept_entries > 0)

    def after_freeing(self, freed: int) -> PlanInput:
        """Return the input after so many estimated tokens were removed from the view."""
        if not freed:
            return self
        tokens = max(0, self.tokens - round(freed * self.scale))
        share = tokens / self.tokens if self.tokens else 0.0
        return self._replace(tokens=tokens, utilisation=self.utilisation * share)

    @property
    def batch_at(self) -> int:
        """Tokens from which a batch is made: where it costs least by growth and prices, and at `auto` at the latest."""
        levels = self.budget.levels
        if not levels.patience or not self.growth:
            return levels.auto
        spread = cheapest_spread(rewritten=levels.low, growth=self.growth, prices=self.prices)
        return int(min(levels.auto, levels.low + max(levels.least, levels.patience * spread)))

    @property
    def least_to_free(self) -> int:
        """What a batch below the hard level must free: less, if batches are made below `auto`."""
        levels = self.budget.levels
        spread, whole = self.batch_at - levels.low, levels.auto - levels.low
        return levels.least * spread // whole if 0 < spread < whole else levels.least

    @property
    def tokens_to_free(self) -> int:
        """Tokens to free to be back at low water."""
        return max(0, self.tokens - self.budget.levels.low)


Pass = Callable[[View, PlanInput], Iterable[Edit | Question]]
"""Looks at a view and proposes edits. Its keyword arguments are its settings. It has no other input or output."""


# --- the plan ---------------------------------------------------------------------------------------------------------

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

    @property
    def is_compaction(self) -> bool:
        """Whether it compacts, or would with an answer."""
        return bool(self.questions) or any(edit.by in COMPACTION_PASSES for edit in self.edits)


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
    # A request that is sent again gets no batch that its first plan did not make: prices know a little more by then.
    is_new = start.first_unsent < len(draft.view.entries)
    pays = is_new and start.tokens > start.batch_at
    is_forced = start.trigger != "auto" or levels.is_reached(start.tokens, "auto") or pays
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
    if start.kept_entries and not _changes_kept_entries(draft.view, edits, start):
        return trial, ""
    has_questions = len(trial.questions) > len(draft.questions)
    reason = "" if has_questions else _too_little_reason(start, trial.plan_input)
    if not reason and not is_forced:
        reason = _too_costly_reason(draft.view, trial.view, edits, start)
    return (draft, reason) if reason else (trial, "")


def _is_pressure_due(start: PlanInput) -> bool:
    """Whether the request is over the soft level, or over the first one where the cache is cold anyway."""
    return start.budget.levels.is_reached(start.tokens, "warning" if start.is_cache_cold else "soft")


def _changes_kept_entries(view: View, edits: Sequence[Edit], start: PlanInput) -> bool:
    """Whether a batch changes what is still cached after a pause."""
    first_expired = _first_expired(view, start)
    return any(view.index[edit.insert_after or edit.first] < first_expired for edit in edits)


def _first_expired(view: View, start: PlanInput) -> int:
    """Return the index of the first original that has expired since the last call; all of them if none has."""
    kept = covered_range(view, 0, start.kept_entries) if start.kept_entries else None
    return view.index[kept[1]] + 1 if kept else len(view.originals)


def _too_little_reason(start: PlanInput, end: PlanInput) -> str:
    """Return why a batch should wait: it costs the cached prefix and frees too little. Else ""."""
    freed, least = start.tokens - end.tokens, start.least_to_free
    return f"it would free {freed:,} tokens, and a batch is worth it from {least:,} on" if freed < least else ""


def _too_costly_reason(before: View, after: View, edits: Sequence[Edit], start: PlanInput) -> str:
    """Return why a batch would cost more than it saves in the calls to come (design, Economics). Else ""."""
    removed = before.tokens - after.tokens
    first = min(before.index[edit.first or edit.insert_after] for edit in edits)
    rewritten = sum(item.tokens for item in before.originals[first : _first_expired(before, start)])
    if not start.kept_entries:
        rewritten -= removed
    calls = calls_to_break_even(removed=removed, put=0, after=max(0, rewritten), prices=start.prices)
    expected = calls_ahead(tokens=start.tokens, high=start.batch_at, growth=start.growth)
    if calls < expected:
        return ""
    return f"a rewrite now pays after {calls:.0f} calls, and {expected:.0f} are expected"


def _finish_edits(view: View, draft: _Draft) -> tuple[tuple[Edit, ...], View]:
    """Merge what larger edits hide, drop the thinking that the edits invalidate, and return the final view too."""
    merged = merge_hidden_edits(view, draft.edits)
    is_bound = draft.plan_input.thinking_bound_to_prefix
    thinking = [view.bind(edit) for edit in drop_invalid_thinking(view, merged, is_bound_to_prefix=is_bound)]
    edits = (*merged, *thinking)
    return edits, draft.view if edits == tuple(draft.edits) else view.apply(edits)
