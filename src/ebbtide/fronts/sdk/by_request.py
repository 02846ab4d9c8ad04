"""Wrap a client without middleware by overriding `request`, the one method that all its calls go through.

The override is in a derived class with the same name; nothing of the SDK is changed. It runs above the SDK's retries,
and below streaming helpers, tool runners, parsing and raw responses.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import cache
from typing import Protocol, TypeVar, cast

from ebbtide.fronts.sdk.answers import aaccept_answer, accept_answer
from ebbtide.fronts.sdk.call_gate import CallGate, GatedCall, read_call
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


Send = Callable[[Options], object]
AsyncSend = Callable[[Options], Awaitable[object]]


def wrap_by_request(client: T, gate: CallGate, *, is_async: bool) -> T:
    """Return a copy of the client whose calls pass through the gate, and whose copies' calls do too."""
    wrapped = cast(Callable[[], T], client.copy)()  # type: ignore[attr-defined]
    base = cast(Hashable, type(wrapped))
    wrapped.__class__ = _async_class(base) if is_async else _sync_class(base)
    _bind(wrapped, gate)
    return wrapped


def _bind(client: object, gate: CallGate) -> None:
    setattr(client, _GATE, gate)
    client.ebbtide = gate.sessions_of(client)  # type: ignore[attr-defined]


def find_request_gate(client: object) -> CallGate | None:
    """Return the gate of a wrapped client; None for any other client."""
    gate: CallGate | None = getattr(client, _GATE, None)
    return gate


@cache
def _sync_class(base: type) -> type:
    def request(self: object, cast_to: object, options: Options, *args: object, **kwargs: object) -> object:
        send = cast(Callable[..., object], base.request)  # type: ignore[attr-defined]
        return _send(self, options, lambda new_options: send(self, cast_to, new_options, *args, **kwargs))

    return _derive(base, request)


@cache
def _async_class(base: type) -> type:
    async def request(self: object, cast_to: object, options: Options, *args: object, **kwargs: object) -> object:
        send = cast(Callable[..., Awaitable[object]], base.request)  # type: ignore[attr-defined]
        return await _asend(self, options, lambda new_options: send(self, cast_to, new_options, *args, **kwargs))

    return _derive(base, request)


def _derive(base: type, request: Callable[..., object]) -> type:
    def copy_client(self: object, *args: object, **options: object) -> object:
        new = cast(Callable[..., object], base.copy)(self, *args, **options)  # type: ignore[attr-defined]
        _bind(new, getattr(self, _GATE))
        return new

    members = {"request": request, "copy": copy_client, "with_options": copy_client, "__module__": base.__module__}
    return type(base.__name__, (base,), {**members, "__qualname__": base.__qualname__, "__doc__": base.__doc__})


def _send(client: object, options: Options, send: Send) -> object:
    gate: CallGate = getattr(client, _GATE)
    call = _read_call(client, options)
    gated = gate.prepare(call) if call else None
    if gated is None:
        return send(options)
    try:
        answer = send(_with_body(options, gated))
    except Exception as error:
        if not gated.shrink_after(error):
            raise
        answer = send(_with_body(options, gated))
    accept_answer(gated, answer)
    return answer


async def _asend(client: object, options: Options, send: AsyncSend) -> object:
    gate: CallGate = getattr(client, _GATE)
    call = _read_call(client, options)
    gated = await gate.aprepare(call) if call else None
    if gated is None:
        return await send(options)
    try:
        answer = await send(_with_body(options, gated))
    except Exception as error:
        if not await gated.ashrink_after(error):
            raise
        answer = await send(_with_body(options, gated))
    await aaccept_answer(gated, answer)
    return answer


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
