"""`ebb mcp`: stdout belongs to the protocol, so nothing else is printed there."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from textwrap import dedent

from ebbtide.config import load_settings
from ebbtide.fronts.mcp.server import Desk, serve
from ebbtide.refusing import Parser
from ebbtide.store import open_store

_ABOUT = """\
Serves recall to an MCP client over stdio: ebb_recall searches everything a session recorded, and
ebb_read gives any of it back, exactly as it was. Without --session, calls go to the session that
changed last.
"""
_EXAMPLES = """\
examples:
  ebb mcp --session nightly
  claude mcp add ebb -- ebb mcp --store ~/agents

exit codes:
  0  the client has gone
  1  our fault or the disk's
  2  bad input, or the extra is missing

environment:
  EBB_HOME  where sessions are kept
"""


def main(arguments: Sequence[str]) -> int:
    args = command_line().parse_args(arguments)
    settings = load_settings(arguments={"store": args.store})
    serve(Desk(store=open_store(settings.store), session=args.session, project=args.project))
    return 0


def command_line() -> argparse.ArgumentParser:
    parser = Parser(
        prog="ebb mcp",
        description=dedent(_ABOUT),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--session", default="", metavar="ID", help="default: the newest, at each call")
    parser.add_argument("--project", metavar="PATH", help="only sessions of this project")
    parser.add_argument(
        "--store", metavar="DIR", help="where sessions are kept; default: EBB_HOME, else your data folder"
    )
    return parser
