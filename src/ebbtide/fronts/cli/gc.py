"""`ebb gc`: old sessions leave the store, and results that no log names any more."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict

from ebbtide.core.text.pluralize import pluralize
from ebbtide.display import format_bytes, make_visible
from ebbtide.fronts.cli import screen
from ebbtide.fronts.cli.help import Commands, command
from ebbtide.fronts.cli.options import add_json, add_store, parse_bytes, parse_seconds, resolve_settings
from ebbtide.store import gc, open_store


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "gc",
        run,
        brief="remove old sessions from the store",
        about="""
            Removes sessions that were last changed before a given time, or the oldest until the store is small
            enough; and, always, stored results that no log names any more. A session leaves as a whole or stays as
            a whole: what its edits name stays with it. Only sessions that Ebbtide began are removed, nothing younger
            than a day, and no session that a program has open, be it idle for weeks. Try it with --dry-run first.
        """,
        examples="""
            ebb gc --older-than 30d --dry-run
            ebb gc --max-bytes 1G
            ebb gc --older-than 12w --json
        """,
    )
    parser.add_argument("--older-than", type=parse_seconds, metavar="TIME", help="as in 30d, 12w or 36h")
    parser.add_argument("--max-bytes", type=parse_bytes, metavar="N", help="the oldest go until the store is below")
    parser.add_argument("--dry-run", action="store_true", help="only tell what would go")
    for more in (add_store, add_json):
        more(parser)


def run(args: argparse.Namespace) -> int:
    store = open_store(resolve_settings(args).store)
    swept = gc(store, older_than=args.older_than, max_bytes=args.max_bytes, now=time.time(), dry_run=args.dry_run)
    if args.json:
        screen.show_json({**asdict(swept), "dry_run": args.dry_run})
        return 0
    for path in (*swept.sessions, *swept.blobs):
        print(make_visible(path))
    verb = "would free" if args.dry_run else "freed"
    gone = f"{pluralize(len(swept.sessions), 'session')} and {pluralize(len(swept.blobs), 'result')}"
    if swept.in_use:
        screen.say(f"{pluralize(len(swept.in_use), 'old session')} not removed: a program has it open")
    screen.say(f"{gone} {verb} {format_bytes(swept.freed)}; {format_bytes(swept.left)} stay")
    return 0
