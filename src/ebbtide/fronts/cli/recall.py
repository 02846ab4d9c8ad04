"""`ebb recall`: search what a session recorded, and read it back. Secrets are masked where people look."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import asdict, replace

from ebbtide.core.errors import BadRequest
from ebbtide.core.recall_limits import HITS, MOST_HITS, PAGE
from ebbtide.core.text.pluralize import pluralize
from ebbtide.core.text.redact import redact
from ebbtide.display import make_visible, one_line
from ebbtide.formats.claude_folder import NEWEST
from ebbtide.fronts.cli import screen
from ebbtide.fronts.cli.help import Commands, command
from ebbtide.fronts.cli.options import add_json, add_project, add_store, resolve_settings
from ebbtide.fronts.cli.session_lookup import chosen, told_again
from ebbtide.recall.embeddings import StaticEmbeddings
from ebbtide.recall.search import Hit, Page, RecallSearch
from ebbtide.store import open_store
from ebbtide.store.search.hits import build_excerpt
from ebbtide.store.search.words import Query, parse_query

_MARK = "bold black on yellow"


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "recall",
        run,
        brief="search what a session recorded, and read it back",
        about=f"""
            Searches everything a session recorded, whether the model still sees it or not: what was said, called and
            returned. Names are found whole and in part: 'parse_header', 'header', 'arseHead'. Each hit has a handle;
            --read gives the text behind it, {PAGE} characters at a time, or from --start to --end. What looks like a
            secret is masked, and places are those of the masked text; --raw gives the original, byte for byte.
        """,
        examples="""
            ebb recall "connection refused"
            ebb recall parse_header --session nightly --limit 10
            ebb recall 连接 --across
            ebb recall --read 3fa9b2c1 --start 8000
            ebb recall --read toolu_01.txt --raw --end 999999999 > original.txt
        """,
    )
    parser.add_argument(
        "query", nargs="?", default="", metavar="QUERY", help="words or names; quotes keep words together"
    )
    parser.add_argument("--read", metavar="HANDLE", help="the text behind a handle, instead of searching")
    parser.add_argument("--start", type=int, default=0, metavar="N", help="with --read: the first character, from 0")
    parser.add_argument("--end", type=int, metavar="N", help="with --read: the character to stop before")
    parser.add_argument("--session", default=NEWEST, metavar="ID", help="default: the newest")
    parser.add_argument("--across", action="store_true", help="all sessions of the session's project")
    parser.add_argument(
        "--limit", type=int, default=HITS, metavar="N", help=f"hits, at most {MOST_HITS}; default {HITS}"
    )
    parser.add_argument("--meaning", action="store_true", help="by meaning, too, where words find little")
    parser.add_argument("--raw", action="store_true", help="do not mask secrets")
    for more in (add_store, add_project, add_json):
        more(parser)


def run(args: argparse.Namespace) -> int:
    if bool(args.query.strip()) == bool(args.read):
        raise BadRequest("give a text to look for, or a handle with --read")
    meaning = StaticEmbeddings() if args.meaning else None
    root = resolve_settings(args).store
    store = open_store(root)
    info = chosen(store, root, args.session, args.project)
    log = store.peek(info.session, project=info.project)
    recall = RecallSearch(log=log, store=store, project=info.project, embeddings=meaning)
    try:
        if args.read:
            _show_page(_page(recall, args), args)
        else:
            _show_hits(_hits(recall, args), args)
    finally:
        recall.close()
    return 0


def _page(recall: RecallSearch, args: argparse.Namespace) -> Page:
    """Masked as a whole and then cut, so that no cut hides the beginning of a secret from the mask."""
    page = recall.read(args.read, args.start, args.end)
    if args.raw:
        return page
    text, masked = redact(_whole(recall, args.read, page.total, page.session))
    if not masked:
        return page
    screen.say(f"{pluralize(masked.total(), 'secret')} masked; --raw shows them")
    until = min(len(text), args.start + PAGE if args.end is None else args.end)
    more = until if until < len(text) else None
    return replace(page, text=text[args.start : until], end=until, total=len(text), next=more)


def _hits(recall: RecallSearch, args: argparse.Namespace) -> list[Hit]:
    hits = recall.search(args.query, limit=args.limit, across=args.across)
    return [hit if args.raw else _masked(hit, recall, parse_query(args.query)) for hit in hits]


def _masked(hit: Hit, recall: RecallSearch, query: Query) -> Hit:
    text, masked = redact(_whole(recall, hit.handle, hit.total, hit.session))
    if not masked:
        return hit
    shown = build_excerpt(text, query, query.terms)
    return replace(hit, line=shown.line, start=shown.start, snippet=shown.snippet, spans=shown.spans, total=len(text))


def _whole(recall: RecallSearch, handle: str, total: int, session: str) -> str:
    return recall.read(handle, 0, total, session=session).text


def _show_page(page: Page, args: argparse.Namespace) -> None:
    if args.json:
        screen.show_json(asdict(page))
    elif sys.stdout.isatty():
        print(make_visible(page.text))
    else:
        screen.data(page.text.encode("utf-8", "surrogatepass"))
    if page.next is not None:
        screen.say(f"characters {page.start} to {page.end} of {page.total}; go on with --start {page.next}")


def _show_hits(hits: list[Hit], args: argparse.Namespace) -> None:
    if args.json:
        screen.show_json({"query": args.query, "hits": [asdict(hit) for hit in hits]})
        return
    if not hits:
        screen.say("nothing that was recorded matches; the system prompt and the tools are not searched")
        return
    to = screen.console()
    for n, hit in enumerate(hits):
        if n:
            to.print()
        to.print(one_line(_told(hit, across=args.across)), style="bold cyan", soft_wrap=True)
        to.print(screen.styled(*_marked(hit)), soft_wrap=True)
    first = hits[0]
    where = f" --session {shlex.quote(first.session)}" if args.across or args.session != NEWEST else ""
    screen.say(one_line(f"whole texts: ebb recall --read {first.handle}{where}{told_again(args)}"))


def _told(hit: Hit, *, across: bool) -> str:
    what = (
        f"{hit.kind} of {hit.name}" if hit.name else "stored result" if hit.kind == "blob" else f"{hit.role} {hit.kind}"
    )
    place = [f"message {hit.message}"] if hit.message >= 0 else []
    parts = [
        hit.handle,
        f"{what} ({hit.path})" if hit.path else what,
        *place,
        f"line {hit.line}",
        *([f"{hit.copies} times"] if hit.copies > 1 else []),
        *([f"session {hit.session}"] if across else []),
        *([f"kept in {hit.file}"] if hit.file else []),
    ]
    return " · ".join(parts)


def _marked(hit: Hit) -> list[tuple[str, str]]:
    """The snippet in pieces, those that matched with a style of their own."""
    pieces: list[tuple[str, str]] = []
    at = 0
    for start, end in hit.spans:
        pieces += [(make_visible(hit.snippet[at:start]), ""), (make_visible(hit.snippet[start:end]), _MARK)]
        at = end
    return [*pieces, (make_visible(hit.snippet[at:]), "")]
