"""The part of a conversation that one compaction replaces, and how it is chosen.

All numbers are indexes into `view.entries`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, takewhile

from ebbtide.core.edit_rules import (
    covered_range,
    find_cuts,
    find_loop_start,
    find_seams,
    find_turn_starts,
    is_protected,
    protected_ids,
)
from ebbtide.core.planner import PlanInput
from ebbtide.core.types import COMPACTION_PASSES, OURS, USER, Item
from ebbtide.core.view import View
from ebbtide.facts import CollectFacts, SessionFacts
from ebbtide.summary.layout import SummaryLayout

MIN_NEW_TOKENS = 100
"""What a compaction must cover that no earlier one did. A summary of less would be longer."""
USER_MESSAGE_SHARE = 0.5
"""Share of the window that the user's messages may take unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRange:
    """Indexes of entries in a view, from `start` up to `stop`."""

    start: int
    stop: int
    stay_count: int = 0
    """For steps of an open tool loop: how many entries at the beginning stay. The first is a result and takes up the
    summary of the steps, because no message may come between thinking and the rest of the assistant's turn (A37)."""


def is_summary_entry(view: View, entry: Item) -> bool:
    """Whether a compaction wrote this entry, in this view or in one that the client sends back."""
    edit = view.edit_by_entry.get(entry.id)
    if edit is not None:
        return edit.by in COMPACTION_PASSES
    return entry.source == OURS and entry.kind == "text"


def is_user_text(item: Item) -> bool:
    return item.role == "user" and item.kind == "text" and item.trust <= USER and item.source != OURS


def newest_user_message(view: View) -> frozenset[str]:
    """Ids of the texts, images and documents of the user's newest message."""
    newest = next((item for item in reversed(view.originals) if is_user_text(item)), None)
    if newest is None:
        return frozenset()
    tail = takewhile(lambda item: item.message >= newest.message, reversed(view.originals))
    return frozenset(
        item.id
        for item in tail
        if item.message == newest.message and (is_user_text(item) or item.kind in ("image", "document"))
    )


def to_estimate(plan_input: PlanInput, threshold: int) -> int:
    """Convert a threshold of the whole request into estimated tokens of the view."""
    return max(0, round(threshold / (plan_input.scale or 1.0)) - plan_input.budget.overhead)


def total_tokens(items: Sequence[Item]) -> int:
    return sum(item.tokens for item in items)


class CoveredRange:
    """The entries that one compaction replaces and the originals under them."""

    def __init__(self, view: View, entry_range: EntryRange, layout: SummaryLayout, collect: CollectFacts) -> None:
        self.view, self.entry_range, self.layout, self._collect = view, entry_range, layout, collect
        self.entries = view.entries[entry_range.start : entry_range.stop]
        self.tail = view.entries[entry_range.stop :]
        """The entries that follow and stay."""

    @cached_property
    def span(self) -> tuple[str, str]:
        """Ids of the first and last original."""
        span = covered_range(self.view, self.entry_range.start, self.entry_range.stop)
        assert span is not None, "a range with something new has originals under it"
        return span

    @cached_property
    def originals(self) -> Sequence[Item]:
        index = self.view.index
        return self.view.originals[index[self.span[0]] : index[self.span[1]] + 1]

    @cached_property
    def user_texts(self) -> Sequence[Item]:
        return [item for item in self.originals if is_user_text(item)]

    @cached_property
    def uncompacted(self) -> Sequence[Item]:
        """Originals that no recorded compaction has saved. One of the same plan is replaced, and its blobs with it."""
        view = self.view
        compactions = {id(edit): edit for edit in view.edit_by_entry.values() if edit.by in COMPACTION_PASSES}
        recorded = [edit for edit in compactions.values() if not any(blob.text for blob in edit.blobs)]
        spans = [span for edit in recorded if (span := view.span(edit)) is not None]
        saved = {n for first, last in spans for n in range(first, last + 1)}
        return [item for item in self.originals if view.index[item.id] not in saved]

    @property
    def quotable(self) -> Sequence[Item]:
        """What a question quotes. A summary that a client sends back is carried over, not summarized again."""
        read_summary = self.layout.read_summary
        return [item for item in self.uncompacted if not (item.source == OURS and read_summary(item.text))]

    @cached_property
    def prior_summary(self) -> str:
        if self.layout.merge_mode != "fold":
            return ""
        written = [entry for entry in self.entries if entry.source == OURS and is_summary_entry(self.view, entry)]
        return next((summary for entry in written if (summary := self.layout.read_summary(entry.text))), "")

    @cached_property
    def facts(self) -> SessionFacts:
        return self._collect(self.originals)

    @property
    def next_is_user(self) -> bool:
        return bool(self.tail) and self.tail[0].role in ("user", "tool")

    def message_count(self, role: str) -> int:
        return len({item.message for item in self.originals if item.role == role})

    def turn_numbers(self) -> tuple[int, int]:
        """Numbers of the first and last user turn in the range, counted from 1."""
        start, stop = (self.view.index[id] for id in self.span)
        first = turn = 0
        was_user = False
        for n, item in enumerate(self.view.originals[: stop + 1]):
            turn += is_user_text(item) and not was_user
            was_user = is_user_text(item)
            if n == start:
                first = turn
        return max(1, first), max(1, turn)


