"""`ebb context`: what fills the window, as a grid of a hundred cells and a table."""

from __future__ import annotations

import argparse
from dataclasses import replace

from ebbtide import screen
from ebbtide.audit.history import History
from ebbtide.config import Settings
from ebbtide.core.errors import BadRequest
from ebbtide.core.text.preview import pluralize
from ebbtide.core.types import Usage
from ebbtide.core.view import View
from ebbtide.display import token_count
from ebbtide.fronts.cli.describe import format_time
from ebbtide.fronts.cli.parser import READING, Commands, command, resolve_settings
from ebbtide.fronts.cli.sources import read_input_or_history, resolve_target
from ebbtide.window_usage import WindowUsage, draw_window, measure_window
from ebbtide.wire import WIRES
from ebbtide.wire.reader import Reader


def add(commands: Commands) -> None:
    parser = command(commands, "context", run, "target", "--example", *READING)
    parser.group("input").add_argument(
        "--at", type=int, metavar="N", help="the N-th request of a session, from 1; default: the last"
    )
    parser.group("output").add_argument("--ascii", action="store_true", help="draw with # x . instead of symbols")


def run(args: argparse.Namespace) -> int:
    """what fills the window: grid and table

    Shows what a request consists of, as a grid of a hundred cells and a table: system prompt, tools, and the
    messages by kind; the free space, and the buffer beyond the point where the policy acts. Takes a request
    body, a recorded session (Claude Code, Codex, gemini-cli, pi, OpenCode, OpenAI chat, SWE-agent), or a session of the
    store; with --claude one of Claude Code's own, by its id. Nothing is changed.

    The first line is what the provider billed if that was recorded, and an estimate otherwise. The table is
    always an estimate, so the two may differ.

    examples:
        ebb context request.json
        ebb context --claude                          your last session of Claude Code
        ebb context --claude 4f1c --at 120
        ebb context --example
    """
    usage = _measure_target(args, resolve_settings(args))
    if args.json:
        screen.print_json(_as_dict(usage))
        return 0
    ascii_only = args.ascii or not screen.can_draw("■·▒")
    for row in draw_window(usage, ascii_only=ascii_only, width=screen.console().width):
        screen.draw(screen.styled_text(*row))
    screen.print_text(*_next_step(usage))
    if usage.learned_on:
        screen.notify("'ebb undo SESSION --window' forgets the learned window")
    return 0


def _next_step(usage: WindowUsage) -> list[str]:
    """What to do about a request that does not fit, or soon will not."""
    over = usage.tokens - usage.size
    if over > 0:
        return [
            "",
            f"{token_count(over)} over the window: a provider refuses it. The same command with 'explain' for "
            "'context' shows what Ebbtide removes; 'ebb run -- claude' keeps an agent inside its window.",
        ]
    if usage.tokens > usage.auto_at:
        return ["", "Ebbtide acts at this size: the same command with 'explain' for 'context' shows what it removes."]
    return []


def _measure_target(args: argparse.Namespace, settings: Settings) -> WindowUsage:
    source = read_input_or_history(resolve_target(args), settings, args.max_bytes)
    if isinstance(source, History):
        return _measure_history(source, args.at, settings, own_window=not args.window)
    if source.recording is None:
        if args.at not in (None, 1):
            raise BadRequest(f"{source.name} is a single request; there is no number {args.at}")
        return _measure_body(source.data, args.wire, None, settings)
    number = len(source.calls) if args.at is None else args.at
    if not 1 <= number <= len(source.calls):
        raise BadRequest(f"{source.name} has {pluralize(len(source.calls), 'request')}; there is no number {args.at}")
    call = source.calls[number - 1]
    return _measure_body(call.request, source.recording.wire, call.usage, settings)


def _measure_body(
    body: bytes | dict[str, object], wire: str | None, usage: Usage | None, settings: Settings
) -> WindowUsage:
    policy = settings.policy()
    request = Reader(policy.estimator, wire=WIRES[wire] if wire else None).read(body)
    size, billed = settings.window_for(request.model), usage.prompt if usage else None
    return measure_window(policy, request, View.of(request.items), size=size, billed=billed)


def _measure_history(history: History, at: int | None, settings: Settings, *, own_window: bool) -> WindowUsage:
    """Measure a request of a stored session as it was sent, with its placeholders."""
    if not history.turns:
        raise BadRequest(f"{history.name} has no request that Ebbtide recorded; give the session's file instead")
    turn = history.turn(len(history.turns) if at is None else at)
    request, view = history.sent_request(turn.number)
    # The log keeps these beside the messages.
    request = request._replace(model=turn.model, overhead=turn.overhead, max_output=turn.max_output)
    size = (history.window(turn.number) if own_window else 0) or settings.window_for(turn.model)
    billed = turn.usage.prompt if turn.usage else None
    usage = measure_window(settings.policy(), request, view, size=size, billed=billed)
    learned = history.learned_window(turn.model)
    if learned is None or learned[0] != usage.size:
        return usage
    return replace(usage, learned_on=format_time(learned[1]) or "an unknown day")


def _as_dict(usage: WindowUsage) -> dict[str, object]:
    categories = [
        ("System prompt", usage.system),
        ("System tools", usage.tools),
        ("Not in the file", usage.unrecorded),
        ("Messages", usage.conversation),
        ("Autocompact buffer", usage.buffer),
        ("Free space", usage.free),
    ]
    return {
        "model": usage.model,
        "window": usage.size,
        "window_learned": usage.learned_on,
        "tokens": usage.tokens,
        "billed": usage.is_billed,
        "share": round(usage.share(usage.tokens), 4),
        "auto_at": usage.auto_at,
        "context_left": round(usage.context_left, 4),
        "categories": [_category(usage, name, tokens) for name, tokens in categories],
        "messages": [_category(usage, name, tokens) for name, tokens in usage.messages],
        "cells": usage.cells(),
    }


def _category(usage: WindowUsage, name: str, tokens: int) -> dict[str, object]:
    return {"name": name, "tokens": tokens, "share": round(usage.share(tokens), 4)}
