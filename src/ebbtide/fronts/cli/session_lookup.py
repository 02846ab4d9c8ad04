"""Sessions by what people call them: an id, the beginning of one, or `last`. The store's first, then Claude Code's."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from ebbtide.config import claude_directory
from ebbtide.core.errors import BadRequest
from ebbtide.display import one_line
from ebbtide.formats.claude_folder import NEWEST, find_claude_session, list_claude_sessions, matching_claude_files
from ebbtide.fronts.cli.screen import say
from ebbtide.store import LogReader, Position, Record, SessionInfo, Store, open_store
from ebbtide.store.log_lines import scan

_NAMED = 8  # sessions that an error lists: enough to choose from, few enough to read


def found(root: str, name: str, project: str | None = None) -> tuple[SessionInfo, LogReader]:
    """The one session of that name, to look at. Two projects may each have one: then the project must be told."""
    store = open_store(root)
    info = chosen(store, root, name, project)
    return info, store.peek(info.session, project=info.project)


def session_or_file(root: str, name: str, project: str | None = None) -> tuple[SessionInfo, LogReader] | str:
    """As `found`; where the store has none of that name and Claude Code has, the path of its file."""
    store = open_store(root)
    sessions = _listed(store, project)
    if not _named(sessions, name) and (path := _of_claude(name)):
        say(f"{path.stem} is a session of Claude Code")
        return str(path)
    info = _the_one(sessions, root, name, or_file=True)
    return info, store.peek(info.session, project=info.project)


def _of_claude(name: str) -> Path | None:
    folder = claude_directory()
    there = list_claude_sessions(folder, limit=1) if name == NEWEST else matching_claude_files(folder, name)
    return find_claude_session(folder, name) if there else None


def told_again(args: argparse.Namespace) -> str:
    """Options that a command which we suggest needs too: it looks where this one looked."""
    told = vars(args)
    return "".join(f" --{name} {shlex.quote(told[name])}" for name in ("project", "store") if told.get(name))


def records_of(info: SessionInfo, log: LogReader) -> list[Record]:
    """Another program's file may stand where neither its session nor its project says: then the path is right."""
    records = log.read().records
    if records or not info.path:
        return records
    return scan([Path(info.path).read_bytes()], Position()).records


def chosen(store: Store, root: str, name: str, project: str | None = None) -> SessionInfo:
    return _the_one(_listed(store, project), root, name)


def _listed(store: Store, project: str | None) -> list[SessionInfo]:
    return [one for one in store.list_sessions() if project is None or one.project == project]


def _named(sessions: Sequence[SessionInfo], name: str) -> list[SessionInfo]:
    if name == NEWEST:
        return list(sessions[:1])
    exact = [one for one in sessions if one.session == name]
    return exact or [one for one in sessions if name and one.session.startswith(name)]


def _the_one(sessions: Sequence[SessionInfo], root: str, name: str, *, or_file: bool = False) -> SessionInfo:
    matching = _named(sessions, name)
    if len(matching) == 1:
        return matching[0]
    if matching:
        where = "; ".join(
            f"{one_line(one.session, 60)} of {one_line(one.project, 60) or 'no project'}" for one in matching
        )
        raise BadRequest(f"{name!r} may mean {len(matching)} sessions: {where}. Give more of the id, or --project")
    if sessions:
        known = ", ".join(one_line(one.session, 60) for one in sessions[:_NAMED])
        no = "no file and no session" if or_file else "no session"
        raise BadRequest(f"{name!r} is {no} in {root}; the newest are {known}")
    nothing = f"there are no sessions in {root} yet"
    what = f"{name!r} is no file, and {nothing}" if or_file and name != NEWEST else nothing
    raise BadRequest(f"{what}. 'ebb run' and 'ebb chat' make some; 'ebb sessions --claude' lists those of Claude Code")
