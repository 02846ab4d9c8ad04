"""How large a request may turn out to be: for a promise that it fits, and for doubts whether it did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ebbtide.core.tokens.calibration import Calibration
from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.core.tokens.size import SizeInputs, anchored_usage, upper_bound
from ebbtide.wire.protocol import Wire
from ebbtide.wire.reader import Reader

_UNTAUGHT = Calibration()


class SizeBounds(NamedTuple):
    """Tokens of a request that nobody has billed."""

    estimate: int
    upper: int
    """What a bill will rarely exceed."""


def estimate_bounds(
    body: Mapping[str, Any] | bytes | str, wire: Wire | None = None, calibration: Calibration = _UNTAUGHT
) -> SizeBounds:
    """By our own estimator, whatever the policy counts with. All zero for a request whose history a server holds."""
    request = Reader(DEFAULT, wire=wire).read(body)
    if request.partial_history_reason:
        return SizeBounds(0, 0)
    system, tools = request.overhead
    readings = SizeInputs(
        estimator=DEFAULT,
        calibration=calibration,
        model=request.model,
        view=sum(item.tokens for item in request.items),
        messages=len(request.messages),
        system=system,
        tools=tools,
    )
    return SizeBounds(anchored_usage(readings), upper_bound(readings))
