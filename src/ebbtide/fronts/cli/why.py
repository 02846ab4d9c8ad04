"""`ebb why`: which edit took this text out, when, why, and the way back."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from ebbtide.audit.history import History, Step
from ebbtide.core.errors import BadRequest
from ebbtide.core.types import Edit, Item
from ebbtide.display import one_line, token_count
from ebbtide.formats.claude_folder import NEWEST
from ebbtide.fronts.cli import screen
from ebbtide.fronts.cli.help import FITTING, Commands, command
from ebbtide.fronts.cli.options import add_example, add_project, add_reading, resolve_settings
from ebbtide.fronts.cli.phrases import item_told, moment, way_back
from ebbtide.fronts.cli.session_lookup import told_again
from ebbtide.fronts.cli.sources import histories, wanted

_NEWEST = 5  # blames shown: a common word is in hundreds of results, and the newest is the one that is missed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blame:
    """One original that held the text, and the edit that took it out."""

    history: History
    step: Step
    edit: Edit
    item: Item
    options: str
    """That commands about this session need."""

    def back(self) -> list[str]:
        name = shlex.quote(self.history.name)
        if not self.history.stored:
            return [f"ebb show {name} --raw --full"]
        if self.history.name != self.history.session:
            # A log opened by its path: the store that it is of may be anywhere.
            return [f"ebb show {name} --item {self.item.id}"]
        kept = [f"ebb show {name} --handle {shlex.quote(handle)}" for handle in way_back(self.edit)]
        undo = [] if self.step.undone else [f"ebb undo {name} {self.step.batch.id}"]
        return [way + self.options for way in (*kept, f"ebb show {name} --item {self.item.id}", *undo)]


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "why",
        run,
        brief="which edit took this text out, and the way back",
        about="""
            Looks for a text among all that was ever said in a session, and tells which edit took it out of the
            request, when and why, and how to get it back; or that the model still sees it. Upper and lower case are
            the same. Without a session, the newest one is searched.
        """,
        examples="""
            ebb why "connection refused"
            ebb why "def parse_header" nightly
            ebb why "SELECT *" recorded.jsonl --window 100k
        """,
        codes=FITTING,
    )
    parser.add_argument("text", metavar="TEXT")
    parser.add_argument("target", nargs="?", default=NEWEST, metavar="SESSION|FILE", help="default: the newest session")
    add_example(parser)
    add_reading(parser)
    add_project(parser)


def run(args: argparse.Namespace) -> int:
    if not args.text.strip():
        raise BadRequest("which text? There is nothing to look for")
    found = histories(wanted(args), resolve_settings(args), args.max_bytes, project=args.project)
    text = args.text.casefold()
    blames = [one for history in found for one in _blamed(history, text, told_again(args))]
    seen = [(history, item) for history in found for item in history.now()[1].entries if text in item.text.casefold()]
    if args.json:
        still = [{"session": h.session, "item": item.id, "what": item_told(item)} for h, item in seen]
        screen.show_json({"text": args.text, "taken_out": [_as_dict(one) for one in blames], "still_there": still})
        return 0
    for one in blames[-_NEWEST:]:
        _print(one)
    if len(blames) > _NEWEST:
        print(f"Taken out {len(blames)} times in all; these are the newest. --json lists every one.")
    _print_seen(seen, bool(blames))
    return 0


def _blamed(history: History, text: str, options: str) -> Iterator[_Blame]:
    edits = [(step, edit) for step in history.steps for edit in step.batch.edits]
    for step, edit in edits:
        kept = {item.id for item in edit.replacement if item.id}
        for item in step.covered(edit):
            if text in item.text.casefold() and item.id not in kept:
                yield _Blame(history=history, step=step, edit=edit, item=item, options=options)


def _print(one: _Blame) -> None:
    edit, step = one.edit, one.step
    verb = "was taken out and is back" if step.undone else "was taken out"
    print(one_line(f"{item_told(one.item, step)} (message {one.item.message}) {verb}"))
    when = ", ".join(filter(None, (moment(step.batch.at), f"for request {step.turn.number}")))
    told = [
        ("by", f"{edit.by}, edit {edit.id} of batch {step.batch.id}"),
        ("when", when),
        ("why", f"{edit.reason} (-{token_count(edit.saved)})"),
        *(("back" if n == 0 else "", way) for n, way in enumerate(one.back())),
    ]
    for word, rest in told:
        print(f"  {word:5} {one_line(rest)}")


def _print_seen(seen: list[tuple[History, Item]], blamed: bool) -> None:
    if seen:
        history, item = seen[-1]
        more = f", and {len(seen) - 1} more" if len(seen) > 1 else ""
        place = f"message {item.message}" if item.message >= 0 else "a note of ours"
        print(
            one_line(f"The model still sees it: {place} of {os.path.basename(history.name)}, {item_told(item)}{more}")
        )
    elif not blamed:
        print("This text was never in the conversation. The system prompt and the tools are not searched.")


def _as_dict(one: _Blame) -> dict[str, object]:
    return {
        "session": one.history.session,
        "item": one.item.id,
        "what": item_told(one.item, one.step),
        "message": one.item.message,
        "edit": one.edit.id,
        "batch": one.step.batch.id,
        "by": one.edit.by,
        "why": one.edit.reason,
        "at": one.step.batch.at,
        "request": one.step.turn.number,
        "undone": one.step.undone,
        "back": one.back(),
    }
