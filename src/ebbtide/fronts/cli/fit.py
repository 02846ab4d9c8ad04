"""`ebb fit`: a request in, one that fits out. Byte for byte the same where nothing had to be done."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from ebbtide.audit.history import build_history
from ebbtide.core.errors import BadRequest, Busy, StoreError
from ebbtide.core.view import View
from ebbtide.display import make_visible
from ebbtide.fronts.cli import screen
from ebbtide.fronts.cli.explain import tell
from ebbtide.fronts.cli.help import FITTING, Commands, command
from ebbtide.fronts.cli.options import (
    ENGINE,
    OUTPUT,
    STORE,
    CommandSettings,
    add_example,
    add_reading,
    resolve_settings,
)
from ebbtide.fronts.cli.phrases import report_told
from ebbtide.fronts.cli.sources import STDIN, Given, given, wanted
from ebbtide.policy import default
from ebbtide.runtime import Context, Ready, Report, fit
from ebbtide.runtime.outgoing import write_outgoing
from ebbtide.runtime.report import ReportBasis
from ebbtide.wire import WIRES
from ebbtide.wire.reader import Reader

_TOLD = 10  # repairs and notes: the same repair of every message says no more than the first


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "fit",
        run,
        brief="make a request fit the window",
        about="""
            Reads a request body for Anthropic Messages, OpenAI Chat or OpenAI Responses and writes it to stdout so
            that it fits the window: old tool results leave first, the user's own words stay. A request that fits
            already comes out byte for byte as it went in. Given a recorded session, its last request is used.

            Without --session nothing is remembered, and what leaves is not kept. With it, what leaves is stored, the
            stubs say where, and the next call with the same session sends the same beginning, so the provider's cache
            holds. Exit code 3 means that it cannot fit; the message says what the tokens are made of.
        """,
        examples="""
            ebb fit request.json > fitted.json
            cat request.json | ebb fit --window 32k --explain | curl -d @- https://...
            ebb fit request.json --session nightly --store ./agents
            ebb fit --example --window 60k --explain > /dev/null
        """,
        codes=FITTING,
    )
    parser.add_argument("file", nargs="?", default=STDIN, metavar="FILE", help="default, or with -: stdin")
    add_example(parser)
    parser.group(ENGINE).add_argument(
        "--model", default="", metavar="M", help="whose window and prices; default: the request's own"
    )
    parser.group(OUTPUT).add_argument(
        "--explain", action="store_true", help="tell on stderr what was done; with --json as JSON"
    )
    parser.group(STORE).add_argument(
        "--session", type=_named, metavar="ID", help="remember under this name what is done"
    )
    parser.group(STORE).add_argument(
        "--project", default="", metavar="PATH", help="the project that the session belongs to"
    )
    add_reading(parser)


def _named(text: str) -> str:
    """Of an unset variable a session would come that nobody can call by its name."""
    if not text.strip():
        raise argparse.ArgumentTypeError("a session needs a name")
    return text


def run(args: argparse.Namespace) -> int:
    settings = resolve_settings(args)
    source = given(wanted(args), args.max_bytes)
    request = source.data if source.recording is None else _last(source)
    try:
        ready = _fitted(args, settings, request, source.model)
    except Busy as busy:
        # Not the request's fault: the store's.
        why = "; ".join([str(busy), *_refused_by(settings.store)])
        raise StoreError(f"it does not fit, and nothing could leave: {why}") from busy
    if ready.report.tokens_after > ready.report.window:
        # Of what could not be kept a library's caller reads in the notes; who pipes this on would send it.
        why = "; ".join([*ready.report.notes, *_refused_by(settings.store)])
        raise StoreError(f"it does not fit, and nothing could leave: {why}")
    if args.explain:
        _explain(args, ready.report)
    for note in ready.report.notes if not args.explain else ():
        screen.say(note)
    for note in _refused_by(settings.store) if ready.report.notes and args.session is not None else ():
        screen.say(note)
    body = ready.body if isinstance(ready.body, bytes) else _dumped(ready.body)
    if sys.stdout.isatty():
        print(make_visible(body.decode("utf-8", "replace")).rstrip("\n"))
    else:
        screen.data(body)
    return 0


def _refused_by(store: str) -> list[str]:
    """What the disk says, where a session could not be written: a note only tells what came of it."""
    root = Path(store).expanduser().absolute()
    try:
        with tempfile.TemporaryFile(dir=next(one for one in (root, *root.parents) if one.exists())):
            return []
    except OSError as error:
        return [f"{store} cannot be written to: {error.strerror or error}"]


def _last(source: Given) -> bytes:
    screen.say(f"{source.name} is a recorded session: its last request, of {len(source.calls)}, is fitted")
    return _dumped(source.calls[-1].request)


def _fitted(args: argparse.Namespace, settings: CommandSettings, request: bytes, model: str) -> Ready:
    model = args.model or model
    window = settings.window_for(model)
    if args.session is None:
        if args.store:
            raise BadRequest("--store needs --session: which conversation is this a request of?")
        return fit(request, window=window, policy=settings.policy, model=model, wire=settings.wire)
    _refuse_bad(request, settings.wire)
    context = Context(
        model=model,
        window=window,
        policy=settings.policy,
        store=settings.store,
        session=args.session,
        project=args.project,
        wire=settings.wire,
        clock=time.time,
    )
    return context.prepare(request)


def _refuse_bad(request: bytes, wire: str | None) -> None:
    """Before the session is opened: bad input leaves not even an empty folder."""
    read = Reader(default.estimator, wire=WIRES[wire] if wire else None).read(request)
    write_outgoing(read, View.of(read.items), None)


def _explain(args: argparse.Namespace, report: Report) -> None:
    if args.json:
        screen.show_json(report.as_dict(), file=sys.stderr)
        return
    behind = report.behind if isinstance(report.behind, ReportBasis) else None
    over = behind.plan_input.scale - 1 if behind and args.session is None else 0
    bound = "; counted as an upper bound" if over > 0 else ""
    screen.say(report_told(report) + bound)
    told = [*report.notes, *report.repairs]
    for one in told[:_TOLD]:
        screen.say(f"  {one}")
    if len(told) > _TOLD:
        screen.say(f"  and {len(told) - _TOLD} more; --json tells all")
    if report.edits and behind:
        # Its own log: fitted a second time it might come out otherwise, and this is what went out.
        made = build_history(behind.log.read().records, session=args.session or "")
        tell(made, made.steps[-1:], file=sys.stderr)


def _dumped(body: object) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