# --- where a compaction starts and stops ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """How much of the newest entries stays."""

    messages: int
    """At least."""
    turns: int
    """At most."""
    tokens: int
    """At most."""


def newest_messages_start(view: View, messages: int) -> int:
    """Where the newest messages begin."""
    end = len(view.entries)
    while end > 0 and messages > 0:
        newest = view.entries[end - 1].message
        while end > 0 and view.entries[end - 1].message == newest:
            end -= 1
        messages -= 1
    return end


def after_notes(view: View, start: int = 0) -> int:
    """The first entry from `start` on that is not the operator's."""
    return next((n for n in range(start, len(view.entries)) if view.entries[n].role != "system"), len(view.entries))


def compaction_start(view: View, plan_input: PlanInput, layout: SummaryLayout) -> int:
    """After the operator's first notes, at the item a person named, or after the last summary if summaries stay."""
    wanted = plan_input.compaction.first
    if wanted:
        index = next((n for n, entry in enumerate(view.entries) if entry.id == wanted), -1)
        # The summary begins with a user message, so an assistant message must precede it.
        cuts = [cut for cut in find_cuts(view) if 0 < cut <= index and view.entries[cut - 1].role == "assistant"]
        return max(cuts, default=after_notes(view))
    if layout.merge_mode != "fold":
        summaries = [n for n, entry in enumerate(view.entries) if is_summary_entry(view, entry)]
        return summaries[-1] + 1 if summaries else after_notes(view)
    return after_notes(view)


