"""The rows of the inspector's home: sessions of the store, recorded files, and those of Claude Code and Codex."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path

from ebbtide.core.text.prompt import user_words
from ebbtide.core.text.redact import redact
from ebbtide.formats import Recording
from ebbtide.formats.claude_folder import describe_file, newest_files
from ebbtide.formats.codex_folder import describe_rollout, newest_rollouts
from ebbtide.fronts.ui.figures import Figures
from ebbtide.store import SessionInfo
from ebbtide.wire import WIRES

_MAX_TITLE = 120
"""Characters: one line."""
_MAX_LISTED = 200
"""Sessions of each client, the newest: people have thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """One row of the list of sessions. The page reads the fields by name."""

    key: str
    session: str
    project: str
    title: str
    messages: int
    bytes: int
    modified: str
    source: str
    """`store`, `file` for one named on the command line, `claude-code` or `codex`."""
    path: str = ""
    """Of the file; empty for a session of the store."""
    model: str = ""
    tokens: int = 0
    """In the window, as far as a glance at the file shows."""
    window: int = 0

    @property
    def stored(self) -> bool:
        return self.source == "store"

    @property
    def changed(self) -> datetime:
        return datetime.fromisoformat(self.modified)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFolders:
    """Where Claude Code and Codex keep their sessions; None for a client that is not to be listed."""

    claude: Path | None = None
    codex: Path | None = None


class ClientRows:
    """Lists the clients' own sessions. A file is read again only if it changed."""

    def __init__(self, folders: ClientFolders) -> None:
        self._folders = folders
        self._rows: dict[tuple[Path, float, int], SessionRow | None] = {}

    def list(self) -> list[SessionRow]:
        known, self._rows = self._rows, {}
        rows: list[SessionRow] = []
        for files, describe in (
            (newest_files(self._folders.claude) if self._folders.claude else [], _claude_row),
            (newest_rollouts(self._folders.codex) if self._folders.codex else [], _codex_row),
        ):
            rows += self._newest(files, describe, known)
        return rows

    def _newest(
        self,
        files: Iterable[tuple[Path, float, int]],
        describe: Callable[[Path, float, int], SessionRow | None],
        known: Mapping[tuple[Path, float, int], SessionRow | None],
    ) -> Iterator[SessionRow]:
        count = 0
        for file in files:
            self._rows[file] = row = known[file] if file in known else describe(*file)
            if row is not None:
                count += 1
                yield row
            if count == _MAX_LISTED:
                return


def _claude_row(path: Path, modified: float, length: int) -> SessionRow | None:
    info = describe_file(path, modified, length)
    if info is None or not info.model:
        return None
    return SessionRow(
        key=hash_key("claude-code", str(path)),
        session=info.session,
        project=info.folder,
        title=shorten_title(info.title),
        messages=info.messages,
        bytes=length,
        modified=_iso(modified),
        source="claude-code",
        path=str(path),
        model=info.model,
        tokens=info.tokens,
    )


def _codex_row(path: Path, modified: float, length: int) -> SessionRow | None:
    info = describe_rollout(path, modified, length)
    if info is None:
        return None
    return SessionRow(
        key=hash_key("codex", str(path)),
        session=info.session,
        project=info.folder,
        title=shorten_title(info.title),
        messages=0,
        bytes=length,
        modified=_iso(modified),
        source="codex",
        path=str(path),
        model=info.model,
        tokens=info.tokens,
        window=info.window,
    )


def stored_row(info: SessionInfo) -> SessionRow:
    return SessionRow(
        key=hash_key("store", info.project, info.session),
        session=info.session,
        project=info.project,
        title=info.title or info.first_prompt,
        messages=info.messages,
        bytes=info.bytes,
        modified=info.modified,
        source="store",
    )


def file_rows(path: str, recording: Recording, episodes: Mapping[str, str]) -> list[SessionRow]:
    """Return a row for each conversation of a recorded file."""
    stat, name, titles = os.stat(path), os.path.basename(path), find_titles(recording)
    return [
        SessionRow(
            key=key,
            session=episode or recording.session or name,
            project=f"{recording.format} · {name}",
            title=titles.get(episode, "") or name,
            messages=0,
            bytes=stat.st_size,
            modified=_iso(stat.st_mtime),
            source="file",
            path=path,
        )
        for key, episode in episodes.items()
    ]


def find_titles(recording: Recording) -> dict[str, str]:
    """Return what the user asked first in each conversation."""
    wire, titles = WIRES[recording.wire], dict[str, str]()
    for call in recording.requests():
        if not titles.get(call.episode):
            messages = call.request[wire.list_key]
            blocks = (block for message in messages for block in wire.messages.split(message, wire.list_key))
            texts = (block.text for block in blocks if block.role == "user" and block.kind == "text")
            titles[call.episode] = next((shorten_title(words) for text in texts if (words := user_words(text))), "")
    return titles


def shorten_title(text: str) -> str:
    """Cut a text to one line, at the end of a word."""
    line = " ".join(text.split())
    # Text without spaces, such as Chinese, is cut anywhere.
    cut = max(line.rfind(" ", 0, _MAX_TITLE), _MAX_TITLE - 20)
    return line if len(line) <= _MAX_TITLE else f"{line[:cut]}…"


def filter_rows(rows: Iterable[SessionRow], query: str, figures: Mapping[str, Figures]) -> list[dict[str, object]]:
    """Return the rows that contain every word of the query, in any case, with their figures."""
    words = query.casefold().split()
    shown = [row_json(row) for row in rows]
    return [
        {**row, "figures": asdict(figures[str(row["key"])]) if row["key"] in figures else None}
        for row in shown
        if all(any(word in str(value).casefold() for value in row.values()) for word in words)
    ]


def row_json(row: SessionRow) -> dict[str, object]:
    return {**asdict(row), "stored": row.stored, "title": redact(row.title)[0]}


def hash_key(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=9).hexdigest()


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
