"""Which edits are valid, what a batch of them entails, and where a view may be cut.

Every edit that a pass proposes is checked here and nowhere else.

A call stays with its result, and reasoning with the output it led to; pinned and locked items stay.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, dropwhile, groupby

from ebbtide.core.edit_layout import edit_range, is_note
from ebbtide.core.types import USER, Edit, Item
from ebbtide.core.view import View, once_per_view

NEWEST_NOTES = 8
"""How many of the newest operator notes are protected: a mode, a plan and some reminders may apply at once."""
_NUMBERS = re.compile(r"[0-9]+")
_COUNTERPART = {"call": "result", "result": "call"}


def rejection_reason(view: View, edit: Edit) -> str:
    """Return why the edit is invalid here, or "". The planner asks this for every proposed edit."""
    span = edit_range(edit, view.index)
    if span is None:
        return "names items that are not there"
    covered = () if edit.insert_after else view.originals[span[0] : span[1] + 1]
    kept_ids = {item.id for item in edit.replacement}
    if any(item.id not in kept_ids and is_protected(view, item) for item in covered):
        return "touches a locked or pinned item"
    if _separates_call(view, span, covered, edit.replacement):
        return "parts a call from its result"
    if (
        covered
        and edit.replacement
        and min(item.trust for item in edit.replacement) < min(item.trust for item in covered)
    ):
        return "raises trust"
    if covered and _overlaps_in_part(view, span):
        return "overlaps an edit in part"
    if covered and _separates_reasoning(view, span, kept_ids):
        return "takes away what an opaque block needs after it"
    return ""


def unseen_reason(view: View, edit: Edit) -> str:
    """Return why the edit must wait: it removes a result that the model has not read. Else ""."""
    covered = view.originals[view.index[edit.first] : view.index[edit.last] + 1] if edit.first else ()
    kept_ids = {item.id for item in edit.replacement}
    # An inserted result is removed with the item that it follows.
    anchors = {view.edit_by_entry[id].insert_after for id in view.unseen_ids if id in view.edit_by_entry}
    for item in covered:
        if item.id in anchors or (item.id in view.unseen_ids and item.id not in kept_ids):
            return "touches a result that the model has not seen"
    return ""


def _separates_call(view: View, span: tuple[int, int], covered: Sequence[Item], replacement: Sequence[Item]) -> bool:
    """Whether a call or result would remain or appear without its counterpart. One that never had it may go."""
    removed, added = _unpaired(covered), _unpaired(replacement)
    if removed == added:
        return False
    if added - removed:
        return True
    outside = {
        (item.kind, item.call_id)
        for item in (*view.originals[: span[0]], *view.originals[span[1] + 1 :])
        if item.call_id
    }
    return any((_COUNTERPART[kind], call_id) in outside for kind, call_id in removed - added)


def _unpaired(items: Iterable[Item]) -> Counter[tuple[str, str]]:
    """Calls and results whose counterpart is not among these items."""
    halves = Counter[tuple[str, str]]((item.kind, item.call_id) for item in items if item.kind in _COUNTERPART)
    return Counter({half: count for half, count in halves.items() if not halves[(_COUNTERPART[half[0]], half[1])]})


def _overlaps_in_part(view: View, span: tuple[int, int]) -> bool:
    """Whether a visible edit crosses an end of the span. They are sorted and apart, so each end has one candidate."""
    spans = _replaced_spans(view)
    before = bisect_left(spans, (span[0], -1)) - 1
    within = bisect_left(spans, (span[1] + 1, -1)) - 1
    crosses_start = before >= 0 and spans[before][1] >= span[0]
    return crosses_start or (within > before and spans[within][1] > span[1])


@once_per_view
def _replaced_spans(view: View) -> list[tuple[int, int]]:
    """The spans of the edits that show a replacement."""
    edits = {id(edit): edit for edit in view.edit_by_entry.values() if not edit.insert_after}
    return sorted(span for edit in edits.values() if (span := view.span(edit)) is not None)


def _separates_reasoning(view: View, span: tuple[int, int], kept_ids: set[str]) -> bool:
    """Whether an opaque block would stay while a later part of the same assistant run goes (R3, R4)."""
    originals = view.originals
    removed = {i for i in range(span[0], span[1] + 1) if originals[i].id not in kept_ids}
    for i in removed:
        if originals[i].role != "assistant" or originals[i].kind == "thinking":
            continue
        before = i - 1
        while before >= 0 and originals[before].role == "assistant":
            if originals[before].kind == "opaque" and before not in removed:
                return True
            before -= 1
    return False


def is_protected(view: View, item: Item) -> bool:
    """Whether no edit may remove the item: it is pinned, locked, or an operator note that still applies.

    Pinned thinking goes with its turn: its signature is valid only at its place, so no summary can carry it (A63).
    """
    if item.pinned and item.kind != "thinking":
        return True
    is_held = item.locked or item.role == "system"
    return is_held and item.id not in _repeated_note_ids(view) and item.id not in old_note_ids(view)


@once_per_view
def protected_ids(view: View) -> frozenset[str]:
    """Ids of the items that no edit may remove, and of those that must stay with them."""
    return expand_to_atomic_groups(view.originals, {item.id for item in view.originals if is_protected(view, item)})


@once_per_view
def old_note_ids(view: View) -> frozenset[str]:
    """Ids of operator notes in the conversation, except the newest.

    Each may still apply, but some clients add one with every result, and protecting all would fill the window.
    A summary carries them while there is room, and lists them where there is none.
    """
    items = view.originals
    start = next((i for i, item in enumerate(items) if item.role == "assistant"), len(items))
    notes = [item for item in items[start:] if is_note(item) and not item.pinned]
    return frozenset([note.id for note in notes if note.id not in _repeated_note_ids(view)][:-NEWEST_NOTES])


@once_per_view
def _repeated_note_ids(view: View) -> frozenset[str]:
    """Ids of notes that the operator repeated later with other numbers.

    Claude Code reports the remaining tokens after each result: protecting these notes would forbid every compaction.
    """
    newer_texts, repeated = set[str](), set[str]()
    for item in reversed(view.originals):
        if is_note(item):
            text = _NUMBERS.sub("", item.text)
            if text in newer_texts:
                repeated.add(item.id)
            newer_texts.add(text)
    return frozenset(repeated)


def expand_to_atomic_groups(items: Sequence[Item], kept_ids: Collection[str]) -> frozenset[str]:
    """Add everything that a provider refuses to see apart: a call's result, reasoning's output (R3, R4)."""
    call_ids = {item.call_id for item in items if item.call_id and item.id in kept_ids}
    group_ids = set(kept_ids)
    for group in _reasoning_groups(items):
        if any(item.id in group_ids or item.call_id in call_ids for item in group):
            group_ids |= {item.id for item in group}
            call_ids |= {item.call_id for item in group if item.call_id}
    return frozenset(group_ids | {item.id for item in items if item.call_id in call_ids})


def _reasoning_groups(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Yield each run of assistant items from its first opaque block on. Thinking can be removed alone, so not it."""
    for is_assistant, run in groupby(items, key=lambda item: item.role == "assistant"):
        if is_assistant:
            from_opaque = dropwhile(lambda item: item.kind != "opaque", run)
            yield [item for item in from_opaque if item.kind != "thinking"]


