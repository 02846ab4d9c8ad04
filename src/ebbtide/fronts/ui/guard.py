"""Who may ask: the person at this machine, from this page, with the token of this run. Nobody else is told why not.

Other programs and other people's pages can reach a loopback port, too. A page of theirs cannot read our answers, but it
can guess our port, name our address as its own (DNS rebinding) or send a form. So the Host must be ours, an Origin must
be ours if there is one, and everything but the bare page needs a cookie that is given for the token alone.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web

from ebbtide.core.errors import BadRequest

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_CSP = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # The page makes no markup out of text anywhere; this way the browser refuses it, too.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": _CSP,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
LOGIN = "/api/login"


@dataclass(slots=True)
class Guard:
    """One run's secrets. The token stands in the address's fragment, which no browser sends and no log holds."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _single_use: set[str] = field(default_factory=set, repr=False)
    port: int = 0
    """Known once the server listens."""

    @property
    def cookie_name(self) -> str:
        """Cookies are shared between ports: two inspectors must not log each other out."""
        return f"ebb_ui_{self.port}"

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/#token={self.token}"

    def address_for_one_login(self) -> str:
        """For a browser that we start: everybody on this machine can see what programs are started with."""
        token = secrets.token_urlsafe(32)
        self._single_use.add(token)
        return f"http://127.0.0.1:{self.port}/#token={token}"

    @property
    def _hosts(self) -> tuple[str, ...]:
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        why = self.refuses(request)
        if why:
            return web.json_response({"error": why}, status=403 if why != "log in" else 401)
        return await handler(request)

    def refuses(self, request: web.Request) -> str:
        """Why this request is not answered; empty where it is."""
        if request.host not in self._hosts:
            return "wrong host"
        origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "none")
        if origin is not None and origin not in [f"http://{host}" for host in self._hosts]:
            return "wrong origin"
        if site not in ("same-origin", "none"):
            # Somebody may follow a link to the page itself; nothing else is fetched from elsewhere.
            return "" if request.path == "/" and request.method == "GET" else "wrong origin"
        if request.method not in ("GET", "HEAD") and (origin is None or request.content_type != "application/json"):
            # A form of another page can send neither.
            return "wrong origin"
        if not request.path.startswith("/api/") or request.path == LOGIN:
            return ""
        given = request.cookies.get(self.cookie_name, "")
        return "" if _is_same(given, self._cookie) else "log in"

    def _admits(self, given: str) -> bool:
        if given in self._single_use:
            self._single_use.discard(given)
            return True
        return _is_same(given, self.token)

    async def login(self, request: web.Request) -> web.Response:
        """The token for a cookie that scripts cannot read."""
        given = (await read_json(request)).get("token")
        if not isinstance(given, str) or not self._admits(given):
            return web.json_response({"error": "wrong token"}, status=403)
        answer = web.json_response({"ok": True})
        answer.set_cookie(self.cookie_name, self._cookie, httponly=True, samesite="Strict", path="/")
        return answer


def _is_same(given: str, secret: str) -> bool:
    """Bytes that are no text come as surrogates, in a cookie as in JSON: they are wrong like any other wrong secret."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode())


async def read_json(request: web.Request) -> dict[str, object]:
    """A body that is a JSON object; BadRequest for any other. Which charset its header names does not matter."""
    try:
        value = json.loads(await request.read())
    except (ValueError, RecursionError) as error:
        raise BadRequest("the body must be a JSON object") from error
    if not isinstance(value, dict):
        raise BadRequest("the body must be a JSON object")
    return value


async def ignore_expectation(_: web.Request) -> None:
    """Any `Expect` header: the answer comes without asking for the body first."""


async def sign(_: web.Request, response: web.StreamResponse) -> None:
    """On every answer, errors included."""
    response.headers.update(HEADERS)
    response.headers.popall("Server", None)
