"""The server: loopback only, one process, one person. What it serves besides JSON is the built page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files

from aiohttp import web

from ebbtide.fronts.ui.guard import LOGIN, Guard, ignore_expectation, sign
from ebbtide.fronts.ui.routes import Desk, failing

HOST = "127.0.0.1"
_TYPES = {"js": "text/javascript", "css": "text/css", "html": "text/html", "svg": "image/svg+xml"}
_LARGEST = 64 * 1024
"""Bytes of a request's body: a token or the name of a batch."""


def app_of(desk: Desk, guard: Guard) -> web.Application:
    app = web.Application(middlewares=[failing, guard.middleware], client_max_size=_LARGEST)
    app.on_response_prepare.append(sign)
    app.add_routes([*desk.routes(), web.post(LOGIN, guard.login, expect_handler=ignore_expectation), *_pages()])
    return app


def _pages() -> list[web.RouteDef]:
    """Each built file under its own name, read once: no path of a request ever reaches the disk."""
    built = files(__package__) / "static"
    return [_page("/" if one.name == "index.html" else f"/{one.name}", one.name, one.read_bytes())
            for one in built.iterdir() if one.name.rpartition(".")[2] in _TYPES]  # fmt: skip


def _page(path: str, name: str, data: bytes) -> web.RouteDef:
    kind = _TYPES[name.rpartition(".")[2]]

    async def page(_: web.Request) -> web.Response:
        return web.Response(body=data, content_type=kind, charset="utf-8")

    return web.get(path, page, expect_handler=ignore_expectation)


@asynccontextmanager
async def serving(desk: Desk, *, port: int = 0) -> AsyncIterator[Guard]:
    """Listens until left. The guard knows the address."""
    guard = Guard()
    # A page that follows a session keeps its stream open: nobody waits for it at the end.
    runner = web.AppRunner(app_of(desk, guard), access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, port)
        await site.start()
        guard.port = runner.addresses[0][1]
        yield guard
    finally:
        await runner.cleanup()
        desk.library.close()


async def serve(desk: Desk, *, port: int, ready: Callable[[Guard], None]) -> None:
    async with serving(desk, port=port) as guard:
        ready(guard)
        await asyncio.Event().wait()
