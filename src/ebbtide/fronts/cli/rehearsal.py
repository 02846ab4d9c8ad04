"""What a policy would have done to a recorded session, call by call. Everything happens in memory.

The recorded usage is the truth only while nothing was taken out: after the first edit the provider would have billed
another request, so from there on tokens are estimated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace

from ebbtide.core.errors import WontFit
from ebbtide.core.gauge import upper_bound
from ebbtide.core.journal import ebb
from ebbtide.drive.effects import drive
from ebbtide.drive.session import Session
from ebbtide.formats import Call
from ebbtide.fronts.cli.history import History, history_of
from ebbtide.policy import Policy
from ebbtide.store import open_store
from ebbtide.wire import WIRES

_PACE = 10.0  # seconds between calls where the file has no times: within any cache's lifetime


def rehearsed(
    calls: Iterable[Call], *, name: str, wire: str, policy: Policy, window_for: Callable[[str], int]
) -> tuple[History, ...]:
    """One history for each conversation in the file."""
    by_episode: dict[str, _Rehearsal] = {}
    for call in calls:
        stage = by_episode.get(call.episode)
        if stage is None:
            stage = _Rehearsal(call.episode or name, wire, policy, window_for(call.model))
            by_episode[call.episode] = stage
        stage.play(call)
    return tuple(stage.history(name) for stage in by_episode.values())


def fitted(body: bytes, *, name: str, wire: str | None, policy: Policy, window: int) -> History:
    """One request, as `ebb fit` would fit it: nothing is kept, and the promise is by the upper bound."""
    log = open_store(None).open("fit", now=0.0)
    told = WIRES[wire] if wire else None
    session = Session(policy=policy, window=window, log=log, kept=False, wire=told, exact=upper_bound)
    drive(session.preparing(body, now=0.0), log)
    return history_of(log.read().records, session="fit", name=name, stored=False)


class _Rehearsal:
    def __init__(self, session: str, wire: str, policy: Policy, window: int) -> None:
        self._log = open_store(None).open(session, now=0.0)
        self._session = Session(policy=policy, window=window, log=self._log, wire=WIRES[wire])
        self._refusals: list[str] = []
        self._now, self._calls = 0.0, 0

    def play(self, call: Call) -> None:
        self._calls += 1
        self._now = max(self._now + 0.001, call.at if call.at is not None else self._now + _PACE)
        try:
            ready = drive(self._session.preparing(call.request, now=self._now), self._log)
        except WontFit as refused:
            self._refusals.append(f"call {self._calls}: {refused}")
            return
        if call.usage is None:
            return
        if not ready.report.held:
            drive(self._session.recording((), call.usage, ready, now=self._now), self._log)
        # For the books alone: it anchors nothing, being the bill of another request where an edit holds.
        note = ebb("recorded", turn=ready.turn, at=self._now, **asdict(call.usage))
        drive(self._session.noting(note, now=self._now), self._log)

    def history(self, name: str) -> History:
        records: Sequence[dict[str, object]] = self._log.read().records
        made = history_of(records, session=self._log.session, name=name, stored=False)
        return replace(made, refusals=tuple(self._refusals))
