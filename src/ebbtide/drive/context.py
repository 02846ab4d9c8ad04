"""The library's front door: a request in, a request out, and the answer recorded."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ebbtide.core.cache import Health, health
from ebbtide.core.errors import BadRequest
from ebbtide.core.gauge import Readings, upper_bound
from ebbtide.core.tokens import DEFAULT
from ebbtide.core.types import Edit
from ebbtide.drive.effects import adrive, drive
from ebbtide.drive.report import Listener, Report
from ebbtide.drive.session import Prepared, Session
from ebbtide.policy import Policy, preset
from ebbtide.policy.models import window_of
from ebbtide.store import Log, PrivateLog, Store, open_store
from ebbtide.wire import WIRES
from ebbtide.wire.reading import Reader
from ebbtide.wire.shape import Wire

Body = Mapping[str, Any] | bytes | str


@dataclass(frozen=True, slots=True)
class Ready:
    """A request that may go out, and what was done to it."""

    body: Any
    """In the form the request came in; the very same object where nothing was changed."""
    report: Report
    _context: Context | None = None
    _prepared: Prepared | None = None

    def record(self, response: object) -> None:
        """What came back for this very request, where several are under way."""
        if self._context is not None and self._prepared is not None:
            self._context._record(response, self._prepared)


class Context:
    """One agent's conversation, kept inside its window.

    The clock is read here and nowhere below; give `clock` to replay or to test.
    """

    def __init__(
        self,
        *,
        model: str = "",
        window: int | None = None,
        policy: str | Policy = "default",
        store: str | os.PathLike[str] | Store | None = None,
        session: str = "default",
        project: str = "",
        durable: bool = True,
        wire: str | None = None,
        marks: bool = False,
        on_event: Listener | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._log = _log(store, session, project=project, durable=durable, now=clock())
        self._session = Session(
            policy=preset(policy, model=model),
            window=window or window_of(model),
            log=self._log,
            model=model,
            project=project,
            wire=_wire(wire),
            listen=on_event,
            mark_always=marks,
        )
        self._last: Prepared | None = None

    @property
    def window(self) -> int:
        return self._session.window

    def prepare(self, request: Body) -> Ready:
        """A valid request that fits, equal to the last one as far as nothing was newly taken out."""
        return self._ready(drive(self._session.preparing(request, now=self._clock()), self._log))

    async def aprepare(self, request: Body) -> Ready:
        return self._ready(await adrive(self._session.preparing(request, now=self._clock()), self._log))

    def record(self, response: object) -> None:
        """What came back for the last request: into the log, and its usage anchors the counter."""
        if self._last is None:
            raise BadRequest("record() comes after prepare()")
        self._record(response, self._last)

    def edits(self) -> tuple[Edit, ...]:
        """All that hold or held, oldest first, undone ones left out."""
        self._catch_up()
        return self._session.state.edits

    def undo(self, batch: str = "") -> tuple[Edit, ...]:
        """Leave the newest batch of edits out again, or the one named. Returns what came back; empty if nothing did."""
        return drive(self._session.undoing(now=self._clock(), batch=batch), self._log)

    def redo(self) -> tuple[Edit, ...]:
        return drive(self._session.redoing(now=self._clock()), self._log)

    def health(self) -> Health:
        """How the provider's cache has served the last requests, and why it broke."""
        return health(self._session.state.sent)

    def counters(self) -> Mapping[str, int]:
        """R020, R028, R248: compactions, skips, tokens saved, and usage so far."""
        return dict(self._session.state.counters)

    def _catch_up(self) -> None:
        drive(self._session.catching_up(), self._log)

    def _ready(self, prepared: Prepared) -> Ready:
        self._last = prepared
        return Ready(prepared.body, prepared.report, self, prepared)

    def _record(self, response: object, prepared: Prepared) -> None:
        told = _plain(response)
        wire = self._session.wire_of(told)
        steps = self._session.recording(wire.reply(told), wire.usage(told), prepared, now=self._clock())
        drive(steps, self._log)


def fit(
    request: Body,
    *,
    window: int = 200_000,
    policy: str | Policy = "default",
    model: str = "",
    wire: str | None = None,
) -> Ready:
    """Stateless: a valid request whose upper bound fits the window, or `WontFit`. Writes nothing anywhere."""
    chosen, named = preset(policy, model=model), _wire(wire)
    ready = _fitted(request, window, chosen, model, named)
    # A seed's count allows for no error and is up to twice too low: it may steer, and ours has to agree.
    if chosen.estimator.margin > 1 or _promised(ready.body, window, named):
        return ready
    return _fitted(request, window, replace(chosen, estimator=DEFAULT), model, named)


def _fitted(request: Body, window: int, policy: Policy, model: str, wire: Wire | None) -> Ready:
    log = PrivateLog("fit", now=0.0)
    session = Session(policy=policy, window=window, log=log, model=model, kept=False, wire=wire, exact=upper_bound)
    prepared = drive(session.preparing(request, now=0.0, trigger="auto"), log)
    return Ready(prepared.body, prepared.report)


def _promised(body: Body, window: int, wire: Wire | None) -> bool:
    """Whether our own upper bound of this body fits."""
    request = Reader(DEFAULT, wire=wire).read(body)
    system, tools = request.overhead
    readings = Readings(
        estimator=DEFAULT,
        model=request.model,
        view=sum(item.tokens for item in request.items),
        messages=len(request.messages),
        system=system,
        tools=tools,
    )
    return bool(request.passthrough) or upper_bound(readings) <= window


def _log(store: str | os.PathLike[str] | Store | None, session: str, *, project: str, durable: bool, now: float) -> Log:
    if store is None:
        return PrivateLog(session, project=project, now=now)
    opened: Store = open_store(store, durable=durable) if isinstance(store, str | os.PathLike) else store
    return opened.open(session, project=project, now=now)


def _wire(name: str | None) -> Wire | None:
    if name is None:
        return None
    if name not in WIRES:
        raise BadRequest(f"no wire is called {name!r}; there are {', '.join(WIRES)}")
    return WIRES[name]


def _plain(response: object) -> Mapping[str, Any]:
    if isinstance(response, Mapping):
        return response
    dump = getattr(response, "model_dump", None)
    if dump is None:
        raise BadRequest(f"a response must be a dict or an SDK object, not {type(response).__name__}")
    told: Mapping[str, Any] = dump(mode="json", exclude_unset=True, by_alias=True)
    return told
