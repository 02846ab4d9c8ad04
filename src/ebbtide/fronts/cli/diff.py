"""`ebb diff`: what each edit replaced, as a unified diff."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence, Set
from difflib import SequenceMatcher
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ebbtide import screen
from ebbtide.audit.history import Step
from ebbtide.core.errors import BadRequest
from ebbtide.core.text.preview import pluralize
from ebbtide.core.types import Edit, Item
from ebbtide.display import make_visible, one_line, token_count
from ebbtide.fronts.cli.describe import describe_edit, describe_item
from ebbtide.fronts.cli.parser import FITTING, READING, Commands, command
from ebbtide.fronts.cli.sources import load_histories

if TYPE_CHECKING:
    from rich.console import Console

_HEAD, _TAIL = 14, 8
"""Lines of a diff that is cut: enough to recognise what was removed, and to see its replacement at the end."""
_CHUNK = 256
"""Rows printed at once: printing one by one is slow."""
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def add(commands: Commands) -> None:
    parser = command(commands, "diff", run, "target", "--example", *READING, "--project", codes=FITTING)
    parser.add_argument("--edit", metavar="EDIT", help="only this batch or edit; the start of an edit's id is enough")
    parser.group("output").add_argument("--full", action="store_true", help="do not cut long diffs")


def run(args: argparse.Namespace) -> int:
    """before and after of each edit

    Prints every batch of edits as a unified diff: what the model saw before, and what replaced it. Long diffs
    are cut; --full shows all. Batches are called p1, p2 and so on, edits x1-...; pass either to --edit to see
    only that one. 'ebb undo' reverses a batch.

    examples:
        ebb diff last
        ebb diff nightly --edit p12 --full
        ebb diff recorded.jsonl --window 100k | less -R
    """
    edits = [
        (step, edit)
        for history in load_histories(args)
        for step in history.steps
        for edit in step.batch.edits
        if not args.edit or step.batch.id == args.edit or edit.id.startswith(args.edit)
    ]
    if args.edit and not edits:
        raise BadRequest(f"no batch or edit of {args.target} is called {args.edit!r}")
    if args.json:
        screen.print_json([_as_dict(step, edit) for step, edit in edits])
        return 0
    if not edits:
        print("Nothing was removed.")
    console, batch, to_lines = screen.console(), "", _ItemLines()
    for step, edit in edits:
        if step.batch.id != batch:
            batch = step.batch.id
            console.print(_headline(step), style="bold", soft_wrap=True)
        _print_edit(console, step, edit, to_lines, full=args.full)
    return 0


def _headline(step: Step) -> str:
    undone = " (undone)" if step.undone else ""
    return f"{step.batch.id}, for request {step.turn.number}{undone}: {pluralize(len(step.batch.edits), 'edit')}"


def _print_edit(console: Console, step: Step, edit: Edit, to_lines: _ItemLines, *, full: bool) -> None:
    what = describe_edit(edit, step)
    console.print(one_line(f"{edit.id} {edit.by}: {what}: {edit.reason} (-{token_count(edit.saved)})"), soft_wrap=True)
    runs = list(
        _unified(to_lines(step.removed_items(edit)), to_lines([item for item in edit.replacement if not item.id]))
    )
    length = sum(run.stop - run.start for run in runs)
    hidden = 0 if full else max(0, length - _HEAD - _TAIL)
    if not hidden:
        _print_rows(console, _rows(runs, 0, length))
        return
    _print_rows(console, _rows(runs, 0, _HEAD))
    console.print(f"… {pluralize(hidden, 'more line')}", style="dim")
    _print_rows(console, _rows(runs, _HEAD + hidden, length))


def _print_rows(console: Console, rows: Iterator[str]) -> None:
    from rich.text import Text  # noqa: PLC0415

    while chunk := [Text(make_visible(row), style=_COLOURS.get(row[:1], "")) for row in islice(rows, _CHUNK)]:
        console.print(Text("\n").join(chunk), soft_wrap=True)


class _Run(NamedTuple):
    """Consecutive rows with the same sign. A diff may have a million rows, of which few are printed."""

    sign: str
    lines: Sequence[str]
    start: int
    stop: int


def _rows(runs: Sequence[_Run], start: int, stop: int) -> Iterator[str]:
    """Yield the rows from `start` to `stop`."""
    for run in runs:
        lines = run.lines[run.start + max(0, start) : min(run.stop, run.start + stop)] if stop > 0 else ()
        yield from (run.sign + line for line in lines)
        start, stop = start - (run.stop - run.start), stop - (run.stop - run.start)


def _unified(before: Sequence[str], after: Sequence[str]) -> Iterator[_Run]:
    """A unified diff with one line of context, in runs.

    Lines that only one side has cannot match, so difflib gets each run of them as one line: it is slow on many lines,
    and a summary replaces a thousand times its own.
    """
    merged, starts = _merge_unmatched(before, set(after))
    for group in SequenceMatcher(None, merged, after).get_grouped_opcodes(1):
        codes = [(tag, starts[i1], starts[i2], j1, j2) for tag, i1, i2, j1, j2 in group]
        old, new = _span(codes[0][1], codes[-1][2]), _span(codes[0][3], codes[-1][4])
        yield _Run("", [f"@@ -{old} +{new} @@"], 0, 1)
        for tag, i1, i2, j1, j2 in codes:
            if tag == "equal":
                yield _Run(" ", before, i1, i2)
            if tag in ("replace", "delete"):
                yield _Run("-", before, i1, i2)
            if tag in ("replace", "insert"):
                yield _Run("+", after, j1, j2)


def _merge_unmatched(lines: Sequence[str], known: Set[str]) -> tuple[list[str | None], list[int]]:
    """Keep the known lines, and merge each run of others into one None; also return where each begins."""
    merged, starts, end = list[str | None](), list[int](), 0
    for n in [*(n for n, line in enumerate(lines) if line in known), len(lines)]:
        if n > end:
            merged.append(None)
            starts.append(end)
        if n < len(lines):
            merged.append(lines[n])
            starts.append(n)
        end = n + 1
    return merged, [*starts, len(lines)]


def _span(start: int, stop: int) -> str:
    """A range as `diff -u` writes it: without a length of one, and an empty one by the line before it."""
    length = stop - start
    return f"{start + 1}" if length == 1 else f"{start + (length > 0)},{length}"


class _ItemLines:
    """Splits items into lines, once per item: compactions cover the same ones again and again."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], list[str]] = {}

    def __call__(self, items: Sequence[Item]) -> list[str]:
        rows: list[str] = []
        for item in items:
            key = (item.id, item.name)
            if key not in self._lines or not item.id:
                self._lines[key] = [f"[{describe_item(item)}]", *(item.text.split("\n") if item.text else [])]
            rows += self._lines[key]
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
        "before": [{"id": item.id, "kind": item.kind, "text": item.text} for item in step.covered_items(edit)],
        "after": [{"id": item.id, "kind": item.kind, "text": item.text} for item in edit.replacement],
    }
