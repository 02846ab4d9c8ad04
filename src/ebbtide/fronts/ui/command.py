"""`ebb ui`: the inspector in a browser, on loopback, for as long as the command runs."""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import webbrowser
from collections.abc import Sequence

from ebbtide import example
from ebbtide.argparse_errors import Parser
from ebbtide.config import load_settings
from ebbtide.config_keys import parse_port
from ebbtide.core.errors import BadConfig
from ebbtide.policy import PRESETS
from ebbtide.store import open_store

try:
    from ebbtide.fronts.ui.guard import Guard
    from ebbtide.fronts.ui.library import Library, Setting
    from ebbtide.fronts.ui.routes import Desk
    from ebbtide.fronts.ui.server import serve
except ModuleNotFoundError as missing:
    if missing.name != "aiohttp":
        raise
    raise BadConfig("the inspector needs the extra: pip install 'ebbtide[ui]'") from missing

_ABOUT = """\
Shows what is in the context, and where the rest went: sessions of the store, and any recorded
session file, played under a policy. For each call: the request as the model saw it, with what was
taken out behind stubs that open; every edit with its author, reason, tokens and money; the cache;
the ledger; recall; two policies side by side. A session that grows is followed.

The page is served on this machine only, to whoever has the address that is printed; it changes
nothing unless --allow-undo is given. On the page ? lists the keys. Here Ctrl-C ends it.
"""
_EXAMPLES = """\
examples:
  ebb ui
  ebb ui --example --window 40k
  ebb ui ~/.claude/projects/-home-me-app/4f1c.jsonl --policy claude-code
  ebb ui --store ./agents --allow-undo --open

exit codes:
  0  it was ended
  1  our fault or the disk's
  2  bad input: a port that is taken, a store or file that cannot be read

environment:
  EBB_HOME, EBB_POLICY, EBB_WINDOW         as --store, --policy, --window
"""


def main(arguments: Sequence[str]) -> int:
    args = command_line().parse_args(arguments)
    settings = load_settings(arguments={key: getattr(args, key) for key in ("store", "policy", "window")})
    if os.path.isfile(settings.store):
        raise BadConfig(f"--store: {settings.store} is a file, not a folder with sessions; to look at it: ebb ui FILE")
    files = [*args.files, *([str(example.path())] if args.example else [])]
    library = Library(
        open_store(settings.store),
        files=files,
        setting=Setting(policy=settings.preset, window=settings.window or 0),
        window_for=settings.window_for,
    )

    def ready(guard: Guard) -> None:
        print(f"{guard.address}\nThe inspector. Ctrl-C ends it.", flush=True)
        if not library.list():
            print(f"No sessions in {settings.store} yet. To see one: ebb ui --example", flush=True)
        if args.open:
            webbrowser.open(guard.address_for_one_login())

    try:
        asyncio.run(serve(Desk(library=library, allow_undo=args.allow_undo), port=parse_port(args.port), ready=ready))
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        why = "is taken" if error.errno == errno.EADDRINUSE else "is not for you to use"
        raise BadConfig(f"--port: {args.port} {why} on this machine; without --port any free one is taken") from None
    return 0


def command_line() -> argparse.ArgumentParser:
    parser = Parser(
        prog="ebb ui", description=_ABOUT, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="recorded sessions to show besides the store's")
    parser.add_argument("--example", action="store_true", help="show the session that comes with Ebbtide, too")
    parser.add_argument("--policy", metavar="NAME", help=f"for files: one of {', '.join(PRESETS)}")
    parser.add_argument("--window", metavar="TOKENS", help="for files: as in 200k; default: by the model")
    parser.add_argument(
        "--store", metavar="DIR", help="where sessions are kept; default: EBB_HOME, else your data folder"
    )
    parser.add_argument("--port", type=int, default=0, metavar="N", help="default: any that is free")
    parser.add_argument("--allow-undo", action="store_true", help="let the page undo and redo edits")
    parser.add_argument("--open", action="store_true", help="open it in your browser")
    return parser
