"""`ebb mcp`: stdout belongs to the protocol, so nothing else is printed there."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

from ebbtide.argparse_errors import Parser
from ebbtide.config import load_settings, process_environment
from ebbtide.core.errors import BadRequest
from ebbtide.fronts.mcp.server import Desk, serve
from ebbtide.store import open_store
from ebbtide.store.tenants import is_tenant_project, tenant_name, tenant_project
from ebbtide.wire.caller import find_credentials
from ebbtide.workspace import project_root

_ABOUT = """\
Serves recall to an MCP client over stdio: ebb_recall searches everything a session recorded, and
ebb_read gives any of it back, exactly as it was.

The client's model reads one session and no other: the one that --session names, else the newest of the
project that this was started in (the git repository around the current folder, or the folder itself).
Sessions that ebb proxy and ebb run recorded belong to whoever has the key: name the environment variable
that holds it with --credential-env.
"""
_EXAMPLES = """\
examples:
  claude mcp add ebb -- ebb mcp                           the newest session of this project
  ebb mcp --session nightly                               one session, here or recorded without a project
  ebb mcp --credential-env ANTHROPIC_API_KEY              what ebb proxy or ebb run recorded with this key

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
    serve(Desk(store=open_store(settings.store), session=args.session, projects=_projects(args)))
    return 0


def _projects(args: argparse.Namespace) -> frozenset[str]:
    """The projects whose sessions may be read, by what the person who starts the server says and has."""
    if args.credential_env is not None:
        if args.project is not None:
            raise BadRequest("--credential-env and --project exclude each other: a key has a project of its own")
        return frozenset(map(tenant_project, _tenants(_credential(args.credential_env))))
    if args.project is not None and is_tenant_project(args.project):
        raise BadRequest(
            f"{args.project} holds sessions of the proxy. Say which variable has their key: --credential-env NAME"
        )
    if args.project is not None:
        return frozenset((args.project, os.path.realpath(args.project) if args.project else ""))
    here = str(project_root(Path.cwd()) or Path.cwd().resolve())
    # A session that was recorded without a project is nobody's in particular: it has to be named.
    return frozenset((here, "")) if args.session else frozenset((here,))


def _credential(name: str) -> str:
    credential = process_environment().get(name, "").strip()
    if not credential:
        raise BadRequest(f"--credential-env: there is no variable {name} in the environment, or it is empty")
    return credential


_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")


def _tenants(credential: str) -> list[str]:
    """Who this credential may be for the proxy, in whichever header a client sends it."""
    requests = [{name: credential} for name in _HEADERS]
    return [
        tenant_name(find_credentials(headers)) for headers in (*requests, {"authorization": f"Bearer {credential}"})
    ]


def command_line() -> argparse.ArgumentParser:
    parser = Parser(
        prog="ebb mcp",
        description=dedent(_ABOUT),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--session", default="", metavar="ID", help="default: the newest of the project, at each call")
    parser.add_argument("--project", metavar="PATH", help="sessions of this project; default: the one started in")
    parser.add_argument(
        "--credential-env",
        metavar="NAME",
        help="the environment variable with the key that your requests carry: the sessions that ebb proxy and ebb run "
        "recorded for it, and for no other key",
    )
    parser.add_argument(
        "--store", metavar="DIR", help="where sessions are kept; default: EBB_HOME, else your data folder"
    )
    return parser
