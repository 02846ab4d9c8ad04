"""`ebb undo` and `ebb redo`: reverse a batch of edits, or apply it again."""

from __future__ import annotations

import argparse

from ebbtide import screen
from ebbtide.audit.history import History, build_history
from ebbtide.core.errors import BadRequest, StoreError
from ebbtide.core.text.preview import pluralize
from ebbtide.display import short_number, token_count
from ebbtide.fronts.cli.describe import describe_edit
from ebbtide.fronts.cli.parser import Commands, command
from ebbtide.fronts.cli.sources import find_session
from ebbtide.runtime import Context
from ebbtide.state.session_state import SessionState, apply_records
from ebbtide.store import SessionInfo, Store


def add(commands: Commands) -> None:
    options = ("session", "--project", "--store", "--json")
    undo = command(commands, "undo", run_undo, *options)
    command(commands, "redo", run_redo, *options)
    undo.add_argument("batch", nargs="?", default="", metavar="BATCH", help="such as p12; default: the newest")
    # The destination is not `window`, which is the name of a setting.
    undo.add_argument("--window", dest="learned_window", action="store_true", help="forget the learned window")


def run_undo(args: argparse.Namespace) -> int:
    """reverse the newest batch of edits

    Reverses a batch of edits: the newest, or the one named. The next request contains the originals again,
    and a single item that came back this way is not removed again. The provider's cache is written once more
    from there on. 'ebb diff' shows the batches; 'ebb redo' applies the batch again.

    With --window, forgets the window that was learned from the provider's refusals instead: the next request
    uses the window that is set, or the model's. 'ebb context' shows it.

    examples:
        ebb undo last
        ebb undo nightly p12
        ebb undo nightly --json
        ebb undo nightly --window
    """
    store, info, history = _open(args)
    if args.learned_window:
        return _forget_window(args, store, info, history)
    active = [batch.id for batch in history.state.batches if batch.id not in history.state.undone]
    if args.batch and args.batch not in active:
        raise BadRequest(f"{info.session} has no batch {args.batch!r} to undo; there are {', '.join(active) or 'none'}")
    if not active:
        return _print_nothing(args, f"{info.session}: nothing to undo")
    batch = args.batch or active[-1]
    _context(store, info).undo(batch)
    _check_written(batch in _state(store, info).undone, info)
    return _print_batch(args, history, batch, "undone: the next request contains these again")


def run_redo(args: argparse.Namespace) -> int:
    """apply the batch that was undone last again

    Applies the batch that was undone last again, unchanged: the same placeholders, the same bytes.

    examples:
        ebb redo last
        ebb redo nightly --store ./agents
    """
    store, info, history = _open(args)
    if not history.state.undone:
        return _print_nothing(args, f"{info.session}: nothing to redo")
    batch = history.state.undone[-1]
    _context(store, info).redo()
    _check_written(batch not in _state(store, info).undone, info)
    return _print_batch(args, history, batch, "active again: the next request leaves these out")


def _forget_window(args: argparse.Namespace, store: Store, info: SessionInfo, history: History) -> int:
    if args.batch:
        raise BadRequest("--window forgets a window and undoes no batch: give only one of the two")
    learned = dict(history.state.limits)
    if learned:
        _context(store, info).reset_window()
        _check_written(not _state(store, info).limits, info)
    if args.json:
        screen.print_json({"forgotten": learned})
    for model, window in learned.items():
        screen.notify(f"{model or 'unknown model'}: forgot {token_count(window)}; the next request uses the window set")
    if not learned:
        screen.notify(f"{info.session}: no window was learned")
    return 0


def _check_written(is_written: bool, info: SessionInfo) -> None:
    if not is_written:
        raise StoreError(f"{info.session} could not be written to; is it in use?")


def _open(args: argparse.Namespace) -> tuple[Store, SessionInfo, History]:
    store, info, log = find_session(args, args.session)
    return store, info, build_history(log.read().records, session=info.session)


def _context(store: Store, info: SessionInfo) -> Context:
    return Context(store=store, session=info.session, project=info.project)


def _state(store: Store, info: SessionInfo) -> SessionState:
    return apply_records(SessionState(), store.peek(info.session, project=info.project).read().records)


def _print_nothing(args: argparse.Namespace, reason: str) -> int:
    if args.json:
        screen.print_json({"batch": None, "edits": []})
    screen.notify(reason)
    return 0


def _print_batch(args: argparse.Namespace, history: History, batch: str, outcome: str) -> int:
    steps = [step for step in history.steps if step.batch.id == batch]
    rows = [(edit, describe_edit(edit, step)) for step in steps for edit in step.batch.edits]
    if args.json:
        edits = [{"id": edit.id, "by": edit.by, "what": what, "tokens": edit.saved} for edit, what in rows]
        screen.print_json({"batch": batch, "edits": edits})
        return 0
    screen.draw(screen.styled_text((f"{batch} is {outcome}", "bold")))
    cells = [[edit.by, what, short_number(edit.saved)] for edit, what in rows]
    screen.draw(screen.table(("by", "what", "tokens"), cells, figures=("tokens",), wraps="what"))
    screen.notify(f"{pluralize(len(rows), 'edit')}, {token_count(sum(edit.saved for edit, _ in rows))}")
    return 0
