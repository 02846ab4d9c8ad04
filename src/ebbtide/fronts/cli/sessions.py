"""`ebb sessions`: what the store holds."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from ebbtide.fronts.cli import amounts, screen
from ebbtide.fronts.cli.settings import add_json, add_store, settled
from ebbtide.fronts.cli.teaching import Commands, command
from ebbtide.store import SessionInfo, open_store

_ID, _PROJECT, _TITLE = 36, 32, 48
"""Columns: a UUID whole, and a line of the usual terminal in all."""


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "sessions",
        run,
        brief="list the stored sessions",
        about="""
            Lists the sessions in the store, the most recently changed first. Other commands take a session by its id,
            by the beginning of one, or by the word 'last'. The store is a directory of plain JSON lines, in the
            layout of Claude Code's own, so its session files can be looked at with the same commands.
        """,
        examples="""
            ebb sessions
            ebb sessions --store ./agents --json
            ebb sessions --project ~/src/app
        """,
    )
    parser.add_argument("--project", metavar="PATH", help="only those of this project")
    for more in (add_store, add_json):
        more(parser)


def run(args: argparse.Namespace) -> int:
    settings = settled(args)
    found = open_store(settings.store).sessions()
    listed = [info for info in found if args.project is None or info.project == args.project]
    if args.json:
        screen.show_json([asdict(info) for info in listed])
        return 0
    if not listed:
        screen.say(f"no sessions in {settings.store}")
        return 0
    columns = (("session", "left"), ("project", "left"), ("title", "left"), ("messages", "right"), ("size", "right"))
    screen.draw(screen.table((*columns, ("changed", "left")), map(_row, listed), clips="title"))
    return 0


def _row(info: SessionInfo) -> list[str]:
    project = info.project if len(info.project) <= _PROJECT else "…" + info.project[1 - _PROJECT :]
    return [
        screen.line(info.session, _ID),
        screen.line(project, _PROJECT),
        screen.line(info.title, _TITLE),
        str(info.messages),
        amounts.sized(info.bytes),
        info.modified[:16].replace("T", " "),
    ]
