"""For providers that cache prefixes by themselves: there is nothing to mark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ebbtide.core.cache.breakpoints import BreakpointSlot
from ebbtide.core.types import FIVE_MINUTES


def places(
    body: Mapping[str, Any], tokens: Sequence[int], overhead: tuple[int, int], settled: Sequence[int] = ()
) -> list[BreakpointSlot]:
    del body, tokens, overhead, settled
    return []


def breakpoints(message: Any) -> int:
    del message
    return 0


def marks(body: Mapping[str, Any], settled: Sequence[int] = ()) -> tuple[tuple[int, ...], float]:
    del body, settled
    return (), FIVE_MINUTES


def mark(body: Mapping[str, Any], places: Sequence[BreakpointSlot]) -> Mapping[str, Any]:
    del places
    return body
