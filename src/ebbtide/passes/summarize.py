"""Old turns fold into one stand-in: what a model or the ledger says of them, and the user's own words as they were.

The fold covers the originals from the beginning up to a safe cut; the newest turns stay. It asks where somebody can
answer: the same question of the same run is asked once, so a plan that waited for an answer comes out the same. Where
the answer is of no use it asks with less, and where that fails too the ledger's facts are the summary: no fold hangs on
a model. A later fold covers the same originals again and hands the earlier summary on, never summarises it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

from ebbtide.core.cuts import find_cuts, find_loop_start, find_seams, find_turn_starts
from ebbtide.core.edit_rules import is_protected, protected_ids
from ebbtide.core.offload import Offloader
from ebbtide.core.planner import PlanInput
from ebbtide.core.types import USER, Edit, Item, Question
from ebbtide.core.view import View
from ebbtide.summary.draft import WORDS, CompactionDraft, EntryRange, estimated, is_summary_entry, newest_user_message
from ebbtide.summary.layout import DEFAULT_LAYOUT, SummaryLayout

REGROWN = 0.20
"""Share of its room by which a conversation grows before it folds by itself again: a fold costs the cached prefix."""
LEAST = 100
"""Tokens that must leave and that no fold stands for yet: what stands for less is longer than that."""


def summarize(
    view: View,
    situation: PlanInput,
    *,
    keep_messages: int = 1,  # newest, at least
    keep_turns: int = 4,  # newest, at most
    keep_tokens: int = 8_000,  # of the tail, at most
    min_messages: int = 4,
    min_savings: int = 2_000,
    ledger_tokens: int = 14_000,  # with a tail of 8,000 the best split of 25,000 (benchmarks/retention.py)
    max_tokens: int = 4_000,  # of the summary
    shape: SummaryLayout = DEFAULT_LAYOUT,
) -> Iterator[Edit | Question]:
    """Fold all but a tail of the newest turns."""
    start = _start(view, situation, shape)
    answered = _asked_about(view, situation, start)
    if not _is_due(view, situation, min_messages, ready=answered is not None):
        return
    keep = _Tail(messages=keep_messages, turns=keep_turns, tokens=keep_tokens)
    stop = answered if answered is not None else _stop(view, situation, keep, shape)
    leaving = Offloader(by="summarize", view=view, plan_input=situation)
    folding = partial(CompactionDraft, leaving=leaving, shape=shape, facts=ledger_tokens, cap=max_tokens)
    # In a small window a number made for large ones would never be reached, and where room must be made all counts.
    hard = situation.trigger != "auto" or situation.budget.levels.is_reached(situation.tokens, "hard")
    least = 1 if hard else min(min_savings, situation.budget.window // 8)
    if stop is not None and stop > start and _new(view, start, stop, shape) >= LEAST:
        work = folding(run=EntryRange(start=start, stop=stop))
        asked = list(work.open_questions())
        yield from asked
        if asked:
            return
        if work.edit.saved >= least:
            yield work.edit
            situation = situation.after_freeing(work.edit.saved)
    steps = _steps(view, situation, keep, shape)
    if steps is not None and (hard or _is_time(situation, ready=False)):
        # Of steps nobody is asked: the loop goes on, and what they brought is in the facts.
        edit = folding(run=steps).edit
        if edit.saved >= least:
            yield edit


def fold_to_fit(
    view: View,
    situation: PlanInput,
    *,
    ledger_tokens: int = 14_000,  # at most, and a quarter of what there is room for
    shape: SummaryLayout = DEFAULT_LAYOUT,
) -> Iterator[Edit]:
    """The last resort: all but the newest request folds, into as little as the window needs. Nobody is asked.

    The user's old words leave too, and stay within reach: whole while there is room, then a line each, then one file.
    """
    situation = replace(situation, compaction=replace(situation.compaction, asks=False, answers={}, live=False))
    room = estimated(situation, situation.budget.levels.hard) - 3 * situation.message_overhead
    leaving = Offloader(by="fold_to_fit", view=view, plan_input=situation)
    folding = partial(
        _smallest, partial(CompactionDraft, leaving=leaving, shape=shape, facts=ledger_tokens, cap=ledger_tokens)
    )
    start, stop = _behind_notes(view, 0), _before_newest(view, situation, room)
    is_new = _unfolded(view, start, stop) >= LEAST
    # What is folded already is folded again only to avoid a refusal, and where that helps.
    if stop > start and (is_new or situation.tokens > situation.budget.window):
        tail = view.entries[stop:]
        around = situation.message_overhead * len({entry.message for entry in tail})
        edit = folding(EntryRange(start=start, stop=stop), room - around - sum(entry.tokens for entry in tail))
        if edit.saved >= (1 if is_new else LEAST):
            yield edit
            situation = situation.after_freeing(edit.saved)
    steps = _steps(view, situation, _Tail(messages=1, turns=0, tokens=0), shape)
    if steps is not None and situation.tokens > situation.budget.levels.hard:
        edit = folding(steps, room // 4)
        if edit.saved > 0:
            yield edit


def _unfolded(view: View, start: int, stop: int) -> int:
    """Tokens in the run that may leave and that no fold stands for yet."""
    stays = protected_ids(view) | _newest_entries(view)
    return sum(
        one.tokens for one in view.entries[start:stop] if one.id not in stays and not is_summary_entry(view, one)
    )


def _smallest(work: Callable[..., CompactionDraft], run: EntryRange, most: int) -> Edit:
    """A fold of at most so many tokens. Where its parts are more than that, it is made without them."""
    made = work(run=run, most=max(0, most))
    if sum(item.tokens for item in made.edit.replacement) > most:
        made = work(run=run, most=0)
    entries = made.view.entries[run.start : run.stop]
    # Of many short messages most of what they cost is around them, and a fold is two.
    around = made.situation.message_overhead * max(0, len({entry.message for entry in entries}) - 2)
    return replace(made.edit, saved=made.edit.saved + around)


def _before_newest(view: View, situation: PlanInput, room: int) -> int:
    """Where a run ends that leaves the newest request, and before it as many words of the user as there is room for.

    It ends with something that leaves, for the reason that `_stop` gives.
    """
    live, entries = _newest_entries(view), view.entries
    asked = _unanswered(view, live)
    cuts = [cut for cut in find_cuts(view) if cut <= asked]
    stop = max(cuts, default=0)
    words = min(situation.budget.window, room - sum(entry.tokens for entry in entries[stop:])) * WORDS
    for cut in reversed(cuts):
        said = entries[cut:stop]
        words -= sum(entry.tokens for entry in said) + situation.message_overhead
        if words < 0 or any(entry.role != "user" or is_summary_entry(view, entry) for entry in said):
            break
        stop = cut
    ends = (_end(view, cut) for cut in cuts if cut <= stop)
    return max((end for end in ends if end and entries[end - 1].id not in protected_ids(view) | live), default=0)


def _newest_entries(view: View) -> frozenset[str]:
    """What shows the newest message that the user wrote: itself, or what stands for a part of it."""
    ids = newest_user_message(view)
    single = {id: edit.first for id, edit in view.edit_by_entry.items() if edit.first == edit.last}
    return ids | {id for id, first in single.items() if first in ids}


def _unanswered(view: View, live: frozenset[str]) -> int:
    """Where what the model is asked now begins: results that it has not seen, or else the user's newest message."""
    entries = view.entries
    spoke = next((n for n in range(len(entries) - 1, -1, -1) if entries[n].role == "assistant"), -1)
    unseen = next((n for n in range(spoke + 1, len(entries)) if entries[n].kind == "result"), None)
    if unseen is not None:
        return unseen
    words = next((n for n in range(spoke + 1, len(entries)) if entries[n].id in live), None)
    return words if words is not None else max(0, min(spoke, len(entries) - 1))


