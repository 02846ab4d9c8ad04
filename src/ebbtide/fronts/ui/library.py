"""The sessions that can be looked at: those of the store, and recorded files as a policy would have treated them.

A page names a session by a key that was made here. No name or path that comes over the wire is ever opened.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b

from ebbtide.audit.history import History, build_history
from ebbtide.audit.simulate import simulate
from ebbtide.core.errors import BadRequest
from ebbtide.core.text.redact import redact
from ebbtide.core.view import View
from ebbtide.formats import Recording, load
from ebbtide.fronts.ui.trace import Tracer
from ebbtide.policy import PRESETS, Policy, preset
from ebbtide.recall.handles import read_since
from ebbtide.recall.search import RecallSearch
from ebbtide.store import LogReader, Position, SessionInfo, Store
from ebbtide.wire import WIRES

_OPEN = 6
"""Sessions kept in memory: a person compares two or three, and a large one takes some 100 MB."""
_TITLE = 120
"""Characters of a title: a line."""
_VIEWS = 4
"""Requests of a session kept: the page asks for one of them piece by piece."""


class Unknown(BadRequest):
    """Nothing here has that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How a recorded file is played: what the page may choose."""

    policy: str
    window: int
    """0: that of the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One row of the list."""

    key: str
    session: str
    project: str
    title: str
    messages: int
    bytes: int
    modified: str
    stored: bool
    """Of the store; else a file, played in memory."""


@dataclass(slots=True)
class Opened:
    """A session in memory: its history, and its log for what left."""

    listed: Listed
    history: History
    log: LogReader
    setting: Setting
    recall: RecallSearch
    played: Recording | None = None
    """The file that was played, and which conversation of it."""
    episode: str = ""
    stamp: tuple[int, int] = (0, 0)
    """Of the file as it was then."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Readers keep state: one thread at a time looks."""
    position: Position = field(default_factory=Position)
    tracer: Tracer = field(default_factory=Tracer)
    kept: dict[str, object] = field(default_factory=dict)
    """What was worked out of this history; thrown away when it grows."""
    _views: OrderedDict[int, View] = field(default_factory=OrderedDict)

    def view(self, number: int) -> View:
        """The request of a call; 0 for the conversation as it stands."""
        if number not in self._views:
            self._views[number] = self.history.view(number)
            while len(self._views) > _VIEWS:
                self._views.popitem(last=False)
        return self._views[number]

    def grow(self) -> bool:
        """Take in what was appended. False where the log is no longer the one that was read."""
        reading = read_since(self.log, self.position)
        if reading is None:
            return False
        if reading.records:
            self.position = reading.position
            before, self.history = self.history, self.history.extend(reading.records)
            self.kept.clear()
            # What went out is as it was, unless a person pinned or spared something.
            self._views.pop(0, None)
            if before.state.protected_ids != self.history.state.protected_ids:
                self._views.clear()
        return True


class Library:
    """Thread-safe. Listing and opening read the disk: not for an event loop."""

    def __init__(self, store: Store, *, files: Iterable[str], setting: Setting, window_for: Callable[[str], int]):
        self.store, self.setting, self._window_for = store, setting, window_for
        self._files = {path: _Tape(path) for path in files}
        self._open: OrderedDict[tuple[str, Setting], Opened] = OrderedDict()
        self._known: dict[str, SessionInfo] = {}
        self._turns: dict[tuple[str, Setting], threading.Lock] = {}
        self._lock = threading.Lock()

    def list(self) -> list[Listed]:
        known = self._look()
        played = [one for tape in self._files.values() for one in tape.listed()]
        return [*played, *(_row(key, info) for key, info in known.items())]

    def _look(self) -> dict[str, SessionInfo]:
        self._known = {_key("store", info.project, info.session): info for info in self.store.list_sessions()}
        return self._known

    def open(self, key: str, setting: Setting | None = None) -> Opened:
        """As it is now: what was appended since is taken in."""
        name = key, setting or self.setting
        with self._lock:
            turn = self._turns.setdefault(name, threading.Lock())
        # A large one takes seconds. Whoever asks for another session does not wait for it.
        with turn:
            opened = self._open.get(name)
            if opened is None or not self._fresh(opened):
                opened = self._opened(*name)
            self._keep(name, opened)
        return opened

    def _keep(self, name: tuple[str, Setting], opened: Opened) -> None:
        with self._lock:
            self._open[name] = opened
            self._open.move_to_end(name)
            while len(self._open) > _OPEN:
                self._open.popitem(last=False)[1].recall.close()

    def recording(self, opened: Opened) -> Recording:
        """The session as a recording, to be played again: a log of ours is one, too."""
        if opened.played is not None:
            return opened.played
        path = self._known[opened.listed.key].path
        if not path:
            raise BadRequest("this store has no files: a session of it cannot be played again")
        return load(path)

    def close(self) -> None:
        for opened in self._open.values():
            opened.recall.close()

    def window(self, opened: Opened) -> int:
        """Of the newest plan; where nothing was planned yet, what was set, or what the model has."""
        turns = opened.history.turns
        model = turns[-1].model if turns else ""
        return opened.history.window(len(turns)) or opened.setting.window or self._window_for(model)

    def policy(self, opened: Opened) -> Policy:
        """The one that planned last."""
        batches = opened.history.state.batches
        name = str(batches[-1].record.get("policy")) if batches else opened.setting.policy
        return preset(name if name in PRESETS else "default")

    def _fresh(self, opened: Opened) -> bool:
        if opened.played is not None:
            return opened.stamp == _stamp(opened.played.path)
        with opened.lock:
            return opened.grow()

    def _opened(self, key: str, setting: Setting) -> Opened:
        if key not in self._known and all(key not in tape.episodes for tape in self._files.values()):
            self._look()
        if info := self._known.get(key):
            return self._stored(key, info, setting)
        self._tape(key)[0].refresh()
        tape, episode = self._tape(key)
        return self._played(next(one for one in tape.listed() if one.key == key), tape.recording, episode, setting)

    def _tape(self, key: str) -> tuple[_Tape, str]:
        for tape in self._files.values():
            if key in tape.episodes:
                return tape, tape.episodes[key]
        raise Unknown("there is no such session; it may have been collected")

    def _stored(self, key: str, info: SessionInfo, setting: Setting) -> Opened:
        log = self.store.peek(info.session, project=info.project)
        reading = log.read()
        history = build_history(reading.records, session=info.session)
        listed = _row(key, info)
        if not history.turns and info.path:
            # Another program's session file that lies in the store: it is played like any other file.
            return self._played(listed, load(info.path), "", setting)
        return Opened(
            listed=listed,
            history=history,
            log=log,
            setting=setting,
            recall=RecallSearch(log=log, store=self.store, project=info.project),
            position=reading.position,
        )

    def _played(self, listed: Listed, recording: Recording, episode: str, setting: Setting) -> Opened:
        stamp = _stamp(recording.path)
        calls = tuple(call for call in recording.requests() if call.episode == episode)
        if not calls:
            raise BadRequest(f"{listed.session}: no model was called in it")
        window = setting.window or self._window_for(calls[-1].model)
        policy = preset(setting.policy, model=calls[-1].model)
        history, log = simulate(calls, name=listed.session, wire=recording.wire, policy=policy, window=window)
        recall = RecallSearch(log=log)
        return Opened(
            listed=listed,
            history=history,
            log=log,
            setting=setting,
            recall=recall,
            played=recording,
            episode=episode,
            stamp=stamp,
        )


