"""Protects the inspector: only the user at this machine, on this page, with the token of this run, gets answers.

Other programs and other websites can reach a loopback port too. A website cannot read our answers, but it can guess
the port, point its own name to our address (DNS rebinding) or send a form. So the Host must be ours, an Origin must be
ours if there is one, and everything but the empty page needs a cookie, which is only given for the token.
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
        # The page never makes markup from text; with this the browser refuses it as well.
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
    """The secrets of one run. The token is in the fragment of the address, which browsers do not send."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _single_use: set[str] = field(default_factory=set, repr=False)
    port: int = 0
    """Known once the server listens."""

    @property
    def cookie_name(self) -> str:
        """Cookies are shared between ports, so each inspector has its own name."""
        return f"ebb_ui_{self.port}"

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/#token={self.token}"

    def single_use_url(self) -> str:
        """For a browser that we start: every user of this machine can see the arguments of its command."""
        token = secrets.token_urlsafe(32)
        self._single_use.add(token)
        return f"http://127.0.0.1:{self.port}/#token={token}"

    @property
    def _hosts(self) -> tuple[str, ...]:
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        reason = self.refusal_reason(request)
        if reason:
            return web.json_response({"error": reason}, status=403 if reason != "log in" else 401)
        return await handler(request)

    def refusal_reason(self, request: web.Request) -> str:
        """Return why this request gets no answer, or ''."""
        if request.host not in self._hosts:
            return "wrong host"
        origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "none")
        if origin is not None and origin not in [f"http://{host}" for host in self._hosts]:
            return "wrong origin"
        if site not in ("same-origin", "none"):
            # A link to the page itself is allowed; nothing else may be fetched from another site.
            return "" if request.path == "/" and request.method == "GET" else "wrong origin"
        if request.method not in ("GET", "HEAD") and (origin is None or request.content_type != "application/json"):
            # A form on another website can send neither.
            return "wrong origin"
        if not request.path.startswith("/api/") or request.path == LOGIN:
            return ""
        cookie = request.cookies.get(self.cookie_name, "")
        return "" if _is_same(cookie, self._cookie) else "log in"

    def _is_valid_token(self, token: str) -> bool:
        if token in self._single_use:
            self._single_use.discard(token)
            return True
        return _is_same(token, self.token)

    async def login(self, request: web.Request) -> web.Response:
        """Exchange the token for a cookie that scripts cannot read."""
        token = (await read_json(request)).get("token")
        if not isinstance(token, str) or not self._is_valid_token(token):
            return web.json_response({"error": "wrong token"}, status=403)
        answer = web.json_response({"ok": True})
        answer.set_cookie(self.cookie_name, self._cookie, httponly=True, samesite="Strict", path="/")
        return answer


def _is_same(value: str, secret: str) -> bool:
    """Compare in constant time. Invalid bytes arrive as surrogates, which must not raise an error."""
    return hmac.compare_digest(value.encode("utf-8", "surrogatepass"), secret.encode())


async def read_json(request: web.Request) -> dict[str, object]:
    """Read a JSON object; raise BadRequest for any other body. The charset in the header is ignored."""
    try:
        value = json.loads(await request.read())
    except (ValueError, RecursionError) as error:
        raise BadRequest("the body must be a JSON object") from error
    if not isinstance(value, dict):
        raise BadRequest("the body must be a JSON object")
    return value


async def ignore_expect(_: web.Request) -> None:
    """Answer without asking for the body first."""


async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
    """Add the security headers to every answer, also to errors."""
    response.headers.update(HEADERS)
    response.headers.popall("Server", None)
