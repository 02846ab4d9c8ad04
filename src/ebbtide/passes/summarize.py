"""Replaces old turns by a summary, facts and the user's own messages.

The range reaches from the beginning up to a safe cut; the newest turns stay. If a model can be asked, the pass asks it
and waits for the answer. The same question about the same range is asked once. If no answer can be used, the facts are
the summary: no compaction depends on a model. A later compaction covers the same originals again and carries the
earlier summary over without summarizing it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from ebbtide.core.offload import Offloader
from ebbtide.core.planner import PlanInput
from ebbtide.core.types import Edit, Question
from ebbtide.core.view import View
from ebbtide.facts import CollectFacts, collect_facts
from ebbtide.summary.draft import CompactionDraft, TokenLimits
from ebbtide.summary.layout import DEFAULT_LAYOUT, SummaryLayout
from ebbtide.summary.ranges import (
    MIN_NEW_TOKENS,
    EntryRange,
    Tail,
    after_notes,
    answered_stop,
    compaction_start,
    compaction_stop,
    last_resort_stop,
    loop_steps,
    new_tokens,
    removable_tokens,
    to_estimate,
    total_tokens,
)

MIN_REGROWTH = 0.20
"""Share of its budget by which a conversation grows before the next automatic compaction, which costs the cache."""


def summarize(
    view: View,
    plan_input: PlanInput,
    collect: CollectFacts = collect_facts,
    *,
    keep_messages: int = 1,  # newest, at least
    keep_turns: int = 4,  # newest, at most
    keep_tokens: int = 8_000,  # newest, at most
    min_messages: int = 4,
    min_savings: int = 2_000,
    ledger_tokens: int = 14_000,  # of the facts; the best split with the tail (benchmarks/retention.py)
    max_tokens: int = 4_000,  # of the summary
    shape: SummaryLayout = DEFAULT_LAYOUT,
) -> Iterator[Edit | Question]:
    """Replace all but the newest turns by a summary. A session's `collect` remembers the facts of earlier items."""
    start = compaction_start(view, plan_input, shape)
    known_stop = answered_stop(view, plan_input, start)
    if not _is_due(view, plan_input, min_messages, is_answered=known_stop is not None):
        return
    tail = Tail(messages=keep_messages, turns=keep_turns, tokens=keep_tokens)
    stop = known_stop if known_stop is not None else compaction_stop(view, plan_input, tail, shape)
    draft_for = partial(
        CompactionDraft,
        offloader=Offloader(by="summarize", view=view, plan_input=plan_input),
        layout=shape,
        collect=collect,
        limits=TokenLimits(facts=ledger_tokens, summary=max_tokens),
    )
    # A small window would never reach a number made for large ones, and where room must be made everything counts.
    is_urgent = _is_urgent(plan_input)
    min_saved = 1 if is_urgent else min(min_savings, plan_input.budget.window // 8)
    if stop is not None and stop > start and new_tokens(view, start, stop, shape) >= MIN_NEW_TOKENS:
        draft = draft_for(entry_range=EntryRange(start=start, stop=stop))
        questions = list(draft.questions.unanswered())
        yield from questions
        if questions:
            return
        if draft.edit.saved >= min_saved:
            yield draft.edit
            plan_input = plan_input.after_freeing(draft.edit.saved)
    steps = loop_steps(view, plan_input, tail, shape)
    if steps is not None and (is_urgent or _is_over_threshold(plan_input, is_answered=False)):
        # No model is asked about steps: the loop goes on, and the facts say what they brought.
        edit = draft_for(entry_range=steps).edit
        if edit.saved >= min_saved:
            yield edit


def fold_to_fit(
    view: View,
    plan_input: PlanInput,
    collect: CollectFacts = collect_facts,
    *,
    ledger_tokens: int = 14_000,  # of the facts, at most, and a quarter of the room
    shape: SummaryLayout = DEFAULT_LAYOUT,
) -> Iterator[Edit]:
    """The last resort: replace all but the newest request by as little as the window needs, without asking a model.

    The user's old messages leave too: whole while there is room, then as a line each, then as one file.
    """
    compaction = plan_input.compaction._replace(asks=False, answers={}, live=False)
    plan_input = plan_input._replace(compaction=compaction)
    room = to_estimate(plan_input, plan_input.budget.levels.hard) - 3 * plan_input.message_overhead
    edit_for = partial(
        _edit_within,
        partial(
            CompactionDraft,
            offloader=Offloader(by="fold_to_fit", view=view, plan_input=plan_input),
            layout=shape,
            collect=collect,
        ),
        TokenLimits(facts=ledger_tokens, summary=ledger_tokens),
    )
    start, stop = after_notes(view), last_resort_stop(view, plan_input, room)
    is_new = removable_tokens(view, start, stop) >= MIN_NEW_TOKENS
    # What an earlier compaction wrote is compacted again only to avoid a refusal, and only if that helps.
    if stop > start and (is_new or plan_input.tokens > plan_input.budget.window):
        tail = view.entries[stop:]
        overhead = plan_input.message_overhead * len({entry.message for entry in tail})
        edit = edit_for(EntryRange(start=start, stop=stop), room - overhead - total_tokens(tail))
        if edit.saved >= (1 if is_new else MIN_NEW_TOKENS):
            yield edit
            plan_input = plan_input.after_freeing(edit.saved)
    steps = loop_steps(view, plan_input, Tail(messages=1, turns=0, tokens=0), shape)
    if steps is not None and plan_input.tokens > plan_input.budget.levels.hard:
        edit = edit_for(steps, room // 4)
        if edit.saved > 0:
            yield edit


def _edit_within(
    draft_for: Callable[..., CompactionDraft], limits: TokenLimits, entry_range: EntryRange, max_tokens: int
) -> Edit:
    """A compaction of at most `max_tokens`. If its parts need more, they are left out."""
    draft = draft_for(entry_range=entry_range, limits=replace(limits, total=max(0, max_tokens)))
    if total_tokens(draft.edit.replacement) > max_tokens:
        draft = draft_for(entry_range=entry_range, limits=replace(limits, total=0))
    # Of many short messages most of the cost is around them, and a compaction is two messages.
    messages = {entry.message for entry in draft.covered.entries}
    overhead = draft.plan_input.message_overhead * max(0, len(messages) - 2)
    return replace(draft.edit, saved=draft.edit.saved + overhead)


def _is_urgent(plan_input: PlanInput) -> bool:
    return plan_input.trigger != "auto" or plan_input.budget.levels.is_reached(plan_input.tokens, "hard")


def _is_due(view: View, plan_input: PlanInput, min_messages: int, *, is_answered: bool) -> bool:
    """R053, R159: not if there is too little, or so soon after another that it would only cost the cache (R157)."""
    compaction = plan_input.compaction
    messages = {entry.message for entry in view.entries if entry.role != "system"}
    if compaction.forbidden or len(messages) < min_messages:
        return False
    if _is_urgent(plan_input):
        return True
    if compaction.stalled or compaction.waiting or not _is_over_threshold(plan_input, is_answered=is_answered):
        return False
    min_growth = MIN_REGROWTH * plan_input.budget.message_budget
    return compaction.after is None or plan_input.tokens - compaction.after >= min_growth


def _is_over_threshold(plan_input: PlanInput, *, is_answered: bool) -> bool:
    """Over `auto`; or over `soft`, if the cached prefix is lost anyway or an answer is known.

    Also if clearing would end close below `auto`: it would be done again a few turns later, each time at the cost of
    the cache.
    """
    levels, tokens = plan_input.budget.levels, plan_input.tokens
    if levels.is_reached(tokens, "auto"):
        return True
    if plan_input.forced and plan_input.cached_entries and tokens > levels.auto - levels.least:
        return True
    return levels.is_reached(tokens, "soft") and (is_answered or plan_input.forced or plan_input.is_cache_cold)
