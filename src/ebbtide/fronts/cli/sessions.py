"""`ebb sessions`: list the sessions of the store, or those of Claude Code."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import asdict

from ebbtide import screen
from ebbtide.config import claude_directory
from ebbtide.display import format_age, format_bytes, one_line, short_number
from ebbtide.formats.claude_folder import ClaudeSession, list_claude_sessions
from ebbtide.fronts.cli.describe import format_time, path_end
from ebbtide.fronts.cli.parser import Commands, command, resolve_settings
from ebbtide.store import SessionInfo, open_store, show_store

_ID, _PROJECT, _TITLE = 36, 32, 48
"""Widths in columns: a whole UUID, and a usual terminal in all."""
_FIGURES = ("age", "messages", "size", "tokens")
_ROWS = 30
"""Of Claude Code's sessions, the newest first: people have hundreds."""


def add(commands: Commands) -> None:
    parser = command(commands, "sessions", run, "--store", "--json")
    parser.group("input").add_argument(
        "--claude", action="store_true", help="list Claude Code's instead of the store's"
    )
    parser.group("input").add_argument("--project", metavar="PATH", help="only those of this project")
    parser.group("output").add_argument(
        "--limit", type=int, default=_ROWS, metavar="N", help=f"with --claude: at most N; 0 for all; default {_ROWS}"
    )


def run(args: argparse.Namespace) -> int:
    """list the stored sessions, or those of Claude Code

    Lists the sessions in the store, the most recently changed first. Other commands take a session by its id,
    by the start of its id, or by the word 'last'. The store is a directory of JSON lines in the layout of
    Claude Code, so that the same commands also read its session files.

    With --claude: the sessions of Claude Code on this machine. Only the start and the end of each file are
    read, so that hundreds are listed at once: a count with '~' is an estimate. 'tokens' is the size of the
    last request, as billed. 'ebb context', 'explain', 'report', 'show', 'why', 'diff', 'fit' and 'replay'
    take these ids too.

    examples:
        ebb sessions
        ebb sessions --claude
        ebb sessions --claude --project ~/src/app --limit 0
        ebb sessions --store ./agents --json
    """
    if args.claude:
        return _list_claude(args)
    settings = resolve_settings(args)
    sessions = open_store(settings.store).list_sessions()
    sessions = [info for info in sessions if args.project is None or info.project == args.project]
    if args.json:
        screen.print_json([asdict(info) for info in sessions])
        return 0
    if not sessions:
        screen.notify(f"no sessions in {show_store(settings.store)} yet; 'ebb run' and 'ebb chat' create sessions")
        screen.notify("'ebb sessions --claude' lists those of Claude Code")
        return 0
    names = ("session", "project", "title", "messages", "size", "changed")
    screen.draw(screen.table(names, map(_row, sessions), figures=_FIGURES, clips="title"))
    return 0


def _row(info: SessionInfo) -> list[str]:
    return [
        one_line(info.session, _ID),
        one_line(path_end(info.project, _PROJECT), _PROJECT),
        one_line(info.title, _TITLE),
        str(info.messages),
        format_bytes(info.bytes),
        info.modified[:16].replace("T", " "),
    ]


def _list_claude(args: argparse.Namespace) -> int:
    root = claude_directory()
    limit = args.limit if args.limit > 0 and args.project is None else None
    sessions = list_claude_sessions(root, limit=limit)
    if args.project is not None:
        folder = os.path.abspath(os.path.expanduser(args.project))
        sessions = [session for session in sessions if session.folder == folder][: args.limit or None]
    if args.json:
        screen.print_json([{**asdict(session), "changed": format_time(session.modified)} for session in sessions])
        return 0
    if not sessions:
        screen.notify(f"no sessions of Claude Code in {root}; set CLAUDE_CONFIG_DIR to look in another folder")
        return 0
    names = ("session", "title", "folder", "age", "messages", "tokens", "model")
    rows = [_claude_row(session, time.time()) for session in sessions]
    screen.draw(screen.table(names, rows, figures=_FIGURES, clips="title"))
    if limit is not None and len(sessions) == limit:
        screen.notify(f"the newest {limit}; --limit 0 lists all")
    return 0


def _claude_row(session: ClaudeSession, now: float) -> list[str]:
    return [
        one_line(session.session, _ID),
        one_line(session.title, _TITLE),
        one_line(path_end(session.folder, _PROJECT), _PROJECT),
        format_age(now - session.modified),
        f"{'' if session.counted else '~'}{session.messages}",
        short_number(session.tokens) if session.tokens else "",
        one_line(session.model, _PROJECT),
    ]
