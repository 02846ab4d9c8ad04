"""`ebb ui`: serves the inspector on loopback for as long as the command runs."""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import webbrowser
from collections.abc import Sequence

from ebbtide import example
from ebbtide.argparse_errors import front_parser
from ebbtide.config import claude_directory, codex_directory, load_settings
from ebbtide.config_keys import parse_port
from ebbtide.core.errors import BadConfig
from ebbtide.policy import POLICY_HELP
from ebbtide.store import open_store, show_store

try:
    from ebbtide.fronts.ui.guard import Guard
    from ebbtide.fronts.ui.library import Library, Setting
    from ebbtide.fronts.ui.listing import ClientFolders
    from ebbtide.fronts.ui.routes import Inspector
    from ebbtide.fronts.ui.server import serve
except ModuleNotFoundError as missing:
    if missing.name != "aiohttp":
        raise
    raise BadConfig("the inspector needs the extra: pip install 'ebbtide[ui]'") from missing


def main(arguments: Sequence[str]) -> int:
    """Shows in a browser what is in the context and what was moved out of it: for sessions of the store,
    and for those of Claude Code and Codex on this machine and recorded session files, simulated under a
    policy. For each request you see what the model saw, with the removed text one click away; every edit
    with its pass, reason, tokens and cost; the cache; the facts; recall; and policies side by side. The
    page follows a session that grows.

    The page is served on this machine only, and needs the address that is printed. It changes nothing
    unless you give --allow-undo. On the page ? lists the keys. Press Ctrl-C here to stop.

    examples:
      ebb ui
      ebb ui --example
      ebb ui ~/.claude/projects/-home-me-app/4f1c.jsonl --policy claude-code
      ebb ui --store ./agents --allow-undo --open

    exit codes:
      0  stopped with Ctrl-C
      1  internal error or disk error
      2  bad input: a port in use, a store or file that cannot be read

    environment:
      EBB_HOME, EBB_POLICY, EBB_WINDOW         as --store, --policy, --window
      CLAUDE_CONFIG_DIR, CODEX_HOME            where the clients keep their sessions
    """
    args = command_line().parse_args(arguments)
    settings = load_settings(arguments={key: getattr(args, key) for key in ("store", "policy", "window")})
    if os.path.isfile(settings.store):
        raise BadConfig(f"--store: {settings.store} is a file, not a folder of sessions; to show it: ebb ui FILE")
    files = [*args.files, *([str(example.path())] if args.example else [])]
    clients = ClientFolders(claude=claude_directory(), codex=codex_directory())
    library = Library(
        open_store(settings.store),
        files=files,
        setting=Setting(policy=settings.preset, window=settings.window or _example_window(args)),
        window_for=settings.window_for,
        clients=ClientFolders() if args.no_clients else clients,
        store_path=args.store or "",
    )

    def ready(guard: Guard) -> None:
        print(f"{guard.address}\nOpen this address in a browser. Press Ctrl-C to stop.", flush=True)
        if not library.list():
            print(
                f"There are no sessions in {show_store(settings.store)} yet. To see an example: ebb ui --example",
                flush=True,
            )
        if args.open:
            webbrowser.open(guard.single_use_url())

    try:
        asyncio.run(
            serve(Inspector(library=library, allow_undo=args.allow_undo), port=parse_port(args.port), on_ready=ready)
        )
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        reason = "is in use" if error.errno == errno.EADDRINUSE else "needs more rights"
        raise BadConfig(f"--port: {args.port} {reason}; leave --port out to use any free port") from None
    return 0


def _example_window(args: argparse.Namespace) -> int:
    """Where other files are shown beside the example, the window of the model is better for them."""
    return example.WINDOW if args.example and not args.files else 0


def command_line() -> argparse.ArgumentParser:
    parser = front_parser("ui", main)
    parser.add_argument("files", nargs="*", metavar="FILE", help="recorded session files to show besides the store")
    parser.add_argument("--example", action="store_true", help="also show the session that comes with Ebbtide")
    parser.add_argument("--policy", metavar="NAME", help=f"for files: {POLICY_HELP}")
    parser.add_argument(
        "--window", metavar="TOKENS", help="for files: as in 200k; default: that of the model, of the example 100k"
    )
    parser.add_argument(
        "--store",
        metavar="DIR|URL",
        help="where sessions are kept, such as postgresql://...; default: EBB_HOME, else your data folder",
    )
    parser.add_argument("--no-clients", action="store_true", help="leave out the sessions of Claude Code and Codex")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="default: any free port")
    parser.add_argument("--allow-undo", action="store_true", help="let the page undo and redo edits")
    parser.add_argument("--open", action="store_true", help="open the page in your browser")
    return parser
