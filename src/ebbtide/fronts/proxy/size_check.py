"""Whether a request fits the window, asked of bytes without a plan, and what a client is told where it does not.

Sure to fit is what our upper bound says fits. Known to be over is what our estimate says is over a window that somebody
set, that the model's name tells, or that the provider named; of a window that is a guess nothing is known.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from ebbtide.core.errors import Busy, WontFit
from ebbtide.fronts.proxy.identity import IncomingRequest
from ebbtide.fronts.proxy.options import Options
from ebbtide.fronts.proxy.sessions import ProxySession
from ebbtide.runtime.stateless import SizeBounds, estimate_bounds, fit
from ebbtide.wire import WIRES

_MAX_OVERESTIMATE = 1.25
"""How far an estimate may be above a bill: beyond so many windows, a request that will not fit is not sent."""


class Refusal(NamedTuple):
    """Why a request does not go out, for the client."""

    status: int
    message: str


class SizeCheck:
    def __init__(self, options: Options) -> None:
        self._options = options

    def known_window(self, session: ProxySession, incoming: IncomingRequest) -> int | None:
        """As set, as the model's name tells, or as its provider said; None where it is only a guess."""
        context = session.context
        if context is not None and context.window < session.window:
            return context.window
        return self._options.settings.known_window_for(incoming.model)

    async def surely_fits(self, session: ProxySession, incoming: IncomingRequest, body: bytes) -> bool:
        """A token is a byte at least."""
        window = self.known_window(session, incoming) or self._options.settings.window_for(incoming.model)
        return len(body) <= window or (await _size_bounds(session, incoming, body)).upper <= window

    async def refusal_for(
        self, session: ProxySession, incoming: IncomingRequest, body: bytes, error: Exception
    ) -> Refusal | None:
        """For what is known to be over the window; None where the provider has the last word."""
        window = self.known_window(session, incoming)
        if window is None or len(body) <= window:
            return None
        if is_final(error):
            # All was tried. An estimate may be too high: the provider is asked unless it is beyond doubt.
            tokens = getattr(error, "tokens", 0)
            return Refusal(400, _too_long_message(tokens, window)) if tokens > window * _MAX_OVERESTIMATE else None
        tokens = (await _size_bounds(session, incoming, body)).estimate
        return Refusal(503, _try_again_message(tokens, window)) if tokens > window else None

    def shrink(self, session: ProxySession, incoming: IncomingRequest, body: bytes) -> bytes | None:
        """A body that is sure to fit, made for this once; None where this one is. Raises WontFit."""
        window, upper = self.known_window(session, incoming), estimate_bounds(body, WIRES[incoming.wire]).upper
        if window is not None and upper <= window:
            return None
        result = fit(
            body, window=window or upper * 9 // 10, policy=session.policy, model=incoming.model, wire=incoming.wire
        )
        return bytes(result.body)


def is_final(error: Exception) -> bool:
    """Whether a plan was made, and nothing more may be taken out."""
    return isinstance(error, WontFit) and not isinstance(error, Busy)


async def _size_bounds(session: ProxySession, incoming: IncomingRequest, body: bytes) -> SizeBounds:
    """In a thread of its own: those of the engine may all be waiting."""
    calibration = [session.context.calibration] if session.context is not None else []
    try:
        return await asyncio.to_thread(estimate_bounds, body, WIRES[incoming.wire], *calibration)
    except Exception:  # noqa: BLE001 - a body that we cannot read is the provider's to judge
        return SizeBounds(0, 0)


def _too_long_message(tokens: int, window: int) -> str:
    # The first words are those that clients look for.
    return (
        f"prompt is too long: {tokens} tokens > {window} maximum, by the estimate of ebb proxy. "
        "Nothing more can be taken out of it. If the model's window is larger, start the proxy with --window."
    )


def _try_again_message(tokens: int, window: int) -> str:
    return (
        f"ebb proxy: the request has about {tokens} tokens, the window {window}, and nothing could be taken out in "
        "time: others are at work on the session. Try again in a moment."
    )
