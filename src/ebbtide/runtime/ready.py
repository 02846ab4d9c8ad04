"""A prepared request: send its body, and record the response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ebbtide.core.errors import BadRequest
from ebbtide.core.types import Usage
from ebbtide.runtime.report import Prepared, Report, ReportBasis
from ebbtide.wire import detect
from ebbtide.wire.origins import Origin, find_origins
from ebbtide.wire.overflow import find_overflow_in_error, refuses_cache_fields, refuses_signatures
from ebbtide.wire.protocol import Wire


class Recorder(Protocol):
    """Records the response to a request; the `Context` that prepared it."""

    def __call__(
        self, response: object, prepared: Prepared, *, reply: bool = True, usage: Usage | None = None
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Ready:
    """A request that may be sent, and the report on it."""

    body: Any
    """In the form of the request; the same object if nothing was changed."""
    report: Report
    _record: Recorder | None = None
    _prepared: Prepared | None = None
    _wire: Wire | None = None

    def record(self, response: object = None, *, usage: Usage | None = None) -> None:
        """Record the response to this request. Use this if several requests are under way.

        `usage` is for programs that know the numbers and have no response in the provider's form.
        """
        if self._record is not None and self._prepared is not None:
            self._record(response, self._prepared, usage=usage)

    def record_usage(self, response: object) -> None:
        """Record only the usage, if the response was cut off: half a reply must not become history."""
        if self._record is not None and self._prepared is not None:
            self._record(response, self._prepared, reply=False)

    def can_retry(self, error: BaseException) -> bool:
        """Whether `Context.overflowed` has another body for a request that was refused with this error."""
        if self._prepared is not None and self._prepared.has_cache_fields and refuses_cache_fields(error):
            return True
        if self._prepared is not None and self._prepared.has_signatures and refuses_signatures(error):
            return True
        return find_overflow_in_error(error) is not None

    def origins(self) -> list[list[Origin | None]]:
        """Return for each message of `body` the places in the request that its blocks come from.

        None is for a block that is new or was changed. The request must have been a dict.
        """
        if self._prepared is None or not isinstance(self.body, Mapping):
            raise BadRequest("origins() is for requests that were passed to a Context as a dict")
        wire, basis = self._wire or detect(self.body), self._prepared.report.behind
        items = self._prepared.items
        entries = basis.view.entries if isinstance(basis, ReportBasis) else items
        return find_origins(wire, self.body[wire.list_key], items, entries)
