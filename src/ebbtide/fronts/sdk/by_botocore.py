"""Wrap a `bedrock-runtime` client of boto3 or aioboto3 by overriding `_make_request`, through which its calls go.

The override is in a derived class with the same name; nothing of the SDK is changed. It runs after boto3 has checked
and written the request, and before it is signed, so a request that we change is signed as it is sent.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping
from functools import cache, partial
from typing import Any, TypeVar, cast

from ebbtide.fronts.sdk.answers import attach_report
from ebbtide.fronts.sdk.by_request import bind_gate
from ebbtide.fronts.sdk.call_gate import CallGate, GatedCall
from ebbtide.fronts.sdk.recall_answers import RecallAnswer, Received
from ebbtide.fronts.sdk.sessions import Body, ModelCall, identify_owner
from ebbtide.runtime import Report
from ebbtide.wire import WIRES
from ebbtide.wire.blocks import dumps
from ebbtide.wire.protocol import StreamAssembler
from ebbtide.wire.sse import EventReader

T = TypeVar("T")
Fields = dict[str, Any]
Answer = tuple[Any, Fields]
"""botocore's HTTP response, and what it read from it."""

_WIRE = WIRES["bedrock_converse"]
_OPERATIONS = frozenset(("Converse", "ConverseStream"))
_BINARY = frozenset(("redactedContent", "bytes"))
"""Fields that boto3 decodes from base64."""
_EVENT_STREAM = {"content-type": "text/event-stream"}


class ConverseResponse(dict[str, Any]):
    """boto3's response, with the report of its request as `_ebbtide`."""

    _ebbtide: Report


def is_bedrock(client: object) -> bool:
    """Tell whether this is a client of botocore or aiobotocore for Bedrock's models."""
    is_botocores = any(kind.__module__ in ("botocore.client", "aiobotocore.client") for kind in type(client).__mro__)
    return is_botocores and callable(getattr(client, "converse", None))


def wrap_bedrock(client: T, gate: CallGate) -> T:
    """Return a copy of the client, with the same connections, whose calls pass through the gate."""
    is_async = inspect.iscoroutinefunction(client._make_request)  # type: ignore[attr-defined]
    kind = cast(Hashable, type(client))
    wrapped: Any = object.__new__(_async_class(kind) if is_async else _sync_class(kind))
    wrapped.__dict__ |= client.__dict__
    wrapped._ebbtide_gated_by = gate
    wrapped._ebbtide_account = _identify_account(client)
    bind_gate(wrapped, gate, credential_of=wrapped._ebbtide_account)
    return cast(T, wrapped)


def is_async_client(client: object) -> bool:
    return inspect.iscoroutinefunction(getattr(client, "_make_request", None))


def ask_bedrock(client: Any, _call: ModelCall, request: Body) -> object:
    """Send a question to the model that it names."""
    return to_plain(client.converse(**from_plain(request)))


async def aask_bedrock(client: Any, _call: ModelCall, request: Body) -> object:
    return to_plain(await client.converse(**from_plain(request)))


def to_plain(value: Any) -> Any:
    """Return boto3's form of a request or a response as JSON: bytes become base64."""
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {name: to_plain(part) for name, part in value.items() if name != "ResponseMetadata"}
    return [to_plain(part) for part in value] if isinstance(value, list | tuple) else value


def from_plain(value: Any) -> Any:
    """Return JSON in boto3's form: the content of media and hidden thinking are bytes there."""
    if isinstance(value, Mapping):
        return {name: _decode(part) if name in _BINARY else from_plain(part) for name, part in value.items()}
    return [from_plain(part) for part in value] if isinstance(value, list) else value


def _decode(value: Any) -> Any:
    return base64.b64decode(value) if isinstance(value, str) else value


@cache
def _sync_class(base: type) -> type:
    make_request = cast(Callable[..., Answer], base._make_request)  # type: ignore[attr-defined]

    def _make_request(self: Any, operation_model: Any, request_dict: Fields, request_context: object) -> Answer:
        call = _read_call(self, operation_model, request_dict)
        gated = self._ebbtide_gated_by.prepare(call) if call else None
        if gated is None:
            return make_request(self, operation_model, request_dict, request_context)

        def send(next_call: GatedCall) -> Answer:
            start = partial(make_request, self, operation_model)
            answer = start(_with_body(request_dict, next_call), request_context)
            error = _refusal(answer)
            if error is None or not next_call.shrink_after(error):
                return answer
            return start(_with_body(request_dict, next_call), request_context)

        http, parsed = send(gated)
        if http.status_code >= 300:
            return http, parsed
        if not gated.has_recall_tools:
            return http, _accept(gated, parsed)
        return http, _answer_recalls(RecallAnswer(gated), parsed, send)

    return _derive(base, _make_request)


