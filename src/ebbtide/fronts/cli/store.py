"""`ebb store`: copy sessions between a folder and a database, set a database up, and name the tenant of a key."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from ebbtide import screen
from ebbtide.config import process_environment
from ebbtide.core.errors import BadRequest
from ebbtide.core.text.preview import pluralize
from ebbtide.display import one_line
from ebbtide.fronts.cli.parser import Commands, command
from ebbtide.store import DirectoryStore, is_database, open_database, open_store, show_store
from ebbtide.store.copy import copy_sessions
from ebbtide.store.tenants import tenant_name
from ebbtide.wire.caller import credentials_with


def add(commands: Commands) -> None:
    parser = command(commands, "store", run, "--json")
    parser.add_argument("action", choices=("copy", "setup", "tenant"), metavar="copy|setup|tenant", help="what to do")
    parser.add_argument(
        "places",
        nargs="+",
        metavar="PLACE",
        help="copy: from and to; setup: the database; tenant: a variable with a key",
    )
    parser.add_argument("--tenant", default="", metavar="NAME", help="copy: whose the sessions are in a database")
    parser.add_argument("--grant", metavar="ROLE", help="setup: a role that may then use the store and owns nothing")


def run(args: argparse.Namespace) -> int:
    """copy sessions between folder and database

    copy FROM TO copies all sessions with their results, from a folder to a PostgreSQL database or back, and
    compares each with its source. If it is interrupted, run it again: it goes on where it stopped. A session that
    has grown since is extended. Nothing is removed from FROM.

    setup URL creates or updates the tables of a database; its owner runs it. With --grant ROLE, that role may use
    the store from then on, without owning anything: each of its transactions sees the sessions of one tenant.

    tenant VARIABLE prints whose sessions a proxy's requests with the key in that variable are, for each header
    that a client may send it in: for 'ebb delete --tenant', and for your notes when a key is replaced.

    examples:
        ebb store setup postgresql://owner@db.example/ebbtide --grant ebb_proxy
        ebb store copy ./agents postgresql://ebb_proxy@db.example/ebbtide
        ebb store copy postgresql://owner@db.example/ebbtide ./backup --json
        ebb store tenant ANTHROPIC_API_KEY
    """
    return {"setup": _set_up, "copy": _copy, "tenant": _name_tenant}[args.action](args)


def _name_tenant(args: argparse.Namespace) -> int:
    key = process_environment().get(args.places[0], "").strip()
    if len(args.places) != 1 or not key:
        raise BadRequest("give the name of one variable that has a key, as in: ebb store tenant ANTHROPIC_API_KEY")
    tenants = {header: tenant_name(credentials) for header, credentials in credentials_with(key).items()}
    if args.json:
        screen.print_json(tenants)
        return 0
    screen.print_text(*(f"{tenant}  {header}" for header, tenant in tenants.items()))
    return 0


def _set_up(args: argparse.Namespace) -> int:
    if len(args.places) != 1 or not is_database(args.places[0]):
        raise BadRequest("give the address of one database, as in: ebb store setup postgresql://owner@HOST/DATABASE")
    store = open_database(args.places[0])
    store.check()
    if args.grant:
        store.grant(args.grant)
    where = show_store(args.places[0])
    if args.json:
        screen.print_json({"store": where, "granted": args.grant})
        return 0
    screen.notify(f"{where} is ready" + (f", and {one_line(args.grant, 60)} may use it" if args.grant else ""))
    return 0


def _copy(args: argparse.Namespace) -> int:
    if len(args.places) != 2:
        raise BadRequest("give two places, as in: ebb store copy ./agents postgresql://USER@HOST/DATABASE")
    if args.grant:
        raise BadRequest("--grant is for setup")
    source, target = (open_store(place, tenant=args.tenant) for place in args.places)
    infos = source.list_sessions()
    if not infos:
        raise BadRequest(f"there are no sessions in {show_store(args.places[0])}")
    results = list(screen.show_progress(copy_sessions(source, target, infos), "copying", len(infos)))
    failed = [result for result in results if result.problem]
    if args.json:
        screen.print_json([asdict(result) for result in results])
        return 1 if failed else 0
    for result in failed:
        screen.notify(f"{one_line(result.session, 60)} was not copied: {result.problem}")
    records, blobs = sum(result.records for result in results), sum(result.blobs for result in results)
    copied = pluralize(len(results) - len(failed), "session")
    screen.notify(f"{copied} compared: {pluralize(records, 'record')} and {pluralize(blobs, 'result')} were new")
    if isinstance(source, DirectoryStore) and not failed:
        screen.notify("placeholders that name a file still name it; use --recall tool with the copy")
    return 1 if failed else 0
