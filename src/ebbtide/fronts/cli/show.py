"""`ebb show`: print a conversation as the model sees it, or the originals that were removed."""

from __future__ import annotations

import argparse
import os

from ebbtide import screen
from ebbtide.audit.history import History
from ebbtide.core.errors import BadRequest, StoreError
from ebbtide.core.stub import stored_names
from ebbtide.core.types import Item
from ebbtide.core.view import View
from ebbtide.display import first_lines, make_visible, one_line, token_count
from ebbtide.fronts.cli.describe import describe_item
from ebbtide.fronts.cli.parser import FITTING, READING, Commands, command
from ebbtide.fronts.cli.sources import find_session, load_histories

_MAX_LINES = 12  # per item, so that long output does not bury the messages between


def add(commands: Commands) -> None:
    parser = command(commands, "show", run, "target", "--example", *READING, "--project", codes=FITTING)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--raw", action="store_true", help="the originals, with nothing removed")
    which.add_argument("--item", metavar="ITEM", help="one item in full, by its id or the start of it")
    which.add_argument("--handle", metavar="NAME", help="a stored original, byte for byte")
    parser.add_argument(
        "--at", type=int, metavar="N", help="as it was sent with the N-th request; default: as it is now"
    )
    parser.group("output").add_argument("--full", action="store_true", help="do not cut long items")


def run(args: argparse.Namespace) -> int:
    """a conversation as the model sees it

    Prints a session as the model sees it now. Placeholders for removed content are marked with '~' and the
    edit that made them. Long items are cut to a few lines; --full shows all. --raw shows the originals as if
    nothing had been removed, --item one item in full, and --handle a stored original byte for byte: the
    placeholders contain the handles.

    examples:
        ebb show last
        ebb show nightly --at 40 --full
        ebb show nightly --handle toolu_01.txt > original.txt
    """
    if args.handle:
        _print_original(args)
        return 0
    for history in load_histories(args):
        _, view = history.next_request() if args.at is None else history.sent_request(args.at)
        view = View.of(view.originals) if args.raw else view
        entries = _find_item(history, view, args.item) if args.item else view.entries
        if args.json:
            screen.print_json([_as_dict(view, entry) for entry in entries])
        else:
            _print(view, entries, full=args.full or bool(args.item))
    return 0


def _print_original(args: argparse.Namespace) -> None:
    """Print a stored original of this session. A path in a placeholder works as its handle."""
    _, info, log = find_session(args, args.target)
    name = os.path.basename(args.handle)
    if name not in {blob.name for blob in log.list_blobs()}:
        raise BadRequest(f"{info.session} has stored nothing under {name!r}")
    try:
        screen.write_text(log.read_blob(name))
    except StoreError as error:
        raise StoreError(f"{name}: {error}") from None


def _find_item(history: History, view: View, name: str) -> list[Item]:
    candidates = [*view.originals, *(entry for entry in view.entries if entry.id in view.edit_by_entry)]
    matching = {item.id: item for item in candidates if item.id.startswith(name)}
    if not matching:
        raise BadRequest(f"no item of {history.name} is called {name!r}; 'ebb show --json' lists ids")
    if len(matching) > 1 and name not in matching:
        raise BadRequest(f"{name!r} matches {len(matching)} items: {', '.join(list(matching)[:5])}")
    return [matching.get(name) or next(iter(matching.values()))]


def _print(view: View, entries: list[Item] | tuple[Item, ...], *, full: bool) -> None:
    console = screen.console()
    message = None
    for entry in entries:
        edit = view.edit_by_entry.get(entry.id)
        if entry.message != message:
            message = entry.message
            console.print(f"── {entry.role} " + "─" * 40, style="bold", overflow="crop", no_wrap=True)
        mark = f"~ by {edit.by}: {edit.reason}" if edit else entry.id
        head = f"{describe_item(entry)} · {token_count(entry.tokens)} · {mark}"
        console.print(one_line(head), style="yellow" if edit else "dim", soft_wrap=True)
        rows = make_visible(entry.text).split("\n")
        for row in rows if full else first_lines(rows, _MAX_LINES):
            console.print(row, soft_wrap=True)


def _as_dict(view: View, entry: Item) -> dict[str, object]:
    edit = view.edit_by_entry.get(entry.id)
    fields: dict[str, object] = {
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
        fields["edit"] = {"id": edit.id, "by": edit.by, "reason": edit.reason, "kept": stored_names(edit)}
    return fields
