"""The cache facet of providers that cache every prefix without being asked: there are no breakpoints to set."""

from __future__ import annotations

from typing import Any

from ebbtide.core.cache.breakpoints import BreakpointSlot
from ebbtide.core.types import FIVE_MINUTES


class ImplicitCache:
    is_explicit = False

    def slots(self, *_: Any, is_edited: bool = True) -> list[BreakpointSlot]:
        del is_edited
        return []

    def present(self, *_: Any) -> tuple[tuple[int, ...], float]:
        return (), FIVE_MINUTES

    def add(self, body: Any, *_: Any) -> Any:
        return body

    def client_fields(self, _model: str, _ttl: float) -> dict[str, Any]:
        return {}

    def lifetimes(self, _message: Any) -> tuple[float, ...]:
        return ()

    def outer_lifetimes(self, _body: Any) -> tuple[float, float]:
        return 0.0, 0.0

    def raise_front(self, body: Any, _marked_messages: Any = ()) -> Any:
        return body

    def session_fields(self, _body: Any, *, key: str, retention: str = "") -> dict[str, Any]:
        del key, retention
        return {}


IMPLICIT_CACHE = ImplicitCache()
