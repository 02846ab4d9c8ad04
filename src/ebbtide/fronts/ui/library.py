"""The sessions that the inspector shows: those of the store, and recorded files, simulated under a policy.

The page names a session by a key that this module made. A name or path from a request is never opened.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar, cast

from ebbtide.audit.history import History, build_history
from ebbtide.core.errors import BadRequest
from ebbtide.core.view import View
from ebbtide.formats import Recording, load
from ebbtide.fronts.ui.counts import count_recording, count_records
from ebbtide.fronts.ui.figures import FigureCounter, Figures
from ebbtide.fronts.ui.listing import ClientFolders, ClientRows, SessionRow, file_rows, hash_key, stored_row
from ebbtide.fronts.ui.trace import Tracer
from ebbtide.policy import PRESETS, Policy, preset
from ebbtide.recall.handles import read_since
from ebbtide.recall.search import RecallSearch
from ebbtide.replay.simulate import simulate
from ebbtide.store import Position, SessionInfo, Store

T = TypeVar("T")
_MAX_OPEN = 6
"""Sessions in memory: a user compares two or three, and a large one takes some 100 MB."""
_MAX_VIEWS = 4
"""Requests of a session in memory: the page fetches one in several parts."""


class NotFound(BadRequest):
    """There is no session, batch or edit of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How a recorded file is simulated. The page can change it."""

    policy: str
    window: int
    """Tokens; 0 means the model's."""


@dataclass(slots=True)
class OpenSession:
    """A session in memory."""

    row: SessionRow
    history: History
    setting: Setting
    recall: RecallSearch
    recording: Recording | None = None
    """The file that was simulated, and below, which conversation of it."""
    episode: str = ""
    file_stamp: tuple[int, int] = (0, 0)
    """Modification time and size of the file when it was read."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Hold it to read: the readers have state."""
    position: Position = field(default_factory=Position)
    tracer: Tracer = field(default_factory=Tracer)
    slow_lock: threading.Lock = field(default_factory=threading.Lock)
    """Hold it to compute what takes seconds for a long session, so that the rest need not wait."""
    _cache: dict[str, tuple[History, object]] = field(default_factory=dict)
    """Answers, each with the history that it was computed from."""
    _views: OrderedDict[int, View] = field(default_factory=OrderedDict)

    def cached(self, name: str, compute: Callable[[History], T]) -> T:
        """Return the answer of this name, computed once for each state of the history."""
        history, known = self.history, self._cache.get(name)
        if known is None or known[0] is not history:
            self._cache[name] = known = history, compute(history)
        return cast(T, known[1])

    def view(self, number: int) -> View:
        """Return the view of a request; 0 means the conversation as it is now."""
        if number not in self._views:
            self._views[number] = self.history.view(number)
            while len(self._views) > _MAX_VIEWS:
                self._views.popitem(last=False)
        return self._views[number]

    def read_appended(self) -> bool:
        """Read what was appended to the log. Return False if it is no longer the same log."""
        reading = read_since(self.recall.log, self.position)
        if reading is None:
            return False
        if reading.records:
            self.position = reading.position
            before, self.history = self.history, self.history.extend(reading.records)
            self._cache.clear()
            # Requests that were sent do not change, unless the user pinned or restored something.
            self._views.pop(0, None)
            if before.state.protected_ids != self.history.state.protected_ids:
                self._views.clear()
        return True


