"""Bytes go on as they came, both ways: headers, query, body, and each chunk when it comes.

Dropped are only the headers that belong to one connection (RFC 9110, 7.6.1), our own, and `Host`, which is the
upstream's. No redirect is followed, no cookie kept, nothing decompressed, nothing retried.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from ebbtide.fronts.proxy.guard import TOKEN_HEADER

_HOP = frozenset(
    {
        *("connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    }
)
_OURS = frozenset({"host", "content-length", "expect", TOKEN_HEADER})
"""Of a request: written anew, or meant for us."""
_OF_THE_BODY = frozenset({"content-encoding", "content-md5", "digest", "content-digest"})
"""What says how a body is written, and is no longer so once it was edited."""
_ITS_OWN = ("Idempotency-Key", "X-Stainless-Retry-Count", "X-Client-Request-Id")
"""What names one request: a second one under the same name would get the first one's answer."""
_AUTOMATIC = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
"""What the client library would add."""
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""What no header may hold; some upstreams send it all the same."""
_FIELD = 64 << 10
"""Bytes of a header; tokens of some gateways have 10,000."""


def client() -> aiohttp.ClientSession:
    """One for all upstreams: connections are kept and shared, and nobody waits for a free one."""
    return aiohttp.ClientSession(
        auto_decompress=False,
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=_AUTOMATIC,
        # A model may think for an hour. Who waits for it decides how long, and we go when they go.
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),
        max_line_size=_FIELD,
        max_field_size=_FIELD,
    )


def request_headers(raw: Iterable[tuple[bytes, bytes]], *, edited: bool) -> CIMultiDict[str]:
    """As they came, in order and in their own case."""
    given = _decoded(raw)
    gone = _HOP | _OURS | _named_by_connection(given) | (_OF_THE_BODY if edited else frozenset())
    return CIMultiDict((name, value) for name, value in given if name.lower() not in gone)


def question_headers(raw: Iterable[tuple[bytes, bytes]]) -> CIMultiDict[str]:
    """For a request of ours that stands beside the client's: its credential and its versions, in the clear."""
    headers = request_headers(raw, edited=True)
    for name in _ITS_OWN:
        headers.popall(name, None)
    headers["Content-Type"], headers["Accept-Encoding"] = "application/json", "identity"
    return headers


def response_headers(raw: Iterable[tuple[bytes, bytes]]) -> CIMultiDict[str]:
    given = _decoded(raw)
    gone = _HOP | _named_by_connection(given)
    return CIMultiDict((name, value) for name, value in given if name.lower() not in gone)


def _decoded(raw: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    return [(_text(name), _text(value)) for name, value in raw]


def _text(raw: bytes) -> str:
    """What can be written again: bytes that are no UTF-8 are Latin-1 (RFC 9110, 5.5), control characters are blanks."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return _CONTROL.sub(" ", text)


def _named_by_connection(given: list[tuple[str, str]]) -> frozenset[str]:
    told = [value for name, value in given if name.lower() == "connection"]
    return frozenset(one.strip().lower() for value in told for one in value.split(","))


def send(
    session: aiohttp.ClientSession, request: web.BaseRequest, url: str, body: bytes | AsyncIterator[bytes] | None,
    *, edited: bool = False, armed: bool = False,
) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:  # fmt: skip
    headers = request_headers(request.raw_headers, edited=edited)
    if armed:
        headers["Accept-Encoding"] = "identity"  # its answer has to be read before it goes on
    if not isinstance(body, bytes) and "content-length" in request.headers:
        headers["Content-Length"] = request.headers["content-length"]
    return session.request(request.method, URL(url, encoded=True), headers=headers, data=body, allow_redirects=False)


class Relayed(web.StreamResponse):
    """An upstream's answer on its way to the client."""

    own: frozenset[str] = frozenset()
    """Names of its upstream's headers."""
    broken_off: bool = False
    """By its upstream, before its end."""


async def pump(
    request: web.BaseRequest, answer: aiohttp.ClientResponse, held: list[bytes], listen: Callable[[bytes], None]
) -> web.StreamResponse:
    """The answer to the client: what was held back, then each chunk as it comes. A slow client slows the upstream.

    Where the upstream breaks off, so do we: an answer that looks whole and is not would be a lie.
    """
    response = relayed(answer)
    await response.prepare(request)
    for chunk in held:
        listen(chunk)
        await response.write(chunk)
    try:
        async for chunk in answer.content.iter_any():
            listen(chunk)
            await response.write(chunk)
    except aiohttp.ClientError:
        return break_off(request, response)
    await response.write_eof()
    return response


def relayed(answer: aiohttp.ClientResponse, *gone: str) -> Relayed:
    """Status and headers of an answer, without those that are named."""
    response = Relayed(status=answer.status, reason=answer.reason, headers=response_headers(answer.raw_headers))
    for name in gone:
        response.headers.popall(name, None)
    response.own = frozenset(name.lower() for name in response.headers)
    return response


def break_off(request: web.BaseRequest, response: Relayed) -> Relayed:
    """After what is written, and without the mark of an end."""
    response.broken_off = True
    if request.transport is not None:
        request.transport.close()
    return response


async def only_its_own(_: web.BaseRequest, response: web.StreamResponse) -> None:
    """Take back what the server library added to an upstream's headers."""
    if not isinstance(response, Relayed):
        return
    for added in ("Server", "Date", "Content-Type"):
        if added.lower() not in response.own:
            response.headers.pop(added, None)
