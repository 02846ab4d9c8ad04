"""The one function the library exists for: a view in, a plan out.

Passes run in order, gentlest first, and propose edits, best first. *Arrival* passes see what was never sent; those in
`always` run on every request and decide for themselves; those under `pressure` run only over a level, or when the cache
is cold anyway, and the engine takes their edits one by one until the view is down at low water. A batch that would
rewrite a warm prefix must pay for itself, unless the level forces it. What the pairing rule refuses is left out and
reported, and so is a pass that breaks: the others run. Results that the model has not seen yet may be offloaded on
arrival, and are otherwise left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from ebbtide.core.blob_names import BlobNames
from ebbtide.core.cache.economics import Prices, calls_ahead, calls_to_break_even
from ebbtide.core.cuts import find_loop_start
from ebbtide.core.edit_rules import rejection_reason, unseen_reason
from ebbtide.core.types import Answer, Edit, Item, Question, Trigger
from ebbtide.core.view import View

LEVELS = ("calm", "warning", "soft", "auto", "hard", "blocking")
"""From nothing to do, to refuse. The presets map their own levels onto these."""
_FALLING = LEVELS[:0:-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Where things begin to happen, in tokens of the whole request."""

    warning: int
    soft: int
    auto: int
    """High water: act, and go down to `low`."""
    hard: int
    """The request must come out at or below this."""
    blocking: int
    """Refuse politely, where the policy says so."""
    low: int
    least: int = 0
    """What a batch must free below the hard level, and how far below high water it must end, or a fold goes with it.

    Less would be done again a few turns later.
    """
    inclusive: bool = False
    """Whether a level is reached at exactly its value (`>=`) or only above it (`>`)."""

    def is_reached(self, tokens: int, level: str) -> bool:
        mark: int = getattr(self, level)
        return tokens >= mark if self.inclusive else tokens > mark

    def level_at(self, tokens: int) -> str:
        """The highest level reached."""
        least = tokens if self.inclusive else tokens - 1
        for name in _FALLING:
            if least >= getattr(self, name):
                return name
        return LEVELS[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One dial, the window, and the levels that follow from it."""

    window: int
    max_output: int = 0
    """The request's own `max_tokens`: a reply must fit too."""
    levels: Thresholds
    overhead: int = 0
    """Tokens of the request outside the view: system prompt and tools."""

    @property
    def message_budget(self) -> int:
        """Tokens that the conversation itself may take."""
        return max(0, self.levels.blocking - self.overhead)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionInput:
    """What is known about folding old turns, besides the view."""

    answers: Mapping[str, Answer] = field(default_factory=dict)
    """By the key of what was asked. Not journaled with the plan: they are records of their own."""
    asks: bool = False
    """Whether a model can be asked: there is one, and its breaker is closed."""
    live: bool = False
    """Whether files and notes can be read as they are now."""
    focus: str = ""
    """What a person wants kept above all."""
    instructions: tuple[str, ...] = ()
    """What the project says about summaries."""
    summary: str = ""
    """A person's own words instead of a model's."""
    first: str = ""
    """Fold from this item on, where a person said so; else from the beginning."""
    last: str = ""
    """Fold up to this item, where a person said so."""
    after: int | None = None
    """The gauge after the newest fold; None before the first."""
    stalled: bool = False
    """The last folds made no room."""
    forbidden: bool = False
    """Somebody said no to a fold this time. Not journaled: a plan without one comes out the same."""
    waiting: bool = False
    """A model is being asked in the background: only the hard level folds without it."""
    way: str = "path"
    """How the model gets at what left: by `path`, by `tool`, or `off`, not at all."""
    transcript: str = ""
    """Where the whole conversation can be read."""
    tool: str = ""
    """The tool by which the model can find and read what left."""
    children: tuple[tuple[str, str], ...] = ()
    """Sub-agents that are done, with what they brought. Not journaled: they are records of their own."""


def _quarter(text: str) -> int:
    return -(-len(text) // 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInput:
    """What a pass may know besides the view. All of it is passed in and journaled, so that a plan can be made again."""

    budget: Budget
    tokens: int
    """The gauge: the whole request, anchored on the last usage where there is one."""
    scale: float = 1.0
    """How much of the gauge one estimated token moves: calibration and safety margins."""
    scale_new: float = 1.0
    """The same for what was never sent: 0 where the gauge is the last bill, which has nothing of it."""
    utilisation: float = 0.0
    """The gauge over the space that the policy counts as usable."""
    cached_entries: int = 0
    """How many leading entries the provider still has cached."""
    first_unsent: int = 0
    """Place of the first entry never sent yet: from there on changes are free."""
    idle: float | None = None
    """Seconds since the last call; None before the first."""
    trigger: Trigger = "auto"
    target: int | None = None
    """Tokens of results that a clear may leave, where a person or the caller named it (R136)."""
    calls_left: float = float("inf")
    """How many calls are expected before the cache goes cold."""
    growth: int = 0
    """Tokens that a call adds, on average so far."""
    prices: Prices = field(default_factory=lambda: Prices(read=0.1, write=1.25))
    count_tokens: Callable[[str], int] = _quarter
    """How the policy counts the tokens of a text. Not journaled: it follows from the policy."""
    result_overhead: int = 0
    """Tokens around a result besides its text, a stub's as well. Not journaled: it follows from the policy."""
    message_overhead: int = 0
    """Tokens around a message besides what is in it. Not journaled: it follows from the policy."""
    blob_names: BlobNames | None = None
    """Where content goes that leaves; None where nothing is kept."""
    thinking_bound_to_prefix: bool = False
    """Signed thinking is bound to all before it (A63)."""
    cleared: frozenset[str] = frozenset()
    """Call ids of results that the client had cleared before its session was resumed here (R149)."""
    compaction: CompactionInput = field(default_factory=CompactionInput)
    forced: bool = False
    """The request was over high water before anything was done: it is rewritten anyway. The engine says so."""
    now: float = 0.0

    @property
    def level(self) -> str:
        return self.budget.levels.level_at(self.tokens)

    @property
    def is_cache_cold(self) -> bool:
        """The provider keeps nothing of this request any more: a rewrite costs nothing extra (R133)."""
        return self.idle is not None and self.cached_entries == 0

    def after_freeing(self, freed: int) -> PlanInput:
        """After so many estimated tokens left the view."""
        if not freed:
            return self
        tokens = max(0, self.tokens - round(freed * self.scale))
        share = tokens / self.tokens if self.tokens else 0.0
        return replace(self, tokens=tokens, utilisation=self.utilisation * share)

    @property
    def tokens_to_free(self) -> int:
        """Tokens to free to be back at low water."""
        return max(0, self.tokens - self.budget.levels.low)


Pass = Callable[[View, PlanInput], Iterable[Edit | Question]]
"""Looks at a view and proposes. Its keyword arguments are its settings. It has no other way in or out."""


class Failure(NamedTuple):
    """A pass that broke. All that it proposed is left out."""

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
    """The level before anything was done."""
    deferred_reason: str = ""
    """Why edits that were possible were not made."""
    rejected: tuple[tuple[Edit, str], ...] = ()
    """Edits that the pairing rule forbade: each is a bug of a pass."""
    failures: tuple[Failure, ...] = ()
    """Passes that broke."""


_STEPS = 1_000
"""Steps that any pass may propose, and four more for each entry: beyond that it is taken for one that never ends."""


@dataclass(slots=True)
class _Draft:
    """The plan in the making."""

    view: View
    situation: PlanInput
    edits: list[Edit] = field(default_factory=list)
    asks: list[Question] = field(default_factory=list)
    refused: list[tuple[Edit, str]] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)

    def take(self, propose: Pass, *, down_to: int | None, arriving: bool) -> None:
        """Take a pass's edits, in its order, until the view is small enough. They are folded in once, at the end.

        A pass may be a user's own: one that breaks is left out as a whole, and the draft stays as it was.
        """
        asks, refused = len(self.asks), len(self.refused)
        try:
            taken = self._proposed(propose, down_to, arriving)
            if taken:
                self._fold(taken, arriving)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other passes run
            del self.asks[asks:], self.refused[refused:]
            self.failed.append(Failure(_name(propose), f"{type(error).__name__}: {str(error)[:200]}", error))

    def _proposed(self, propose: Pass, down_to: int | None, arriving: bool) -> list[Edit]:
        taken: list[Edit] = []
        freed, most = 0, _STEPS + 4 * len(self.view.entries)
        for number, step in enumerate(islice(propose(self.view, self.situation), most + 1)):
            if number == most:
                raise RuntimeError(f"it proposed more than {most:,} edits")
            if isinstance(step, Question):
                self.asks.append(step)
                continue
            if not isinstance(step, Edit):
                raise TypeError(f"it proposed {type(step).__name__!r}, which is no Edit")
            edit = self.view.bind(step)
            why = rejection_reason(self.view, edit) or ("" if arriving else unseen_reason(self.view, edit))
            if why:
                self.refused.append((edit, why))
                continue
            if edit.saved <= 0 and not edit.insert_after:
                continue
            taken.append(edit)
            freed += edit.saved
            if down_to is not None and self.situation.tokens - round(freed * self.situation.scale) <= down_to:
                break
        return taken

    def _fold(self, taken: Sequence[Edit], arriving: bool) -> None:
        after = self.view.apply(taken)
        # What snip and clear freed is counted before anything heavier is considered (R043).
        rate = self.situation.scale_new / self.situation.scale if arriving else 1.0
        now = self.situation.after_freeing(round((self.view.tokens - after.tokens) * rate))
        if now.tokens > now.budget.levels.hard:
            now = now.after_freeing(_around(self.view, after, now))
        if now.scale_new == 0 and any(edit.first != edit.last for edit in taken):
            # A bill says nothing about what a fold left of it (R044).
            now = replace(now, tokens=min(now.tokens, after.tokens + now.budget.overhead))
        self.view, self.situation = after, now
        self.edits.extend(taken)


def _around(before: View, after: View, situation: PlanInput) -> int:
    """Estimated tokens around messages that are no more: of a thousand messages of a word each, most of what they cost.

    Asked where a request would else be refused. Elsewhere they are few, and the next bill tells of them.
    """
    return (
        situation.message_overhead * max(0, before.message_count - after.message_count)
        if situation.message_overhead
        else 0
    )


def _name(propose: Pass) -> str:
    """Of a pass, also of one that is set or guarded."""
    inner: object = propose
    while (wrapped := getattr(inner, "func", None) or getattr(inner, "propose", None)) is not None:
        inner = wrapped
    return str(getattr(inner, "__name__", type(inner).__name__))


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
    now = plan_input or PlanInput(budget=budget, tokens=view.tokens + budget.overhead)
    draft = _Draft(view=view, situation=now)
    for propose in arrival:
        draft.take(propose, down_to=None, arriving=True)
    for propose in always:
        draft.take(propose, down_to=None, arriving=False)
    held_back = _relieve(draft, pressure)
    for propose in last_resort:
        if draft.situation.tokens <= budget.levels.hard:
            break
        draft.take(propose, down_to=budget.levels.hard, arriving=False)
    if not draft.edits and draft.situation is now:
        # Nothing was done and nothing freed, as on most turns.
        asks, refused = tuple(draft.asks), tuple(draft.refused)
        return Plan(
            before=view, after=view, questions=asks, tokens_before=now.tokens, tokens_after=now.tokens, level=now.level,
            deferred_reason=held_back, rejected=refused, failures=tuple(draft.failed),
        )  # fmt: skip
    planned = _uncovered(view, draft.edits)
    edits = (*planned, *(view.bind(edit) for edit in _unbound_thinking(view, planned, now)))
    after = draft.view if edits == tuple(draft.edits) else view.apply(edits)
    return Plan(
        before=view,
        after=after,
        edits=edits,
        questions=tuple(draft.asks),
        tokens_before=now.tokens,
        tokens_after=draft.situation.after_freeing(draft.view.tokens - after.tokens).tokens,
        level=now.level,
        deferred_reason=held_back,
        rejected=tuple(draft.refused),
        failures=tuple(draft.failed),
    )


def _relieve(draft: _Draft, pressure: Sequence[Pass]) -> str:
    """Run the pressure passes if something calls for it. Returns why a possible batch was not made."""
    start, levels = draft.situation, draft.situation.budget.levels
    forced = start.trigger != "auto" or levels.is_reached(start.tokens, "auto")
    if not forced and not _called_for(start):
        return ""
    told = replace(draft.situation, forced=forced)
    trial = _Draft(draft.view, told, [*draft.edits], [*draft.asks], [*draft.refused], [*draft.failed])
    # A person who asks for it wants it done, whatever there is room for.
    low = levels.low if start.trigger != "manual" else -1
    for propose in pressure:
        if trial.situation.tokens <= low:
            break
        trial.take(propose, down_to=low, arriving=False)
    made = trial.edits[len(draft.edits) :]
    why = ""
    if made and start.trigger == "auto" and start.cached_entries and not levels.is_reached(start.tokens, "hard"):
        little = "" if len(trial.asks) > len(draft.asks) else _too_little(start, trial.situation)
        why = little or ("" if forced else _costs_more(draft.view, trial.view, made, start))
    draft.refused, draft.failed = trial.refused, trial.failed
    if not why:
        draft.view, draft.situation, draft.edits, draft.asks = trial.view, trial.situation, trial.edits, trial.asks
    return why


def _called_for(start: PlanInput) -> bool:
    """Over the soft level, or where the cache is cold anyway, over the first. What is warm is asked for only then."""
    levels, tokens = start.budget.levels, start.tokens
    soft, warning = levels.is_reached(tokens, "soft"), levels.is_reached(tokens, "warning")
    if soft == warning:
        return soft
    return warning if start.is_cache_cold else soft


def _too_little(start: PlanInput, end: PlanInput) -> str:
    """Hysteresis: a batch costs the cached prefix, so what frees little waits until more can go or more must."""
    freed, least = start.tokens - end.tokens, start.budget.levels.least
    return f"it would free {freed:,} tokens, and a batch is worth it from {least:,} on" if freed < least else ""


def _costs_more(before: View, after: View, made: Sequence[Edit], start: PlanInput) -> str:
    """Break-even against the horizon (design, Economics): why a batch would cost more than it saves, or empty."""
    removed = before.tokens - after.tokens
    first = min(before.index[edit.first or edit.insert_after] for edit in made)
    kept = sum(item.tokens for item in before.originals[first:]) - removed
    calls = calls_to_break_even(removed=removed, put=0, after=max(0, kept), prices=start.prices)
    high = start.budget.levels.auto
    expected = calls_ahead(tokens=start.tokens, high=high, growth=start.growth, calls=start.calls_left)
    if calls < expected:
        return ""
    return f"a rewrite now pays after {calls:.0f} calls, and {expected:.0f} are expected"


def _uncovered(view: View, edits: Sequence[Edit]) -> list[Edit]:
    """Without those that another of the same plan hides: a result that was cleared and then folded needs no stub.

    What such a one had saved is then the saving of the one that hides it, which also keeps what it still names.
    """
    spans = [
        (view.index[edit.insert_after or edit.first], view.index[edit.insert_after or edit.last]) for edit in edits
    ]
    wide = [n for n, (lo, hi) in enumerate(spans) if lo < hi]
    if not wide:
        return list(edits)
    saved = [edit.saved for edit in edits]
    blobs = [list(edit.blobs) for edit in edits]
    gone: set[int] = set()
    for n, (lo, hi) in enumerate(spans):
        over = [m for m in wide if m != n and spans[m][0] <= lo and hi <= spans[m][1] and spans[m] != (lo, hi)]
        if over:
            gone.add(n)
            saved[over[-1]] += edits[n].saved
            shown = "".join(item.text for item in edits[over[-1]].replacement)
            blobs[over[-1]] += [blob for blob in edits[n].blobs if blob.name in shown and blob not in blobs[over[-1]]]
    return [
        replace(edit, saved=saved[n], blobs=tuple(blobs[n])) if n in wide else edit
        for n, edit in enumerate(edits)
        if n not in gone
    ]


def _unbound_thinking(view: View, edits: Sequence[Edit], situation: PlanInput) -> list[Edit]:
    """Drop, in the same batch, the signed thinking that an edit invalidates (A63): all after the first changed item.

    Where thinking is not bound to its prefix, that of the open loop stays: it must open the assistant's turn (A37).
    """
    places = [view.index[edit.first or edit.insert_after] for edit in edits]
    if not places:
        return []
    first = min(places)
    covered = {i for edit in edits if edit.first for i in range(view.index[edit.first], view.index[edit.last] + 1)}
    gone: list[Edit] = []
    for place, entry in enumerate(view.entries):
        if entry.kind != "thinking" or entry.locked or entry.id in view.edit_by_entry:
            continue
        i = view.index[entry.id]
        stays = i < first or i in covered or (place >= find_loop_start(view) and not situation.thinking_bound_to_prefix)
        if not stays:
            gone.append(drop_item(entry, by="thinking", reason="bound to what an edit changed"))
    return gone


def drop_item(item: Item, *, by: str, reason: str) -> Edit:
    """An edit that leaves one item out."""
    return Edit(by=by, first=item.id, last=item.id, reason=reason, saved=max(1, item.tokens))
