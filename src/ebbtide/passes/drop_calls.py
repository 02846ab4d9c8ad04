"""Replaces a large old tool call, such as a written file or a patch, and its result by a one-line note.

A stub inside the arguments would not do: models imitate it and write it into files. The note gives facts, and lines
of the call, which the assistant wrote itself: it is an assistant message and must not carry a tool's words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from ebbtide.core.edit_rules import find_loop_start, find_seams, rejection_reason
from ebbtide.core.offload import Offloader, describe, original_of
from ebbtide.core.planner import PlanInput
from ebbtide.core.stub import Template, render
from ebbtide.core.tool_calls import PROTECTED, call_arguments, file_path, is_failed_result, is_reasoning
from ebbtide.core.types import OURS, Blob, Edit, Item
from ebbtide.core.view import View
from ebbtide.facts.names import SalientLines

Batch = tuple[int, int]
"""Start and stop of the calls of one assistant message with their results, in `view.entries`."""


def drop_calls(
    view: View,
    plan_input: PlanInput,
    *,
    min_tokens: int = 1_000,  # of the call without its result; a smaller call is worth more than its note
    keep_results: int = 3,  # newest calls with their results
    never: frozenset[str] = PROTECTED,
    telling: float = 0.0,  # share of a call's own text that may stay, as its most salient lines
    telling_tokens: int = 600,  # the same in tokens, at most
    stub: Template = render,
) -> Iterator[Edit]:
    """Replace large old calls that succeeded, oldest first. Other calls made at the same time stay as they are."""
    salient: SalientLines | None = None
    offloader = Offloader(by="drop_calls", view=view, plan_input=plan_input)
    recent = {entry.call_id for entry in view.results[max(0, len(view.results) - keep_results) :]}
    for start, stop in _batches(view):
        batch = view.entries[start:stop]
        results = {entry.call_id: entry for entry in batch if entry.kind == "result"}
        calls = [entry for entry in batch if entry.kind == "call"]
        large = [
            (call, results[call.call_id])
            for call in calls
            if call.tokens > min_tokens and call.name not in never
            if call.call_id in results and call.call_id not in recent
            # An error must stay, or the model would believe that the file was written.
            if not is_failed_result(original_of(view, results[call.call_id]))
        ]
        if not large:
            continue
        if len(large) == len(calls):
            start = _reasoning_start(view, start)
        if telling and salient is None:
            stays = [entry for entry in view.entries if entry.kind != "thinking" and entry.tokens <= min_tokens]
            salient = SalientLines.beside_entries(stays)
        preview = _salient_preview(salient, telling, telling_tokens)
        edit = _replace_by_note(offloader, view.entries[start:stop], large, stub, preview)
        # Calls that stay may need the reasoning before them, and reasoning needs what follows it.
        if not rejection_reason(view, edit):
            yield edit


def _batches(view: View) -> Iterator[Batch]:
    """Batches that may change: seen, not fixed, and not in an open loop that begins with thinking (A37)."""
    loop_start = find_loop_start(view)
    has_thinking = any(entry.kind == "thinking" for entry in view.entries[loop_start:])
    end = loop_start if has_thinking else len(view.entries)
    for start, stop in pairwise(cut for cut in find_seams(view) if cut <= end):
        places = [n for n in range(start, stop) if view.entries[n].kind in ("call", "result")]
        if places and not any(_is_fixed(view, entry) for entry in view.entries[places[0] : places[-1] + 1]):
            yield places[0], places[-1] + 1


def _salient_preview(
    salient: SalientLines | None, telling: float, telling_tokens: int
) -> Callable[[Item, Callable[[str], int]], str]:
    """Return a function that chooses lines from a call's own strings, which the assistant wrote itself."""

    def preview(call: Item, count: Callable[[str], int]) -> str:
        if salient is None:
            return ""
        text = "\n".join(_strings(call_arguments(call)))
        return salient.select(text, count, min(telling_tokens, int(telling * call.tokens)))

    return preview


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    children = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for child in children:
        yield from _strings(child)


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
    offloader: Offloader,
    batch: Sequence[Item],
    large: Sequence[tuple[Item, Item]],
    stub: Template,
    preview: Callable[[Item, Callable[[str], int]], str],
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
        described = describe(
            call.text, kind="call", name=call.name, about=file_path(call), tokens=call.tokens, path=path
        )
        excerpt = preview(call, offloader.plan_input.count_tokens)
        lines.append(stub(replace(described, preview=excerpt, more=bool(excerpt))))
    # A result rewritten earlier gets a new id: the log can only refer to originals.
    siblings = [entry for entry in batch if entry.id not in removed]
    stay = [entry if entry.id in view.index else replace(entry, id="") for entry in siblings]
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