def _is_due(view: View, situation: PlanInput, min_messages: int, *, ready: bool) -> bool:
    """R053, R159: too little to fold, or folded so lately that another would only cost the cache (R157)."""
    messages = {entry.message for entry in view.entries if entry.role != "system"}
    if situation.compaction.forbidden or len(messages) < min_messages:
        return False
    if situation.trigger != "auto" or situation.budget.levels.is_reached(situation.tokens, "hard"):
        return True
    folding = situation.compaction
    if folding.stalled or folding.waiting or not _is_time(situation, ready):
        return False
    return folding.after is None or situation.tokens - folding.after >= REGROWN * situation.budget.message_budget


def _is_time(situation: PlanInput, ready: bool) -> bool:
    """Over high water; or over the soft level, where the prefix is lost anyway or an answer is there already.

    Clearing that ends close below high water would be done again a few turns later, and each time cost the cache.
    """
    levels, tokens = situation.budget.levels, situation.tokens
    if levels.is_reached(tokens, "auto"):
        return True
    if situation.forced and situation.cached_entries and tokens > levels.auto - levels.least:
        return True
    return levels.is_reached(tokens, "soft") and (ready or situation.forced or situation.is_cache_cold)


# --- which run --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tail:
    """How much of the newest stays."""

    messages: int
    turns: int
    tokens: int


