"""`ebb delete`: delete one session of the store, or all of one tenant of the proxy."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from ebbtide import screen
from ebbtide.core.errors import BadRequest
from ebbtide.core.text.preview import pluralize
from ebbtide.display import format_bytes, make_visible, one_line
from ebbtide.fronts.cli.parser import Commands, command, resolve_settings
from ebbtide.fronts.cli.sources import find_session
from ebbtide.store import SessionInfo, is_database, open_store
from ebbtide.store.protocol import GcResult
from ebbtide.store.tenants import PROJECT_PREFIX, tenant_project


def add(commands: Commands) -> None:
    parser = command(commands, "delete", run, "--store", "--project", "--json")
    parser.add_argument("session", nargs="?", default="", metavar="SESSION", help="its id, or the start of it")
    parser.add_argument("--tenant", metavar="TENANT", help="all sessions of this tenant of the proxy")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--force", action="store_true", help="even if a program has the session open")


def run(args: argparse.Namespace) -> int:
    """delete a session with all that it stored

    Deletes a session for good: its log, and the tool output and other texts that its edits stored. A text
    that another session names, as forks do, stays. Asks first; without a terminal, --yes is required.

    A session that a program has open is not deleted, unless you --force it: the program then begins the session
    again with its next request. With --tenant, deletes all sessions of one user of the proxy: the tenant is
    what follows 'proxy-' in the project that 'ebb sessions' shows. In a database, sessions of programs belong to
    the tenant that they name, or to the role that connects.

    examples:
        ebb delete nightly
        ebb delete 3f2a --yes --json
        ebb delete --tenant 5d0c1f2a9b3e
    """
    if bool(args.session) == bool(args.tenant):
        raise BadRequest("give either a session or --tenant")
    return _delete_tenant(args) if args.tenant else _delete_session(args)


def _delete_session(args: argparse.Namespace) -> int:
    store, info, _ = find_session(args, args.session)
    if not _is_confirmed(args, [info], f"Delete session {one_line(info.session, 60)} for good?"):
        return 0
    return _report(args, store.delete_session(info.session, project=info.project, force=args.force))


def _delete_tenant(args: argparse.Namespace) -> int:
    where, tenant = resolve_settings(args).store, args.tenant.removeprefix(PROJECT_PREFIX)
    store = open_store(where, tenant=tenant)
    infos = store.list_sessions()
    if not is_database(where):
        infos = [info for info in infos if info.project == tenant_project(tenant)]
    if not infos:
        raise BadRequest(f"the store has no session of tenant {one_line(tenant, 60)}; 'ebb sessions' lists projects")
    if not _is_confirmed(args, infos, f"Delete all sessions of tenant {one_line(tenant, 60)} for good?"):
        return 0
    return _report(args, store.delete_tenant(tenant, force=args.force))


def _is_confirmed(args: argparse.Namespace, infos: list[SessionInfo], question: str) -> bool:
    if args.yes:
        return True
    if not sys.stdin.isatty():
        raise BadRequest("nobody can be asked here: add --yes to delete")
    for info in infos:
        size = f"{pluralize(info.messages, 'message')}, {format_bytes(info.bytes)}"
        screen.notify(f"{one_line(info.session, 60)}  {one_line(info.title, 60)}  {size}, changed {info.modified[:16]}")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    is_confirmed = sys.stdin.readline().strip().lower() in ("y", "yes")
    if not is_confirmed:
        screen.notify("nothing was deleted")
    return is_confirmed


def _report(args: argparse.Namespace, result: GcResult) -> int:
    if args.json:
        screen.print_json(asdict(result))
        return 0
    for path in (*result.sessions, *result.blobs):
        print(make_visible(path))
    counts = f"{pluralize(len(result.sessions), 'session')} and {pluralize(len(result.blobs), 'result')}"
    screen.notify(f"{counts} deleted, {format_bytes(result.freed)}; {format_bytes(result.left)} left")
    return 0
