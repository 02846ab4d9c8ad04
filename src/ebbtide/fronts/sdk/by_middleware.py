"""The official way into Anthropic's SDK: a middleware, once for each attempt, between its retries and the wire."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Protocol, TypeVar, cast

from ebbtide.fronts.sdk.gate import Gate, Passage, wire_of
from ebbtide.fronts.sdk.lanes import Body, Call
from ebbtide.fronts.sdk.owner import owner_of
from ebbtide.fronts.sdk.response_hooks import ataken, carry, taken


class Request(Protocol):
    """Anthropic's `APIRequest`."""

    @property
    def method(self) -> str: ...
    @property
    def url(self) -> str: ...
    @property
    def json(self) -> object: ...
    @property
    def headers(self) -> Mapping[str, object]: ...
    @property
    def stream(self) -> bool: ...
    @property
    def retries_taken(self) -> int: ...
    def copy(self, *, body: object) -> Request: ...


class Http(Protocol):
    status_code: int
    is_closed: bool

    def read(self) -> bytes: ...
    async def aread(self) -> bytes: ...


class Response(Protocol):
    """Anthropic's `APIResponse` and `AsyncAPIResponse`."""

    http_response: Http
    parse: Callable[[], object]


class Refusal(Exception):
    """What the provider said, in the form in which overflows are looked for."""

    def __init__(self, status_code: int, body: str) -> None:
        super().__init__(f"HTTP {status_code}")
        self.status_code, self.body = status_code, body


T = TypeVar("T")


def in_the_middle(client: T, gate: Gate, *, is_async: bool) -> T:
    """A copy of the client whose calls pass the gate, and whose copies do too."""
    ours: Middleware | AsyncMiddleware = AsyncMiddleware(gate) if is_async else Middleware(gate)
    make = cast(Callable[..., T], client.with_middleware)  # type: ignore[attr-defined]
    return _owned(make(ours), ours)


def _owned(client: T, ours: Middleware | AsyncMiddleware) -> T:
    """The middleware of a client reads its credential. A copy may have another, so it gets a middleware of its own."""
    known = weakref.ref(client)
    ours.client = known
    copy = cast(Callable[..., T], type(client).copy)  # type: ignore[attr-defined]

    def copied(**options: object) -> T:
        made = type(ours)(ours.gate)
        given = options.get("middleware")
        row = given if isinstance(given, list | tuple) else getattr(known(), "middleware", ())
        options["middleware"] = [made if one is ours else one for one in row]
        return _owned(copy(known(), **options), made)

    client.copy = client.with_options = copied  # type: ignore[attr-defined]
    return client


def _nobody() -> object:
    return None


class Middleware:
    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.client: Callable[[], object] = _nobody

    def __call__(self, request: Request, call_next: Callable[[Request], Response]) -> Response:
        call = _call(self.client(), request)
        passage = self.gate.enter(call) if call else None
        if passage is None:
            return call_next(request)
        response = call_next(_filled(request, passage))
        if response.http_response.status_code >= 400:
            refusal = _refusal(response, response.http_response.read())
            if not passage.overflowed(refusal):
                return response
            response = call_next(_filled(request, passage))
        if response.http_response.status_code < 400:
            taken(passage, response)
        if _is_at_hand(request, response):
            with suppress(Exception):  # The SDK parses again, and says itself what is wrong.
                carry(response.parse(), passage.report)
        return response


class AsyncMiddleware:
    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.client: Callable[[], object] = _nobody

    async def __call__(self, request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        call = _call(self.client(), request)
        passage = await self.gate.aenter(call) if call else None
        if passage is None:
            return await call_next(request)
        response = await call_next(_filled(request, passage))
        if response.http_response.status_code >= 400:
            refusal = _refusal(response, await response.http_response.aread())
            if not await passage.aoverflowed(refusal):
                return response
            response = await call_next(_filled(request, passage))
        if response.http_response.status_code < 400:
            await ataken(passage, response)
        if _is_at_hand(request, response):
            with suppress(Exception):
                parsed = response.parse()
                carry(await parsed if isinstance(parsed, Awaitable) else parsed, passage.report)
        return response


def _call(client: object, request: Request) -> Call | None:
    wire = wire_of(request.method, request.url, request.json)
    if not wire:
        return None
    body = cast(Body, request.json)
    betas = {name: value for name, value in request.headers.items() if name.lower() == "anthropic-beta"}
    return Call(
        wire=wire,
        url=request.url,
        body=body,
        headers={name: value for name, value in betas.items() if isinstance(value, str)},
        owner=owner_of(client, request.headers, body),
        again=request.retries_taken > 0,
    )


def _filled(request: Request, passage: Passage) -> Request:
    return request if passage.body is request.json else request.copy(body=passage.body)


def _refusal(response: Response, raw: bytes) -> Refusal:
    return Refusal(response.http_response.status_code, raw.decode("utf-8", "replace"))


def _is_at_hand(request: Request, response: Response) -> bool:
    """Whether parsing reads nothing that the caller did not ask to be read."""
    http = response.http_response
    return http.status_code < 400 and (request.stream or http.is_closed)