@cache
def _async_class(base: type) -> type:
    make_request = cast(Callable[..., Awaitable[Answer]], base._make_request)  # type: ignore[attr-defined]

    async def _make_request(self: Any, operation_model: Any, request_dict: Fields, request_context: object) -> Answer:
        call = _read_call(self, operation_model, request_dict)
        gated = await self._ebbtide_gated_by.aprepare(call) if call else None
        if gated is None:
            return await make_request(self, operation_model, request_dict, request_context)

        async def send(next_call: GatedCall) -> Answer:
            start = partial(make_request, self, operation_model)
            answer = await start(_with_body(request_dict, next_call), request_context)
            error = _refusal(answer)
            if error is None or not await next_call.ashrink_after(error):
                return answer
            return await start(_with_body(request_dict, next_call), request_context)

        http, parsed = await send(gated)
        if http.status_code >= 300:
            return http, parsed
        if not gated.has_recall_tools:
            return http, await asyncio.to_thread(_accept, gated, parsed)
        return http, await _aanswer_recalls(RecallAnswer(gated), parsed, send)

    return _derive(base, _make_request)


def _derive(base: type, make_request: Callable[..., object]) -> type:
    members = {"_make_request": make_request, "__module__": base.__module__, "__doc__": base.__doc__}
    return type(base.__name__, (base,), members)


def _read_call(client: Any, operation_model: Any, request_dict: Fields) -> ModelCall | None:
    """Return a call that has its conversation in it; None for any other, which is left alone."""
    if operation_model.name not in _OPERATIONS:
        return None
    try:
        body = json.loads(request_dict["body"])
    except (ValueError, TypeError, KeyError):
        return None
    if not isinstance(body, dict) or _WIRE.list_key not in body:
        return None
    path = str(request_dict.get("url_path", ""))
    whole = {"modelId": _WIRE.requests.model(path, {}), **body}
    owner = identify_owner(client._ebbtide_account, {}, whole)
    return ModelCall(wire=_WIRE.name, url=path, body=whole, headers={}, owner=owner)


def _identify_account(client: Any) -> _Account:
    """Return what identifies the account: keys that are replaced every hour do not."""
    signer = getattr(client, "_request_signer", None)
    credentials = getattr(signer, "_credentials", None)
    account = getattr(credentials, "account_id", None)
    key = None if getattr(credentials, "token", None) else getattr(credentials, "access_key", None)
    token = getattr(getattr(signer, "_auth_token", None), "token", None)
    return _Account(aws_profile=account, aws_access_key=None if account else key, auth_token=token)


class _Account:
    """Who pays for the calls of a client, in the names that `identify_owner` knows."""

    def __init__(self, **names: object) -> None:
        self.__dict__.update(names)


def _with_body(request_dict: Fields, gated: GatedCall) -> Fields:
    if gated.body is gated.call.body:
        return request_dict
    _, fields = _WIRE.requests.address(gated.call.url, gated.body, wants_stream=False)
    return {**request_dict, "body": dumps(fields).encode("utf-8", "replace")}


class _RefusalError(Exception):
    """A refusal of Bedrock, as boto3 would raise it."""

    def __init__(self, status_code: int, parsed: Fields) -> None:
        error = parsed.get("Error", {})
        super().__init__(f"{error.get('Code', '')}: {error.get('Message', '')}")
        self.status_code, self.body = status_code, {"message": error.get("Message", "")}


def _refusal(answer: Answer) -> _RefusalError | None:
    http, parsed = answer
    return _RefusalError(http.status_code, parsed) if http.status_code >= 300 else None


def _accept(gated: GatedCall, parsed: Fields) -> Fields:
    """The provider accepted the request: record the answer, now or once it is read."""
    gated.accept()
    stream = parsed.get("stream")
    if stream is None:
        gated.record(to_plain(parsed))
    else:
        _replace_events(stream, _record_async if hasattr(stream, "__aiter__") else _record, gated)
    return _with_report(parsed, gated.report)


def _with_report(parsed: Fields, report: Report) -> ConverseResponse:
    response = ConverseResponse(parsed)
    response._ebbtide = report
    attach_report(parsed.get("stream"), report)
    return response


# --- streams ----------------------------------------------------------------------------------------------------------


