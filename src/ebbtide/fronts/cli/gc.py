"""`ebb gc`: delete old sessions from the store, and stored results that no log mentions any more."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict

from ebbtide import screen
from ebbtide.core.text.preview import pluralize
from ebbtide.display import format_bytes, make_visible
from ebbtide.fronts.cli.parser import Commands, command, parse_bytes, parse_seconds, resolve_settings
from ebbtide.store import open_store


def add(commands: Commands) -> None:
    parser = command(commands, "gc", run, "--store", "--json")
    parser.add_argument("--older-than", type=parse_seconds, metavar="TIME", help="such as 30d, 12w or 36h")
    parser.add_argument(
        "--max-bytes", type=parse_bytes, metavar="N", help="delete the oldest until the store is smaller than this"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be deleted")


def run(args: argparse.Namespace) -> int:
    """delete old sessions from the store

    Deletes sessions that were last changed before a given time, or the oldest until the store is small
    enough; and always stored results that no log mentions any more. A session is deleted with all that its
    edits stored, or not at all. Only sessions that Ebbtide began are deleted, nothing younger than a day, and
    no session that a program has open, even if it has been idle for weeks. Try it with --dry-run first.

    examples:
        ebb gc --older-than 30d --dry-run
        ebb gc --max-bytes 1G
        ebb gc --older-than 12w --json
    """
    store = open_store(resolve_settings(args).store)
    swept = store.gc(older_than=args.older_than, max_bytes=args.max_bytes, now=time.time(), dry_run=args.dry_run)
    if args.json:
        screen.print_json({**asdict(swept), "dry_run": args.dry_run})
        return 0
    for path in (*swept.sessions, *swept.blobs):
        print(make_visible(path))
    if swept.in_use:
        screen.notify(f"{pluralize(len(swept.in_use), 'old session')} not deleted: a program has it open")
    counts = f"{pluralize(len(swept.sessions), 'session')} and {pluralize(len(swept.blobs), 'result')}"
    verb = "would be deleted" if args.dry_run else "deleted"
    screen.notify(f"{counts} {verb}, {format_bytes(swept.freed)}; {format_bytes(swept.left)} left")
    return 0
