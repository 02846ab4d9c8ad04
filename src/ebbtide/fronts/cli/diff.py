"""`ebb diff`: before and after of each edit."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from typing import TYPE_CHECKING

from ebbtide.core.counted import counted
from ebbtide.core.errors import BadRequest
from ebbtide.core.types import Edit, Item
from ebbtide.drive.history import Step
from ebbtide.formats.claude_folder import LAST
from ebbtide.fronts.cli import screen
from ebbtide.fronts.cli.phrases import covered_told, item_told
from ebbtide.fronts.cli.settings import OUTPUT, add_example, add_project, add_reading, settled
from ebbtide.fronts.cli.sources import histories, wanted
from ebbtide.fronts.cli.teaching import FITTING, Commands, command
from ebbtide.showing import line, short, visible

if TYPE_CHECKING:
    from rich.console import Console

_HEAD, _TAIL = 14, 8
"""Lines of one edit's diff: enough to recognise what left, and to see what stands there, which comes last."""
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "diff",
        run,
        brief="before and after of each edit",
        about="""
            Prints every batch of edits as a unified diff: what the model saw before, and what stands there since.
            Long diffs are cut; --full shows all. Batches are called p1, p2 and so on, edits x1-...; both are shown
            and can be asked for with --edit. 'ebb undo' takes a batch back.
        """,
        examples="""
            ebb diff last
            ebb diff nightly --edit p12 --full
            ebb diff recorded.jsonl --window 100k | less -R
        """,
        codes=FITTING,
    )
    parser.add_argument("target", nargs="?", default=LAST, metavar="SESSION|FILE", help="default: the newest session")
    parser.add_argument("--edit", metavar="EDIT", help="only this batch or edit; the beginning of an edit's id will do")
    parser.group(OUTPUT).add_argument("--full", action="store_true", help="do not cut long diffs")
    add_example(parser)
    add_reading(parser)
    add_project(parser)


def run(args: argparse.Namespace) -> int:
    shown = [
        (step, edit)
        for history in histories(wanted(args), settled(args), args.max_bytes, project=args.project)
        for step in history.steps
        for edit in step.batch.edits
        if not args.edit or step.batch.id == args.edit or edit.id.startswith(args.edit)
    ]
    if args.edit and not shown:
        raise BadRequest(f"no batch or edit of {args.target} is called {args.edit!r}")
    if args.json:
        screen.show_json([_as_dict(step, edit) for step, edit in shown])
        return 0
    if not shown:
        print("Nothing was taken out.")
    to, last = screen.console(), ""
    for step, edit in shown:
        if step.batch.id != last:
            last = step.batch.id
            to.print(_headline(step), style="bold", soft_wrap=True)
        _print(to, step, edit, full=args.full)
    return 0


def _headline(step: Step) -> str:
    undone = " (undone)" if step.undone else ""
    return f"{step.batch.id}, for request {step.turn.number}{undone}: {counted(len(step.batch.edits), 'edit')}"


def _print(to: Console, step: Step, edit: Edit, *, full: bool) -> None:
    told = covered_told(step.covered(edit), edit, step)
    to.print(line(f"{edit.id} {edit.by}: {told}: {edit.reason} (-{short(edit.saved)} tokens)"), soft_wrap=True)
    rows = list(_diff(step, edit))
    hidden = 0 if full else max(0, len(rows) - _HEAD - _TAIL)
    for n, row in enumerate(rows):
        if hidden and n == _HEAD:
            to.print(f"… {counted(hidden, 'more line')}", style="dim")
        if not hidden or n < _HEAD or n >= _HEAD + hidden:
            to.print(visible(row), style=_COLOURS.get(row[:1], ""), soft_wrap=True)


def _diff(step: Step, edit: Edit) -> Iterator[str]:
    before, after = _lines(step.covered(edit)), _lines([item for item in edit.put if not item.id])
    kept = {item.id for item in edit.put if item.id}
    if kept:
        before = _lines([item for item in step.covered(edit) if item.id not in kept])
    yield from list(unified_diff(before, after, n=1, lineterm=""))[2:]


def _lines(items: Sequence[Item]) -> list[str]:
    rows: list[str] = []
    for item in items:
        rows += [f"[{item_told(item)}]", *(item.text.split("\n") if item.text else [])]
    return rows


def _as_dict(step: Step, edit: Edit) -> dict[str, object]:
    return {
        "batch": step.batch.id,
        "edit": edit.id,
        "request": step.turn.number,
        "by": edit.by,
        "reason": edit.reason,
        "tokens": edit.saved,
        "undone": step.undone,
        "before": [{"id": item.id, "kind": item.kind, "text": item.text} for item in step.covered(edit)],
        "after": [{"id": item.id, "kind": item.kind, "text": item.text} for item in edit.put],
    }
