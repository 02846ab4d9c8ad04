"""`client.ebbtide`: the sessions of a wrapped client, to read removed text, to undo edits, and to see what was done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ebbtide.core.errors import BadRequest, Busy
from ebbtide.core.tool_calls import HITS
from ebbtide.core.types import Edit
from ebbtide.fronts.sdk.sessions import SdkSession, SdkSessions
from ebbtide.runtime import Context, Hit, Page, Report

_LOCK_SECONDS = 10.0
"""How long to wait for a call that is being prepared; as long as a request waits for its log."""


class ClientSessions:
    """The sessions that this client's calls belong to, as long as they are in memory.

    Without `session` it is the one that a call made here would belong to, by `with ebbtide.session(...)` or by
    `wrap(session=...)`; if the caller names none, the client's only session. A session without a name can be reached
    only with the credential that began it.
    """

    def __init__(self, sessions: SdkSessions, credential: Callable[[], str]) -> None:
        self._sessions, self._credential = sessions, credential

    def names(self) -> tuple[str, ...]:
        """Return the names of the sessions in memory, the one used last at the end."""
        return tuple(dict.fromkeys(session.name for session in self._visible()))

    def context(self, session: str = "", *, wire: str = "") -> Context:
        """Return the context of a session. It serves one call at a time: do not use it while a call is under way.

        `wire` chooses between sessions of the same name, one for OpenAI Chat and one for Responses.
        """
        return self._find(session, wire).context

    def recall(self, query: str, *, session: str = "", limit: int = HITS) -> tuple[Hit, ...]:
        """Find where this was written, read or printed, best match first. See `Context.recall`."""
        with self._use(session) as context:
            return context.recall(query, limit=limit)

    def read(self, handle: str, start: int = 0, end: int | None = None, *, session: str = "") -> Page:
        """Return the exact text behind a handle, a page at a time."""
        with self._use(session) as context:
            return context.read(handle, start, end)

    def edits(self, *, session: str = "") -> tuple[Edit, ...]:
        """Return all edits, oldest first, without undone ones."""
        with self._use(session) as context:
            return context.edits()

    def undo(self, batch: str = "", *, session: str = "") -> tuple[Edit, ...]:
        """Undo the newest batch of edits, or the one named. Return its edits; empty if there was none."""
        with self._use(session) as context:
            return context.undo(batch)

    def report(self, *, session: str = "") -> Report | None:
        """Return the report on the last request; None if there was none yet."""
        ready = self._find(session).last_ready
        return ready.report if ready else None

    def finish(self, result: str, *, session: str = "") -> None:
        """Record a sub-agent's result in its parent's session, once: it stays in the parent's compactions.

        The parent is the one of `with ebbtide.session(name, parent=...)` or of `wrap(parent=...)`.
        """
        child = self._find(session)
        if child.parent is None:
            raise BadRequest(f"the session {child.name!r} has no parent: name it with ebbtide.session(..., parent=...)")
        with _locked(child.parent), _locked(child):
            child.parent.context.adopt(child.context)
            child.context.finish(result)

    def _visible(self) -> list[SdkSession]:
        return self._sessions.visible_to(self._credential())

    def _find(self, name: str, wire: str = "") -> SdkSession:
        name = name or self._sessions.current_name()
        visible = [session for session in self._visible() if not wire or session.call.wire == wire]
        if name:
            visible = [session for session in visible if session.name == name][-1:]
        if len(visible) == 1:
            return visible[0]
        if name or not visible:
            asked = f"called {name!r}" if name else "yet"
            raise BadRequest(f"this client has no session {asked}: the first call of a conversation begins it")
        raise BadRequest(f"this client has {len(visible)} sessions: say which one with session=")

    @contextmanager
    def _use(self, name: str) -> Iterator[Context]:
        session = self._find(name)
        with _locked(session):
            yield session.context


@contextmanager
def _locked(session: SdkSession) -> Iterator[None]:
    """Hold a session between its calls."""
    # An awaited call that holds the lock cannot go on while its event loop waits here.
    if not session.lock.acquire(timeout=0 if _is_in_event_loop() else _LOCK_SECONDS):
        raise Busy(f"a call of the session {session.name!r} is being prepared: try again after it")
    try:
        yield
    finally:
        session.lock.release()


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
