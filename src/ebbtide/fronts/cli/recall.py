"""`ebb recall`: search what a session recorded, and read it back, with secrets masked unless --raw is given."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from ebbtide import screen
from ebbtide.core.errors import BadRequest
from ebbtide.core.text.preview import pluralize
from ebbtide.core.tool_calls import HITS, MOST_HITS, PAGE
from ebbtide.display import make_visible, one_line
from ebbtide.formats.claude_folder import NEWEST
from ebbtide.fronts.cli.parser import Commands, command
from ebbtide.fronts.cli.sources import find_session, repeat_options
from ebbtide.recall.embeddings import StaticEmbeddings
from ebbtide.recall.search import Hit, Page, RecallSearch, mask_page, search_masked

_MARK = "bold black on yellow"


def add(commands: Commands) -> None:
    parser = command(commands, "recall", run, "--store", "--project", "--json")
    parser.add_argument(
        "query", nargs="?", default="", metavar="QUERY", help="words or names; quotes keep words together"
    )
    parser.add_argument("--read", metavar="HANDLE", help="print the text of a handle instead of searching")
    parser.add_argument("--start", type=int, default=0, metavar="N", help="with --read: the first character, from 0")
    parser.add_argument("--end", type=int, metavar="N", help="with --read: the character to stop before")
    parser.add_argument("--session", default=NEWEST, metavar="ID", help="default: the newest")
    parser.add_argument("--across", action="store_true", help="search all sessions of the session's project")
    parser.add_argument(
        "--limit", type=int, default=HITS, metavar="N", help=f"hits, at most {MOST_HITS}; default {HITS}"
    )
    parser.add_argument("--meaning", action="store_true", help="search by meaning, too, if words find little")
    parser.add_argument("--raw", action="store_true", help="do not mask secrets")


def run(args: argparse.Namespace) -> int:
    """search what a session recorded, and read it back

    Searches everything a session recorded, whether the model still sees it or not: messages, tool calls and
    results. Names match whole and in part: 'parse_header', 'header', 'arseHead'. Each hit has a handle;
    --read prints its text, 8000 characters at a time, or from --start to --end. What looks like a secret is
    masked, and positions are those of the masked text; --raw prints the original, byte for byte.

    examples:
        ebb recall "connection refused"
        ebb recall parse_header --session nightly --limit 10
        ebb recall 连接 --across
        ebb recall --read 3fa9b2c1 --start 8000
        ebb recall --read toolu_01.txt --raw --end 999999999 > original.txt
    """
    if bool(args.query.strip()) == bool(args.read):
        raise BadRequest("give either a text to search for, or a handle with --read")
    meaning = StaticEmbeddings() if args.meaning else None
    store, info, log = find_session(args, args.session)
    recall = RecallSearch(log=log, store=store, project=info.project, embeddings=meaning)
    try:
        if args.read:
            _show_page(_read_page(recall, args), args)
        else:
            search = recall.search if args.raw else partial(search_masked, recall)
            _show_hits(search(args.query, limit=args.limit, across=args.across), args)
    finally:
        recall.close()
    return 0


def _read_page(recall: RecallSearch, args: argparse.Namespace) -> Page:
    page = recall.read(args.read, args.start, args.end)
    if args.raw:
        return page
    page, secrets = mask_page(page, recall, start=page.start, end=args.start + PAGE if args.end is None else args.end)
    if secrets:
        screen.notify(f"{pluralize(secrets, 'secret')} masked; --raw shows them")
    return page


def _show_page(page: Page, args: argparse.Namespace) -> None:
    if args.json:
        screen.print_json(asdict(page))
    else:
        screen.write_text(page.text)
    if page.next is not None:
        screen.notify(f"characters {page.start} to {page.end} of {page.total}; continue with --start {page.next}")


def _show_hits(hits: Sequence[Hit], args: argparse.Namespace) -> None:
    if args.json:
        screen.print_json({"query": args.query, "hits": [asdict(hit) for hit in hits]})
        return
    if not hits:
        screen.notify("nothing recorded matches; the system prompt and the tools are not searched")
        return
    console = screen.console()
    for n, hit in enumerate(hits):
        if n:
            console.print()
        console.print(one_line(_describe_hit(hit, across=args.across)), style="bold cyan", soft_wrap=True)
        console.print(screen.styled_text(*_highlight(hit)), soft_wrap=True)
    first = hits[0]
    where = f" --session {shlex.quote(first.session)}" if args.across or args.session != NEWEST else ""
    screen.notify(one_line(f"full texts: ebb recall --read {first.handle}{where}{repeat_options(args)}"))


def _describe_hit(hit: Hit, *, across: bool) -> str:
    what = f"{hit.kind} of {hit.name}" if hit.name else f"{hit.role} {hit.kind}"
    if not hit.name and hit.kind == "blob":
        what = "stored result"
    parts = [
        hit.handle,
        f"{what} ({hit.path})" if hit.path else what,
        f"message {hit.message}" if hit.message >= 0 else "",
        f"line {hit.line}",
        f"{hit.copies} times" if hit.copies > 1 else "",
        f"session {hit.session}" if across else "",
        f"stored in {hit.file}" if hit.file else "",
    ]
    return " · ".join(part for part in parts if part)


def _highlight(hit: Hit) -> list[tuple[str, str]]:
    """The snippet in pieces, with the matches highlighted."""
    pieces: list[tuple[str, str]] = []
    at = 0
    for start, end in hit.spans:
        pieces += [(make_visible(hit.snippet[at:start]), ""), (make_visible(hit.snippet[start:end]), _MARK)]
        at = end
    return [*pieces, (make_visible(hit.snippet[at:]), "")]
