"""The way into SDKs without middleware: the one method that every call of a client goes through, on a class of its own.

The class derives from the client's and bears its name; nothing of the SDK is changed. It stands above the SDK's
retries, and below streaming helpers, tool runners, parsing and raw responses.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import cache
from typing import Protocol, TypeVar, cast

from ebbtide.fronts.sdk.gate import Gate, Passage, wire_of
from ebbtide.fronts.sdk.lanes import Body, Call
from ebbtide.fronts.sdk.owner import owner_of
from ebbtide.fronts.sdk.response_hooks import ataken, taken

T = TypeVar("T")

_GATE = "_ebbtide_gate"


class Options(Protocol):
    """`FinalRequestOptions`, of both SDKs."""

    method: str
    url: str
    json_data: object
    extra_json: object
    headers: object


Send = Callable[[Options], object]
ASend = Callable[[Options], Awaitable[object]]


def through(client: T, gate: Gate, *, is_async: bool) -> T:
    """A copy of the client whose calls pass the gate, and whose copies do too."""
    made = cast(Callable[[], T], client.copy)()  # type: ignore[attr-defined]
    kind = cast(Hashable, type(made))
    made.__class__ = _async_kind(kind) if is_async else _kind(kind)
    setattr(made, _GATE, gate)
    return made


def is_wrapped(client: object) -> bool:
    return hasattr(client, _GATE)


@cache
def _kind(kind: type) -> type:
    def request(self: object, cast_to: object, options: Options, *more: object, **how: object) -> object:
        send = cast(Callable[..., object], kind.request)  # type: ignore[attr-defined]
        return _sent(self, options, lambda filled: send(self, cast_to, filled, *more, **how))

    return _derived(kind, request)


@cache
def _async_kind(kind: type) -> type:
    async def request(self: object, cast_to: object, options: Options, *more: object, **how: object) -> object:
        send = cast(Callable[..., Awaitable[object]], kind.request)  # type: ignore[attr-defined]
        return await _asent(self, options, lambda filled: send(self, cast_to, filled, *more, **how))

    return _derived(kind, request)


def _derived(kind: type, request: Callable[..., object]) -> type:
    def copied(self: object, *given: object, **options: object) -> object:
        made = cast(Callable[..., object], kind.copy)(self, *given, **options)  # type: ignore[attr-defined]
        setattr(made, _GATE, getattr(self, _GATE))
        return made

    members = {"request": request, "copy": copied, "with_options": copied, "__module__": kind.__module__}
    return type(kind.__name__, (kind,), {**members, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__})


def _sent(client: object, options: Options, send: Send) -> object:
    gate: Gate = getattr(client, _GATE)
    call = _call(client, options)
    passage = gate.enter(call) if call else None
    if call is None or passage is None:
        return send(options)
    try:
        told = send(_filled(options, call, passage))
    except Exception as error:
        if not passage.overflowed(error):
            raise
        told = send(_filled(options, call, passage))
    taken(passage, told)
    return told


async def _asent(client: object, options: Options, send: ASend) -> object:
    gate: Gate = getattr(client, _GATE)
    call = _call(client, options)
    passage = await gate.aenter(call) if call else None
    if call is None or passage is None:
        return await send(options)
    try:
        told = await send(_filled(options, call, passage))
    except Exception as error:
        if not await passage.aoverflowed(error):
            raise
        told = await send(_filled(options, call, passage))
    await ataken(passage, told)
    return told


def _call(client: object, options: Options) -> Call | None:
    wire = wire_of(options.method, options.url, options.json_data)
    if not wire:
        return None
    body = cast(Body, options.json_data)
    if isinstance(options.extra_json, Mapping):
        body = {**body, **options.extra_json}  # `extra_body`, which the SDK lays over it as well
    given = options.headers if isinstance(options.headers, Mapping) else {}
    kept = {name: value for name, value in given.items() if name.lower().endswith("-beta") and isinstance(value, str)}
    return Call(wire=wire, url=options.url, body=body, headers=kept, owner=owner_of(client, given, body))


def _filled(options: Options, call: Call, passage: Passage) -> Options:
    if passage.body is call.body:
        return options
    filled = copy.copy(options)
    filled.json_data, filled.extra_json = passage.body, None
    return filled