def _start(view: View, situation: PlanInput, shape: SummaryLayout) -> int:
    """After the operator's first words, or where a person said; after the last summary, where summaries stay apart."""
    if situation.compaction.first:
        places = [n for n, entry in enumerate(view.entries) if entry.id == situation.compaction.first]
        # What stands before a fold must not be on its side.
        cuts = [cut for cut in find_cuts(view) if cut and view.entries[cut - 1].role == "assistant"]
        return max((cut for cut in cuts if places and cut <= places[0]), default=_behind_notes(view, 0))
    if shape.merge_mode != "fold":
        folded = [n for n, entry in enumerate(view.entries) if is_summary_entry(view, entry)]
        return folded[-1] + 1 if folded else _behind_notes(view, 0)
    return _behind_notes(view, 0)


def _staying(view: View, shape: SummaryLayout) -> frozenset[str]:
    """What a fold of this shape hands on whatever it is: what may not leave, and the newest message of the user."""
    return protected_ids(view) | newest_user_message(view) if shape.keeps_newest_message else protected_ids(view)


def _new(view: View, start: int, stop: int, shape: SummaryLayout) -> int:
    """Tokens in the run that a fold would take and none stands for yet: words alone are no reason for one."""
    stays = _staying(view, shape)
    run = (entry for entry in view.entries[start:stop] if entry.id not in stays and not is_summary_entry(view, entry))
    return sum(entry.tokens for entry in run if entry.role in ("assistant", "tool") or entry.kind != "text")


def _carrying(view: View, shape: SummaryLayout) -> Callable[[int], bool]:
    """Tells whether a fold hands the entry at a place on as it is."""
    stays = _staying(view, shape)

    def is_carried(at: int) -> bool:
        entry = view.entries[at]
        words = shape.keeps_user_messages and (entry.role, entry.kind) == ("user", "text") and entry.trust <= USER
        return words or entry.id in stays

    return is_carried