def _replace_events(stream: Any, make_events: Callable[..., object], *arguments: object) -> None:
    """Let the stream give other events. It keeps its type, its `close` and its connection."""
    events = _own_events(stream)
    stream.__class__ = _stream_class(cast(Hashable, type(stream)))
    stream._ebbtide_events = make_events(events, *arguments)


def _own_events(stream: Any) -> Any:
    return stream.__aiter__() if hasattr(stream, "__aiter__") else stream.__iter__()


@cache
def _stream_class(base: type) -> type:
    name = "__aiter__" if hasattr(base, "__aiter__") else "__iter__"
    members = {name: lambda self: self._ebbtide_events, "__module__": base.__module__, "__doc__": base.__doc__}
    return type(base.__name__, (base,), members)


def _record(events: Iterator[Fields], gated: GatedCall) -> Iterator[Fields]:
    assembler = _WIRE.replies.stream_assembler()
    try:
        for event in events:
            assembler.add(to_plain(event))
            yield event
    finally:
        _end(gated, assembler)


async def _record_async(events: AsyncIterator[Fields], gated: GatedCall) -> AsyncIterator[Fields]:
    assembler = _WIRE.replies.stream_assembler()
    try:
        async for event in events:
            assembler.add(to_plain(event))
            yield event
    finally:
        await asyncio.to_thread(_end, gated, assembler)


def _end(gated: GatedCall, assembler: StreamAssembler) -> None:
    if assembler.is_complete:
        gated.record(assembler.response())


# --- recall by tool ---------------------------------------------------------------------------------------------------


def _answer_recalls(recall: RecallAnswer, parsed: Fields, send: Callable[[GatedCall], Answer]) -> Fields:
    def send_next(next_call: GatedCall) -> Received:
        return _Received(*send(next_call))

    first = _Received(None, parsed)
    recall.begin(first)
    if parsed.get("stream") is None:
        shown = json.loads(b"".join(recall.parts(first, send_next)))
        return _with_report({**parsed, **from_plain(shown)}, recall.gated.report)

    def events(_: Iterator[Fields]) -> Iterator[Fields]:
        reader = EventReader()
        for part in recall.parts(first, send_next):
            for event in reader.feed(part):
                yield from_plain(json.loads(event.data))

    _replace_events(parsed["stream"], events)
    return _with_report(parsed, recall.gated.report)


async def _aanswer_recalls(
    recall: RecallAnswer, parsed: Fields, send: Callable[[GatedCall], Awaitable[Answer]]
) -> Fields:
    async def send_next(next_call: GatedCall) -> Received:
        return _Received(*await send(next_call))

    first = _Received(None, parsed)
    recall.begin(first)
    if parsed.get("stream") is None:
        shown = json.loads(b"".join([part async for part in recall.aparts(first, send_next)]))
        return _with_report({**parsed, **from_plain(shown)}, recall.gated.report)

    async def events(_: AsyncIterator[Fields]) -> AsyncIterator[Fields]:
        reader = EventReader()
        async for part in recall.aparts(first, send_next):
            for event in reader.feed(part):
                yield from_plain(json.loads(event.data))

    _replace_events(parsed["stream"], events)
    return _with_report(parsed, recall.gated.report)


class _Received:
    """An answer of botocore, read as the bytes of an HTTP response: JSON, or server-sent events for a stream."""

    def __init__(self, http: Any, parsed: Fields) -> None:
        self.status_code: int = 200 if http is None else http.status_code
        self._parsed, stream = parsed, parsed.get("stream")
        self._stream = stream
        self._events = None if stream is None else _own_events(stream)
        self.headers: object = {"content-type": "application/json"} if stream is None else _EVENT_STREAM

    def iter_bytes(self) -> Iterator[bytes]:
        if self._events is None:
            yield self.read()
            return
        for event in cast(Iterator[Fields], self._events):
            yield _write_event(event)

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        if self._events is None:
            yield self.read()
            return
        async for event in cast(AsyncIterator[Fields], self._events):
            yield _write_event(event)

    def read(self) -> bytes:
        error = self._parsed.get("Error")
        shown = {"error": {"message": error.get("Message", "")}} if isinstance(error, dict) else to_plain(self._parsed)
        return dumps(shown).encode()

    async def aread(self) -> bytes:
        return self.read()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    async def aclose(self) -> None:
        self.close()


def _write_event(event: Fields) -> bytes:
    return b"data: " + dumps(to_plain(event)).encode() + b"\n\n"
