"""Replaces regions of tool calls, results and reminders by summaries in their place, largest first (seed 003).

A region ends at a message of the user or the assistant, and at a summary, which is never compacted again (R191, R192,
R196). The newest turns stay. A call and its result leave or stay together (R195).
"""

from __future__ import annotations

from collections.abc import Iterator

from ebbtide.core.edit_rules import rejection_reason
from ebbtide.core.offload import Offloader, newest_turns
from ebbtide.core.planner import PlanInput
from ebbtide.core.types import HARNESS, Edit, Item, Question
from ebbtide.core.view import View
from ebbtide.summary.draft import CompactionDraft, TokenLimits
from ebbtide.summary.layout import SummaryLayout, region_layout
from ebbtide.summary.prompts import REGION_SHARE, REGION_SPARE
from ebbtide.summary.ranges import EntryRange, total_tokens

REGION_LAYOUT = region_layout("[compacted summary of turns {first}-{last}]\n{summary}")
"""R168, R194."""


def fold_regions(
    view: View,
    plan_input: PlanInput,
    *,
    keep_turns: int = 4,  # newest (R190)
    keep_tokens: int = 20_000,  # newest (R189)
    min_tokens: int = 100,  # a smaller region is hardly longer than its summary
    shape: SummaryLayout = REGION_LAYOUT,
) -> Iterator[Edit | Question]:
    """Summarize regions, each to a fifth of its tokens, until enough is saved."""
    if plan_input.compaction.forbidden:
        return
    # In a small window the reference agent's number would leave nothing to compact.
    tail_start = _newest_tokens_start(view, min(keep_tokens, plan_input.budget.window // 4))
    end = min(newest_turns(view, keep_turns), tail_start)
    offloader = Offloader(by="fold_regions", view=view, plan_input=plan_input)
    drafts = [_draft(offloader, shape, region) for region in _regions(view, end)]
    drafts = [draft for draft in drafts if draft.tokens >= min_tokens and not rejection_reason(view, draft.edit)]
    drafts.sort(key=lambda draft: -draft.tokens)
    saved = 0
    questions = list[Question]()
    for draft in drafts:
        if saved >= plan_input.tokens_to_free:
            break
        questions += draft.questions.unanswered()
        saved += round((draft.tokens - draft.tokens // REGION_SHARE) * plan_input.scale)
    yield from questions
    if questions:
        return
    answers = [(draft, draft.questions.main_answer) for draft in drafts]
    # If the summarizer failed, the oldest turns leave once the window forces it, with the agent's own note (R252).
    has_failed = any(answer and answer.failed for _, answer in answers)
    yield from (draft.edit for draft, answer in answers if not has_failed or (answer and not answer.failed))


def _draft(offloader: Offloader, layout: SummaryLayout, region: EntryRange) -> CompactionDraft:
    fifth = total_tokens(offloader.view.entries[region.start : region.stop]) // REGION_SHARE
    limits = TokenLimits(facts=fifth, summary=fifth + REGION_SPARE, is_fixed=True)
    return CompactionDraft(offloader=offloader, layout=layout, entry_range=region, limits=limits)


def _newest_tokens_start(view: View, tokens: int) -> int:
    """Where the newest `tokens` begin, in whole messages (R189)."""
    end = len(view.entries)
    while end > 0:
        start = end - 1
        while start > 0 and view.entries[start - 1].message == view.entries[end - 1].message:
            start -= 1
        tokens -= total_tokens(view.entries[start:end])
        if tokens < 0:
            break
        end = start
    return end


def _regions(view: View, end: int) -> Iterator[EntryRange]:
    start = 0
    for n in range(end + 1):
        if n < end and _is_foldable(view, view.entries[n]):
            continue
        region = _without_halves(view, start, n)
        if region is not None:
            yield region
        start = n + 1


def _is_foldable(view: View, entry: Item) -> bool:
    is_fixed = entry.locked or entry.pinned or view.is_ours(entry) or entry.id in view.unseen_ids
    is_reminder = entry.kind == "text" and entry.role == "user" and entry.trust == HARNESS
    return not is_fixed and (entry.kind in ("call", "result") or is_reminder)


def _without_halves(view: View, start: int, stop: int) -> EntryRange | None:
    """The first part of the range in which every call has its result and every result its call."""
    entries = view.entries[start:stop]
    calls = {entry.call_id for entry in entries if entry.kind == "call"}
    results = {entry.call_id for entry in entries if entry.kind == "result"}
    pairs = calls & results
    if not pairs:
        return None  # a reminder alone is no region
    complete = [not entry.call_id or entry.call_id in pairs for entry in entries]
    first = complete.index(True)
    # A half in the middle splits the region: what precedes it is enough for now.
    end = complete.index(False, first) if False in complete[first:] else len(complete)
    return EntryRange(start=start + first, stop=start + end)
