"""`ebb show`: a conversation as the model sees it, and the way to everything that it no longer sees."""

from __future__ import annotations

import argparse
import os
import sys

from ebbtide.audit.history import History
from ebbtide.core.errors import BadRequest, StoreError
from ebbtide.core.text.pluralize import pluralize
from ebbtide.core.types import Item
from ebbtide.core.view import View
from ebbtide.display import make_visible, one_line, token_count
from ebbtide.formats.claude_folder import NEWEST
from ebbtide.fronts.cli import screen
from ebbtide.fronts.cli.help import FITTING, Commands, command
from ebbtide.fronts.cli.options import OUTPUT, add_example, add_project, add_reading, resolve_settings
from ebbtide.fronts.cli.phrases import item_told, way_back
from ebbtide.fronts.cli.session_lookup import found
from ebbtide.fronts.cli.sources import histories, wanted

_LINES = 12  # of each item: a screen shows a few turns, and long output does not bury the words between


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "show",
        run,
        brief="a conversation as the model sees it",
        about="""
            Prints a session as the model sees it now: stubs stand where content was taken out, marked with '~' and
            with the edit that put them there. Long items are cut to a few lines; --full shows all. --raw shows the
            originals as if nothing had ever been taken out, --item one item in full, and --handle a stored original
            byte for byte: handles stand in the stubs.
        """,
        examples="""
            ebb show last
            ebb show nightly --at 40 --full
            ebb show nightly --handle toolu_01.txt > original.txt
        """,
        codes=FITTING,
    )
    parser.add_argument("target", nargs="?", default=NEWEST, metavar="SESSION|FILE", help="default: the newest session")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--raw", action="store_true", help="the originals, nothing taken out")
    which.add_argument(
        "--item", metavar="ITEM", help="one item in full, original or stand-in, by its id or its beginning"
    )
    which.add_argument("--handle", metavar="NAME", help="a stored original, byte for byte")
    parser.add_argument("--at", type=int, metavar="N", help="as the N-th request went out; default: as it stands now")
    parser.group(OUTPUT).add_argument("--full", action="store_true", help="do not cut long items")
    add_example(parser)
    add_reading(parser)
    add_project(parser)


def run(args: argparse.Namespace) -> int:
    settings = resolve_settings(args)
    if args.handle:
        _print_stored(settings.store, args.target, args.handle, args.project)
        return 0
    for history in histories(wanted(args), settings, args.max_bytes, project=args.project):
        _, view = history.now() if args.at is None else history.sent(args.at)
        view = View.of(view.originals) if args.raw else view
        entries = _one(history, view, args.item) if args.item else view.entries
        if args.json:
            screen.show_json([_as_dict(view, entry) for entry in entries])
        else:
            _print(view, entries, full=args.full or bool(args.item))
    return 0


def _print_stored(store: str, session: str, handle: str, project: str | None) -> None:
    """A handle is honoured only if this session recorded it; a path of a stub names it as well."""
    info, log = found(store, session, project)
    name = os.path.basename(handle)
    if name not in {blob.name for blob in log.list_blobs()}:
        raise BadRequest(f"{info.session} stored nothing under {name!r}")
    try:
        text = log.read_blob(name)
    except StoreError as damaged:
        raise StoreError(f"{name}: {damaged}") from None
    if sys.stdout.isatty():
        print(make_visible(text))
    else:
        screen.data(text.encode("utf-8", "surrogatepass"))


def _one(history: History, view: View, name: str) -> list[Item]:
    candidates = [*view.originals, *(entry for entry in view.entries if entry.id in view.edit_by_entry)]
    matching = {item.id: item for item in candidates if item.id.startswith(name)}
    if not matching:
        raise BadRequest(f"no item of {history.name} is called {name!r}; 'ebb show --json' lists ids")
    if len(matching) > 1 and name not in matching:
        raise BadRequest(f"{name!r} may mean {len(matching)} items: {', '.join(list(matching)[:5])}")
    return [matching.get(name) or next(iter(matching.values()))]


def _print(view: View, entries: list[Item] | tuple[Item, ...], *, full: bool) -> None:
    to = screen.console()
    message = None
    for entry in entries:
        edit = view.edit_by_entry.get(entry.id)
        if entry.message != message:
            message = entry.message
            to.print(f"── {entry.role} " + "─" * 40, style="bold", overflow="crop", no_wrap=True)
        mark = f"~ by {edit.by}: {edit.reason}" if edit else entry.id
        head = f"{item_told(entry)} · {token_count(entry.tokens)} · {mark}"
        to.print(one_line(head), style="yellow" if edit else "dim", soft_wrap=True)
        for row in _cut(entry.text, full):
            to.print(row, soft_wrap=True)


def _cut(text: str, full: bool) -> list[str]:
    rows = make_visible(text).split("\n")
    if full or len(rows) <= _LINES + 1:
        return rows
    return [*rows[:_LINES], f"… {pluralize(len(rows) - _LINES, 'more line')}"]


def _as_dict(view: View, entry: Item) -> dict[str, object]:
    edit = view.edit_by_entry.get(entry.id)
    told: dict[str, object] = {
        "id": entry.id,
        "message": entry.message,
        "role": entry.role,
        "kind": entry.kind,
        "name": entry.name,
        "call_id": entry.call_id,
        "tokens": entry.tokens,
        "text": entry.text,
    }
    if edit is not None:
        told["edit"] = {"id": edit.id, "by": edit.by, "reason": edit.reason, "kept": way_back(edit)}
    return told
