"""Finds the sessions that coding agents left on this machine. Links are not followed, and no file is opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSession:
    """A file of one session; for OpenCode the folder of its messages."""

    client: str
    path: Path
    project: str
    """What the client's folder says about the project: a folder's path with dashes, a hash, or nothing."""
    modified: float
    bytes: int


def find_agent_sessions(folders: Mapping[str, Path]) -> list[AgentSession]:
    """List the sessions of all clients, the newest first. A folder that is missing or not readable has none."""
    found = [session for client, folder in folders.items() for session in _FINDERS[client](client, folder)]
    return sorted(found, key=lambda session: (-session.modified, session.path))


def _claude(client: str, folder: Path) -> Iterator[AgentSession]:
    for project in _folders(folder / "projects"):
        files = (file for file in _files(Path(project.path), ".jsonl") if not file.name.startswith("agent-"))
        yield from (_session(client, file, project.name) for file in files)


def _codex(client: str, folder: Path) -> Iterator[AgentSession]:
    for year in _folders(folder / "sessions"):
        for month in _folders(Path(year.path)):
            for day in _folders(Path(month.path)):
                yield from (_session(client, file, "") for file in _files(Path(day.path), ".jsonl"))


def _pi(client: str, folder: Path) -> Iterator[AgentSession]:
    for project in _folders(folder / "sessions"):
        yield from (_session(client, file, project.name) for file in _files(Path(project.path), ".jsonl"))


def _gemini(client: str, folder: Path) -> Iterator[AgentSession]:
    for project in _folders(folder / "tmp"):
        for ending in (".json", ".jsonl"):
            files = _files(Path(project.path) / "chats", ending)
            yield from (_session(client, file, project.name) for file in files)


def _opencode(client: str, folder: Path) -> Iterator[AgentSession]:
    """A session is a folder with one file for each message. Their parts are elsewhere, about ten times as large."""
    for session in _folders(folder / "message"):
        files = _files(Path(session.path), ".json")
        if files:
            stats = [file.stat(follow_symlinks=False) for file in files]
            modified, size = max(stat.st_mtime for stat in stats), 10 * sum(stat.st_size for stat in stats)
            path = Path(session.path)
            yield AgentSession(client=client, path=path, project="", modified=modified, bytes=size)


_FINDERS: Mapping[str, Callable[[str, Path], Iterator[AgentSession]]] = {
    "Claude Code": _claude,
    "Codex": _codex,
    "OpenCode": _opencode,
    "pi": _pi,
    "Gemini CLI": _gemini,
}


def _session(client: str, file: os.DirEntry[str], project: str) -> AgentSession:
    stat = file.stat(follow_symlinks=False)
    path = Path(file.path)
    return AgentSession(client=client, path=path, project=project, modified=stat.st_mtime, bytes=stat.st_size)


def _folders(folder: Path) -> list[os.DirEntry[str]]:
    return [entry for entry in _entries(folder) if entry.is_dir(follow_symlinks=False)]


def _files(folder: Path, ending: str) -> list[os.DirEntry[str]]:
    entries = _entries(folder)
    return [entry for entry in entries if entry.name.endswith(ending) and entry.is_file(follow_symlinks=False)]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)
    return []
