"""The proxy's own pages: health, metrics, and totals as JSON. They have numbers and names of sessions, no content.

`GET /ebb/summary` has the totals of all sessions, `GET /ebb/sessions` each session, the newest last.
"""

from __future__ import annotations

import time
from typing import Protocol

from aiohttp import web

from ebbtide import __version__
from ebbtide.fronts.proxy.meters import Meters
from ebbtide.fronts.proxy.options import Options
from ebbtide.fronts.proxy.sessions import ProxySession, Sessions


class ProxyInfo(Protocol):
    """What these pages need to know of a proxy."""

    address: str
    options: Options
    meters: Meters
    sessions: Sessions


def own_page(method: str, path: str, proxy: ProxyInfo) -> web.Response | None:
    """Return the page at this path; None if the path belongs to an upstream."""
    if path not in _PAGES and not path.startswith("/ebb/"):
        return None
    if path not in _PAGES:
        return web.json_response({"error": f"no such page; there are {', '.join(_PAGES)}"}, status=404)
    if method not in ("GET", "HEAD"):
        return web.json_response({"error": "GET only"}, status=405, headers={"Allow": "GET, HEAD"})
    return _PAGES[path](proxy)


def _health(proxy: ProxyInfo) -> web.Response:
    return web.json_response({"status": "ok", "version": __version__, "in_flight": proxy.meters.in_flight})


def _metrics(proxy: ProxyInfo) -> web.Response:
    return web.Response(text=proxy.meters.prometheus(), content_type="text/plain", charset="utf-8")


def _summary(proxy: ProxyInfo) -> web.Response:
    totals = {
        "listening": proxy.address,
        "version": __version__,
        "upstreams": dict(proxy.options.upstreams),
        "shadow": proxy.options.shadow,
        "seconds": round(time.time() - proxy.meters.started, 1),
        "sessions": proxy.sessions.started,
        **proxy.meters.total.as_dict(),
    }
    return web.json_response(totals)


def _sessions(proxy: ProxyInfo) -> web.Response:
    return web.json_response({"sessions": [_session_fields(session) for session in proxy.sessions]})


def _session_fields(session: ProxySession) -> dict[str, object]:
    tally = session.tally
    return {
        "session": session.identity.session,
        "project": session.identity.project,
        "wire": session.wire,
        "model": session.model,
        "window": session.context.window if session.context else session.window,
        "tokens_before": tally.last_before,
        "tokens_after": tally.last_after,
        "last_at": round(tally.last_at, 3),
        **tally.as_dict(),
    }


_PAGES = {"/healthz": _health, "/metrics": _metrics, "/ebb/summary": _summary, "/ebb/sessions": _sessions}
