"""`ebb why`: which edit removed a text, when, why, and how to get it back."""

from __future__ import annotations

import argparse
import os
import shlex
from dataclasses import dataclass

from ebbtide import screen
from ebbtide.audit.history import History, Step
from ebbtide.audit.reasons import explain_reason
from ebbtide.core.errors import BadRequest
from ebbtide.core.stub import stored_names
from ebbtide.core.types import Edit, Item
from ebbtide.display import one_line, token_count
from ebbtide.fronts.cli.describe import describe_item, format_time
from ebbtide.fronts.cli.parser import FITTING, READING, Commands, command
from ebbtide.fronts.cli.sources import load_histories, repeat_options

_MAX_SHOWN = 5  # a common word is in hundreds of results, and the newest is the likeliest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Removal:
    """An original that contained the text, and the edit that removed it."""

    history: History
    step: Step
    edit: Edit
    item: Item
    options: str
    """Options that commands on this session need."""

    def ways_back(self) -> list[str]:
        """Commands that show the original or undo the edit."""
        name = shlex.quote(self.history.name)
        if not self.history.stored:
            return [f"ebb show {name} --raw --full"]
        if self.history.name != self.history.session:
            # A log given by its path: its store may be anywhere.
            return [f"ebb show {name} --item {self.item.id}"]
        handles = [f"ebb show {name} --handle {shlex.quote(handle)}" for handle in stored_names(self.edit)]
        undo = [] if self.step.undone else [f"ebb undo {name} {self.step.batch.id}"]
        return [way + self.options for way in (*handles, f"ebb show {name} --item {self.item.id}", *undo)]


def add(commands: Commands) -> None:
    parser = command(commands, "why", run, codes=FITTING)
    parser.add_argument("text", metavar="TEXT")
    parser.add_shared("target", "--example", *READING, "--project")


def run(args: argparse.Namespace) -> int:
    """which edit removed this text, and how to get it back

    Searches everything ever said in a session for a text, and says which edit removed it from the request,
    when and why, and how to get it back; or that the model still sees it. Case is ignored. Without a session,
    the newest one is searched.

    examples:
        ebb why "connection refused"
        ebb why "def parse_header" nightly
        ebb why "SELECT *" recorded.jsonl --window 100k
    """
    if not args.text.strip():
        raise BadRequest("the text is empty: give the text to look for")
    histories, text = load_histories(args), args.text.casefold()
    removals = [
        _Removal(history=history, step=step, edit=edit, item=item, options=repeat_options(args))
        for history in histories
        for step in history.steps
        for edit in step.batch.edits
        for item in step.removed_items(edit)
        if text in item.text.casefold()
    ]
    visible = [
        (history, item)
        for history in histories
        for item in history.next_request()[1].entries
        if text in item.text.casefold()
    ]
    if args.json:
        still_there = [{"session": h.session, "item": item.id, "what": describe_item(item)} for h, item in visible]
        taken_out = [_as_dict(removal) for removal in removals]
        screen.print_json({"text": args.text, "taken_out": taken_out, "still_there": still_there})
        return 0
    for removal in removals[-_MAX_SHOWN:]:
        _print_removal(removal)
    if len(removals) > _MAX_SHOWN:
        print(f"Removed {len(removals)} times in all; these are the newest. --json lists all.")
    _print_visible(visible, is_removed=bool(removals))
    return 0


def _print_removal(removal: _Removal) -> None:
    edit, step, item = removal.edit, removal.step, removal.item
    verb = "was removed and is back" if step.undone else "was removed"
    print(one_line(f"{describe_item(item, step)} (message {item.message}) {verb}"))
    rows = [
        ("by", f"{edit.by}, edit {edit.id} of batch {step.batch.id}"),
        ("when", ", ".join(filter(None, (format_time(step.batch.at), f"for request {step.turn.number}")))),
        ("why", f"{explain_reason(removal.history, step, edit)} (-{token_count(edit.saved)})"),
        *(("back" if n == 0 else "", way) for n, way in enumerate(removal.ways_back())),
    ]
    for label, text in rows:
        print(f"  {label:5} {one_line(text)}")


def _print_visible(visible: list[tuple[History, Item]], *, is_removed: bool) -> None:
    if visible:
        history, item = visible[-1]
        others = f", and {len(visible) - 1} more" if len(visible) > 1 else ""
        place = f"message {item.message}" if item.message >= 0 else "a note of Ebbtide"
        where = f"{place} of {os.path.basename(history.name)}"
        print(one_line(f"The model still sees it: {where}, {describe_item(item)}{others}"))
    elif not is_removed:
        print("This text was never in the conversation. The system prompt and the tools are not searched.")


def _as_dict(removal: _Removal) -> dict[str, object]:
    return {
        "session": removal.history.session,
        "item": removal.item.id,
        "what": describe_item(removal.item, removal.step),
        "message": removal.item.message,
        "edit": removal.edit.id,
        "batch": removal.step.batch.id,
        "by": removal.edit.by,
        "why": removal.edit.reason,
        "at": removal.step.batch.at,
        "request": removal.step.turn.number,
        "undone": removal.step.undone,
        "back": removal.ways_back(),
    }
