"""The monthly receipt: what the audit predicted from the user's own history, against what was billed since."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from ebbtide.core.errors import EbbtideError
from ebbtide.fronts.audit.measure import AuditRow
from ebbtide.money import format_usd, live_figures
from ebbtide.store import Store

FILE = "audit.json"
"""The last prediction, in the folder of the store; beside the settings if that is a database."""
MIN_CALLS = 50
"""Fewer billed calls say nothing about a month."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    at: float
    sessions: int
    calls: int
    saved_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    month: str
    sessions: int
    calls: int
    cost: float
    saved: float

    @property
    def saved_share(self) -> float:
        without = self.cost + self.saved
        return self.saved / without if without > 0 else 0.0


def save_prediction(folder: Path, total: AuditRow, at: float) -> None:
    """Remember what was predicted. It is a convenience: a folder that cannot be written to is no error."""
    prediction = Prediction(at=at, sessions=total.sessions, calls=total.calls, saved_share=total.saved_share)
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / FILE).write_text(json.dumps(asdict(prediction)), encoding="utf-8")


def read_prediction(folder: Path) -> Prediction | None:
    with suppress(OSError, ValueError, TypeError):
        saved = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return Prediction(**{name: saved[name] for name in ("at", "sessions", "calls", "saved_share")})
    return None


def billed_months(store: Store) -> list[Month]:
    """What the store's sessions were billed and saved, by the month of their newest call, the newest first."""
    months: dict[str, Month] = {}
    for info in store.list_sessions():
        with suppress(EbbtideError, OSError):
            live = live_figures(store.peek(info.session, project=info.project).read().records)
            figures = live.figures
            if live.hit_rate is None or not figures.in_dollars:
                continue  # nothing was billed, or there is no price
            name = datetime.fromtimestamp(live.last_at, UTC).strftime("%Y-%m")
            known = months.get(name, Month(month=name, sessions=0, calls=0, cost=0.0, saved=0.0))
            months[name] = Month(
                month=name,
                sessions=known.sessions + 1,
                calls=known.calls + figures.calls,
                cost=known.cost + figures.cost,
                saved=known.saved + figures.saved,
            )
    return sorted(months.values(), key=lambda month: month.month, reverse=True)


def describe_receipt(prediction: Prediction | None, months: Sequence[Month]) -> Iterator[str]:
    if prediction is None:
        yield "Predicted: nothing yet; 'ebb audit' replays your own history and remembers the result."
    else:
        day = datetime.fromtimestamp(prediction.at, UTC).strftime("%Y-%m-%d")
        yield f"Predicted on {day} from {prediction.sessions:,} of your sessions: {prediction.saved_share:.1%} saved."
    if not months:
        yield "Billed: no call through Ebbtide was billed yet. 'ebb run -- claude' starts an agent behind it."
        return
    for month in months:
        yield from _describe_month(prediction, month)


def _describe_month(prediction: Prediction | None, month: Month) -> Iterator[str]:
    without = format_usd(month.cost + month.saved)
    calls = f"{month.sessions:,} sessions, {month.calls:,} calls"
    result = f"{format_usd(month.saved)} saved ({month.saved_share:.1%})"
    if month.saved < 0:
        result = f"{format_usd(-month.saved)} more than without Ebbtide ({month.saved_share:.1%})"
    yield f"{month.month}: billed {format_usd(month.cost)} instead of {without}, {result}; {calls}."
    if month.calls < MIN_CALLS:
        yield "  Too few calls to compare with the prediction."
    elif prediction is not None:
        error = 100 * (month.saved_share - prediction.saved_share)
        yield f"  {error:+.1f} points against the prediction of {prediction.saved_share:.1%}."
    if month.saved < 0 and month.calls >= MIN_CALLS:
        yield "  It does not pay here. To watch without changing anything: ebb run --shadow -- claude"


def receipt_as_dict(prediction: Prediction | None, months: Iterable[Month]) -> dict[str, object]:
    return {
        "predicted": asdict(prediction) if prediction else None,
        "billed": [
            {
                **asdict(month),
                "saved_share": round(month.saved_share, 4),
                "error": round(month.saved_share - prediction.saved_share, 4) if prediction else None,
            }
            for month in months
        ],
    }