def _stop(view: View, situation: PlanInput, keep: _Tail, shape: SummaryLayout) -> int | None:
    """The cut that leaves the longest tail within what may stay, and at least what must.

    A run ends with something that leaves: where a client feeds our output back, a fold whose ends were both still there
    would be made a second time. What a fold would hand on anyway stays where it is.
    """
    latest = _latest(view, keep.messages)
    cuts = [cut for cut in find_cuts(view) if 0 < cut <= latest]
    if situation.compaction.last:
        at = [n for n, entry in enumerate(view.entries) if entry.id == situation.compaction.last]
        fitting = [max((cut for cut in find_cuts(view) if at and cut <= at[0] + 1), default=0)]
    elif situation.compaction.first:
        fitting = []
    else:
        most = min(keep.tokens, estimated(situation, situation.budget.levels.low) // 2)
        if situation.trigger == "manual":
            # Who asks for a fold of a short conversation wants one too: a quarter of all that was ever said stays.
            most = min(most, sum(item.tokens for item in view.originals) // 4)
        fitting = _fitting(view, cuts, keep.turns, most)
    stop = min(fitting) if fitting else max(cuts, default=0)
    ends = (_end(view, cut) for cut in find_cuts(view) if 0 < cut <= stop)
    is_carried = _carrying(view, shape)
    return max((end for end in ends if end and not is_carried(end - 1)), default=None)


def _end(view: View, cut: int) -> int:
    """Where a run ends that is cut there: notes of the operator behind it stay in their place, in front of the tail."""
    while cut and view.entries[cut - 1].role == "system" and is_protected(view, view.entries[cut - 1]):
        cut -= 1
    return cut


def _behind_notes(view: View, at: int) -> int:
    """The first place from there on that is not the operator's."""
    return next((n for n in range(at, len(view.entries)) if view.entries[n].role != "system"), len(view.entries))


def _steps(view: View, situation: PlanInput, keep: _Tail, shape: SummaryLayout) -> EntryRange | None:
    """Steps of an open loop behind its last thinking: in front of that it can be cut, and behind it nowhere (A37)."""
    thought = [n for n, entry in enumerate(view.entries) if n >= find_loop_start(view) and entry.kind == "thinking"]
    begin = next((seam for seam in find_seams(view) if thought and seam > thought[-1]), 0)
    first = next((n for n in range(begin - 1, -1, -1) if view.entries[n].kind == "result"), begin)
    is_carried = _carrying(view, shape)
    if first <= max(thought, default=begin) or view.entries[first].media or is_carried(first):
        return None
    latest = _latest(view, keep.messages)
    held = (n for n in range(begin, latest) if is_carried(n) or view.entries[n].kind == "opaque")
    end = min(latest, next(held, latest))
    stops = [seam for seam in find_seams(view) if begin <= seam <= end and view.entries[seam].role == "assistant"]
    most = min(keep.tokens, estimated(situation, situation.budget.levels.low) // 2)
    fitting = [stop for stop in stops if sum(entry.tokens for entry in view.entries[stop:]) <= most]
    stop = min(fitting) if fitting else max(stops, default=0)
    return (
        EntryRange(start=first, stop=stop, inside=begin - first)
        if stop and _new(view, begin, stop, shape) >= LEAST
        else None
    )


def _latest(view: View, messages: int) -> int:
    """Before the newest messages, and before what the model has not seen."""
    end, left = len(view.entries), messages
    while end > 0 and left > 0:
        newest = view.entries[end - 1].message
        while end > 0 and view.entries[end - 1].message == newest:
            end -= 1
        left -= 1
    unseen = next((n for n, entry in enumerate(view.entries) if entry.id in view.unseen_ids), end)
    while 0 < unseen < len(view.entries) and _is_inserted(view, view.entries[unseen]):
        unseen -= 1  # it would leave with the item that it follows
    return min(end, unseen)


def _is_inserted(view: View, entry: Item) -> bool:
    owner = view.edit_by_entry.get(entry.id)
    return owner is not None and bool(owner.insert_after)


def _fitting(view: View, cuts: Sequence[int], turns: int, tokens: int) -> list[int]:
    """Cuts after which so many turns begin at the most, in so many tokens."""
    behind = list(accumulate((entry.tokens for entry in reversed(view.entries)), initial=0))[::-1]
    begun = find_turn_starts(view)[-turns - 1] + 1 if turns < len(find_turn_starts(view)) else 0
    return [cut for cut in cuts if cut >= begun and behind[cut] <= tokens]


def _asked_about(view: View, situation: PlanInput, start: int) -> int | None:
    """Where a run ends that was asked about and is not folded yet, for its answer is paid for; None if overtaken."""
    if situation.trigger == "manual" or not situation.compaction.answers:
        return None
    ends = {entry.id: n + 1 for n, entry in enumerate(view.entries) if entry.id in view.index}
    known = (ends.get(answer.last, 0) for answer in reversed(list(situation.compaction.answers.values())))
    stop = next((stop for stop in known if stop > start), None)
    if stop is None or stop > _latest(view, 1) or _behind_notes(view, stop) not in find_cuts(view):
        return None
    tail = sum(entry.tokens for entry in view.entries[stop:])
    return stop if tail <= estimated(situation, situation.budget.levels.low) else None
