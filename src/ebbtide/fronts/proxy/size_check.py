"""Check whether a request without a plan fits the window, and refuse one that is known not to.

A request surely fits if our upper bound of its tokens is within the window. It is known to be too large if our estimate
is over a window that was configured, that the model's name implies, or that the provider named. A window that is only
a guess never refuses a request.
"""

from __future__ import annotations

import asyncio

from ebbtide.core.errors import Busy, WontFit
from ebbtide.fronts.proxy.options import Options
from ebbtide.fronts.proxy.outgoing_request import OutgoingRequest, Refusal
from ebbtide.runtime.stateless import SizeBounds, estimate_bounds, fit
from ebbtide.wire import WIRES

_MAX_OVERESTIMATE = 1.25
"""How far an estimate may be above the bill. Up to so many windows, the provider decides about a request."""


class SizeCheck:
    def __init__(self, options: Options) -> None:
        self._settings = options.settings

    def known_window(self, outgoing: OutgoingRequest) -> int | None:
        """Return the window as configured, implied by the model's name or named by the provider; None if unknown."""
        session = outgoing.session
        if session.context is not None and session.context.window < session.window:
            return session.context.window
        return self._settings.known_window_for(outgoing.incoming.model)

    async def surely_fits(self, outgoing: OutgoingRequest, body: bytes) -> bool:
        window = self.known_window(outgoing) or self._settings.window_for(outgoing.incoming.model)
        # A token has at least one byte.
        return len(body) <= window or (await _size_bounds(outgoing, body)).upper <= window

    async def refusal_for(self, outgoing: OutgoingRequest, body: bytes, error: Exception) -> Refusal | None:
        """Return a refusal if the body is known to be over the window; None if the provider should decide."""
        window = self.known_window(outgoing)
        if window is None or len(body) <= window:
            return None
        if is_final(error):
            # Nothing more can be removed. Our estimate may be too high, so refuse only if it is far over.
            tokens = getattr(error, "tokens", 0)
            return Refusal(400, _too_long_message(tokens, window)) if tokens > window * _MAX_OVERESTIMATE else None
        tokens = (await _size_bounds(outgoing, body)).estimate
        return Refusal(503, _try_again_message(tokens, window)) if tokens > window else None

    def shrink(self, outgoing: OutgoingRequest) -> bytes | None:
        """Make a body that surely fits, without recording it; None if the body does already. Raises `WontFit`."""
        body, incoming, window = outgoing.body, outgoing.incoming, self.known_window(outgoing)
        upper = estimate_bounds(body, WIRES[incoming.wire]).upper
        if window is not None and upper <= window:
            return None
        window, policy = window or upper * 9 // 10, outgoing.session.policy
        return bytes(fit(body, window=window, policy=policy, model=incoming.model, wire=incoming.wire).body)


def is_final(error: Exception) -> bool:
    """Whether a plan was made, and nothing more can be removed."""
    return isinstance(error, WontFit) and not isinstance(error, Busy)


async def _size_bounds(outgoing: OutgoingRequest, body: bytes) -> SizeBounds:
    context = outgoing.session.context
    calibration = [context.calibration] if context is not None else []
    try:
        # Not in the engine's threads, which may all be waiting.
        return await asyncio.to_thread(estimate_bounds, body, WIRES[outgoing.incoming.wire], *calibration)
    except Exception:  # noqa: BLE001 - the provider judges a body that we cannot read
        return SizeBounds(0, 0)


def _too_long_message(tokens: int, window: int) -> str:
    # Clients look for the first words.
    return (
        f"prompt is too long: {tokens} tokens > {window} maximum, by the estimate of ebb proxy. "
        "Nothing more can be removed from it. If the model's window is larger, start the proxy with --window."
    )


def _try_again_message(tokens: int, window: int) -> str:
    return (
        f"ebb proxy: the request has about {tokens} tokens, the window is {window}, and nothing could be removed in "
        "time because another request is using the session. Try again in a moment."
    )
