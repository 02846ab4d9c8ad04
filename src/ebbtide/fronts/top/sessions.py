"""What `ebb top` knows of each session: from running proxies, and from the store, which is enough alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from ebbtide.config import Settings
from ebbtide.core.errors import EbbtideError
from ebbtide.live import read_status
from ebbtide.money import LiveFigures, live_figures
from ebbtide.store import SessionInfo, Store, open_store

MAX_SESSIONS = 15
"""Rows: what a terminal shows."""
_MAX_BYTES = 64 << 20
"""Of a log that is added up here; a running proxy adds up its own."""
_PROXIES = "proxies"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopRow:
    """One session. `--json` prints the fields by name."""

    session: str
    project: str
    title: str
    model: str
    window: int
    tokens: int
    """Of the newest request."""
    tokens_without: int
    calls: int
    cache_hit_rate: float | None
    cost_usd: float | None
    saved_usd: float | None
    last_summary_at: float
    last_at: float
    now: str
    """What happens: `planning`, `waiting for the model`, `idle`, or `not running`."""


@dataclass(slots=True)
class Board:
    """Reads all sessions again for each frame; a log that did not change is not added up again."""

    settings: Settings
    addresses: Sequence[str] = ()
    _figures: dict[tuple[str, str], tuple[tuple[int, str], LiveFigures]] = field(default_factory=dict)

    def rows(self) -> list[TopRow]:
        store = open_store(self.settings.store)
        infos = sorted(store.list_sessions(), key=lambda info: info.modified, reverse=True)[:MAX_SESSIONS]
        running = {str(row.get("session")): row for row in self._running()}
        rows = [self._row(store, info, running.pop(info.session, None)) for info in infos]
        rows += [_running_row(row, None, None) for row in running.values()]
        return sorted((row for row in rows if row is not None), key=lambda row: -row.last_at)[:MAX_SESSIONS]

    def _running(self) -> Iterable[Mapping[str, object]]:
        for address in dict.fromkeys([*self.addresses, *_announced(self.settings.store)]):
            yield from read_status(address)

    def _row(self, store: Store, info: SessionInfo, running: Mapping[str, object] | None) -> TopRow | None:
        live = self._add_up(store, info)
        if running is not None:
            return _running_row(running, live, info)
        return _stored_row(info, live, self.settings.window_for(live.model)) if live else None

    def _add_up(self, store: Store, info: SessionInfo) -> LiveFigures | None:
        key, stamp = (info.project, info.session), (info.bytes, info.modified)
        known = self._figures.get(key)
        if known and known[0] == stamp:
            return known[1]
        if info.bytes > _MAX_BYTES:
            return None
        with suppress(EbbtideError, OSError):
            live = live_figures(store.peek(info.session, project=info.project).read().records)
            self._figures[key] = stamp, live
            return live if live.figures.calls else None
        return None


def _announced(store: str) -> Iterable[str]:
    """Addresses of proxies that say in the store where they are. One that crashed leaves its file, and no answer."""
    for file in sorted((Path(store).expanduser() / _PROXIES).glob("*.json")):
        with suppress(OSError, ValueError, AttributeError):
            yield str(json.loads(file.read_text(encoding="utf-8")).get("address"))


def _stored_row(info: SessionInfo, live: LiveFigures, window: int) -> TopRow:
    figures = live.figures
    return TopRow(
        session=info.session,
        project=info.project,
        title=info.title or info.first_prompt,
        model=live.model,
        window=window,
        tokens=figures.tokens,
        tokens_without=figures.tokens_without,
        calls=figures.calls,
        cache_hit_rate=live.hit_rate,
        cost_usd=figures.cost if figures.in_dollars else None,
        saved_usd=figures.saved if figures.in_dollars else None,
        last_summary_at=live.last_summary_at,
        last_at=live.last_at or datetime.fromisoformat(info.modified).timestamp(),
        now="not running",
    )


def _running_row(row: Mapping[str, object], live: LiveFigures | None, info: SessionInfo | None) -> TopRow:
    figures = live.figures if live else None
    is_priced = figures is not None and figures.in_dollars
    return TopRow(
        session=str(row.get("session")),
        project=str(row.get("project") or ""),
        title=(info.title or info.first_prompt) if info else "",
        model=str(row.get("model") or ""),
        window=_int(row, "window"),
        tokens=_int(row, "tokens"),
        tokens_without=_int(row, "tokens_without"),
        calls=_int(row, "calls"),
        cache_hit_rate=_float(row, "cache_hit_rate"),
        cost_usd=figures.cost if figures and is_priced else _float(row, "cost_usd"),
        saved_usd=figures.saved if figures and is_priced else _float(row, "saved_usd"),
        last_summary_at=_float(row, "last_summary_at") or (live.last_summary_at if live else 0.0),
        last_at=_float(row, "last_at") or 0.0,
        now=str(row.get("now") or "idle"),
    )


def _int(row: Mapping[str, object], key: str) -> int:
    value = row.get(key)
    return value if isinstance(value, int) else 0


def _float(row: Mapping[str, object], key: str) -> float | None:
    value = row.get(key)
    return float(value) if isinstance(value, int | float) else None
