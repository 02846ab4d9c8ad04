"""`--summarizer`: ask a model for a summary, at the session's own upstream and with its newest request's credential.

The question is sent where that request was sent and nowhere else. The engine's thread waits for a limited time; if the
question fails, the compaction uses facts alone.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import aiohttp
from yarl import URL

from ebbtide.fronts.proxy.answers import ObservedResponse, ProviderRefusal, ResponseCopy
from ebbtide.fronts.proxy.meters import Meters
from ebbtide.fronts.proxy.sessions import ProxySession, UpstreamRoute
from ebbtide.fronts.proxy.upstream_client import question_headers
from ebbtide.runtime import Summarizer
from ebbtide.wire import WIRES

_MAX_ERROR_BYTES = 2_000
"""The beginning of an error says whether it is about size."""
_MAX_ANSWER_BYTES = 8 << 20
"""A summary has some ten thousand bytes."""


class NoSummary(Exception):
    """The upstream broke off, or its answer cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSummarizer:
    client: Callable[[], aiohttp.ClientSession]
    meters: Meters
    model: str
    """Empty for the session's own."""
    timeout: float
    """Seconds for one answer."""

    def for_session(self, session: ProxySession) -> Summarizer:
        return Summarizer(partial(self.ask, session), model=self.model, timeout=self.timeout, background=True)

    def ask(self, session: ProxySession, request: dict[str, object]) -> object:
        """Ask from a thread of the engine. Returns the answer as a mapping, or raises."""
        route = session.route
        if route is None:
            raise NoSummary("the session has had no request yet")
        future = asyncio.run_coroutine_threadsafe(self._ask_and_count(session, route, request), route.loop)
        try:
            return future.result(self.timeout)
        finally:
            future.cancel()

    async def _ask_and_count(
        self, session: ProxySession, route: UpstreamRoute, request: dict[str, object]
    ) -> dict[str, object]:
        started, outcome = time.perf_counter(), "failed"
        try:
            answer = await self._post(session, route, request)
            outcome = "answered"
        except ProviderRefusal as refusal:
            outcome = str(refusal.status_code)
            raise
        finally:
            self.meters.count("ebb_summaries_total", outcome=outcome)
            fields = {"session": session.identity.session, "model": request.get("model"), "outcome": outcome}
            self.meters.log.line("summary", **fields, ms=round(1000 * (time.perf_counter() - started), 1))
        # A summary is part of the bill that savings are compared with.
        if answer.usage is not None:
            session.tally.count_usage(answer.usage)
            self.meters.total.count_usage(answer.usage)
        return answer.response

    async def _post(self, session: ProxySession, route: UpstreamRoute, request: dict[str, object]) -> ObservedResponse:
        # Some upstreams only stream, so ask as the client asks.
        url, fields = WIRES[session.wire].requests.address(route.url, request, route.wants_stream)
        body, headers = json.dumps(fields).encode(), question_headers(route.headers)
        async with self.client().post(
            URL(url, encoded=True), headers=headers, data=body, allow_redirects=False
        ) as response:
            if response.status != 200:
                error = await response.content.read(_MAX_ERROR_BYTES)
                raise ProviderRefusal(response.status, error.decode("utf-8", "replace"))
            encoding, size = response.headers.get("content-encoding", ""), 0
            copy = ResponseCopy(session.wire, response.content_type, encoding)
            async for chunk in response.content.iter_any():
                size += len(chunk)
                if size > _MAX_ANSWER_BYTES:
                    raise NoSummary(f"the answer is longer than {_MAX_ANSWER_BYTES} bytes")
                copy.feed(chunk)
        answer = copy.read()
        if not answer.is_complete:
            raise NoSummary("the answer broke off")
        return answer
