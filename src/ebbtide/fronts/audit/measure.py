"""Measures one recorded session as it was and with Ebbtide: costs, and what would have been missing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ebbtide.core.errors import EbbtideError
from ebbtide.core.types import FIVE_MINUTES
from ebbtide.formats import Recording
from ebbtide.replay.contenders import WatchedContender
from ebbtide.replay.measures import MAX_DRIFT
from ebbtide.replay.policies import contender
from ebbtide.replay.score import Score, Scorer, calibrate_session, names_used_by_call
from ebbtide.replay.session import ReplaySession, sessions_in
from ebbtide.replay.sources import Source, load_source

OnCall = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One session, or the sum of several."""

    sessions: int = 0
    calls: int = 0
    cost: float = 0.0
    """Of all prompts as the client sent them, as we bill them."""
    with_ebbtide: float = 0.0
    billed: float = 0.0
    """What the provider billed, as far as the recording says; and our bill for the same calls."""
    ours_for_billed: float = 0.0
    over: int = 0
    """Calls over the window, as the client sent them."""
    over_with_ebbtide: int = 0
    needed: int = 0
    """Names that the agent used again after more than ten calls."""
    missing: int = 0
    """Of these, names that its request would not have had with Ebbtide."""
    found: int = 0
    """Of the missing, names that one search finds."""

    def plus(self, other: AuditRow) -> AuditRow:
        return AuditRow(**{name: getattr(self, name) + getattr(other, name) for name in self.__slots__})

    @property
    def saved(self) -> float:
        return self.cost - self.with_ebbtide

    @property
    def saved_share(self) -> float:
        return self.saved / self.cost if self.cost > 0 else 0.0

    @property
    def error(self) -> float | None:
        """How far our bill is from the provider's, where both are known."""
        return self.ours_for_billed / self.billed - 1 if self.billed > 0 else None

    @property
    def is_calibrated(self) -> bool:
        return self.error is not None and abs(self.error) <= MAX_DRIFT


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSession:
    """What is measured."""

    source: Source
    client: str = ""
    project: str = ""
    """What the client's folder says about the project."""
    modified: float
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    client: str
    project: str
    month: str
    """As in `2026-03`; empty if no time was recorded."""
    row: AuditRow
    problem: str = ""
    """Why it could not be measured."""


def add_up(rows: Iterable[AuditRow]) -> AuditRow:
    total = AuditRow()
    for row in rows:
        total = total.plus(row)
    return total


def measure_session(found: AuditSession, window_for: Callable[[str], int], on_call: OnCall) -> Measured:
    """Replay one session. A session that cannot be read is returned with the problem."""
    try:
        recording = load_source(found.source)
        rows, first = AuditRow(), 0.0
        for session in sessions_in(recording, ""):
            first = first or session.calls[0].at
            rows = rows.plus(_measure(session, window_for(session.calls[-1].model), on_call))
    except (EbbtideError, OSError, UnicodeError, RecursionError) as error:
        row = AuditRow()
        return Measured(client=found.client, project="", month="", row=row, problem=str(error))
    at = first if first > 1e6 else found.modified
    return Measured(
        client=found.client,
        project=_project(recording, found.project),
        month=datetime.fromtimestamp(at, UTC).strftime("%Y-%m"),
        row=rows.plus(AuditRow(sessions=1)) if rows.calls else rows,
        problem="" if rows.calls else "no model was called",
    )


def _measure(session: ReplaySession, window: int, on_call: OnCall) -> AuditRow:
    names = names_used_by_call(session)
    scores: dict[str, Score] = {}
    for name, watch in (("recorded", lambda: None), ("default", on_call)):
        watched = WatchedContender(contender(name, window)(session), watch)
        scores[name] = Scorer(session, watched, window, FIVE_MINUTES, names).run()
    before, ours = scores["recorded"], scores["default"]
    simulated, billed = calibrate_session(session, FIVE_MINUTES)
    return AuditRow(
        calls=before.calls,
        cost=before.bill,
        with_ebbtide=ours.bill,
        billed=billed,
        ours_for_billed=simulated,
        over=before.over,
        over_with_ebbtide=ours.over,
        needed=ours.used,
        missing=ours.used - ours.available,
        found=ours.recoverable,
    )


def _project(recording: Recording, named: str) -> str:
    """The last part of the agent's working directory, else what the client's folder is called."""
    for record in recording.others:
        if folder := _folder_in(record):
            return os.path.basename(folder.rstrip("/")) or folder
    return _short_name(named) or Path(recording.path).parent.name


def _folder_in(record: Mapping[str, object]) -> str:
    payload = record.get("payload")
    for table in (record, payload if isinstance(payload, Mapping) else {}):
        folder = table.get("cwd")
        if isinstance(folder, str) and folder:
            return folder
    return ""


def _short_name(named: str) -> str:
    """Of a path written with dashes only the end says something; of a hash the beginning."""
    return named[:12] if len(named) >= 32 and named.isalnum() else named.rstrip("-").rpartition("-")[2]
