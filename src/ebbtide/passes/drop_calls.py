"""A large old call, a file written or a patch, leaves together with its result, as one note.

Never a stub inside the arguments: models imitate it and write it into files. The note gives facts only: words of a
tool do not belong in the assistant's mouth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from ebbtide.core.cuts import find_loop_start, find_seams
from ebbtide.core.edit_rules import rejection_reason
from ebbtide.core.offload import Offloader, describe, original_of
from ebbtide.core.planner import PlanInput
from ebbtide.core.stub import Template, render
from ebbtide.core.tool_calls import PROTECTED, file_path, is_failed_result, is_reasoning
from ebbtide.core.types import OURS, Blob, Edit, Item
from ebbtide.core.view import View

Batch = tuple[int, int]
"""From the first call of an assistant's message up to the last result that answers it, in `entries`."""


def drop_calls(
    view: View,
    plan_input: PlanInput,
    *,
    min_tokens: int = 1_000,  # of the call alone: a small file; below that the call is worth more than the note
    keep_results: int = 3,  # newest pairs
    never: frozenset[str] = PROTECTED,
    stub: Template = render,
) -> Iterator[Edit]:
    """Drop large old calls that went well, oldest first. Their siblings in a parallel batch stay as they are."""
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
        ]
        # An error must stay: without it the model would believe that the file was written.
        large = [pair for pair in large if not is_failed_result(original_of(view, pair[1]))]
        if not large:
            continue
        edit = _noted(offloader, (_reasoned(view, start) if len(large) == len(calls) else start, stop), large, stub)
        # Siblings that stay may need the reasoning before them, and it what comes next.
        if not rejection_reason(view, edit):
            yield edit


def _batches(view: View) -> Iterator[Batch]:
    """Batches that may change: seen, held by nobody, and not in an open loop that begins with thinking (A37)."""
    bound = any(entry.kind == "thinking" for entry in view.entries[find_loop_start(view) :])
    end = find_loop_start(view) if bound else len(view.entries)
    for start, stop in pairwise(cut for cut in find_seams(view) if cut <= end):
        places = [i for i in range(start, stop) if view.entries[i].kind in ("call", "result")]
        if places and not any(_held(view, entry) for entry in view.entries[places[0] : places[-1] + 1]):
            yield places[0], places[-1] + 1


def _reasoned(view: View, start: int) -> int:
    """Where the reasoning before a batch begins: it goes with the last of its calls."""
    while start > 0 and is_reasoning(view.entries[start - 1]):
        start -= 1
    return start


def _held(view: View, entry: Item) -> bool:
    owner = view.edit_by_entry.get(entry.id)
    # A result rewritten earlier is carried along as it is. Anything else of ours stands for more than lies here.
    ours = view.is_ours(entry) and not (entry.kind == "result" and owner and owner.first == owner.last)
    return ours or entry.locked or entry.pinned or entry.kind in ("thinking", "opaque") or entry.id in view.unseen_ids


def _noted(offloader: Offloader, batch: Batch, large: Sequence[tuple[Item, Item]], stub: Template) -> Edit:
    inside = offloader.view.entries[slice(*batch)]
    gone = {item.id for pair in large for item in pair} | {entry.id for entry in inside if entry.kind == "opaque"}
    # It ends with what leaves: with siblings at both ends the edit would hold on its own output, and note it twice.
    while inside[-1].id not in gone:
        inside = inside[:-1]
    lines: list[str] = []
    blobs: list[Blob] = []
    for call, result in large:
        path, kept = offloader.save_blob(call.call_id, call.text, ".json")
        blobs += (*kept, *offloader.save_blob(call.call_id, original_of(offloader.view, result).text)[1])
        about = describe(call.text, kind="call", name=call.name, about=file_path(call), tokens=call.tokens, path=path)
        lines.append(stub(about))
    # A result rewritten earlier is put anew: the log can only refer to originals.
    siblings = [entry for entry in inside if entry.id not in gone]
    stay = [entry if entry.id in offloader.view.index else replace(entry, id="") for entry in siblings]
    text = "\n".join(lines)
    tokens, tier = offloader.plan_input.count_tokens(text), max(entry.trust for entry in inside)
    note = Item(id="", message=-1, role="assistant", kind="text", text=text, tokens=tokens, trust=tier, source=OURS)
    return Edit(
        by=offloader.by,
        first=original_of(offloader.view, inside[0]).id,
        last=original_of(offloader.view, inside[-1]).id,
        replacement=(note, *stay),
        reason="large old call",
        saved=sum(entry.tokens for entry in inside if entry.id in gone) - tokens,
        blobs=tuple(blobs),
    )
