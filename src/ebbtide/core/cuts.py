"""Where turns and the open tool loop begin, and where a view may be cut.

A cut is an index of `view.entries`; cutting at it must leave two parts that a provider accepts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from ebbtide.core.types import USER, Item
from ebbtide.core.view import View, once_per_view


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
