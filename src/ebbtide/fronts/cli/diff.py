"""`ebb diff`: before and after of each edit."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence, Set
from difflib import SequenceMatcher
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ebbtide.audit.history import Step
from ebbtide.core.errors import BadRequest
from ebbtide.core.text.pluralize import pluralize
from ebbtide.core.types import Edit, Item
from ebbtide.display import make_visible, one_line, token_count
from ebbtide.formats.claude_folder import NEWEST
from ebbtide.fronts.cli import screen
from ebbtide.fronts.cli.help import FITTING, Commands, command
from ebbtide.fronts.cli.options import OUTPUT, add_example, add_project, add_reading, resolve_settings
from ebbtide.fronts.cli.phrases import covered_told, item_told
from ebbtide.fronts.cli.sources import histories, wanted

if TYPE_CHECKING:
    from rich.console import Console

_HEAD, _TAIL = 14, 8
"""Lines of one edit's diff: enough to recognise what left, and to see what stands there, which comes last."""
_AT_ONCE = 256
"""Rows that are printed together: enough to make the rest cheap, and little to hold."""
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
    parser.add_argument("target", nargs="?", default=NEWEST, metavar="SESSION|FILE", help="default: the newest session")
    parser.add_argument("--edit", metavar="EDIT", help="only this batch or edit; the beginning of an edit's id will do")
    parser.group(OUTPUT).add_argument("--full", action="store_true", help="do not cut long diffs")
    add_example(parser)
    add_reading(parser)
    add_project(parser)


def run(args: argparse.Namespace) -> int:
    shown = [
        (step, edit)
        for history in histories(wanted(args), resolve_settings(args), args.max_bytes, project=args.project)
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
    to, last, lines_of = screen.console(), "", _Lines()
    for step, edit in shown:
        if step.batch.id != last:
            last = step.batch.id
            to.print(_headline(step), style="bold", soft_wrap=True)
        _print(to, step, edit, lines_of, full=args.full)
    return 0


def _headline(step: Step) -> str:
    undone = " (undone)" if step.undone else ""
    return f"{step.batch.id}, for request {step.turn.number}{undone}: {pluralize(len(step.batch.edits), 'edit')}"


def _print(to: Console, step: Step, edit: Edit, lines_of: _Lines, *, full: bool) -> None:
    told = covered_told(step.covered(edit), edit, step)
    to.print(one_line(f"{edit.id} {edit.by}: {told}: {edit.reason} (-{token_count(edit.saved)})"), soft_wrap=True)
    runs = _diff(step, edit, lines_of)
    length = sum(run.stop - run.start for run in runs)
    hidden = 0 if full else max(0, length - _HEAD - _TAIL)
    if not hidden:
        _print_rows(to, _rows(runs, 0, length))
        return
    _print_rows(to, _rows(runs, 0, _HEAD))
    to.print(f"… {pluralize(hidden, 'more line')}", style="dim")
    _print_rows(to, _rows(runs, _HEAD + hidden, length))


def _print_rows(to: Console, rows: Iterator[str]) -> None:
    """Many at once: to print one costs more than to make it."""
    from rich.text import Text  # noqa: PLC0415

    while some := [Text(make_visible(row), style=_COLOURS.get(row[:1], "")) for row in islice(rows, _AT_ONCE)]:
        to.print(Text("\n").join(some), soft_wrap=True)


class _Run(NamedTuple):
    """Rows of a diff that stand together and begin alike. A fold of a long session has a million: few are looked at."""

    sign: str
    lines: Sequence[str]
    start: int
    stop: int


def _rows(runs: Sequence[_Run], start: int, stop: int) -> Iterator[str]:
    """These rows and no others."""
    for run in runs:
        here = run.lines[run.start + max(0, start) : min(run.stop, run.start + stop)] if stop > 0 else ()
        yield from (run.sign + one for one in here)
        start, stop = start - (run.stop - run.start), stop - (run.stop - run.start)


def _diff(step: Step, edit: Edit, lines_of: _Lines) -> list[_Run]:
    kept = {item.id for item in edit.replacement if item.id}
    before = lines_of([item for item in step.covered(edit) if item.id not in kept])
    return list(_unified(before, lines_of([item for item in edit.replacement if not item.id])))


def _unified(before: Sequence[str], after: Sequence[str]) -> Iterator[_Run]:
    """As difflib's, with one line of context, in runs.

    Lines that stand on one side only cannot match, so difflib is shown a run of them as one: it looks at all lines for
    each match that it finds, and a fold has a thousand times the lines of what stands for it.
    """
    squeezed, starts = _squeezed(before, set(after))
    for group in SequenceMatcher(None, squeezed, after).get_grouped_opcodes(1):
        codes = [(tag, starts[one], starts[two], three, four) for tag, one, two, three, four in group]
        _, first, _, other, _ = codes[0]
        _, _, last, _, end = codes[-1]
        yield _Run("", [f"@@ -{_span(first, last)} +{_span(other, end)} @@"], 0, 1)
        for tag, one, two, three, four in codes:
            if tag == "equal":
                yield _Run(" ", before, one, two)
            if tag in ("replace", "delete"):
                yield _Run("-", before, one, two)
            if tag in ("replace", "insert"):
                yield _Run("+", after, three, four)


def _squeezed(lines: Sequence[str], known: Set[str]) -> tuple[list[str | None], list[int]]:
    """The known lines as they are, each run of others as one None; and where each begins."""
    squeezed, starts, end = list[str | None](), list[int](), 0
    for n in [n for n, one in enumerate(lines) if one in known]:
        if n > end:
            squeezed.append(None)
            starts.append(end)
        squeezed.append(lines[n])
        starts.append(n)
        end = n + 1
    if len(lines) > end:
        squeezed.append(None)
        starts.append(end)
    return squeezed, [*starts, len(lines)]


def _span(start: int, stop: int) -> str:
    """As `diff -u` writes it: a length of one is left out, and an empty range is told by the line before it."""
    length = stop - start
    return f"{start + 1}" if length == 1 else f"{start + (length > 0)},{length}"


class _Lines:
    """Items as lines. Folds cover the same ones again and again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], list[str]] = {}

    def __call__(self, items: Sequence[Item]) -> list[str]:
        rows: list[str] = []
        for item in items:
            name = (item.id, item.name)
            if name not in self._known or not item.id:
                self._known[name] = [f"[{item_told(item)}]", *(item.text.split("\n") if item.text else [])]
            rows += self._known[name]
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
        "after": [{"id": item.id, "kind": item.kind, "text": item.text} for item in edit.replacement],
    }
