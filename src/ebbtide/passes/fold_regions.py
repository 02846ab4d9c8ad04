"""Runs of calls, results and reminders between words fold where they stand, the largest first (seed 003).

The user's words and the assistant's end a region, and so does a summary, which is never folded again (R191, R192,
R196). The newest turns are not touched. A call goes with its result or stays with it (R195).
"""

from __future__ import annotations

from collections.abc import Iterator

from ebbtide.core.edit_rules import rejection_reason
from ebbtide.core.offload import Offloader, newest_turns
from ebbtide.core.planner import PlanInput
from ebbtide.core.types import HARNESS, Edit, Item, Question
from ebbtide.core.view import View
from ebbtide.summary.draft import CompactionDraft, EntryRange
from ebbtide.summary.layout import SummaryLayout, region_layout
from ebbtide.summary.prompts import REGION_SHARE, REGION_SPARE

IN_PLACE = region_layout("[compacted summary of turns {first}-{last}]\n{summary}")
"""R168, R194."""


def fold_regions(
    view: View,
    situation: PlanInput,
    *,
    keep_turns: int = 4,  # newest, R190
    keep_tokens: int = 20_000,  # newest, R189
    min_tokens: int = 100,  # a smaller region is hardly longer than its summary
    shape: SummaryLayout = IN_PLACE,
) -> Iterator[Edit | Question]:
    """Fold regions until enough is saved; each to a fifth of its tokens."""
    if situation.compaction.forbidden:
        return
    # In a small window the seed's number would leave nothing to fold.
    end = min(newest_turns(view, keep_turns), _behind(view, min(keep_tokens, situation.budget.window // 4)))
    leaving = Offloader(by="fold_regions", view=view, plan_input=situation)
    works = [_work(leaving, shape, run) for run in _regions(view, end)]
    chosen = [work for work in works if work.tokens >= min_tokens and not rejection_reason(view, work.edit)]
    chosen.sort(key=lambda work: -work.tokens)
    needed, saved = situation.tokens_to_free, 0
    asked = list[Question]()
    for work in chosen:
        if saved >= needed:
            break
        asked += work.open_questions()
        saved += round((work.tokens - work.tokens // REGION_SHARE) * situation.scale)
    # Where the compactor failed the oldest leave instead, with the seed's note, once the window forces it (R252).
    down = any(work.answer and work.answer.failed for work in chosen)
    yield from asked or (work.edit for work in chosen if not down or (work.answer and not work.answer.failed))


def _work(leaving: Offloader, shape: SummaryLayout, run: EntryRange) -> CompactionDraft:
    fifth = sum(entry.tokens for entry in leaving.view.entries[run.start : run.stop]) // REGION_SHARE
    return CompactionDraft(leaving=leaving, shape=shape, run=run, facts=fifth, cap=fifth + REGION_SPARE, fixed=True)


def _behind(view: View, tokens: int) -> int:
    """Where the newest so many tokens begin, whole messages at a time (R189)."""
    at, left = len(view.entries), tokens
    while at > 0:
        message = view.entries[at - 1].message
        start = at
        while start > 0 and view.entries[start - 1].message == message:
            start -= 1
        left -= sum(entry.tokens for entry in view.entries[start:at])
        if left < 0:
            break
        at = start
    return at


def _regions(view: View, end: int) -> Iterator[EntryRange]:
    start = 0
    for at in range(end + 1):
        if at < end and _folds(view, view.entries[at]):
            continue
        run = _paired(view, start, at)
        if run is not None:
            yield run
        start = at + 1


def _folds(view: View, entry: Item) -> bool:
    held = entry.locked or entry.pinned or view.is_ours(entry) or entry.id in view.unseen_ids
    reminder = entry.kind == "text" and entry.role == "user" and entry.trust == HARNESS
    return not held and (entry.kind in ("call", "result") or reminder)


def _paired(view: View, start: int, stop: int) -> EntryRange | None:
    """The run without halves at its ends: a call whose result lies outside, and the reverse."""
    inside = view.entries[start:stop]
    calls = {entry.call_id for entry in inside if entry.kind == "call"}
    results = {entry.call_id for entry in inside if entry.kind == "result"}
    whole = [n for n in range(start, stop) if not (view.entries[n].call_id and _half(view.entries[n], calls & results))]
    while whole and whole[-1] - whole[0] + 1 != len(whole):
        # A half in the middle parts the region; what is before it is enough for this time.
        whole = whole[: next(k for k in range(1, len(whole)) if whole[k] != whole[k - 1] + 1)]
    return EntryRange(start=whole[0], stop=whole[-1] + 1) if whole else None


def _half(entry: Item, pairs: set[str]) -> bool:
    return entry.call_id not in pairs
