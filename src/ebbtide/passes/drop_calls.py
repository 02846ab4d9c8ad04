"""Replaces a large old tool call, such as a written file or a patch, and its result by a short note.

A stub inside the arguments would not do: models imitate it and write it into files. The note gives facts, and the most
salient lines of the call if a policy wants them: it is an assistant message and must not carry a tool's words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from ebbtide.core.edit_layout import is_note
from ebbtide.core.edit_rules import find_loop_start, find_seams, rejection_reason
from ebbtide.core.offload import Offloader, can_offload, describe, no_preview, original_of
from ebbtide.core.planner import PlanInput
from ebbtide.core.stub import Template, render
from ebbtide.core.text.preview import Count, Preview
from ebbtide.core.tool_calls import PROTECTED, argument_strings, file_path, is_failed_result, is_reasoning
from ebbtide.core.types import OURS, Blob, Edit, Item
from ebbtide.core.view import View
from ebbtide.facts.names import SalientLines

Batch = tuple[int, int]
"""Start and stop of the calls of one assistant message with their results, in `view.entries`."""


class LargeCalls(NamedTuple):
    """Calls of one assistant message that a note can replace."""

    start: int
    stop: int
    pairs: list[tuple[Item, Item]]
    """Each call with its result."""


def drop_calls(
    view: View,
    plan_input: PlanInput,
    *,
    min_tokens: int = 1_000,  # of the call without its result; a smaller call is worth more than its note
    min_quiet: int = 1_000,  # the same of a call whose result says little, so that nothing else leaves with it
    quiet_result: int = 300,  # tokens of such a result, at most
    keep_results: int = 3,  # newest calls with their results
    never: frozenset[str] = PROTECTED,
    telling: float = 0.0,  # share of a call that may stay, as the most salient lines of its strings
    telling_tokens: int = 600,  # the same in tokens, at most
    stub: Template = render,
) -> Iterator[Edit]:
    """Replace large old calls that succeeded, oldest first. Other calls made at the same time stay as they are."""
    offloader = Offloader(by="drop_calls", view=view, plan_input=plan_input)
    recent = {entry.call_id for entry in view.results[max(0, len(view.results) - keep_results) :]}
    large = list(_find_large_calls(view, (min_tokens, min_quiet, quiet_result), recent, never))
    salient = _salient_lines(view, large, recent) if telling and large else None
    for start, stop, pairs in large:
        edit = _replace_by_note(
            offloader, view.entries[start:stop], pairs, stub, _preview(salient, telling, telling_tokens)
        )
        # Calls that stay may need the reasoning before them, and reasoning needs what follows it.
        if not rejection_reason(view, edit):
            yield edit


def _find_large_calls(
    view: View, limits: tuple[int, int, int], recent: set[str], never: frozenset[str]
) -> Iterator[LargeCalls]:
    min_tokens, min_quiet, quiet_result = limits

    def is_large(call: Item, result: Item, follower: Item | None) -> bool:
        # By the original: a result that was cleared since would change what an earlier batch left, far back.
        is_quiet = original_of(view, result).tokens <= quiet_result
        # An operator note needs the user's side before it: it would have to move into another message.
        has_note = follower is not None and is_note(follower)
        return call.tokens > (min(min_quiet, min_tokens) if is_quiet and not has_note else min_tokens)

    for start, stop in _batches(view):
        batch = view.entries[start:stop]
        follower = view.entries[stop] if stop < len(view.entries) else None
        results = {entry.call_id: entry for entry in batch if entry.kind == "result"}
        calls = [entry for entry in batch if entry.kind == "call"]
        large = [
            (call, results[call.call_id])
            for call in calls
            if call.name not in never and call.call_id in results and call.call_id not in recent
            if is_large(call, results[call.call_id], follower)
            # An error must stay, or the model would believe that the file was written.
            if not is_failed_result(original_of(view, results[call.call_id]))
        ]
        if not large:
            continue
        if len(large) == len(calls):
            start = _reasoning_start(view, start)
        yield LargeCalls(start, stop, large)


def _salient_lines(view: View, large: Sequence[LargeCalls], recent: set[str]) -> SalientLines:
    """Know the names in what stays. Old results do not count: a batch that drops calls clears them too."""
    removed = {item.id for calls in large for pair in calls.pairs for item in pair}
    return SalientLines.beside_entries(
        entry
        for entry in view.entries
        if entry.kind != "thinking" and entry.id not in removed
        if entry.kind != "result" or entry.call_id in recent or not can_offload(view, entry)
    )


def _preview(salient: SalientLines | None, telling: float, telling_tokens: int) -> Preview:
    if salient is None:
        return no_preview

    def preview(arguments: str, count: Count) -> str:
        limit = min(telling_tokens, int(telling * count(arguments)))
        return salient.select("\n".join(argument_strings(arguments)), count, limit)

    return preview


def _batches(view: View) -> Iterator[Batch]:
    """Batches that may change: seen, not fixed, and not in an open loop that begins with thinking (A37)."""
    loop_start = find_loop_start(view)
    has_thinking = any(entry.kind == "thinking" for entry in view.entries[loop_start:])
    end = loop_start if has_thinking else len(view.entries)
    for start, stop in pairwise(cut for cut in find_seams(view) if cut <= end):
        places = [n for n in range(start, stop) if view.entries[n].kind in ("call", "result")]
        if places and not any(_is_fixed(view, entry) for entry in view.entries[places[0] : places[-1] + 1]):
            yield places[0], places[-1] + 1


def _reasoning_start(view: View, start: int) -> int:
    """Where the reasoning before a batch begins: it leaves with the last of its calls."""
    while start > 0 and is_reasoning(view.entries[start - 1]):
        start -= 1
    return start


def _is_fixed(view: View, entry: Item) -> bool:
    if entry.locked or entry.pinned or entry.kind in ("thinking", "opaque") or entry.id in view.unseen_ids:
        return True
    edit = view.edit_by_entry.get(entry.id)
    # A result that was rewritten alone may be carried along. Another text of ours replaces more than this batch.
    return view.is_ours(entry) and not (entry.kind == "result" and edit and edit.first == edit.last)


def _replace_by_note(
    offloader: Offloader, batch: Sequence[Item], large: Sequence[tuple[Item, Item]], stub: Template, preview: Preview
) -> Edit:
    view = offloader.view
    removed = {item.id for pair in large for item in pair} | {entry.id for entry in batch if entry.kind == "opaque"}
    # The edit ends with an entry that leaves. With kept ones at both ends it would apply to its own output again.
    while batch[-1].id not in removed:
        batch = batch[:-1]
    lines: list[str] = []
    blobs: list[Blob] = []
    for call, result in large:
        path, call_blobs = offloader.save_blob(call.call_id, call.text, ".json")
        _, result_blobs = offloader.save_blob(call.call_id, original_of(view, result).text)
        blobs += (*call_blobs, *result_blobs)
        about = file_path(call)
        shown = describe(call.text, kind="call", name=call.name, about=about, tokens=call.tokens, path=path)
        excerpt = preview(call.text, offloader.plan_input.count_tokens)
        lines.append(stub(replace(shown, preview=excerpt, more=bool(excerpt))))
    # A result rewritten earlier gets a new id: the log can only refer to originals.
    siblings = [entry for entry in batch if entry.id not in removed]
    stay = [entry if entry.id in view.index else replace(entry, id="") for entry in siblings]
    # The edit that rewrote it in this plan is not made: what it would have saved is saved with this one.
    rewritten = [view.edit_by_entry[entry.id] for entry in siblings if entry.id in view.edit_by_entry]
    blobs += [blob for edit in rewritten for blob in edit.blobs if blob.text]
    text = "\n".join(lines)
    tokens, trust = offloader.plan_input.count_tokens(text), max(entry.trust for entry in batch)
    note = Item(id="", message=-1, role="assistant", kind="text", text=text, tokens=tokens, trust=trust, source=OURS)
    return Edit(
        by=offloader.by,
        first=original_of(view, batch[0]).id,
        last=original_of(view, batch[-1]).id,
        replacement=(note, *stay),
        reason="large old tool call",
        saved=sum(entry.tokens for entry in batch if entry.id in removed) - tokens,
        blobs=tuple(blobs),
    )
