"""A store with a session in it, an inspector over it, and a person who asks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from ebbtide.fronts.ui.guard import Guard
from ebbtide.fronts.ui.library import Library, Setting
from ebbtide.fronts.ui.routes import Inspector
from ebbtide.fronts.ui.server import running_server
from ebbtide.runtime import Context
from ebbtide.store import open_store
from runtime.sessions import Clock, body, call, loop, result

WINDOW = 20_000
SECRET = "sk-ant-REDACTED-ME-abcdefghijklmnop"
__all__ = ["SECRET", "WINDOW", "BilledAgent", "Clock", "call", "library", "loop", "page", "result", "running"]


class BilledAgent:
    """An agent whose conversation is kept in a store, and billed as a provider with a cache would."""

    def __init__(self, root: Path, *, session: str = "nightly", project: str = "/home/me/tides", **more: Any) -> None:
        self.clock = Clock()
        options = {"model": "claude-opus-4-5", "window": WINDOW, "marks": True, **more}
        self.context = Context(store=root, session=session, project=project, clock=self.clock, **options)
        self.messages: list[Any] = [{"role": "user", "content": "fix the gauge / 修好潮位计"}]
        self.before = 0

    def step(self, n: int, *, output: str = "", lines: int = 120, pause: float = 10.0) -> None:
        """One request and its answer, a call; then the call's result joins the history."""
        self.clock.tick(pause)
        ready = self.context.prepare(body(self.messages))
        spent = {"input_tokens": 50, "output_tokens": 30, "cache_read_input_tokens": self.before}
        now = ready.report.tokens_after
        spent["cache_creation_input_tokens"] = max(0, now - self.before)
        warm = not ready.report.edits
        if not warm:
            spent |= {"cache_read_input_tokens": 0, "cache_creation_input_tokens": now}
        self.before = now
        said = call(n)
        self.context.record({"role": "assistant", "content": said["content"], "usage": spent, "type": "message"})
        answer = result(n, lines)
        if output:
            answer["content"][0]["content"] = output
        self.messages += [said, answer]

    def steps(self, count: int, first: int = 0, **more: Any) -> BilledAgent:
        for n in range(first, first + count):
            self.step(n, **more)
        return self


def library(root: Path, *files: str, window: int = WINDOW) -> Library:
    setting = Setting(policy="default", window=window)
    return Library(open_store(root), files=files, setting=setting, window_for=lambda _: window)


class Person:
    """Asks a running inspector, logged in or not."""

    def __init__(self, http: aiohttp.ClientSession, guard: Guard) -> None:
        self.http, self.guard, self.base = http, guard, f"http://127.0.0.1:{guard.port}"
        self.origin = {"Origin": self.base}

    async def login(self, token: str | None = None) -> int:
        async with self.http.post(
            f"{self.base}/api/login", json={"token": self.guard.token if token is None else token}, headers=self.origin
        ) as answer:
            return answer.status

    async def get(self, path: str, **query: Any) -> Any:
        async with self.http.get(f"{self.base}/api/{path}", params={k: str(v) for k, v in query.items()}) as answer:
            told = await answer.json()
            assert answer.status == 200, told
            return told

    async def status(self, method: str, path: str, **more: Any) -> int:
        async with self.http.request(method, f"{self.base}{path}", **more) as answer:
            return answer.status

    async def post(self, path: str, **sent: Any) -> tuple[int, Any]:
        async with self.http.post(f"{self.base}/api/{path}", json=sent, headers=self.origin) as answer:
            return answer.status, await answer.json()


class page:
    """A running inspector and a person who is logged in."""

    def __init__(self, found: Library, *, allow_undo: bool = False, log_in: bool = True) -> None:
        self._serving = running_server(Inspector(library=found, allow_undo=allow_undo))
        self._log_in = log_in

    async def __aenter__(self) -> Person:
        guard = await self._serving.__aenter__()
        self._http = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=120), cookie_jar=aiohttp.CookieJar(unsafe=True)
        )
        person = Person(self._http, guard)
        if self._log_in:
            assert await person.login() == 200
        return person

    async def __aexit__(self, *failed: Any) -> None:
        await self._http.close()
        await self._serving.__aexit__(*failed)


@contextmanager
def running(found: Library, *, allow_undo: bool = False) -> Iterator[str]:
    """The inspector in a thread of its own, for a browser; gives the address."""
    up, down, told = threading.Event(), asyncio.Event(), dict[str, Any]()

    async def run() -> None:
        told["loop"] = asyncio.get_running_loop()
        async with running_server(Inspector(library=found, allow_undo=allow_undo)) as guard:
            told["address"] = guard.address
            up.set()
            await down.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert up.wait(120)
    try:
        yield str(told["address"])
    finally:
        told["loop"].call_soon_threadsafe(down.set)
        thread.join(120)
