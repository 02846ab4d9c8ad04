"""Choose the upstream of a request. Requests are sent to configured addresses only.

One upstream gets every path. Of several, the first path segment may name one, as in `/anthropic/v1/messages`; if not,
the path decides, then the kind of credential.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from ebbtide.core.errors import BadConfig

PROVIDERS: Mapping[str, str] = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com",
    "gemini": "https://generativelanguage.googleapis.com",
    "vertex": "https://aiplatform.googleapis.com",
}
"""The upstreams if none is configured. Vertex has one for each location; this is the one of the location `global`."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}\Z")
_PATHS = (
    (re.compile(r"/model/[^/]+/(converse|invoke)"), "bedrock"),
    (re.compile(r"/v1/(messages|complete)\b"), "anthropic"),
    (re.compile(r"/v1(beta1)?/(projects|publishers)/"), "vertex"),
    (re.compile(r"/v1(alpha|beta)|/v1/(tuned)?[mM]odels/[^/]+:\w"), "gemini"),
    (re.compile(r"/(v1/)?(chat/completions|responses|embeddings|completions)\b"), "openai"),
)
_CREDENTIALS = (("x-goog-api-key", "gemini"), ("anthropic-version", "anthropic"), ("x-api-key", "anthropic"))


class Target(NamedTuple):
    name: str
    url: str
    """With the path and query of the request."""


def check_upstream(name: str, address: str) -> tuple[str, str]:
    """Check a name and its address, and drop a slash at the end. Raises `BadConfig`."""
    parts = urlsplit(address)
    if not _NAME.match(name):
        raise BadConfig(f"upstream {name[:40]!r}: use lower-case letters, digits, '-' and '_' in a name")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise BadConfig(f"upstream {name}: {address[:200]!r} is not an address such as https://api.example.com")
    return name, address.rstrip("/")


def find_target(upstreams: Mapping[str, str], path: str, headers: Mapping[str, str]) -> Target | None:
    """Return where to send a request; None if no upstream serves its path. `path` is raw and includes the query."""
    first, _, rest = path[1:].partition("/")
    if first in upstreams:
        return Target(first, _join(upstreams[first], f"/{rest}"))
    if len(upstreams) == 1:
        name, address = next(iter(upstreams.items()))
        return Target(name, _join(address, path))
    name = _upstream_for(path.partition("?")[0], headers)
    return Target(name, _join(upstreams[name], path)) if name in upstreams else None


def _upstream_for(path: str, headers: Mapping[str, str]) -> str:
    for pattern, name in _PATHS:
        if pattern.search(path):
            return name
    return next((name for header, name in _CREDENTIALS if header in headers), "openai")


def _join(address: str, path: str) -> str:
    """Join address and path. If both have `/v1`, keep one."""
    if address.endswith("/v1") and (path + "/").startswith("/v1/"):
        return address + path[3:]
    return address + path
