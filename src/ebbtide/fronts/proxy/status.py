"""What a proxy tells about itself, to whoever the guard let in. Numbers and names of sessions; never a word of one.

`GET /ebb/summary` is all conversations together, `GET /ebb/sessions` each of them, the newest last.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from aiohttp import web

from ebbtide import __version__
from ebbtide.fronts.proxy.meters import Meters
from ebbtide.fronts.proxy.options import Options
from ebbtide.fronts.proxy.sessions import Sessions, Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    address: str
    options: Options
    meters: Meters
    sessions: Sessions


def page(method: str, path: str, about: About) -> web.Response | None:
    """One of our own pages; None for a path that is an upstream's."""
    if path not in _PAGES and not path.startswith("/ebb/"):
        return None
    if path not in _PAGES:
        return web.json_response({"error": f"there are {', '.join(_PAGES)}"}, status=404)
    if method not in ("GET", "HEAD"):
        return web.json_response({"error": "GET only"}, status=405, headers={"Allow": "GET, HEAD"})
    return _PAGES[path](about)


def _health(about: About) -> web.Response:
    return web.json_response({"status": "ok", "version": __version__, "in_flight": about.meters.in_flight})


def _metrics(about: About) -> web.Response:
    return web.Response(text=about.meters.prometheus(), content_type="text/plain", charset="utf-8")


def summary(about: About) -> dict[str, object]:
    return {
        "listening": about.address,
        "version": __version__,
        "upstreams": dict(about.options.upstreams),
        "shadow": about.options.shadow,
        "seconds": round(time.time() - about.meters.started, 1),
        "sessions": about.sessions.begun,
        **about.meters.total.as_dict(),
    }


def _summary(about: About) -> web.Response:
    return web.json_response(summary(about))


def _sessions(about: About) -> web.Response:
    return web.json_response({"sessions": [_told(slot) for slot in about.sessions]})


def _told(slot: Slot) -> dict[str, object]:
    tally = slot.tally
    return {
        "session": slot.identity.session,
        "project": slot.identity.project,
        "wire": slot.wire,
        "model": slot.model,
        "window": slot.context.window if slot.context else slot.window,
        "tokens_before": tally.last_before,
        "tokens_after": tally.last_after,
        "last_at": round(tally.last_at, 3),
        **tally.as_dict(),
    }


_PAGES = {"/healthz": _health, "/metrics": _metrics, "/ebb/summary": _summary, "/ebb/sessions": _sessions}