def compaction_stop(view: View, plan_input: PlanInput, tail: Tail, layout: SummaryLayout) -> int | None:
    """The cut that leaves the longest tail that `tail` allows, and at least its newest messages.

    The range ends with an entry that the compaction takes out. If both its ends stayed and a client sent our output
    back, the same compaction would be made again.
    """
    latest = _latest_stop(view, tail.messages)
    cuts = [cut for cut in find_cuts(view) if 0 < cut <= latest]
    compaction = plan_input.compaction
    if compaction.last:
        index = next((n for n, entry in enumerate(view.entries) if entry.id == compaction.last), -1)
        allowed = [max((cut for cut in find_cuts(view) if index >= 0 and cut <= index + 1), default=0)]
    elif compaction.first:
        allowed = []
    else:
        max_tokens = _max_tail_tokens(plan_input, tail)
        if plan_input.trigger == "manual":
            # A person who compacts a short conversation wants it shorter too: keep at most a quarter of it.
            max_tokens = min(max_tokens, total_tokens(view.originals) // 4)
        allowed = _cuts_within(view, cuts, tail.turns, max_tokens)
    stop = min(allowed) if allowed else max(cuts, default=0)
    ends = (_before_trailing_notes(view, cut) for cut in find_cuts(view) if 0 < cut <= stop)
    is_carried = _carried_test(view, layout)
    return max((end for end in ends if end and not is_carried(end - 1)), default=None)


def answered_stop(view: View, plan_input: PlanInput, start: int) -> int | None:
    """Where a range ends whose answer is known, because it is paid for; None if the range no longer makes sense."""
    if plan_input.trigger == "manual" or not plan_input.compaction.answers:
        return None
    ends = {entry.id: n + 1 for n, entry in enumerate(view.entries) if entry.id in view.index}
    stops = (ends.get(answer.last, 0) for answer in reversed(list(plan_input.compaction.answers.values())))
    stop = next((stop for stop in stops if stop > start), None)
    if stop is None or stop > _latest_stop(view, 1) or after_notes(view, stop) not in find_cuts(view):
        return None
    fits = total_tokens(view.entries[stop:]) <= to_estimate(plan_input, plan_input.budget.levels.low)
    return stop if fits else None


def loop_steps(view: View, plan_input: PlanInput, tail: Tail, layout: SummaryLayout) -> EntryRange | None:
    """Steps of an open tool loop after its last thinking. The loop can be cut before the thinking only (A37)."""
    loop_start, seams = find_loop_start(view), find_seams(view)
    thinking = [n for n, entry in enumerate(view.entries) if n >= loop_start and entry.kind == "thinking"]
    begin = next((seam for seam in seams if thinking and seam > thinking[-1]), 0)
    result = next((n for n in range(begin - 1, -1, -1) if view.entries[n].kind == "result"), begin)
    is_carried = _carried_test(view, layout)
    if result <= max(thinking, default=begin) or view.entries[result].media or is_carried(result):
        return None
    latest = _latest_stop(view, tail.messages)
    fixed = (n for n in range(begin, latest) if is_carried(n) or view.entries[n].kind == "opaque")
    end = min(latest, next(fixed, latest))
    stops = [seam for seam in seams if begin <= seam <= end and view.entries[seam].role == "assistant"]
    max_tokens = _max_tail_tokens(plan_input, tail)
    allowed = [stop for stop in stops if total_tokens(view.entries[stop:]) <= max_tokens]
    stop = min(allowed) if allowed else max(stops, default=0)
    if not stop or new_tokens(view, begin, stop, layout) < MIN_NEW_TOKENS:
        return None
    return EntryRange(start=result, stop=stop, stay_count=begin - result)


def new_tokens(view: View, start: int, stop: int, layout: SummaryLayout) -> int:
    """Tokens that a compaction would take out and no earlier one did. The user's messages are no reason for one."""
    stays = _carried_ids(view, layout)
    return sum(
        entry.tokens
        for entry in view.entries[start:stop]
        if (entry.role in ("assistant", "tool") or entry.kind != "text")
        and entry.id not in stays
        and not is_summary_entry(view, entry)
    )


# --- the last resort --------------------------------------------------------------------------------------------------


def removable_tokens(view: View, start: int, stop: int) -> int:
    """Tokens that the last resort would take out and no earlier compaction did."""
    stays = protected_ids(view) | _newest_message_entries(view)
    entries = view.entries[start:stop]
    return sum(entry.tokens for entry in entries if entry.id not in stays and not is_summary_entry(view, entry))


def last_resort_stop(view: View, plan_input: PlanInput, room: int) -> int:
    """Before the newest request, and before the user's messages that precede it and still fit.

    The range ends with an entry that the compaction takes out, for the reason given in `compaction_stop`.
    """
    newest, entries = _newest_message_entries(view), view.entries
    request_start = _request_start(view, newest)
    cuts = [cut for cut in find_cuts(view) if cut <= request_start]
    stop = max(cuts, default=0)
    message_room = min(plan_input.budget.window, room - total_tokens(entries[stop:])) * USER_MESSAGE_SHARE
    for cut in reversed(cuts):
        between = entries[cut:stop]
        message_room -= total_tokens(between) + plan_input.message_overhead
        if message_room < 0 or any(entry.role != "user" or is_summary_entry(view, entry) for entry in between):
            break
        stop = cut
    stays = protected_ids(view) | newest
    ends = (_before_trailing_notes(view, cut) for cut in cuts if cut <= stop)
    return max((end for end in ends if end and entries[end - 1].id not in stays), default=0)


def _newest_message_entries(view: View) -> frozenset[str]:
    """Ids of the entries that show the user's newest message: originals, or replacements of one."""
    ids = newest_user_message(view)
    singles = {id: edit.first for id, edit in view.edit_by_entry.items() if edit.first == edit.last}
    return ids | {id for id, first in singles.items() if first in ids}


def _request_start(view: View, newest: frozenset[str]) -> int:
    """Where the newest request begins: at results that the model has not seen, or at the user's newest message."""
    entries = view.entries
    last_assistant = next((n for n in range(len(entries) - 1, -1, -1) if entries[n].role == "assistant"), -1)
    after = range(last_assistant + 1, len(entries))
    result = next((n for n in after if entries[n].kind == "result"), None)
    if result is not None:
        return result
    message = next((n for n in after if entries[n].id in newest), None)
    return message if message is not None else max(0, min(last_assistant, len(entries) - 1))


# --- what stays -------------------------------------------------------------------------------------------------------


def _carried_ids(view: View, layout: SummaryLayout) -> frozenset[str]:
    """What a compaction carries over in any case: protected items, and the user's newest message if it stays whole."""
    return protected_ids(view) | newest_user_message(view) if layout.keeps_newest_message else protected_ids(view)


def _carried_test(view: View, layout: SummaryLayout) -> Callable[[int], bool]:
    """A function that says whether a compaction carries the entry at an index over as it is."""
    ids = _carried_ids(view, layout)

    def is_carried(index: int) -> bool:
        entry = view.entries[index]
        is_user_text = (entry.role, entry.kind) == ("user", "text") and entry.trust <= USER
        return (layout.keeps_user_messages and is_user_text) or entry.id in ids

    return is_carried


def _before_trailing_notes(view: View, cut: int) -> int:
    """The cut moved before the operator's notes in front of it, so that they stay where they are."""
    while cut and view.entries[cut - 1].role == "system" and is_protected(view, view.entries[cut - 1]):
        cut -= 1
    return cut


def _latest_stop(view: View, messages: int) -> int:
    """Before the newest messages, and before what the model has not seen."""
    end = newest_messages_start(view, messages)
    unseen = next((n for n, entry in enumerate(view.entries) if entry.id in view.unseen_ids), end)
    while 0 < unseen < len(view.entries) and _is_inserted(view, view.entries[unseen]):
        unseen -= 1  # an inserted item would leave with the item that it follows
    return min(end, unseen)


def _is_inserted(view: View, entry: Item) -> bool:
    edit = view.edit_by_entry.get(entry.id)
    return edit is not None and bool(edit.insert_after)


def _max_tail_tokens(plan_input: PlanInput, tail: Tail) -> int:
    return min(tail.tokens, to_estimate(plan_input, plan_input.budget.levels.low) // 2)


def _cuts_within(view: View, cuts: Sequence[int], max_turns: int, max_tokens: int) -> list[int]:
    """Cuts that leave at most so many turns and tokens."""
    tokens_after = list(accumulate((entry.tokens for entry in reversed(view.entries)), initial=0))[::-1]
    turn_starts = find_turn_starts(view)
    first = turn_starts[-max_turns - 1] + 1 if max_turns < len(turn_starts) else 0
    return [cut for cut in cuts if cut >= first and tokens_after[cut] <= max_tokens]
