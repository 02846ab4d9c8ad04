"""Totals, metrics as Prometheus text, and a log with one line of JSON per request, without bodies, keys or queries.

`prometheus_client` was tried: it saves 20 lines and costs a dependency, 12 ms at the start, and a switch for the whole
process to keep unwanted series off the page.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import NamedTuple, TextIO

from ebbtide.core.text.redact import redact
from ebbtide.core.types import Usage

_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
"""Seconds: around the limits for an idle turn and for one with edits."""
_HELP = {
    "ebb_requests_total": "Requests by wire and status; wire is empty for paths that pass through.",
    "ebb_fallbacks_total": "Failures of the engine after which a request was sent with earlier edits alone, by reason.",
    "ebb_overflows_total": "Requests refused for their size that were compacted.",
    "ebb_upstream_failures_total": "Upstreams that could not be reached or broke off, by kind.",
    "ebb_refused_total": "Requests that the proxy refused, by status.",
    "ebb_recalls_total": "Answers in which the model called the recall tools.",
    "ebb_summaries_total": "Times that a model was asked for a summary, by outcome.",
    "ebb_waits_total": "Requests that waited for a plan, by reason.",
    "ebb_in_flight": "Requests under way.",
    "ebb_sessions": "Sessions in the memory of this proxy.",
    "ebb_ready": "Whether this proxy should get requests.",
    "ebb_database_reached": "Whether the last attempt to reach the database succeeded.",
    "ebb_engine_seconds": "Time that the engine took before a request could be sent.",
    "ebb_store_lock_seconds": "Time to lock a session in the database, with the wait for another proxy.",
    "ebb_store_commit_seconds": "Time that the database took for a commit.",
    "ebb_store_query_seconds": "Time that the database took for a question about a session.",
    "ebb_store_connect_seconds": "Time to connect to the database.",
    "ebb_first_byte_seconds": "Time from a request to the first byte of its answer.",
}
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_ENCODER = json.JSONEncoder(default=str)
_Series = tuple[str, tuple[tuple[str, str], ...]]
"""The name of a metric and its labels, sorted."""


class RequestRecord(NamedTuple):
    """One request to a model and its outcome, for exporters."""

    wire: str
    model: str
    session: str
    status: int
    started: float
    """Seconds since 1970."""
    seconds: float
    """Until the last byte."""
    tokens_untouched: int
    tokens_sent: int
    edited: bool
    usage: Usage | None = None


@dataclass(slots=True)
class Tally:
    """Totals of one session, or of all. Each field but the last three is a number on the pages and a metric."""

    requests: int = 0
    tokens_untouched: int = 0
    """Estimated tokens of all requests, as if nothing had ever been removed."""
    tokens_sent: int = 0
    """Estimated tokens of all requests as sent; in shadow mode, as they would have been sent."""
    edits: int = 0
    edited_requests: int = 0
    """Requests that carried an edit."""
    folds: int = 0
    fallbacks: int = 0
    overflows: int = 0
    """Requests that the provider refused for their size, and that were compacted and sent again."""
    refused_requests: int = 0
    """Requests that the provider answered with an error, and those that we refused in its place."""
    unanswered_requests: int = 0
    """Requests whose upstream could not be reached or broke off."""
    largest_request: int = 0
    """Estimated tokens of the largest request as sent."""
    input_tokens: int = 0
    """As billed, cached or not. This and the next three count only answers that report their usage."""
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    last_answer_at: float = 0.0
    last_at: float = 0.0
    last_before: int = 0
    """Tokens of the newest request, untouched and as sent."""
    last_after: int = 0

    def count_request(self, before: int, after: int, at: float, *, edits: int, folds: int, edited: bool) -> None:
        self.requests += 1
        self.tokens_untouched += before
        self.tokens_sent += after
        self.largest_request = max(self.largest_request, after)
        self.edits += edits
        self.folds += folds
        self.edited_requests += edited
        self.last_at, self.last_before, self.last_after = at, before, after

    def count_usage(self, usage: Usage) -> None:
        self.last_answer_at = time.time()
        self.input_tokens += usage.prompt
        self.cache_read_tokens += usage.cache_read
        self.cache_write_tokens += usage.cache_write
        self.output_tokens += usage.output

    def as_dict(self) -> dict[str, object]:
        hit_rate = round(self.cache_read_tokens / self.input_tokens, 4) if self.input_tokens else None
        return {
            **{name: getattr(self, name) for name in self.__slots__ if not name.startswith("last_")},
            "tokens_saved": max(0, self.tokens_untouched - self.tokens_sent),
            "cache_hit_rate": hit_rate,
        }


class JsonLog:
    """Writes one JSON object a line to stderr, of named fields only."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out

    def line(self, event: str, **fields: object) -> None:
        named = {name: value for name, value in fields.items() if value not in (None, "")}
        out = self._out or sys.stderr
        out.write(_ENCODER.encode({"at": round(time.time(), 3), "event": event, **named}) + "\n")
        out.flush()

    def failure(self, session: str, reason: str, error: BaseException) -> None:
        """Log where an error happened and its kind; its message only if it is one of our errors, redacted and cut."""
        frame = error.__traceback__
        while frame is not None and frame.tb_next is not None:
            frame = frame.tb_next
        where = f"{frame.tb_frame.f_code.co_filename.rpartition('/')[2]}:{frame.tb_lineno}" if frame else ""
        # The message of a foreign error may quote the text that it failed on.
        is_own = type(error).__module__.startswith("ebbtide")
        message = redact(str(error)[:200])[0] if is_own else ""
        self.line("fallback", session=session, reason=reason, error=type(error).__name__, said=message, where=where)


