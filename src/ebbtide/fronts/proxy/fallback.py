"""What to send if there is no plan: the recorded edits alone, if the request then fits the window.

A request surely fits if our upper bound of its tokens is within the window. It is known to be too large if our estimate
is over a window that was configured, that the model's name implies, or that the provider named. A window that is only
a guess never refuses a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ebbtide.core.errors import Busy, WontFit
from ebbtide.core.types import Edit
from ebbtide.fronts.proxy.deadline import EngineThreads
from ebbtide.fronts.proxy.options import Options
from ebbtide.fronts.proxy.sessions import OutgoingRequest, ProxySession, Refusal
from ebbtide.runtime.outgoing import ReappliedRequest, reapply_edits
from ebbtide.runtime.stateless import SizeBounds, estimate_bounds, fit
from ebbtide.wire import WIRES

_MAX_OVERESTIMATE = 1.25
"""How far an estimate may be above the bill. Up to so many windows, the provider decides about a request."""

ReportFailure = Callable[[ProxySession, str, Exception], None]
"""Takes the session, what was tried, and why it failed."""


class RecordedEdits:
    """Applies the edits in a session's log to a request, and plans nothing."""

    def __init__(self, options: Options, threads: EngineThreads, report_failure: ReportFailure) -> None:
        self._options, self._threads, self._report_failure = options, threads, report_failure

    async def apply(self, outgoing: OutgoingRequest) -> ReappliedRequest | None:
        """Return the request with its recorded edits; None if there are none, or they cannot be applied."""
        if self._options.shadow:
            return None
        try:
            edits = await self._read(outgoing)
            if not edits:
                return None
            policy, wire = outgoing.session.engine.policy, outgoing.incoming.wire
            # Worth waiting for, as it reads no disk: without its edits the request may be refused.
            work = asyncio.to_thread(reapply_edits, outgoing.original, edits, policy=policy, wire=wire)
            return await asyncio.wait_for(work, self._options.waiting_limit)
        except Exception as error:  # noqa: BLE001 - the client's own bytes are all that is left
            self._report_failure(outgoing.session, "replay", error)
            return None

    async def _read(self, outgoing: OutgoingRequest) -> tuple[Edit, ...]:
        """Read the edits from the log, where another proxy may have added some; if that takes too long, use ours."""
        known = outgoing.session.edits
        if known is not None and outgoing.incoming.side_request:
            return known  # a count need not be exact
        try:
            return await self._threads.run_unlocked(self._options.acting_limit, outgoing.session.read_edits)
        except TimeoutError:
            if known is None:
                raise
            return known


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
        window, policy = window or upper * 9 // 10, outgoing.session.engine.policy
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
        "time: another request is using the session, or its store cannot be reached. Try again in a moment."
    )
