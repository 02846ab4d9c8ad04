"""`ebb fit`: make a request fit the window. A request that fits already stays byte for byte the same."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from ebbtide import screen
from ebbtide.audit.history import build_history
from ebbtide.config import Settings
from ebbtide.core.errors import BadRequest, Busy, StoreError
from ebbtide.core.view import View
from ebbtide.display import make_visible
from ebbtide.fronts.cli.describe import describe_report
from ebbtide.fronts.cli.explain import print_steps
from ebbtide.fronts.cli.parser import FITTING, READING, Commands, command, resolve_settings
from ebbtide.fronts.cli.sources import STDIN, InputFile, read_input, resolve_target
from ebbtide.policy import default
from ebbtide.runtime import Context, Ready, Report, fit
from ebbtide.runtime.outgoing import write_outgoing
from ebbtide.runtime.report import ReportBasis
from ebbtide.store import is_database
from ebbtide.wire import WIRES
from ebbtide.wire.reader import Reader

_MAX_NOTES = 10  # repairs and notes printed: many repeat the first


def add(commands: Commands) -> None:
    parser = command(commands, "fit", run, "--example", *READING, codes=FITTING)
    parser.add_argument("file", nargs="?", default=STDIN, metavar="FILE", help="default: stdin, also written -")
    parser.group("engine").add_argument(
        "--model", default="", metavar="M", help="the model whose window and prices to use; default: the request's"
    )
    output, store = parser.group("output"), parser.group("store")
    output.add_argument("--explain", action="store_true", help="say on stderr what was done; with --json as JSON")
    output.add_argument("--all", action="store_true", help="with --explain: every edit, not only the largest")
    store.add_argument("--session", type=_session_name, metavar="ID", help="store the edits under this name")
    store.add_argument("--project", default="", metavar="PATH", help="the project that the session belongs to")


def _session_name(text: str) -> str:
    """Refuse an empty name, which an unset variable in a script would give."""
    if not text.strip():
        raise argparse.ArgumentTypeError("a session needs a name")
    return text


def run(args: argparse.Namespace) -> int:
    """make a request fit the window

    Reads a request body for Anthropic Messages, OpenAI Chat or OpenAI Responses and writes it to stdout so
    that it fits the window: old tool results are removed first, the user's own messages stay. A request that
    fits already stays byte for byte the same. Of a recorded session, the last request is used.

    Without --session nothing is stored, and what is removed is lost. With it, what is removed is stored,
    placeholders say where, and the next call with the same session sends the same beginning, so that the
    provider's cache still matches. Exit code 3 means that it cannot fit; the message says what its tokens are.

    examples:
        ebb fit request.json > fitted.json
        cat request.json | ebb fit --window 32k --explain | curl -d @- https://...
        ebb fit request.json --session nightly --store ./agents
        ebb fit --example --window 120k --explain > /dev/null
    """
    settings = resolve_settings(args)
    source = read_input(resolve_target(args), args.max_bytes)
    request = source.data if source.recording is None else _last_request(source)
    try:
        ready = _fit(args, settings, request, source.model)
    except Busy as error:
        # The store's fault, not the request's.
        raise _nothing_removed([str(error)], settings.store) from error
    notes = ready.report.notes
    if ready.report.tokens_after > ready.report.window:
        # The library only notes that content could not be stored; a pipe would send the oversized request.
        raise _nothing_removed(notes, settings.store)
    if args.explain:
        _explain(args, ready.report)
    else:
        for note in notes:
            screen.notify(note)
    if notes and args.session is not None:
        for problem in _disk_problems(settings.store):
            screen.notify(problem)
    body = ready.body if isinstance(ready.body, bytes) else _dump(ready.body)
    if sys.stdout.isatty():
        print(make_visible(body.decode("utf-8", "replace")).rstrip("\n"))
    else:
        screen.write_bytes(body)
    return 0


def _nothing_removed(reasons: Iterable[str], store: str) -> StoreError:
    return StoreError(f"it does not fit, and nothing could be removed: {'; '.join([*reasons, *_disk_problems(store)])}")


def _disk_problems(store: str) -> list[str]:
    """Why the store cannot be written to: the engine's notes do not say."""
    if is_database(store):
        return []
    root = Path(store).expanduser().absolute()
    try:
        with tempfile.TemporaryFile(dir=next(folder for folder in (root, *root.parents) if folder.exists())):
            return []
    except OSError as error:
        return [f"{store} cannot be written to: {error.strerror or error}"]


def _last_request(source: InputFile) -> bytes:
    screen.notify(f"{source.name} is a recorded session: fitting the last of its {len(source.calls)} requests")
    return _dump(source.calls[-1].request)


def _fit(args: argparse.Namespace, settings: Settings, request: bytes, model: str) -> Ready:
    model = args.model or model
    window = settings.window_for(model)
    if args.session is None:
        if args.store:
            raise BadRequest("--store needs --session: give the session that this request belongs to")
        return fit(request, window=window, policy=settings.policy(), model=model, wire=args.wire)
    _check_request(request, args.wire)
    context = Context(
        model=model,
        window=window,
        policy=settings.policy(),
        store=settings.store,
        session=args.session,
        project=args.project,
        wire=args.wire,
        marks=False,
        clock=time.time,
    )
    return context.prepare(request)


def _check_request(request: bytes, wire: str | None) -> None:
    """Refuse bad input before the session is opened, which would create its folder."""
    read = Reader(default.estimator, wire=WIRES[wire] if wire else None).read(request)
    write_outgoing(read, View.of(read.items), None)


def _explain(args: argparse.Namespace, report: Report) -> None:
    if args.json:
        screen.print_json(report.as_dict(), file=sys.stderr)
        return
    behind = report.behind if isinstance(report.behind, ReportBasis) else None
    # A request that was never billed is counted 25 % higher, to be sure that it fits. People see the estimate.
    scale = behind.plan_input.scale if behind is not None and args.session is None else 1.0
    screen.notify(describe_report(report, scale))
    notes = [*report.notes, *report.repairs]
    for note in notes[:_MAX_NOTES]:
        screen.notify(f"  {note}")
    if len(notes) > _MAX_NOTES:
        screen.notify(f"  and {len(notes) - _MAX_NOTES} more; --json lists all")
    if report.edits and behind:
        # From the log of this run: a second run might edit differently.
        history = build_history(behind.log.read().records, session=args.session or "")
        print_steps(history, history.steps[-1:], shows_all=args.all, file=sys.stderr)


def _dump(body: object) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
