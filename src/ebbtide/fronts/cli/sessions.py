"""`ebb sessions`: what the store holds, or what Claude Code keeps."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import asdict

from ebbtide.config import claude_directory
from ebbtide.display import format_age, format_bytes, one_line, short_number
from ebbtide.formats.claude_folder import ClaudeSession, list_claude_sessions
from ebbtide.fronts.cli import screen
from ebbtide.fronts.cli.help import Commands, command
from ebbtide.fronts.cli.options import INPUT, OUTPUT, add_json, add_store, resolve_settings
from ebbtide.fronts.cli.phrases import moment
from ebbtide.store import SessionInfo, open_store

_ID, _PROJECT, _TITLE = 36, 32, 48
"""Columns: a UUID whole, and a line of the usual terminal in all."""
_ROWS = 30
"""Of Claude Code's sessions: people have hundreds, and the newest come first."""


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "sessions",
        run,
        brief="list the stored sessions, or those of Claude Code",
        about="""
            Lists the sessions in the store, the most recently changed first. Other commands take a session by its id,
            by the beginning of one, or by the word 'last'. The store is a directory of plain JSON lines, in the
            layout of Claude Code's own, so its session files can be looked at with the same commands.

            With --claude: the sessions of Claude Code on this machine. Only the beginning and the end of each file
            are read, so that hundreds take no time: a count with '~' is an estimate. 'tokens' is what the window held
            at the end, as billed. 'ebb context', 'explain', 'report', 'show', 'why', 'diff', 'fit' and 'replay' take
            these ids too.
        """,
        examples="""
            ebb sessions
            ebb sessions --claude
            ebb sessions --claude --project ~/src/app --limit 0
            ebb sessions --store ./agents --json
        """,
    )
    parser.group(INPUT).add_argument("--claude", action="store_true", help="those of Claude Code, not of the store")
    parser.group(INPUT).add_argument("--project", metavar="PATH", help="only those of this project")
    parser.group(OUTPUT).add_argument(
        "--limit", type=int, default=_ROWS, metavar="N", help=f"with --claude: at most N; 0 for all; default {_ROWS}"
    )
    for more in (add_store, add_json):
        more(parser)


def run(args: argparse.Namespace) -> int:
    if args.claude:
        return _of_claude(args)
    settings = resolve_settings(args)
    found = open_store(settings.store).list_sessions()
    listed = [info for info in found if args.project is None or info.project == args.project]
    if args.json:
        screen.show_json([asdict(info) for info in listed])
        return 0
    if not listed:
        screen.say(f"no sessions in {settings.store} yet; 'ebb run' and 'ebb chat' make some")
        screen.say("'ebb sessions --claude' lists those of Claude Code")
        return 0
    columns = (("session", "left"), ("project", "left"), ("title", "left"), ("messages", "right"), ("size", "right"))
    screen.draw(screen.table((*columns, ("changed", "left")), map(_row, listed), clips="title"))
    return 0


def _row(info: SessionInfo) -> list[str]:
    return [
        one_line(info.session, _ID),
        one_line(_end_of(info.project), _PROJECT),
        one_line(info.title, _TITLE),
        str(info.messages),
        format_bytes(info.bytes),
        info.modified[:16].replace("T", " "),
    ]


def _end_of(path: str) -> str:
    """A path is recognised by its end."""
    return path if len(path) <= _PROJECT else "…" + path[1 - _PROJECT :]


def _of_claude(args: argparse.Namespace) -> int:
    root = claude_directory()
    most = args.limit if args.limit > 0 and args.project is None else None
    found = list_claude_sessions(root, limit=most)
    if args.project is not None:
        wanted = os.path.abspath(os.path.expanduser(args.project))
        found = [one for one in found if one.folder == wanted][: args.limit or None]
    if args.json:
        screen.show_json([{**asdict(one), "changed": moment(one.modified)} for one in found])
        return 0
    if not found:
        screen.say(f"no sessions of Claude Code in {root}; CLAUDE_CONFIG_DIR names another folder")
        return 0
    names = ("session", "title", "folder", "age", "messages", "tokens", "model")
    columns = [(name, "right" if name in ("age", "messages", "tokens") else "left") for name in names]
    now = time.time()
    screen.draw(screen.table(columns, [_claude_row(one, now) for one in found], clips="title"))
    if most is not None and len(found) == most:
        screen.say(f"the newest {most}; --limit 0 lists all")
    return 0


def _claude_row(one: ClaudeSession, now: float) -> list[str]:
    return [
        one_line(one.session, _ID),
        one_line(one.title, _TITLE),
        one_line(_end_of(one.folder), _PROJECT),
        format_age(now - one.modified),
        f"{'' if one.counted else '~'}{one.messages}",
        short_number(one.tokens) if one.tokens else "",
        one_line(one.model, _PROJECT),
    ]