# --- what follows from a batch ----------------------------------------------------------------------------------------


def merge_hidden_edits(view: View, edits: Sequence[Edit]) -> list[Edit]:
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


def drop_invalid_thinking(view: View, edits: Sequence[Edit], *, is_bound_to_prefix: bool) -> list[Edit]:
    """Drop the signed thinking after the first changed item: the edits invalidate it (A63).

    Where thinking is not bound to its prefix, that of the open loop stays: it must open the assistant's turn (A37).
    """
    first_changed = min(view.index[edit.first or edit.insert_after] for edit in edits)
    covered = {i for edit in edits if edit.first for i in range(view.index[edit.first], view.index[edit.last] + 1)}
    end = len(view.entries) if is_bound_to_prefix else find_loop_start(view)
    return [
        drop_item(entry, by="thinking", reason="no longer valid after an edit")
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


# --- turns, the open tool loop, and cuts ------------------------------------------------------------------------------
# A cut is an index of `view.entries`; cutting at it must leave two parts that a provider accepts.


def is_user_message(entry: Item) -> bool:
    """Whether the user wrote it, and not a tool or the harness in a message of the user's role."""
    return entry.role == "user" and entry.trust <= USER


def find_turn_starts_reversed(view: View) -> Iterator[int]:
    """Yield the indexes where a turn begins, the newest first: a message of the user after something else."""
    entries = view.entries
    for i in range(len(entries) - 1, -1, -1):
        if is_user_message(entries[i]) and (i == 0 or not is_user_message(entries[i - 1])):
            yield i


@once_per_view
def find_turn_starts(view: View) -> tuple[int, ...]:
    """Return the indexes where a turn begins, the oldest first."""
    return tuple(find_turn_starts_reversed(view))[::-1]


@once_per_view
def find_loop_start(view: View) -> int:
    """Return where the open tool loop begins: after the last user message. Without one, the number of entries."""
    entries = view.entries
    if not entries or (entries[-1].role == "assistant" and entries[-1].kind == "text"):
        return len(entries)
    start = next((i + 1 for i in range(len(entries) - 1, -1, -1) if is_user_message(entries[i])), 0)
    has_calls = any(entry.kind == "call" for entry in entries[start:])
    return start if has_calls else len(entries)


@once_per_view
def find_cuts(view: View) -> tuple[int, ...]:
    """Return the seams where the view may be cut. In an open loop with thinking, these are seams before thinking.

    What remains of the loop must begin with thinking (A37). A loop may run for hours, so there must be cuts inside it.
    """
    entries, loop_start = view.entries, find_loop_start(view)
    seams = find_seams(view)
    if not any(entry.kind == "thinking" for entry in entries[loop_start:]):
        return seams
    return tuple(i for i in seams if i <= loop_start or (i < len(entries) and entries[i].kind == "thinking"))


@once_per_view
def find_seams(view: View) -> tuple[int, ...]:
    """Return all indexes between atoms: a message, a run of assistant entries, or a call with its result."""
    open_calls = accumulate(_open_call_changes(view.entries), initial=0)
    return tuple(i for i, count in enumerate(open_calls) if count == 0 and _can_separate(view.entries, i))


def _can_separate(entries: Sequence[Item], i: int) -> bool:
    if i in (0, len(entries)):
        return True
    before, after = entries[i - 1], entries[i]
    is_same_message = before.message == after.message
    # A system message in the middle belongs to the user turn before it.
    return not is_same_message and after.role != "system" and (before.role, after.role) != ("assistant", "assistant")


def _open_call_changes(entries: Sequence[Item]) -> Iterator[int]:
    """Yield +1 where a call with a result opens, -1 where the result closes it, else 0."""
    answered = {entry.call_id for entry in entries if entry.kind == "result"}
    open_ids = set[str]()
    for entry in entries:
        if entry.kind == "call" and entry.call_id in answered and entry.call_id not in open_ids:
            open_ids.add(entry.call_id)
            yield 1
        elif entry.kind == "result" and entry.call_id in open_ids:
            open_ids.discard(entry.call_id)
            yield -1
        else:
            yield 0


def covered_range(view: View, start: int, stop: int) -> tuple[str, str] | None:
    """Return the ids of the first and last original under `entries[start:stop]`; None if there is none."""
    spans = [_original_span(view, entry) for entry in (view.entries[start:stop] if start < stop else ())]
    covered = [span for span in spans if span is not None]
    if not covered:
        return None
    first, last = min(first for first, _ in covered), max(last for _, last in covered)
    return view.originals[first].id, view.originals[last].id


def _original_span(view: View, entry: Item) -> tuple[int, int] | None:
    edit = view.edit_by_entry.get(entry.id)
    if edit is not None:
        return view.span(edit)
    i = view.index.get(entry.id)
    return None if i is None else (i, i)
