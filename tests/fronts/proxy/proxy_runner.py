"""A proxy in this process, on a real socket, and clients that see every byte."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace

from aiohttp import web

from ebbtide.config import load_settings
from ebbtide.fronts.proxy.identity import Identity, IncomingRequest, identify_request
from ebbtide.fronts.proxy.meters import JsonLog, Meters
from ebbtide.fronts.proxy.options import Options
from ebbtide.fronts.proxy.server import Proxy, runner_for
from ebbtide.fronts.proxy.sessions import EngineSettings, ProxySession
from ebbtide.policy import default
from ebbtide.store import Store
from ebbtide.wire.caller import identify_sender
from fronts.proxy.raw_upstream import RawUpstream

WAIT = 120.0
"""Seconds that anything may take before a test fails: a busy machine is slow, and no test asserts a time."""


class Running:
    """In a thread with an event loop of its own, as a process would have it."""

    def __init__(self, options: Options, store: Store | None = None, watch=None) -> None:
        self.log, self.watch = io.StringIO(), watch
        self.options, self.store = options, store
        self._begun = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="proxy")

    async def _serve(self) -> None:
        self.loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self.proxy = Proxy(self.options, Meters(JsonLog(self.log), self.watch), self.store)
        runner = runner_for(self.proxy)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = runner.addresses[0][1]
        self._begun.set()
        await self._stop.wait()
        await runner.cleanup()
        await self.proxy.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def lines(self) -> list[dict]:
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    @property
    def busy(self) -> bool:
        return bool(self.proxy.engine.threads.is_busy or self.proxy.meters.in_flight)

    def settle(self) -> None:
        """Until what is recorded behind the client's back is recorded."""

        async def quiet() -> None:
            async with asyncio.timeout(WAIT):
                while self.busy:
                    await asyncio.sleep(0.005)

        asyncio.run_coroutine_threadsafe(quiet(), self.loop).result(WAIT)

    def limit(self, seconds: float) -> None:
        """From now on a turn with nothing to take out has so long."""
        self.proxy.engine.options = replace(self.options, idle_limit=seconds)

    def __enter__(self) -> Running:
        self._thread.start()
        assert self._begun.wait(WAIT)
        return self

    def __exit__(self, *failed: object) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(WAIT)
        assert not self._thread.is_alive()


def options(upstream: str, **more: object) -> Options:
    """Limits that a busy machine keeps; tests of limits give their own."""
    told = {name: more.pop(name) for name in ("window", "policy", "store", "durable") if name in more}
    told |= {"store": os.fspath(told["store"])} if "store" in told else {}
    settings = load_settings(arguments=told, environ={"EBB_HOME": str(more.pop("home", "")) or "unused"})
    usual = {"idle_limit": WAIT, "acting_limit": WAIT, "drain": 2.0, "asks_for_windows": False}
    return Options(settings=settings, upstreams={"upstream": upstream}, **{**usual, **more})


@contextmanager
def proxied(upstream: str, **more: object):
    kept, watch = more.pop("kept", None), more.pop("watch", None)
    with Running(options(upstream, **more), kept, watch) as running:
        yield running


@contextmanager
def beside(script, store: object, **more: object):
    """An upstream that plays bytes, and a proxy before it."""
    with RawUpstream(script) as upstream, proxied(upstream.url, store=str(store), **more) as running:
        yield upstream, running


def exchange(port: int, method: str, path: str, body: bytes | None = None, headers: dict | None = None):
    """Status, headers and bytes of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def post(port: int, path: str, body: object, **headers: str):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    status, _, answer = exchange(port, "POST", path, raw, {"content-type": "application/json", **told})
    return status, answer


def until(true: Callable[[], object]) -> None:
    """What other threads and processes bring about comes when it comes."""
    end = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.01)


def get(port: int, path: str, **headers: str):
    status, _, answer = exchange(port, "GET", path, None, headers)
    return status, json.loads(answer)


def identify(wire: str, address: str, headers: dict[str, str], body: dict) -> IncomingRequest:
    path, _, query = address.partition("?")
    return identify_request(wire, path, identify_sender(headers, query), body)


def new_session(store: Store | None = None) -> ProxySession:
    origin = IncomingRequest(
        wire="anthropic", identity=Identity("tenant", "client", "lane"), opening="", ids=frozenset(), model="",
        wants_stream=False, can_read_files=True, side_request="",
    )  # fmt: skip
    engine = EngineSettings(policy=default, window_for=lambda _: 30_000, store=store)
    return ProxySession(origin=origin, engine=engine)
