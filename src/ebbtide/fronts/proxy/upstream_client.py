"""Bytes go on as they came, both ways: headers, query, body, and each chunk when it comes.

Dropped are only the headers that belong to one connection (RFC 9110, 7.6.1), our own, and `Host`, which is the
upstream's. No redirect is followed, no cookie kept, nothing decompressed, nothing retried.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from ebbtide.fronts.proxy.guard import TOKEN_HEADER

_HOP_BY_HOP = frozenset(
    {
        *("connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    }
)
_NOT_FORWARDED = frozenset({"host", "content-length", "expect", TOKEN_HEADER})
"""Of a request: written anew, or meant for us."""
_BODY_HEADERS = frozenset({"content-encoding", "content-md5", "digest", "content-digest"})
"""What says how a body is written, and is no longer so once it was edited."""
_REQUEST_IDS = ("Idempotency-Key", "X-Stainless-Retry-Count", "X-Client-Request-Id")
"""What names one request: a second one under the same name would get the first one's answer."""
_LIBRARY_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
"""What the client library would add."""
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""What no header may hold; some upstreams send it all the same."""
_MAX_HEADER_BYTES = 64 << 10
"""Bytes of a header; tokens of some gateways have 10,000."""


def open_client() -> aiohttp.ClientSession:
    """One for all upstreams: connections are kept and shared, and nobody waits for a free one."""
    return aiohttp.ClientSession(
        auto_decompress=False,
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=_LIBRARY_HEADERS,
        # A model may think for an hour. Who waits for it decides how long, and we go when they go.
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),
        max_line_size=_MAX_HEADER_BYTES,
        max_field_size=_MAX_HEADER_BYTES,
    )


def request_headers(raw: Iterable[tuple[bytes, bytes]], *, is_edited: bool) -> CIMultiDict[str]:
    """As they came, in order and in their own case."""
    headers = _decode(raw)
    dropped = (
        _HOP_BY_HOP | _NOT_FORWARDED | _connection_headers(headers) | (_BODY_HEADERS if is_edited else frozenset())
    )
    return CIMultiDict((name, value) for name, value in headers if name.lower() not in dropped)


def question_headers(raw: Iterable[tuple[bytes, bytes]]) -> CIMultiDict[str]:
    """For a request of ours that stands beside the client's: its credential and its versions, in the clear."""
    headers = request_headers(raw, is_edited=True)
    for name in _REQUEST_IDS:
        headers.popall(name, None)
    headers["Content-Type"], headers["Accept-Encoding"] = "application/json", "identity"
    return headers


def response_headers(raw: Iterable[tuple[bytes, bytes]]) -> CIMultiDict[str]:
    headers = _decode(raw)
    dropped = _HOP_BY_HOP | _connection_headers(headers)
    return CIMultiDict((name, value) for name, value in headers if name.lower() not in dropped)


def _decode(raw: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    return [(_text(name), _text(value)) for name, value in raw]


def _text(raw: bytes) -> str:
    """What can be written again: bytes that are no UTF-8 are Latin-1 (RFC 9110, 5.5), control characters are blanks."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return _CONTROL.sub(" ", text)


def _connection_headers(headers: list[tuple[str, str]]) -> frozenset[str]:
    values = [value for name, value in headers if name.lower() == "connection"]
    return frozenset(one.strip().lower() for value in values for one in value.split(","))


def send(
    session: aiohttp.ClientSession, request: web.BaseRequest, url: str, body: bytes | AsyncIterator[bytes] | None,
    *, is_edited: bool = False, has_recall_tools: bool = False,
) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:  # fmt: skip
    headers = request_headers(request.raw_headers, is_edited=is_edited)
    if has_recall_tools:
        headers["Accept-Encoding"] = "identity"  # its answer has to be read before it goes on
    if not isinstance(body, bytes) and "content-length" in request.headers:
        headers["Content-Length"] = request.headers["content-length"]
    return session.request(request.method, URL(url, encoded=True), headers=headers, data=body, allow_redirects=False)


class RelayedResponse(web.StreamResponse):
    """An upstream's answer on its way to the client."""

    upstream_headers: frozenset[str] = frozenset()
    """Names of its upstream's headers."""
    is_broken_off: bool = False
    """By its upstream, before its end."""


async def relay(
    request: web.BaseRequest,
    answer: aiohttp.ClientResponse,
    first_chunks: Sequence[bytes] = (),
    on_chunk: Callable[[bytes], None] = lambda _: None,
) -> web.StreamResponse:
    """Send the answer to the client: first the chunks read already, then each as it arrives.

    A slow client slows the upstream. If the upstream breaks off, so do we: the client must not take a part for a whole.
    """
    response = copy_response(answer)
    await response.prepare(request)
    for chunk in first_chunks:
        on_chunk(chunk)
        await response.write(chunk)
    try:
        async for chunk in answer.content.iter_any():
            on_chunk(chunk)
            await response.write(chunk)
    except aiohttp.ClientError:
        return break_off(request, response)
    await response.write_eof()
    return response


def copy_response(answer: aiohttp.ClientResponse, *dropped: str) -> RelayedResponse:
    """Status and headers of an answer, without those that are named."""
    response = RelayedResponse(status=answer.status, reason=answer.reason, headers=response_headers(answer.raw_headers))
    for name in dropped:
        response.headers.popall(name, None)
    response.upstream_headers = frozenset(name.lower() for name in response.headers)
    return response


def break_off(request: web.BaseRequest, response: RelayedResponse) -> RelayedResponse:
    """After what is written, and without the mark of an end."""
    response.is_broken_off = True
    if request.transport is not None:
        request.transport.close()
    return response


async def drop_added_headers(_: web.BaseRequest, response: web.StreamResponse) -> None:
    """Take back what the server library added to an upstream's headers."""
    if not isinstance(response, RelayedResponse):
        return
    for added in ("Server", "Date", "Content-Type"):
        if added.lower() not in response.upstream_headers:
            response.headers.pop(added, None)
