"""Finds sessions by id, by the start of an id, or as `last`: first in the store, then among Claude Code's."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from ebbtide.config import claude_directory
from ebbtide.core.errors import BadRequest
from ebbtide.display import one_line
from ebbtide.formats.claude_folder import NEWEST, find_claude_session, list_claude_sessions, matching_claude_files
from ebbtide.fronts.cli.options import resolve_settings
from ebbtide.screen import notify
from ebbtide.store import LogReader, Position, Record, SessionInfo, Store, open_store
from ebbtide.store.log_lines import scan

_LISTED = 8  # sessions that an error message lists


def find_session(args: argparse.Namespace, name: str) -> tuple[Store, SessionInfo, LogReader]:
    """Find a session in the store. If two projects have one of that name, --project must say which."""
    root = resolve_settings(args).store
    store = open_store(root)
    info = _single_match(_list_sessions(store, args.project), root, name)
    return store, info, store.peek(info.session, project=info.project)


def find_session_or_file(root: str, name: str, project: str | None = None) -> tuple[SessionInfo, LogReader] | str:
    """Find a session in the store. If there is none and Claude Code has one, return the path of its file."""
    store = open_store(root)
    sessions = _list_sessions(store, project)
    if not _matches(sessions, name) and (path := _claude_file(name)):
        notify(f"{path.stem} is a session of Claude Code")
        return str(path)
    info = _single_match(sessions, root, name, or_file=True)
    return info, store.peek(info.session, project=info.project)


def _claude_file(name: str) -> Path | None:
    folder = claude_directory()
    matches = list_claude_sessions(folder, limit=1) if name == NEWEST else matching_claude_files(folder, name)
    return find_claude_session(folder, name) if matches else None


def repeat_options(args: argparse.Namespace) -> str:
    """The options that a suggested command needs to look in the same place."""
    options = vars(args)
    return "".join(f" --{name} {shlex.quote(options[name])}" for name in ("project", "store") if options.get(name))


def read_records(info: SessionInfo, log: LogReader) -> list[Record]:
    """Read the log. Another program's file may lie elsewhere than its session and project say: then use its path."""
    records = log.read().records
    if records or not info.path:
        return records
    return scan([Path(info.path).read_bytes()], Position()).records


def _list_sessions(store: Store, project: str | None) -> list[SessionInfo]:
    return [info for info in store.list_sessions() if project is None or info.project == project]


def _matches(sessions: Sequence[SessionInfo], name: str) -> list[SessionInfo]:
    if name == NEWEST:
        return list(sessions[:1])
    exact = [info for info in sessions if info.session == name]
    return exact or [info for info in sessions if name and info.session.startswith(name)]


def _single_match(sessions: Sequence[SessionInfo], root: str, name: str, *, or_file: bool = False) -> SessionInfo:
    matches = _matches(sessions, name)
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = [f"{one_line(info.session, 60)} of {one_line(info.project, 60) or 'no project'}" for info in matches]
        raise BadRequest(
            f"{name!r} matches {len(matches)} sessions: {'; '.join(names)}. Give more of the id, or --project"
        )
    if sessions:
        newest = ", ".join(one_line(info.session, 60) for info in sessions[:_LISTED])
        missing = "no file and no session" if or_file else "no session"
        raise BadRequest(f"{name!r} is {missing} in {root}; the newest are {newest}")
    problem = f"there are no sessions in {root} yet"
    if or_file and name != NEWEST:
        problem = f"{name!r} is not a file, and {problem}"
    raise BadRequest(
        f"{problem}. 'ebb run' and 'ebb chat' create sessions; 'ebb sessions --claude' lists those of Claude Code"
    )
