"""Decide from its headers whether a request is admitted, before its body is read.

A web page must not reach a proxy on loopback: DNS rebinding shows in `Host`, a page in `Origin` or `Sec-Fetch-Site`.
If the address is not loopback, or a token is set, every request must carry the token.
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
"""For clients that cannot send a header: their base URL is `http://host:port/ebb/t/TOKEN`."""
_MIN_TOKEN_LENGTH = 16
"""Characters. A shorter token can be guessed."""


class Admission(NamedTuple):
    status: int
    """0 if the request is admitted."""
    reason: str
    path: str
    """Without the token."""


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_address(options: Options) -> None:
    """Raise `BadConfig` if anyone on the network could use the proxy."""
    if options.token and len(options.token) < _MIN_TOKEN_LENGTH:
        raise BadConfig(f"--token needs at least {_MIN_TOKEN_LENGTH} characters")
    if not is_loopback(options.host) and not options.token:
        raise BadConfig(f"{options.host} can be reached from other machines: set --token, or listen on 127.0.0.1")


def admit(options: Options, path: str, headers: Mapping[str, str]) -> Admission:
    """Decide by the raw path and the headers (names in lower case)."""
    if not path.startswith("/"):
        # `GET http://elsewhere/` would make us an open proxy.
        return Admission(400, "the request names another host", path)
    if _has_parent_step(path):
        # An upstream may be one folder of a gateway whose other folders are not ours to reach.
        return Admission(400, "the path contains '..'", path)
    if not _is_own_host(options, headers.get("host", "")):
        return Admission(403, "Host is not a name of this proxy: see --allow-host", path)
    origin = headers.get("origin")
    if origin is not None and origin not in options.allow_origins:
        return Admission(403, "web pages may not call this proxy: see --allow-origin", path)
    if origin is None and headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return Admission(403, "web pages may not call this proxy", path)
    return _check_token(options.token, path, headers)


def _has_parent_step(path: str) -> bool:
    """Whether the path has `..` in it, plain or after one or two rounds of percent-decoding."""
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
        return Admission(
            401, f"this proxy needs its token: send {TOKEN_HEADER}, or put {TOKEN_PATH}TOKEN before the path", path
        )
    return Admission(0, "", path)


def _is_own_host(options: Options, host: str) -> bool:
    name = host.rpartition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    return name.lower() in {*LOOPBACK_NAMES, options.host, *(host.lower() for host in options.allow_hosts)}
