"""`ebb context`: the ten by ten grid and the table beside it."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace

from ebbtide.audit.history import History, build_history
from ebbtide.core.errors import BadRequest
from ebbtide.core.text.pluralize import pluralize
from ebbtide.core.tokens.size import SizeInputs
from ebbtide.core.types import Usage
from ebbtide.core.view import View
from ebbtide.display import WindowUsage, draw_window, tokens_by_part
from ebbtide.formats import RecordedCall
from ebbtide.formats.claude_folder import NEWEST
from ebbtide.fronts.cli import screen
from ebbtide.fronts.cli.help import Commands, command
from ebbtide.fronts.cli.options import INPUT, OUTPUT, CommandSettings, add_example, add_reading, resolve_settings
from ebbtide.fronts.cli.phrases import moment
from ebbtide.fronts.cli.session_lookup import records_of, session_or_file
from ebbtide.fronts.cli.sources import STDIN, given_or_own, wanted
from ebbtide.wire import WIRES
from ebbtide.wire.reader import Reader


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "context",
        run,
        brief="what fills the window: grid and table",
        about="""
            Shows what a request is made of, as a grid of a hundred cells and a table: system prompt, tools, and the
            messages by kind; what is left, and the buffer beyond the point where the policy acts by itself. Takes a
            request body, a recorded session (Claude Code, Codex, pi, OpenCode, OpenAI chat, SWE-agent), or a session
            of the store; with --claude one of Claude Code's own, by its id. Nothing is changed.

            The line on top is what the provider billed where the recording says so, and an estimate otherwise; the
            table is always an estimate, so the two may differ.
        """,
        examples="""
            ebb context request.json
            ebb context --claude                          your last session of Claude Code
            ebb context --claude 4f1c --at 120
            ebb context --example --window 60k
        """,
    )
    parser.add_argument("target", nargs="?", default=NEWEST, metavar="FILE|SESSION", help="default: the newest session")
    add_example(parser)
    parser.group(INPUT).add_argument(
        "--at", type=int, metavar="N", help="the N-th request of a session, from 1; default: the last"
    )
    parser.group(OUTPUT).add_argument("--ascii", action="store_true", help="draw with # x . instead of symbols")
    add_reading(parser)


def run(args: argparse.Namespace) -> int:
    settings = resolve_settings(args)
    window = _weighed(wanted(args), args.at, settings, args.max_bytes, own_window=not args.window)
    if args.json:
        screen.show_json(_as_dict(window))
    else:
        plain = args.ascii or not screen.can_draw("⛁⛶⛝")
        for row in draw_window(window, ascii_only=plain, width=screen.console().width):
            screen.draw(screen.styled(*row))
        if window.learned_on:
            screen.say("ebb undo SESSION --window forgets the learned window")
    return 0


def _weighed(
    target: str, at: int | None, settings: CommandSettings, max_bytes: int, *, own_window: bool
) -> WindowUsage:
    """`own_window`: a stored session is held against the window that it went by."""
    if target != STDIN and not os.path.exists(target):
        there = session_or_file(settings.store, target)
        if not isinstance(there, str):
            info, log = there
            return _of_history(build_history(records_of(info, log), session=info.session), at, settings, own_window)
        target = there
    source = given_or_own(target, max_bytes)
    if isinstance(source, History):
        return _of_history(source, at, settings, own_window)
    if source.recording is None:
        if at not in (None, 1):
            raise BadRequest(f"{source.name} is one request; --at {at} is none of them")
        return _of_body(source.data, settings.wire, None, settings)
    number = len(source.calls) if at is None else at
    if not 1 <= number <= len(source.calls):
        raise BadRequest(f"{source.name} has {pluralize(len(source.calls), 'request')}; there is no number {at}")
    call: RecordedCall = source.calls[number - 1]
    return _of_body(call.request, source.recording.wire, call.usage, settings)


def _of_body(
    body: bytes | dict[str, object], wire: str | None, usage: Usage | None, settings: CommandSettings
) -> WindowUsage:
    policy = settings.policy
    request = Reader(policy.estimator, wire=WIRES[wire] if wire else None).read(body)
    view = View.of(request.items)
    overhead, output = request.overhead, request.max_output
    return _window(view, len(request.messages), request.model, overhead, output, usage, settings)


def _of_history(history: History, at: int | None, settings: CommandSettings, own_window: bool) -> WindowUsage:
    """Of a stored session: as it went out, our stubs in it."""
    if not history.turns:
        raise BadRequest(f"{history.name} holds no request of ours; give the file itself")
    turn = history.turn(len(history.turns) if at is None else at)
    request, view = history.sent(turn.number)
    learned = history.learned_window(turn.model)
    if own_window and (window := history.window(turn.number)):
        settings = replace(settings, window_for=lambda _: window)
    shown = _window(view, len(request.messages), turn.model, turn.overhead, turn.max_output, turn.usage, settings)
    is_learned = learned is not None and learned[0] == shown.size
    return replace(shown, learned_on=moment(learned[1]) or "an unknown day") if learned and is_learned else shown


def _window(
    view: View,
    messages: int,
    model: str,
    overhead: tuple[int, int],
    output: int,
    usage: Usage | None,
    settings: CommandSettings,
) -> WindowUsage:
    policy, size = settings.policy, settings.window_for(model)
    system, tools = overhead
    whole = view.tokens + system + tools
    readings = SizeInputs(
        estimator=policy.estimator, model=model, view=view.tokens, messages=messages, system=system, tools=tools
    )
    estimate = policy.gauge(readings)
    scale = estimate / whole if whole else 1.0
    bare = system + tools == 0 and usage is not None
    return WindowUsage(
        model=model or "unknown model",
        size=size,
        tokens=usage.prompt if usage else estimate,
        is_billed=usage is not None,
        auto_at=policy.levels(size, output or policy.output_reserved, system + tools).auto,
        system=round(system * scale),
        tools=round(tools * scale),
        unrecorded=max(0, usage.prompt - estimate) if bare and usage else 0,
        messages=tokens_by_part(view, scale),
    )


def _as_dict(window: WindowUsage) -> dict[str, object]:
    parts = [("System prompt", window.system), ("System tools", window.tools), ("Not in the file", window.unrecorded)]
    parts += [("Messages", window.conversation)]
    parts += [("Autocompact buffer", window.buffer), ("Free space", window.free)]
    return {
        "model": window.model,
        "window": window.size,
        "window_learned": window.learned_on,
        "tokens": window.tokens,
        "billed": window.is_billed,
        "share": round(window.share(window.tokens), 4),
        "auto_at": window.auto_at,
        "context_left": round(window.context_left, 4),
        "categories": [_category(window, name, tokens) for name, tokens in parts],
        "messages": [_category(window, name, tokens) for name, tokens in window.messages],
        "cells": window.cells(),
    }


def _category(window: WindowUsage, name: str, tokens: int) -> dict[str, object]:
    return {"name": name, "tokens": tokens, "share": round(window.share(tokens), 4)}
