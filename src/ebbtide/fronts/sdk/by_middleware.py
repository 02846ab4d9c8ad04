"""Wrap Anthropic's client by its own middleware, which runs once for each attempt, below the SDK's retries."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Protocol, TypeVar, cast

from ebbtide.fronts.sdk.answers import aaccept_answer, accept_answer, attach_report
from ebbtide.fronts.sdk.call_gate import CallGate, GatedCall, read_call
from ebbtide.fronts.sdk.recall_answers import ReadableResponse, RecallAnswer
from ebbtide.fronts.sdk.sessions import ModelCall


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


class Response(Protocol):
    """Anthropic's `APIResponse` and `AsyncAPIResponse`."""

    http_response: ReadableResponse
    parse: Callable[[], object]


class Refusal(Exception):
    """The provider's error, in the form in which overflows are looked for."""

    def __init__(self, status_code: int, body: str) -> None:
        super().__init__(f"HTTP {status_code}")
        self.status_code, self.body = status_code, body


T = TypeVar("T")


def wrap_by_middleware(client: T, gate: CallGate, *, is_async: bool) -> T:
    """Return a copy of the client whose calls pass through the gate, and whose copies' calls do too."""
    middleware: Middleware | AsyncMiddleware = AsyncMiddleware(gate) if is_async else Middleware(gate)
    with_middleware = cast(Callable[..., T], client.with_middleware)  # type: ignore[attr-defined]
    return _bind(with_middleware(middleware), middleware)


def _bind(client: T, middleware: Middleware | AsyncMiddleware) -> T:
    """Let the middleware read its client's credential. A copy of the client may have another, so it gets its own."""
    reference = weakref.ref(client)
    middleware.client = reference
    copy = cast(Callable[..., T], type(client).copy)  # type: ignore[attr-defined]

    def copy_client(**options: object) -> T:
        new = type(middleware)(middleware.gate)
        given = options.get("middleware")
        chain = given if isinstance(given, list | tuple) else getattr(reference(), "middleware", ())
        options["middleware"] = [new if link is middleware else link for link in chain]
        return _bind(copy(reference(), **options), new)

    client.copy = client.with_options = copy_client  # type: ignore[attr-defined]
    client.ebbtide = middleware.gate.sessions_of(client)  # type: ignore[attr-defined]
    return client


def find_middleware_gate(client: object) -> CallGate | None:
    """Return the gate of a wrapped client; None for any other client."""
    links = getattr(client, "_middleware", None) or ()
    return next((link.gate for link in links if isinstance(link, GateMiddleware)), None)


class GateMiddleware:
    def __init__(self, gate: CallGate) -> None:
        self.gate = gate
        self.client: Callable[[], object] = lambda: None


class Middleware(GateMiddleware):
    def __call__(self, request: Request, call_next: Callable[[Request], Response]) -> Response:
        call = _read_call(self.client(), request)
        gated = self.gate.prepare(call) if call else None
        if gated is None:
            return call_next(request)
        response = call_next(_with_body(request, gated))
        if response.http_response.status_code >= 400:
            refusal = Refusal(response.http_response.status_code, _text(response.http_response.read()))
            if not gated.shrink_after(refusal):
                return response
            response = call_next(_with_body(request, gated))
        if response.http_response.status_code < 400:
            if gated.has_recall_tools:
                gated = _answer_recalls(gated, request, response, call_next)
            else:
                accept_answer(gated, response)
        if _can_parse(request, response):
            with suppress(Exception):  # the SDK parses again and raises its own error
                attach_report(response.parse(), gated.report)
        return response


class AsyncMiddleware(GateMiddleware):
    async def __call__(self, request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        call = _read_call(self.client(), request)
        gated = await self.gate.aprepare(call) if call else None
        if gated is None:
            return await call_next(request)
        response = await call_next(_with_body(request, gated))
        if response.http_response.status_code >= 400:
            refusal = Refusal(response.http_response.status_code, _text(await response.http_response.aread()))
            if not await gated.ashrink_after(refusal):
                return response
            response = await call_next(_with_body(request, gated))
        if response.http_response.status_code < 400:
            if gated.has_recall_tools:
                gated = await _aanswer_recalls(gated, request, response, call_next)
            else:
                await aaccept_answer(gated, response)
        if _can_parse(request, response):
            with suppress(Exception):
                parsed = response.parse()
                attach_report(await parsed if isinstance(parsed, Awaitable) else parsed, gated.report)
        return response


def _answer_recalls(
    gated: GatedCall, request: Request, response: Response, call_next: Callable[[Request], Response]
) -> GatedCall:
    """Answer the recall calls in this response, and let it show what the caller gets. Return the newest request."""

    def send(next_call: GatedCall) -> ReadableResponse:
        http = call_next(_with_body(request, next_call)).http_response
        if http.status_code < 400 or not next_call.shrink_after(Refusal(http.status_code, _text(http.read()))):
            return http
        return call_next(_with_body(request, next_call)).http_response

    answer = RecallAnswer(gated)
    response.http_response = answer.show(response.http_response, send)
    attach_report(response, answer.gated.report)
    return answer.gated


async def _aanswer_recalls(
    gated: GatedCall, request: Request, response: Response, call_next: Callable[[Request], Awaitable[Response]]
) -> GatedCall:
    async def send(next_call: GatedCall) -> ReadableResponse:
        http = (await call_next(_with_body(request, next_call))).http_response
        if http.status_code < 400:
            return http
        refusal = Refusal(http.status_code, _text(await http.aread()))
        if not await next_call.ashrink_after(refusal):
            return http
        return (await call_next(_with_body(request, next_call))).http_response

    answer = RecallAnswer(gated)
    response.http_response = await answer.ashow(response.http_response, send)
    attach_report(response, answer.gated.report)
    return answer.gated


def _read_call(client: object, request: Request) -> ModelCall | None:
    is_retry = request.retries_taken > 0
    return read_call(client, request.method, request.url, request.json, request.headers, is_retry=is_retry)


def _with_body(request: Request, gated: GatedCall) -> Request:
    return request if gated.body is request.json else request.copy(body=gated.body)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _can_parse(request: Request, response: Response) -> bool:
    """Whether parsing reads only what the caller has asked for."""
    http = response.http_response
    return http.status_code < 400 and (request.stream or http.is_closed)