class Library:
    """Lists and opens sessions. Thread-safe; it reads the disk, so call it from a thread, not from the event loop."""

    def __init__(
        self,
        store: Store,
        *,
        files: Iterable[str],
        setting: Setting,
        window_for: Callable[[str], int],
        clients: ClientFolders | None = None,
        store_path: str = "",
    ):
        self.store, self.setting, self._window_for = store, setting, window_for
        self.store_path = store_path
        """What `--store` said, for commands that the page shows."""
        self._files = {path: _RecordedFile(path) for path in files}
        self._clients = ClientRows(clients or ClientFolders())
        self._client_rows: dict[str, SessionRow] = {}
        self._open_sessions: OrderedDict[tuple[str, Setting], OpenSession] = OrderedDict()
        self._stored: dict[str, SessionInfo] = {}
        self._open_locks: dict[tuple[str, Setting], threading.Lock] = {}
        self._lock = threading.Lock()
        self.counter = FigureCounter(self._count)

    def list(self) -> list[SessionRow]:
        """Return the files of the command line, then all others, the newest first."""
        self._list_others()
        files = [row for file in self._files.values() for row in file.rows()]
        others = [*(stored_row(info) for info in self._stored.values()), *self._client_rows.values()]
        return [*files, *sorted(others, key=lambda row: row.changed, reverse=True)]

    def row(self, key: str) -> SessionRow:
        """Return the row of a session without opening it."""
        row = next((row for row in self.list() if row.key == key), None)
        if row is None:
            raise NotFound("there is no such session; it may have been deleted")
        return row

    def _list_others(self) -> None:
        self._stored = {hash_key("store", info.project, info.session): info for info in self.store.list_sessions()}
        self._client_rows = {row.key: row for row in self._clients.list()}

    def _count(self, key: str) -> Figures:
        if row := self._client_rows.get(key):
            return count_recording(load(row.path), row, self._window_for)
        info = self._stored.get(key)
        if info is None:
            return self._count_opened(self.open(key))
        records = self.store.peek(info.session, project=info.project).read().records
        if not any(record.get("kind") == "turn" for record in records) and info.path:
            return count_recording(load(info.path), stored_row(info), self._window_for)
        return count_records(records, self._window_for)

    def _count_opened(self, opened: OpenSession) -> Figures:
        return count_records(opened.history.records, self._window_for, simulated=opened.recording is not None)

    def open(self, key: str, setting: Setting | None = None) -> OpenSession:
        """Open a session, or bring an open one up to date."""
        cache_key = key, setting or self.setting
        with self._lock:
            lock = self._open_locks.setdefault(cache_key, threading.Lock())
        # A large session takes seconds to open. The others do not wait for it.
        with lock, self.counter.waiting():
            opened = self._open_sessions.get(cache_key)
            if opened is None or not self._is_current(opened):
                opened = self._load(*cache_key)
            self._keep(cache_key, opened)
        return opened

    def _keep(self, cache_key: tuple[str, Setting], opened: OpenSession) -> None:
        with self._lock:
            self._open_sessions[cache_key] = opened
            self._open_sessions.move_to_end(cache_key)
            while len(self._open_sessions) > _MAX_OPEN:
                self._open_sessions.popitem(last=False)[1].recall.close()

    def recording(self, opened: OpenSession) -> Recording:
        """Return the session as a recording that can be replayed."""
        if opened.recording is not None:
            return opened.recording
        path = self._stored[opened.row.key].path
        if not path:
            raise BadRequest("this store keeps no files, so its sessions cannot be replayed")
        return load(path)

    def close(self) -> None:
        self.counter.close()
        for opened in self._open_sessions.values():
            opened.recall.close()

    def window(self, opened: OpenSession) -> int:
        """Return the window of the newest plan; without one, that of the setting or of the model."""
        turns = opened.history.turns
        model = turns[-1].model if turns else ""
        return opened.history.window(len(turns)) or opened.setting.window or self._window_for(model)

    def policy(self, opened: OpenSession) -> Policy:
        """Return the policy of the newest plan."""
        batches = opened.history.state.batches
        name = str(batches[-1].record.get("policy")) if batches else opened.setting.policy
        return preset(name if name in PRESETS else "default")

    def _is_current(self, opened: OpenSession) -> bool:
        if opened.recording is not None:
            return opened.file_stamp == _file_stamp(opened.recording.path)
        if not opened.slow_lock.acquire(blocking=False):
            return True  # Somebody reads it through. What was appended shows at the next look.
        try:
            with opened.lock:
                return opened.read_appended()
        finally:
            opened.slow_lock.release()

    def _load(self, key: str, setting: Setting) -> OpenSession:
        is_file = any(key in file.episodes for file in self._files.values())
        if key not in self._stored and key not in self._client_rows and not is_file:
            self._list_others()
        if info := self._stored.get(key):
            return self._open_stored(info, setting)
        if row := self._client_rows.get(key):
            return self._simulate(row, *_main_conversation(load(row.path)), setting)
        self._find_file(key)[0].refresh()
        file, episode = self._find_file(key)
        return self._simulate(next(row for row in file.rows() if row.key == key), file.recording, episode, setting)

    def _find_file(self, key: str) -> tuple[_RecordedFile, str]:
        for file in self._files.values():
            if key in file.episodes:
                return file, file.episodes[key]
        raise NotFound("there is no such session; it may have been deleted")

    def _open_stored(self, info: SessionInfo, setting: Setting) -> OpenSession:
        log = self.store.peek(info.session, project=info.project)
        reading = log.read()
        history = build_history(reading.records, session=info.session)
        row = stored_row(info)
        if not history.turns and info.path:
            # Another program wrote this file into the store: simulate it like any recorded file.
            return self._simulate(row, load(info.path), "", setting)
        return OpenSession(
            row=row,
            history=history,
            setting=setting,
            recall=RecallSearch(log=log, store=self.store, project=info.project),
            position=reading.position,
        )

    def _simulate(self, row: SessionRow, recording: Recording, episode: str, setting: Setting) -> OpenSession:
        stamp = _file_stamp(recording.path)
        calls = tuple(call for call in recording.requests() if call.episode == episode)
        if not calls:
            raise BadRequest(f"{row.session} has no request to a model")
        window = setting.window or self._window_for(calls[-1].model)
        policy = preset(setting.policy, model=calls[-1].model)
        history, log = simulate(
            calls, name=row.session, wire=recording.wire, policy=policy, window=window, format=recording.format
        )
        return OpenSession(
            row=row,
            history=history,
            setting=setting,
            recall=RecallSearch(log=log),
            recording=recording,
            episode=episode,
            file_stamp=stamp,
        )


def _main_conversation(recording: Recording) -> tuple[Recording, str]:
    """Return the recording with the name of its first conversation: those of sub-agents come after it."""
    return recording, recording.episodes[0].name if recording.episodes else ""


class _RecordedFile:
    """A recorded file. It is read at the start, so that a bad file fails then and not when the user opens it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._read()

    def refresh(self) -> None:
        """Read the file again if it changed."""
        if _file_stamp(self.path) != self._stamp:
            self._read()

    def _read(self) -> None:
        try:
            self._stamp, self.recording = _file_stamp(self.path), load(self.path)
        except (OSError, ValueError) as error:  # A path with a NUL is a ValueError.
            reason = getattr(error, "strerror", None) or error
            raise BadRequest(f"{self.path} cannot be read: {reason}") from None

    @property
    def episodes(self) -> dict[str, str]:
        """Names of the conversations in the file, by key."""
        return {hash_key("file", self.path, episode.name): episode.name for episode in self.recording.episodes}

    def rows(self) -> list[SessionRow]:
        return file_rows(self.path, self.recording, self.episodes)


def _file_stamp(path: str) -> tuple[int, int]:
    """Return modification time and size: they differ after a change."""
    stat = os.stat(path)
    return stat.st_mtime_ns, stat.st_size
