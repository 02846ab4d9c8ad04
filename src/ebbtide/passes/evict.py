"""The last resort: the oldest exchanges leave, and a note says how many and where they are.

The live request stays, and so does what is pinned, what the model has not seen, and every summary. What leaves becomes
a note on the user's side, which is valid wherever it stood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from ebbtide.core.cuts import covered_range, find_cuts, find_turn_starts
from ebbtide.core.edit_rules import is_protected, old_note_ids
from ebbtide.core.offload import HISTORY, Offloader, describe
from ebbtide.core.planner import PlanInput
from ebbtide.core.stub import Template, render
from ebbtide.core.types import HARNESS, OURS, USER, Edit, Item
from ebbtide.core.view import View

Stays = Callable[[Item], bool]
Atom = tuple[int, int]
"""A run of entries that leaves as a whole or not at all: from, and up to."""

BY = ("evict", "evict_messages")
CHUNK = 16_000
"""Tokens a note stands for: few notes, and little more evicted than is needed. In a small window an eighth of it."""


def evict(
    view: View,
    plan_input: PlanInput,
    *,
    keep: int = 4,  # newest messages
    chunk: int = CHUNK,
    stub: Template = render,
) -> Iterator[Edit]:
    """Evict what the assistant and its tools said, oldest first. The user's words stay, all of them."""
    offloader = Offloader(by="evict", view=view, plan_input=plan_input)

    def stays(entry: Item) -> bool:
        return _words(entry) or _summary(view, entry)

    # What the harness put in front of it all is the project's instructions: it goes only with an exchange.
    atoms = [
        atom for atom in _atoms(view, keep) if any(e.role in ("assistant", "tool") for e in view.entries[slice(*atom)])
    ]
    yield from _evict(offloader, atoms, stays, chunk, stub)


def evict_messages(
    view: View,
    plan_input: PlanInput,
    *,
    keep: int = 10,  # newest messages
    chunk: int = CHUNK,
    stub: Template = render,
) -> Iterator[Edit]:
    """Evict whole exchanges, oldest first, the user's words included, but for the live request (R200, E15)."""
    offloader = Offloader(by="evict_messages", view=view, plan_input=plan_input)
    live = (
        {entry.id for entry in view.entries[find_turn_starts(view)[-1] :] if _words(entry)}
        if find_turn_starts(view)
        else set[str]()
    )

    def stays(entry: Item) -> bool:
        return entry.id in live or _summary(view, entry)

    yield from _evict(offloader, _atoms(view, keep), stays, chunk, stub)


def _evict(offloader: Offloader, atoms: Sequence[Atom], stays: Stays, chunk: int, stub: Template) -> Iterator[Edit]:
    chunk, view = min(chunk, offloader.plan_input.budget.window // 8), offloader.view

    def remains(entry: Item) -> bool:
        # The operator's word may hold yet: what an old one stood beside leaves without it.
        return stays(entry) or entry.id in old_note_ids(view)

    edits = (_noted(offloader, run, remains, stub) for run in _runs(view, atoms, remains, chunk))
    # A note for less than itself would only be in the way of a later one.
    yield from (edit for edit in edits if edit.saved > 0)


def _words(entry: Item) -> bool:
    return entry.role == "user" and entry.trust <= USER


def _summary(view: View, entry: Item) -> bool:
    """A note of ours, a stand-in for several items, or one that a client fed back: it is all that is left of them."""
    owner = view.edit_by_entry.get(entry.id)
    if owner is None:
        return entry.kind == "text" and entry.source == OURS
    return entry.kind == "text" and (owner.by in BY or bool(owner.insert_after) or owner.first != owner.last)


def _atoms(view: View, keep: int) -> list[Atom]:
    """All that lies before the newest messages."""
    end, messages = len(view.entries), 0
    while end > 0 and messages < keep:
        newest = view.entries[end - 1].message
        while end > 0 and view.entries[end - 1].message == newest:
            end -= 1
        messages += 1
    return [(start, stop) for start, stop in pairwise(find_cuts(view)) if stop <= end]


def _runs(view: View, atoms: Sequence[Atom], stays: Stays, chunk: int) -> Iterator[Sequence[Atom]]:
    run: list[Atom] = []
    tokens = 0
    for atom in atoms:
        leaves = _may_leave(view, view.entries[slice(*atom)], stays)
        if run and (not leaves or tokens >= chunk or run[-1][1] != atom[0]):
            yield run
            run, tokens = [], 0
        if leaves:
            run.append(atom)
            tokens += sum(entry.tokens for entry in view.entries[slice(*atom)])
    if run:
        yield run


def _may_leave(view: View, entries: Sequence[Item], stays: Stays) -> bool:
    held = any(is_protected(view, entry) or entry.id in view.unseen_ids for entry in entries)
    if held or all(stays(entry) for entry in entries):
        return False
    # A call without its result, or the reverse, is broken input: the wire repairs it where it stands.
    halves = [{entry.call_id for entry in entries if entry.kind == kind} for kind in ("call", "result")]
    if halves[0] != halves[1]:
        return False
    ours = [entry.id for entry in entries if entry.id in view.edit_by_entry]
    # What an edit put here and elsewhere would vanish there too.
    return all(
        sum(view.edit_by_entry[id] is view.edit_by_entry[one] for one in ours)
        == len(view.edit_by_entry[id].replacement)
        for id in ours
    )


def _noted(offloader: Offloader, run: Sequence[Atom], stays: Stays, stub: Template) -> Edit:
    view = offloader.view
    entries = view.entries[run[0][0] : run[-1][1]]
    survive = [entry if entry.id in view.index else replace(entry, id="") for entry in entries if stays(entry)]
    span = covered_range(view, run[0][0], run[-1][1])
    assert span is not None, "an atom that may leave has originals under it"
    text = _transcript(view.originals[view.index[span[0]] : view.index[span[1]] + 1])
    path, blobs = offloader.save_blob(HISTORY, text)
    gone = sum(entry.tokens for entry in entries) - sum(entry.tokens for entry in survive)
    number = f"{len(run)} exchange" + "s" * (len(run) != 1)
    words = stub(describe(text, kind="history", about=number, tokens=gone, path=path))
    tokens, tier = offloader.plan_input.count_tokens(words), max(HARNESS, *(entry.trust for entry in entries))
    note = Item(id="", message=-1, role="user", kind="text", text=words, tokens=tokens, trust=tier, source=OURS)
    return Edit(
        by=offloader.by,
        first=span[0],
        last=span[1],
        replacement=(note, *survive),
        reason="the oldest had to go",
        saved=gone - tokens,
        blobs=blobs,
    )


def _transcript(items: Sequence[Item]) -> str:
    heads = (" ".join(part for part in (item.role, item.kind, item.name, item.call_id) if part) for item in items)
    return "\n\n".join(f"## {head}\n{item.text}" for head, item in zip(heads, items, strict=True))
