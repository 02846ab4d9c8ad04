"""What the proxy says about its sessions while they run: `/ebb/status`, for the status line and `ebb top`.

Money is added up from a session's log, which takes long for a long one. So a thread does it, and a page shows what is
known by then. A file in the store says where the proxy is, and is removed with it.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ebbtide.core.errors import EbbtideError
from ebbtide.fronts.proxy.identity import Identity
from ebbtide.fronts.proxy.sessions import ProxySession, Sessions
from ebbtide.money import LiveFigures, live_figures
from ebbtide.store import is_database

FOLDER = "proxies"
"""In the store: one file for each running proxy."""
_REST = 20.0
"""A session is added up again after this many times the seconds that it took, so in a twentieth of a core."""


@dataclass(slots=True)
class _Known:
    requests: int = -1
    """How many requests the session had when it was added up."""
    fresh_until: float = 0.0
    figures: LiveFigures | None = None
    is_counting: bool = False


@dataclass(slots=True)
class StatusBoard:
    sessions: Sessions
    _known: dict[Identity, _Known] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def rows(self) -> list[dict[str, object]]:
        """The sessions in memory, the newest first."""
        sessions = sorted(self.sessions, key=lambda session: -session.tally.last_at)
        self._known = {session.identity: self._known.get(session.identity, _Known()) for session in sessions}
        return [self._row(session) for session in sessions]

    def _row(self, session: ProxySession) -> dict[str, object]:
        tally, known = session.tally, self._known[session.identity]
        if not known.is_counting and known.requests != tally.requests and time.monotonic() >= known.fresh_until:
            known.is_counting = True
            task = asyncio.get_running_loop().create_task(self._count(session, known))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        live = known.figures
        figures = live.figures if live else None
        return {
            "session": session.identity.session,
            "project": session.identity.project,
            "model": session.model,
            "window": session.context.window if session.context else session.window,
            "tokens": tally.last_after,
            "tokens_without": tally.last_before,
            "calls": tally.requests,
            "edits": tally.edits,
            "cache_hit_rate": tally.as_dict()["cache_hit_rate"],
            "cost_usd": figures.cost if figures and figures.in_dollars else None,
            "saved_usd": figures.saved if figures and figures.in_dollars else None,
            "last_summary_at": live.last_summary_at if live else 0.0,
            "last_at": round(tally.last_at, 3),
            "now": _describe_work(session),
        }

    async def _count(self, session: ProxySession, known: _Known) -> None:
        requests, started = session.tally.requests, time.monotonic()
        with suppress(EbbtideError, OSError):
            known.figures = await asyncio.to_thread(self._add_up, session) or known.figures
        known.requests, known.is_counting = requests, False
        known.fresh_until = time.monotonic() + _REST * (time.monotonic() - started)

    def _add_up(self, session: ProxySession) -> LiveFigures | None:
        store = session.engine.store
        if store is None:
            return None
        log = store.peek(session.identity.session, project=session.identity.project)
        return live_figures(log.read().records)


def _describe_work(session: ProxySession) -> str:
    if session.gate.lock.locked():
        return "planning"
    return "waiting for the model" if session.tally.last_at > session.tally.last_answer_at else "idle"


@contextmanager
def announced_in(store: str, address: str) -> Iterator[None]:
    """Say in the store where this proxy is, for `ebb top`. Where that cannot be written, that is no error."""
    if is_database(store):
        yield
        return
    file = Path(store).expanduser() / FOLDER / f"{os.getpid()}.json"
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.write_text(json.dumps({"address": address, "pid": os.getpid()}), encoding="utf-8")
    except OSError:
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            file.unlink()