class _Tape:
    """A recorded file. One that cannot be read is told at the start, not when somebody clicks."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._read()

    def refresh(self) -> None:
        """Read it again, if it is not what it was."""
        if _stamp(self.path) != self._seen:
            self._read()

    def _read(self) -> None:
        try:
            self._seen, self.recording = _stamp(self.path), load(self.path)
        except OSError as error:
            raise BadRequest(f"{self.path} cannot be read: {error.strerror or error}") from None
        except ValueError as error:  # a NUL in its name
            raise BadRequest(f"{self.path} cannot be read: {error}") from None
        self._titles = _titles(self.recording)

    @property
    def episodes(self) -> dict[str, str]:
        """From key to episode."""
        return {_key("file", self.path, episode.name): episode.name for episode in self.recording.episodes}

    def listed(self) -> list[Listed]:
        told = os.stat(self.path)
        name = os.path.basename(self.path)
        return [
            Listed(
                key=key,
                session=episode or self.recording.session or name,
                project=f"{self.recording.format} · {name}",
                title=self._titles.get(episode, "") or name,
                messages=0,
                bytes=told.st_size,
                modified=datetime.fromtimestamp(told.st_mtime, UTC).isoformat(),
                stored=False,
            )
            for key, episode in self.episodes.items()
        ]


def _titles(recording: Recording) -> dict[str, str]:
    """What the user said first, by episode."""
    wire, found = WIRES[recording.wire], dict[str, str]()
    for call in recording.requests():
        if call.episode not in found:
            blocks = (
                block
                for message in call.request[wire.list_key]
                for block in wire.messages.split(message, wire.list_key)
            )
            words = (block.text for block in blocks if block.role == "user" and block.kind == "text")
            found[call.episode] = next((_line(text) for text in words if text.strip()), "")
    return found


def _line(text: str) -> str:
    """The beginning of a text, up to a word's end."""
    line = " ".join(text.split())
    # Chinese has no spaces: a cut that would leave little is made where it falls.
    cut = max(line.rfind(" ", 0, _TITLE), _TITLE - 20)
    return line if len(line) <= _TITLE else f"{line[:cut]}…"


def matching(rows: Iterable[Listed], query: str) -> list[dict[str, object]]:
    """Rows in which every word stands somewhere, whatever its case."""
    words = query.casefold().split()
    told = [asdict(one) | {"title": redact(one.title)[0]} for one in rows]
    return [one for one in told if all(any(word in str(v).casefold() for v in one.values()) for word in words)]


def _row(key: str, info: SessionInfo) -> Listed:
    return Listed(
        key=key,
        session=info.session,
        project=info.project,
        title=info.title or info.first_prompt,
        messages=info.messages,
        bytes=info.bytes,
        modified=info.modified,
        stored=True,
    )


def _stamp(path: str) -> tuple[int, int]:
    """Of a file as it is: another one after a change."""
    told = os.stat(path)
    return told.st_mtime_ns, told.st_size


def _key(*parts: str) -> str:
    told = "\0".join(parts).encode("utf-8", "surrogatepass")
    return blake2b(told, digest_size=9).hexdigest()