class LibraryLogHandler(logging.Handler):
    """Writes what libraries log in the same form: logger, message and kind of error, never a traceback."""

    def __init__(self, log: JsonLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        message, _ = redact(record.getMessage()[:200] if record.name.startswith("ebbtide") else str(record.msg)[:200])
        error_type = record.exc_info[0] if record.exc_info else None
        self._log.line("log", logger=record.name, said=message, error=error_type.__name__ if error_type else None)


class Meters:
    def __init__(self, log: JsonLog | None = None, exporter: Callable[[RequestRecord], None] | None = None) -> None:
        self.log = log or JsonLog()
        self._exporter = exporter
        self.total = Tally()
        self.started = time.time()
        self.in_flight = 0
        self._counts = Counter[_Series]()
        self._times: dict[str, tuple[list[int], list[float]]] = {}

    def export(self, record: RequestRecord) -> None:
        """Hand the record to the exporter. One that fails is logged and not called again."""
        if self._exporter is None:
            return
        try:
            self._exporter(record)
        except Exception as error:  # noqa: BLE001 - telemetry must not stop a request
            self._exporter = None
            self.log.failure(record.session, "telemetry", error)

    def count(self, name: str, **labels: object) -> None:
        self._counts[_series(name, labels)] += 1

    def value(self, name: str, **labels: object) -> int:
        """Return a counter."""
        return self._counts[_series(name, labels)]

    def observe(self, name: str, seconds: float) -> None:
        buckets, total = self._times.setdefault(name, ([0] * (len(_BUCKETS) + 1), [0.0]))
        buckets[bisect_left(_BUCKETS, seconds)] += 1
        total[0] += seconds

    def prometheus(self, gauges: Mapping[str, int] | None = None) -> str:
        """All figures as text, with `gauges` from other parts of the proxy."""
        return "\n".join(self._lines({"ebb_in_flight": self.in_flight, **(gauges or {})})) + "\n"

    def _lines(self, gauges: Mapping[str, int]) -> Iterator[str]:
        for name, counts in groupby(sorted(self._counts.items()), lambda item: item[0][0]):
            yield from _head(name, "counter")
            yield from (f"{name}{_format_labels(labels)} {count}" for (_, labels), count in counts)
        for name, number in gauges.items():
            yield from _head(name, "gauge")
            yield f"{name} {number}"
        for name, amount in self.total.as_dict().items():
            if isinstance(amount, int) and name != "largest_request":  # which is no sum
                yield f"# TYPE ebb_{name}_sum_total counter"
                yield f"ebb_{name}_sum_total {amount}"
        for name, (buckets, total) in sorted(self._times.items()):
            yield from _head(name, "histogram")
            for edge, count in zip((*_BUCKETS, "+Inf"), accumulate(buckets), strict=True):
                yield f'{name}_bucket{{le="{edge}"}} {count}'
            yield f"{name}_sum {total[0]:.6f}"
            yield f"{name}_count {sum(buckets)}"


def _series(name: str, labels: Mapping[str, object]) -> _Series:
    return name, tuple(sorted((label, str(value)) for label, value in labels.items()))


def _head(name: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {_HELP.get(name, name)}"
    yield f"# TYPE {name} {kind}"


def _format_labels(labels: tuple[tuple[str, str], ...]) -> str:
    pairs = ",".join(f'{label}="{value.translate(_ESCAPES)}"' for label, value in labels)
    return f"{{{pairs}}}" if labels else ""
