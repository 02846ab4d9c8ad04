"""`ebb mcp`: read the options and serve. Stdout belongs to the protocol, so nothing else is printed there."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Sequence
from pathlib import Path

from ebbtide.argparse_errors import front_parser
from ebbtide.config import load_settings, process_environment
from ebbtide.core.errors import BadRequest
from ebbtide.fronts.mcp.server import RecallServer, serve
from ebbtide.store import Store, is_database, open_store
from ebbtide.store.tenants import is_tenant_project, tenant_name, tenant_of, tenant_project
from ebbtide.wire.caller import credentials_with
from ebbtide.workspace import project_root


def main(arguments: Sequence[str]) -> int:
    """Serves recall to an MCP client over stdio: ebb_recall searches everything a session recorded, and
    ebb_read returns any of it unchanged.

    The client's model can read one session only: the one that --session names, else the newest of the
    current project (the git repository around the current folder, or the folder itself). Sessions that
    ebb proxy and ebb run recorded belong to an API key: name the environment variable that has it with
    --credential-env.

    examples:
      claude mcp add ebb -- ebb mcp                           the newest session of this project
      ebb mcp --session nightly                               one session, here or recorded without a project
      ebb mcp --credential-env ANTHROPIC_API_KEY              what ebb proxy or ebb run recorded with this key

    exit codes:
      0  the client closed the connection
      1  an internal error or a disk error
      2  bad input, or the extra is not installed

    environment:
      EBB_HOME  where sessions are stored
    """
    args = command_line().parse_args(arguments)
    settings = load_settings(arguments={"store": args.store})
    projects = _projects(args)
    serve(RecallServer(stores=_stores(settings.store, projects), session=args.session, projects=projects))
    return 0


def _stores(where: str, projects: Collection[str]) -> list[Store]:
    """One store; in a database one for each tenant, since a role that is not its owner sees one at a time."""
    tenants = [tenant_of(project) for project in projects] if is_database(where) else [""]
    return [open_store(where, tenant=tenant) for tenant in dict.fromkeys(tenants)]


def _projects(args: argparse.Namespace) -> frozenset[str]:
    """Return the projects whose sessions may be read, by the options and credentials of the person who starts it."""
    if args.credential_env is not None:
        if args.project is not None:
            raise BadRequest(
                "use either --credential-env or --project: the sessions of a key are a project of their own"
            )
        return frozenset(
            map(tenant_project, map(tenant_name, credentials_with(_credential(args.credential_env)).values()))
        )
    if args.project is not None and is_tenant_project(args.project):
        raise BadRequest(
            f"{args.project} has sessions of the proxy. Name the variable that has their key: --credential-env NAME"
        )
    if args.project is not None:
        return frozenset((args.project, os.path.realpath(args.project) if args.project else ""))
    current = str(project_root(Path.cwd()) or Path.cwd().resolve())
    # A session without a project is served only by name.
    return frozenset((current, "")) if args.session else frozenset((current,))


def _credential(name: str) -> str:
    credential = process_environment().get(name, "").strip()
    if not credential:
        raise BadRequest(f"--credential-env: the variable {name} is not set, or is empty")
    return credential


def command_line() -> argparse.ArgumentParser:
    parser = front_parser("mcp", main)
    parser.add_argument("--session", default="", metavar="ID", help="default: the newest of the project, at each call")
    parser.add_argument("--project", metavar="PATH", help="serve sessions of this project; default: the current one")
    parser.add_argument(
        "--credential-env",
        metavar="NAME",
        help="the environment variable with your API key; serves sessions that ebb proxy and ebb run recorded for it",
    )
    parser.add_argument(
        "--store",
        metavar="DIR|URL",
        help="where sessions are stored, such as postgresql://...; default: EBB_HOME, else your data folder",
    )
    return parser
