"""The other processes of `proxy.py`: a provider that streams, and a pass-through that does nothing else.

    python benchmarks/proxy_parts.py provider
    python benchmarks/proxy_parts.py passing URL

Each prints its address in its first line, and exits when its standard input is closed.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys

import aiohttp
from aiohttp import web

CHUNKS = 200
"""Events of a short answer."""
HOP = {"connection", "transfer-encoding", "keep-alive", "host", "content-length"}


def event(delta: dict[str, object], **more: object) -> bytes:
    told = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "small"}
    choices = [] if more else [{"index": 0, "delta": delta, "finish_reason": None}]
    return b"data: " + json.dumps({**told, "choices": choices, **more}).encode() + b"\n\n"


# All different: LiteLLM ends a stream that repeats itself.
PIECES = tuple(event({"role": "assistant", "content": f"word {n} "}) for n in range(CHUNKS))
END = PIECES[0].replace(b'"finish_reason": null', b'"finish_reason": "stop"')
USAGE = event({}, usage={"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18})


KINDS = {200: (CHUNKS, 0.0), 201: (20, 0.1), 202: (1000, 0.001), 203: (20, 0.0)}
"""Number of events, and seconds before each, by the request's `max_tokens`: at once, slowly, each alone, and few."""
_KIND = re.compile(rb'"max_tokens": ?(\d+)')


async def answered(request: web.Request) -> web.StreamResponse:
    """Reads the whole body, then streams."""
    found = _KIND.search(await request.read())
    events, apart = KINDS[int(found[1]) if found else 200]
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for at in range(events):
        await response.write(PIECES[at % CHUNKS])
        if apart:
            await asyncio.sleep(apart)
    await response.write(END + USAGE + b"data: [DONE]\n\n")
    await response.write_eof()
    return response


class Passing:
    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._client: aiohttp.ClientSession | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self._client is None:
            self._client = aiohttp.ClientSession(auto_decompress=False, connector=aiohttp.TCPConnector(limit=0))
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP}
        body = await request.read()
        async with self._client.post(self._upstream + request.path, data=body, headers=headers) as answer:
            told = {name: value for name, value in answer.headers.items() if name.lower() not in HOP}
            response = web.StreamResponse(status=answer.status, headers=told)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response


async def serve(handle: object) -> None:
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{path:.*}", handle)  # type: ignore[arg-type]
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    print(json.dumps({"listening": f"http://127.0.0.1:{runner.addresses[0][1]}"}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve(answered if sys.argv[1] == "provider" else Passing(sys.argv[2]).handle))
