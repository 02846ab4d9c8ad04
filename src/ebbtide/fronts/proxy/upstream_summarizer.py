"""`--summarizer`: a fold asks a model of the conversation's own upstream, with the credential of its newest request.

The question goes where that request went and nowhere else. Whoever asks is a thread of the engine, and waits for a
limited time; what fails, fails as an answer, and the fold is made of the ledger's facts.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
from yarl import URL

from ebbtide.fronts.proxy.meters import Meters
from ebbtide.fronts.proxy.refusals import Refused
from ebbtide.fronts.proxy.sessions import Line, Slot
from ebbtide.fronts.proxy.upstream_client import question_headers
from ebbtide.fronts.proxy.usage_tap import Copy, Heard
from ebbtide.wire import WIRES

_TOLD = 2_000
"""Characters of a refusal: whether it was about size stands in the first."""
_MOST = 8 << 20
"""Bytes of an answer. A summary has some ten thousand."""


class Unanswered(Exception):
    """The upstream broke off, or its answer cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarizing:
    client: Callable[[], aiohttp.ClientSession]
    meters: Meters
    limit: float
    """Seconds for one answer."""

    def ask(self, slot: Slot, request: dict[str, object]) -> object:
        """From a thread: the answer as a mapping. Raises whatever went wrong."""
        line = slot.line
        if line is None:
            raise Unanswered("no request came by yet")
        asking = asyncio.run_coroutine_threadsafe(self._asked(slot, line, request), line.loop)
        try:
            return asking.result(self.limit)
        finally:
            asking.cancel()

    async def _asked(self, slot: Slot, line: Line, request: dict[str, object]) -> dict[str, object]:
        begun, outcome = time.perf_counter(), "failed"
        try:
            heard = await self._heard(slot, line, request)
            outcome = "answered"
        except Refused as refused:
            outcome = str(refused.status_code)
            raise
        finally:
            self.meters.count("ebb_summaries_total", outcome=outcome)
            told = {"session": slot.identity.session, "model": request.get("model"), "outcome": outcome}
            self.meters.log.line("summary", **told, ms=round(1000 * (time.perf_counter() - begun), 1))
        # It is part of the bill: a saving that leaves it out is none.
        usage = WIRES[slot.wire].replies.usage(heard.response)
        if usage is not None:
            slot.tally.billed(usage)
            self.meters.total.billed(usage)
        return heard.response

    async def _heard(self, slot: Slot, line: Line, request: dict[str, object]) -> Heard:
        # Some upstreams answer in streams alone: asked as the client asks.
        body = json.dumps({**request, "stream": True} if line.streams else request).encode()
        headers = question_headers(line.headers)
        async with self.client().post(
            URL(line.url, encoded=True), headers=headers, data=body, allow_redirects=False
        ) as answer:
            copy, size = Copy(slot.wire, answer.content_type, answer.headers.get("content-encoding", "")), 0
            if answer.status != 200:
                raise Refused(answer.status, (await answer.content.read(_TOLD)).decode("utf-8", "replace"))
            async for chunk in answer.content.iter_any():
                size += len(chunk)
                if size > _MOST:
                    raise Unanswered("longer than any summary")
                copy.feed(chunk)
        heard = copy.heard()
        if not heard.whole:
            raise Unanswered("it broke off")
        return heard
