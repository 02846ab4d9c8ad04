"""Who may talk to us is decided first, by headers alone, before a byte of a body is read.

A web page must not reach a proxy on loopback: a name that was rebound shows in `Host`, a page in `Origin` or
`Sec-Fetch-Site`. Where the address is not loopback, or a token was set, every request has to carry it.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote

from ebbtide.core.errors import BadConfig
from ebbtide.fronts.proxy.options import LOOPBACK_NAMES, Options

TOKEN_HEADER = "x-ebb-token"  # noqa: S105 - a name
TOKEN_PATH = "/ebb/t/"  # noqa: S105
"""Every client has a base URL, not every one a way to send a header: `http://host:port/ebb/t/TOKEN`."""
_MIN_TOKEN_LENGTH = 16
"""Characters of a token: what can be guessed protects nothing."""


class Admission(NamedTuple):
    status: int
    """0: come in."""
    reason: str
    path: str
    """Without the token."""


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_address(options: Options) -> None:
    """Refuse to start where anybody could use it."""
    if options.token and len(options.token) < _MIN_TOKEN_LENGTH:
        raise BadConfig(f"--token: at least {_MIN_TOKEN_LENGTH} characters")
    if not is_loopback(options.host) and not options.token:
        raise BadConfig(f"{options.host} can be reached by others: --token is needed for that, or use 127.0.0.1")


def admit(options: Options, path: str, headers: Mapping[str, str]) -> Admission:
    """Whether a request may come in, by its raw path and its headers (names in lower case)."""
    if not path.startswith("/"):
        # `GET http://elsewhere/` would make us an open proxy.
        return Admission(400, "the request names another host", path)
    if _has_parent_step(path):
        # An upstream may be a folder of a gateway, and what lies beside it is somebody else's.
        return Admission(400, "the path has '..' in it", path)
    if not _is_own_host(options, headers.get("host", "")):
        return Admission(403, "Host is not a name of this proxy: see --allow-host", path)
    origin = headers.get("origin")
    if origin is not None and origin not in options.allow_origins:
        return Admission(403, "web pages may not call this proxy: see --allow-origin", path)
    if origin is None and headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return Admission(403, "web pages may not call this proxy", path)
    return _check_token(options.token, path, headers)


def _has_parent_step(path: str) -> bool:
    """Whether a server that reads the path once or twice would see a step up in it."""
    path = path.partition("?")[0]
    if ".." not in path and "%" not in path:
        return False
    for _ in range(2):
        path = unquote(path)
        if ".." in path.replace("\\", "/").split("/"):
            return True
    return False


def _check_token(token: str, path: str, headers: Mapping[str, str]) -> Admission:
    token_sent = headers.get(TOKEN_HEADER, "")
    if path.startswith(TOKEN_PATH):
        in_path, _, rest = path.removeprefix(TOKEN_PATH).partition("/")
        token_sent, path = token_sent or in_path, f"/{rest}"
    if token and not hmac.compare_digest(token_sent.encode("utf-8", "replace"), token.encode()):
        return Admission(401, f"this proxy wants its token: {TOKEN_HEADER}, or {TOKEN_PATH}TOKEN before the path", path)
    return Admission(0, "", path)


def _is_own_host(options: Options, host: str) -> bool:
    name = host.rpartition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    return name.lower() in {*LOOPBACK_NAMES, options.host, *(one.lower() for one in options.allow_hosts)}
