"""The part of a conversation that one compaction replaces, and what is known about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from ebbtide.core.cuts import covered_range
from ebbtide.core.plan_input import PlanInput
from ebbtide.core.types import COMPACTION_PASSES, OURS, USER, Item
from ebbtide.core.view import View
from ebbtide.facts import CollectFacts, SessionFacts
from ebbtide.summary.layout import SummaryLayout


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
