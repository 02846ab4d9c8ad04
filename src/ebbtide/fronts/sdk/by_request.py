"""Wrap a client without middleware by overriding `request`, the one method that all its calls go through.

The override is in a derived class with the same name; nothing of the SDK is changed. It runs above the SDK's retries,
and below streaming helpers, tool runners, parsing and raw responses. To answer recall calls it also sees each HTTP
response before the SDK reads it.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Protocol, TypeVar, cast

from ebbtide.fronts.sdk.answers import aaccept_answer, accept_answer, attach_report
from ebbtide.fronts.sdk.call_gate import CallGate, GatedCall, read_call
from ebbtide.fronts.sdk.recall_answers import ReadableResponse, RecallAnswer
from ebbtide.fronts.sdk.sessions import ModelCall

T = TypeVar("T")

_GATE = "_ebbtide_gate"


class Options(Protocol):
    """`FinalRequestOptions` of both SDKs."""

    method: str
    url: str
    json_data: object
    extra_json: object
    headers: object


Parse = Callable[[ReadableResponse], object]
"""What the SDK makes of an HTTP response, or an awaitable of it."""
OnResponse = Callable[[ReadableResponse, Parse], object]

_ON_RESPONSE: ContextVar[OnResponse | None] = ContextVar("ebbtide_on_response", default=None)
"""Gets the HTTP response of the request that is being sent, before the SDK reads it."""


def wrap_by_request(client: T, gate: CallGate, *, is_async: bool) -> T:
    """Return a copy of the client whose calls pass through the gate, and whose copies' calls do too."""
    wrapped = cast(Callable[[], T], client.copy)()  # type: ignore[attr-defined]
    base = cast(Hashable, type(wrapped))
    wrapped.__class__ = _async_class(base) if is_async else _sync_class(base)
    bind_gate(wrapped, gate)
    return wrapped


def bind_gate(client: object, gate: CallGate, *, credential_of: object = None) -> None:
    """Let the client know its gate and its sessions. The credential may be that of another object."""
    setattr(client, _GATE, gate)
    client.ebbtide = gate.sessions_of(credential_of or client)  # type: ignore[attr-defined]


def find_request_gate(client: object) -> CallGate | None:
    """Return the gate of a wrapped client; None for any other client."""
    gate: CallGate | None = getattr(client, _GATE, None)
    return gate


def can_answer_recalls(client: object) -> bool:
    """Tell whether we can see the responses of this client before it reads them."""
    return callable(getattr(client, "_process_response", None))


@cache
def _sync_class(base: type) -> type:
    send_request = cast(Callable[..., object], base.request)  # type: ignore[attr-defined]

    def request(self: object, cast_to: object, options: Options, *args: object, **kwargs: object) -> object:
        gate: CallGate = getattr(self, _GATE)
        call = _read_call(self, options)
        gated = gate.prepare(call) if call else None
        if gated is None:
            return send_request(self, cast_to, options, *args, **kwargs)

        def send(next_call: GatedCall, on_response: OnResponse | None = None) -> object:
            with _on_response(on_response):
                try:
                    return send_request(self, cast_to, _with_body(options, next_call), *args, **kwargs)
                except Exception as error:
                    if not next_call.shrink_after(error):
                        raise
                return send_request(self, cast_to, _with_body(options, next_call), *args, **kwargs)

        if not gated.has_recall_tools:
            value = send(gated)
            accept_answer(gated, value)
            return value
        answer = RecallAnswer(gated)

        def send_next(next_call: GatedCall) -> ReadableResponse:
            return cast(ReadableResponse, send(next_call, lambda response, _: response))

        value = send(gated, lambda response, parse: parse(answer.show(response, send_next)))
        attach_report(value, answer.gated.report)
        return value

    def process_response(self: object, *, response: ReadableResponse, **options: object) -> object:
        process = cast(Callable[..., object], base._process_response)  # type: ignore[attr-defined]
        on_response = _ON_RESPONSE.get()
        parse: Parse = lambda shown: process(self, response=shown, **options)  # noqa: E731
        return on_response(response, parse) if on_response else parse(response)

    return _derive(base, request, process_response)


@cache
def _async_class(base: type) -> type:
    send_request = cast(Callable[..., Awaitable[object]], base.request)  # type: ignore[attr-defined]

    async def request(self: object, cast_to: object, options: Options, *args: object, **kwargs: object) -> object:
        gate: CallGate = getattr(self, _GATE)
        call = _read_call(self, options)
        gated = await gate.aprepare(call) if call else None
        if gated is None:
            return await send_request(self, cast_to, options, *args, **kwargs)

        async def send(next_call: GatedCall, on_response: OnResponse | None = None) -> object:
            with _on_response(on_response):
                try:
                    return await send_request(self, cast_to, _with_body(options, next_call), *args, **kwargs)
                except Exception as error:
                    if not await next_call.ashrink_after(error):
                        raise
                return await send_request(self, cast_to, _with_body(options, next_call), *args, **kwargs)

        if not gated.has_recall_tools:
            value = await send(gated)
            await aaccept_answer(gated, value)
            return value
        answer = RecallAnswer(gated)

        async def send_next(next_call: GatedCall) -> ReadableResponse:
            return cast(ReadableResponse, await send(next_call, lambda response, _: response))

        async def show(response: ReadableResponse, parse: Parse) -> object:
            return await cast(Awaitable[object], parse(await answer.ashow(response, send_next)))

        value = await send(gated, show)
        attach_report(value, answer.gated.report)
        return value

    async def process_response(self: object, *, response: ReadableResponse, **options: object) -> object:
        process = cast(Callable[..., object], base._process_response)  # type: ignore[attr-defined]
        on_response = _ON_RESPONSE.get()
        parse: Parse = lambda shown: process(self, response=shown, **options)  # noqa: E731
        result = on_response(response, parse) if on_response else parse(response)
        return await result if isinstance(result, Awaitable) else result

    return _derive(base, request, process_response)


@contextmanager
def _on_response(on_response: OnResponse | None) -> Iterator[None]:
    token = _ON_RESPONSE.set(on_response)
    try:
        yield
    finally:
        _ON_RESPONSE.reset(token)


def _derive(base: type, request: Callable[..., object], process_response: Callable[..., object]) -> type:
    def copy_client(self: object, *args: object, **options: object) -> object:
        new = cast(Callable[..., object], base.copy)(self, *args, **options)  # type: ignore[attr-defined]
        bind_gate(new, getattr(self, _GATE))
        return new

    members: dict[str, object] = {"request": request, "copy": copy_client, "with_options": copy_client}
    if can_answer_recalls(base):
        members["_process_response"] = process_response
    members |= {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    return type(base.__name__, (base,), members)


def _read_call(client: object, options: Options) -> ModelCall | None:
    body = options.json_data
    if isinstance(body, Mapping) and isinstance(options.extra_json, Mapping):
        body = {**body, **options.extra_json}  # `extra_body`, which the SDK merges in as well
    headers = options.headers if isinstance(options.headers, Mapping) else {}
    return read_call(client, options.method, options.url, body, headers)


def _with_body(options: Options, gated: GatedCall) -> Options:
    if gated.body is gated.call.body:
        return options
    new_options = copy.copy(options)
    new_options.json_data, new_options.extra_json = gated.body, None
    return new_options
