"""Send requests and relay answers byte for byte: headers, query, body, and each chunk when it arrives.

Only headers that belong to one connection (RFC 9110, 7.6.1), our own, and `Host` are dropped. No redirect is followed,
no cookie kept, nothing decompressed, nothing retried.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncIterator, Callable, Sequence
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
"""Request headers that are written again, or meant for the proxy."""
_BODY_HEADERS = frozenset({"content-encoding", "content-md5", "digest", "content-digest"})
"""Headers that describe the body, and are wrong once it was edited."""
_REQUEST_IDS = ("Idempotency-Key", "X-Stainless-Retry-Count", "X-Client-Request-Id")
"""Headers that name one request: a second one with the same name could get the first one's answer."""
_LIBRARY_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
"""Headers that aiohttp would add."""
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""Not allowed in headers, but some upstreams send them."""
_MAX_HEADER_BYTES = 64 << 10
"""Some gateways' tokens have 10,000 bytes."""

RawHeaders = Sequence[tuple[bytes, bytes]]


def open_client() -> aiohttp.ClientSession:
    """Open one client for all upstreams. Connections are kept and shared, without a limit."""
    return aiohttp.ClientSession(
        auto_decompress=False,
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=_LIBRARY_HEADERS,
        # A model may think for an hour. The client decides how long to wait; we stop when it disconnects.
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),
        max_line_size=_MAX_HEADER_BYTES,
        max_field_size=_MAX_HEADER_BYTES,
    )


def request_headers(raw: RawHeaders, *, is_edited: bool) -> CIMultiDict[str]:
    return _copy_headers(raw, _NOT_FORWARDED | _BODY_HEADERS if is_edited else _NOT_FORWARDED)


def question_headers(raw: RawHeaders) -> CIMultiDict[str]:
    """Build headers for a question of our own: the client's credential and versions, without compression."""
    headers = request_headers(raw, is_edited=True)
    for name in _REQUEST_IDS:
        headers.popall(name, None)
    headers["Content-Type"], headers["Accept-Encoding"] = "application/json", "identity"
    return headers


def _copy_headers(raw: RawHeaders, dropped: frozenset[str] = frozenset()) -> CIMultiDict[str]:
    """Copy headers in order and with their case, but for these and those of one connection."""
    all_bytes = b"".join(itertools.chain.from_iterable(raw))
    is_plain = all_bytes.isascii() and not _CONTROL.search(all_bytes.decode())
    read = bytes.decode if is_plain else _text
    headers = [(read(name), read(value)) for name, value in raw]
    named = [value for name, value in headers if name.lower() == "connection"]
    dropped |= _HOP_BY_HOP | {name.strip().lower() for value in named for name in value.split(",")}
    return CIMultiDict((name, value) for name, value in headers if name.lower() not in dropped)


def _text(raw: bytes) -> str:
    """Decode as UTF-8, else Latin-1 (RFC 9110, 5.5), without characters that could not be written again."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return _CONTROL.sub(" ", text)


def send(
    session: aiohttp.ClientSession, request: web.BaseRequest, url: str, body: bytes | AsyncIterator[bytes] | None,
    *, is_edited: bool = False, has_recall_tools: bool = False,
) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:  # fmt: skip
    headers = request_headers(request.raw_headers, is_edited=is_edited)
    if has_recall_tools:
        headers["Accept-Encoding"] = "identity"  # we must read the answer before we pass it on
    if not isinstance(body, bytes) and "content-length" in request.headers:
        headers["Content-Length"] = request.headers["content-length"]
    return session.request(request.method, URL(url, encoded=True), headers=headers, data=body, allow_redirects=False)


class RelayedResponse(web.StreamResponse):
    """An upstream's answer that is sent on to the client."""

    _send_headers_immediately = False
    """What aiohttp's own responses set to have headers and first chunk sent in one packet."""
    upstream_headers: frozenset[str] = frozenset()
    """Names of the headers that the upstream sent."""
    is_broken_off: bool = False
    """Whether the upstream ended it too early."""

    async def start(self, request: web.BaseRequest, *, has_body: bool) -> None:
        """Prepare the headers. Send them now, unless there is something to send them with."""
        writer = await self.prepare(request)
        if writer is not None and not has_body:
            writer.send_headers()


async def relay(
    request: web.BaseRequest,
    answer: aiohttp.ClientResponse,
    first_chunks: Sequence[bytes] = (),
    on_chunk: Callable[[bytes], None] = lambda _: None,
) -> web.StreamResponse:
    """Send the answer to the client: first the chunks read already, then each as it arrives.

    A slow client slows the upstream. If the upstream breaks off, so do we: the client must not take a part for a whole.
    """
    response, content, chunk = copy_response(answer), answer.content, b"".join(first_chunks)
    await response.start(request, has_body=bool(chunk))
    try:
        while not content.at_eof():
            if chunk:
                on_chunk(chunk)
                await response.write(chunk)
            chunk = await content.readany()
    except aiohttp.ClientError:
        return break_off(request, response)
    on_chunk(chunk)
    await response.write_eof(chunk)
    return response


def copy_response(answer: aiohttp.ClientResponse, *dropped: str) -> RelayedResponse:
    """Start a response with the answer's status and headers, but for `dropped`."""
    response = RelayedResponse(status=answer.status, reason=answer.reason, headers=_copy_headers(answer.raw_headers))
    for name in dropped:
        response.headers.popall(name, None)
    response.upstream_headers = frozenset(name.lower() for name in response.headers)
    return response


def break_off(request: web.BaseRequest, response: RelayedResponse) -> RelayedResponse:
    """Close the connection without marking the end of the body, so that the client notices."""
    response.is_broken_off = True
    if request.transport is not None:
        request.transport.close()
    return response


async def drop_added_headers(_: web.BaseRequest, response: web.StreamResponse) -> None:
    """Remove headers that aiohttp added to an upstream's own."""
    if not isinstance(response, RelayedResponse):
        return
    for added in ("Server", "Date", "Content-Type"):
        if added.lower() not in response.upstream_headers:
            response.headers.pop(added, None)
