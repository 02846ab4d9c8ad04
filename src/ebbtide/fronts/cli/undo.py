"""`ebb undo` and `ebb redo`: a batch of edits is left out again, or comes back. Nothing was ever lost."""

from __future__ import annotations

import argparse

from ebbtide.audit.history import History, build_history
from ebbtide.core.errors import BadRequest, StoreError
from ebbtide.core.text.pluralize import pluralize
from ebbtide.display import short_number, token_count
from ebbtide.formats.claude_folder import NEWEST
from ebbtide.fronts.cli import screen
from ebbtide.fronts.cli.help import Commands, command
from ebbtide.fronts.cli.options import add_json, add_project, add_store, resolve_settings
from ebbtide.fronts.cli.phrases import covered_told
from ebbtide.fronts.cli.session_lookup import chosen
from ebbtide.runtime import Context
from ebbtide.state.session_state import SessionState, apply_records
from ebbtide.store import SessionInfo, Store, open_store


def add(commands: Commands) -> None:
    back = command(
        commands,
        "undo",
        run_undo,
        brief="take the newest batch of edits back",
        about="""
            Leaves a batch of edits out again: the newest, or the one named. The next request carries the originals,
            and a single item that came back this way is not taken out again. The provider's cache is rewritten once
            from there on. 'ebb diff' shows the batches; 'ebb redo' reverses this.

            With --window, what refusals of the provider taught about the window is forgotten instead: the next
            request goes by the window that is set, or that follows from the model. 'ebb context' shows it.
        """,
        examples="""
            ebb undo last
            ebb undo nightly p12
            ebb undo nightly --json
            ebb undo nightly --window
        """,
    )
    forth = command(
        commands,
        "redo",
        run_redo,
        brief="bring back the batch that was undone last",
        about="Brings back the batch of edits that was undone last, exactly as it was: the same stubs, the same bytes.",
        examples="""
            ebb redo last
            ebb redo nightly --store ./agents
        """,
    )
    for parser in (back, forth):
        parser.add_argument("session", nargs="?", default=NEWEST, metavar="SESSION", help="default: the newest session")
        add_project(parser)
        add_store(parser)
        add_json(parser)
    back.add_argument("batch", nargs="?", default="", metavar="BATCH", help="as in p12; default: the newest")
    # Not `window`: that is the name of a setting.
    back.add_argument(
        "--window",
        dest="learned_window",
        action="store_true",
        help="forget the window that refusals taught",
    )


def run_undo(args: argparse.Namespace) -> int:
    store, info, history = _opened(args)
    if args.learned_window:
        return _forget_window(args, store, info, history)
    standing = [batch.id for batch in history.state.batches if batch.id not in history.state.undone]
    if args.batch and args.batch not in standing:
        raise BadRequest(
            f"{info.session} has no batch {args.batch!r} to undo; there are {', '.join(standing) or 'none'}"
        )
    if not standing:
        return _nothing(args, f"{info.session}: nothing to undo")
    batch = args.batch or standing[-1]
    _context(store, info).undo(batch)
    if batch not in _state(store, info).undone:
        raise StoreError(f"{info.session} could not be written to; is it in use?")
    return _told(args, history, batch, "undone: these come back with the next request")


def _forget_window(args: argparse.Namespace, store: Store, info: SessionInfo, history: History) -> int:
    if args.batch:
        raise BadRequest("--window forgets a window, and takes no batch back: give one of the two")
    learned = dict(history.state.limits)
    if learned:
        _context(store, info).reset_window()
        if _state(store, info).limits:
            raise StoreError(f"{info.session} could not be written to; is it in use?")
    if args.json:
        screen.show_json({"forgotten": learned})
    for model, window in learned.items():
        screen.say(f"{model or 'unknown model'}: {token_count(window)} forgotten; the next request goes by what is set")
    if not learned:
        screen.say(f"{info.session}: no refusal has taught a window")
    return 0


def run_redo(args: argparse.Namespace) -> int:
    store, info, history = _opened(args)
    if not history.state.undone:
        return _nothing(args, f"{info.session}: nothing to redo")
    batch = history.state.undone[-1]
    _context(store, info).redo()
    if batch in _state(store, info).undone:
        raise StoreError(f"{info.session} could not be written to; is it in use?")
    return _told(args, history, batch, "redone: these leave again with the next request")


def _opened(args: argparse.Namespace) -> tuple[Store, SessionInfo, History]:
    settings = resolve_settings(args)
    store = open_store(settings.store)
    info = chosen(store, settings.store, args.session, args.project)
    records = store.peek(info.session, project=info.project).read().records
    return store, info, build_history(records, session=info.session)


def _context(store: Store, info: SessionInfo) -> Context:
    return Context(store=store, session=info.session, project=info.project)


def _state(store: Store, info: SessionInfo) -> SessionState:
    return apply_records(SessionState(), store.peek(info.session, project=info.project).read().records)


def _nothing(args: argparse.Namespace, why: str) -> int:
    if args.json:
        screen.show_json({"batch": None, "edits": []})
    screen.say(why)
    return 0


def _told(args: argparse.Namespace, history: History, batch: str, what: str) -> int:
    steps = [step for step in history.steps if step.batch.id == batch]
    rows = [(edit, covered_told(step.covered(edit), edit, step)) for step in steps for edit in step.batch.edits]
    if args.json:
        edits = [{"id": edit.id, "by": edit.by, "what": told, "tokens": edit.saved} for edit, told in rows]
        screen.show_json({"batch": batch, "edits": edits})
        return 0
    columns = (("by", "left"), ("what", "left"), ("tokens", "right"))
    cells = [[edit.by, told, short_number(edit.saved)] for edit, told in rows]
    screen.draw(screen.styled((f"{batch} is {what}", "bold")))
    screen.draw(screen.table(columns, cells, folds="what"))
    screen.say(f"{pluralize(len(rows), 'edit')}, {token_count(sum(edit.saved for edit, _ in rows))}")
    return 0
