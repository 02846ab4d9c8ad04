"""The inspector's HTTP server, on loopback only: the JSON API and the built page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files

from aiohttp import web

from ebbtide.fronts.ui.guard import LOGIN, Guard, add_headers, ignore_expect
from ebbtide.fronts.ui.routes import Inspector, errors_as_json

HOST = "127.0.0.1"
_CONTENT_TYPES = {"js": "text/javascript", "css": "text/css", "html": "text/html", "svg": "image/svg+xml"}
_MAX_BODY = 64 * 1024
"""Bytes of a request's body: a token or the id of a batch."""


def make_app(inspector: Inspector, guard: Guard) -> web.Application:
    app = web.Application(middlewares=[errors_as_json, guard.middleware], client_max_size=_MAX_BODY)
    app.on_response_prepare.append(add_headers)
    app.add_routes([*inspector.routes(), web.post(LOGIN, guard.login, expect_handler=ignore_expect), *_page_routes()])
    return app


def _page_routes() -> list[web.RouteDef]:
    """Read each built file once: no path from a request ever reaches the disk."""
    built = files(__package__) / "static"
    return [
        _page_route(file.name, file.read_bytes())
        for file in built.iterdir()
        if file.name.rpartition(".")[2] in _CONTENT_TYPES
    ]


def _page_route(name: str, data: bytes) -> web.RouteDef:
    path, kind = "/" if name == "index.html" else f"/{name}", _CONTENT_TYPES[name.rpartition(".")[2]]

    async def page(_: web.Request) -> web.Response:
        return web.Response(body=data, content_type=kind, charset="utf-8")

    return web.get(path, page, expect_handler=ignore_expect)


@asynccontextmanager
async def running_server(inspector: Inspector, *, port: int = 0) -> AsyncIterator[Guard]:
    """Serve until the block ends. The guard knows the address."""
    guard = Guard()
    # A page that follows a session keeps its stream open: do not wait for it at the end.
    runner = web.AppRunner(make_app(inspector, guard), access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, port)
        await site.start()
        guard.port = runner.addresses[0][1]
        yield guard
    finally:
        await runner.cleanup()
        inspector.library.close()


async def serve(inspector: Inspector, *, port: int, on_ready: Callable[[Guard], None]) -> None:
    async with running_server(inspector, port=port) as guard:
        on_ready(guard)
        await asyncio.Event().wait()
