"""Removes the oldest exchanges when nothing else helped. A note says how many there were and where they are saved.

The newest request, pinned items, results that the model has not seen and every summary stay. The note is a user
message, which is valid wherever the exchange stood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from ebbtide.core.edit_rules import (
    covered_range,
    find_cuts,
    find_turn_starts,
    is_protected,
    is_user_message,
    old_note_ids,
)
from ebbtide.core.offload import HISTORY, Offloader, describe
from ebbtide.core.planner import PlanInput
from ebbtide.core.stub import Template, render
from ebbtide.core.texts import exchange_count
from ebbtide.core.types import HARNESS, OURS, Edit, Item
from ebbtide.core.view import View
from ebbtide.summary.ranges import newest_messages_start, total_tokens

Stays = Callable[[Item], bool]
Exchange = tuple[int, int]
"""Start and stop of entries that leave together or not at all."""

CHUNK = 16_000
"""Tokens for each note: few notes, and little more evicted than needed."""


def evict(
    view: View,
    plan_input: PlanInput,
    *,
    keep: int = 4,  # newest messages
    chunk: int = CHUNK,  # tokens for each note; in a small window an eighth of the window
    stub: Template = render,
) -> Iterator[Edit]:
    """Remove the oldest messages of the assistant and its tools. All messages of the user stay."""
    exchanges = [
        (start, stop)
        for start, stop in _old_exchanges(view, keep)
        # Without an assistant message these are the project's instructions.
        if any(entry.role in ("assistant", "tool") for entry in view.entries[start:stop])
    ]
    offloader = Offloader(by="evict", view=view, plan_input=plan_input)
    yield from _evict(offloader, exchanges, is_user_message, chunk, stub)


def evict_messages(
    view: View,
    plan_input: PlanInput,
    *,
    keep: int = 10,  # newest messages
    chunk: int = CHUNK,  # tokens for each note; in a small window an eighth of the window
    stub: Template = render,
) -> Iterator[Edit]:
    """Remove the oldest exchanges, the user's messages included, except the newest request (R200, E15)."""
    newest_turn = view.entries[find_turn_starts(view)[-1] :] if find_turn_starts(view) else ()
    request_ids = {entry.id for entry in newest_turn if is_user_message(entry)}
    offloader = Offloader(by="evict_messages", view=view, plan_input=plan_input)
    yield from _evict(offloader, _old_exchanges(view, keep), lambda entry: entry.id in request_ids, chunk, stub)


def _evict(
    offloader: Offloader, exchanges: Sequence[Exchange], is_kept: Stays, chunk: int, stub: Template
) -> Iterator[Edit]:
    view, note_ids = offloader.view, old_note_ids(offloader.view)

    def stays(entry: Item) -> bool:
        # An old note of the operator may still apply, so it outlasts the exchange around it.
        return is_kept(entry) or _is_summary(view, entry) or entry.id in note_ids

    chunk = min(chunk, offloader.plan_input.budget.window // 8)
    spans = (
        (group, covered_range(view, group[0][0], group[-1][1])) for group in _groups(view, exchanges, stays, chunk)
    )
    # A group without originals is one that an edit inserted: it leaves with that edit alone.
    edits = (_replace_by_note(offloader, group, span, stays, stub) for group, span in spans if span is not None)
    # A note longer than what it replaces would only block a later one.
    yield from (edit for edit in edits if edit.saved > 0)


def _is_summary(view: View, entry: Item) -> bool:
    """Whether the entry is our text for several items: it is all that is left of them."""
    edit = view.edit_by_entry.get(entry.id)
    if edit is None:
        return entry.kind == "text" and entry.source == OURS
    is_eviction = edit.by in ("evict", "evict_messages")
    return entry.kind == "text" and (is_eviction or bool(edit.insert_after) or edit.first != edit.last)


def _old_exchanges(view: View, keep: int) -> list[Exchange]:
    end = newest_messages_start(view, keep)
    return [(start, stop) for start, stop in pairwise(find_cuts(view)) if stop <= end]


def _groups(view: View, exchanges: Sequence[Exchange], stays: Stays, chunk: int) -> Iterator[Sequence[Exchange]]:
    """Adjacent exchanges that may leave, of about `chunk` tokens."""
    group: list[Exchange] = []
    tokens = 0
    for start, stop in exchanges:
        entries = view.entries[start:stop]
        can_leave = _can_leave(view, entries, stays)
        if group and (not can_leave or tokens >= chunk or group[-1][1] != start):
            yield group
            group, tokens = [], 0
        if can_leave:
            group.append((start, stop))
            tokens += total_tokens(entries)
    if group:
        yield group


def _can_leave(view: View, entries: Sequence[Item], stays: Stays) -> bool:
    is_fixed = any(is_protected(view, entry) or entry.id in view.unseen_ids for entry in entries)
    if is_fixed or all(stays(entry) for entry in entries):
        return False
    # A call without its result, or the reverse, is broken input: the wire repairs it where it is.
    calls, results = ({entry.call_id for entry in entries if entry.kind == kind} for kind in ("call", "result"))
    if calls != results:
        return False
    # If an edit wrote entries elsewhere too, they would vanish there.
    edits = [view.edit_by_entry[entry.id] for entry in entries if entry.id in view.edit_by_entry]
    return all(sum(other is edit for other in edits) == len(edit.replacement) for edit in edits)


def _replace_by_note(
    offloader: Offloader, group: Sequence[Exchange], span: tuple[str, str], stays: Stays, stub: Template
) -> Edit:
    view, start, stop = offloader.view, group[0][0], group[-1][1]
    entries = view.entries[start:stop]
    stay = [entry if entry.id in view.index else replace(entry, id="") for entry in entries if stays(entry)]
    transcript = _transcript(view.originals[view.index[span[0]] : view.index[span[1]] + 1])
    path, blobs = offloader.save_blob(HISTORY, transcript)
    removed = total_tokens(entries) - total_tokens(stay)
    text = stub(describe(transcript, kind="history", about=exchange_count(len(group)), tokens=removed, path=path))
    tokens, trust = offloader.plan_input.count_tokens(text), max(HARNESS, *(entry.trust for entry in entries))
    note = Item(id="", message=-1, role="user", kind="text", text=text, tokens=tokens, trust=trust, source=OURS)
    return Edit(
        by=offloader.by,
        first=span[0],
        last=span[1],
        replacement=(note, *stay),
        reason="oldest part of the conversation",
        saved=removed - tokens,
        blobs=blobs,
    )


def _transcript(items: Sequence[Item]) -> str:
    heads = (" ".join(filter(None, (item.role, item.kind, item.name, item.call_id))) for item in items)
    return "\n\n".join(f"## {head}\n{item.text}" for head, item in zip(heads, items, strict=True))
