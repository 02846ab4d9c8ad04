"""Wrap Google's client by overriding the four methods of its API client through which all its requests go.

The API client that does so shares its state with the original. It runs above the SDK's retries, and below chats,
automatic function calling and streams.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, partial
from itertools import chain, islice
from typing import Any, Protocol, TypeVar, cast

from ebbtide.fronts.sdk.answers import attach_report
from ebbtide.fronts.sdk.by_request import bind_gate
from ebbtide.fronts.sdk.call_gate import CallGate, GatedCall
from ebbtide.fronts.sdk.recall_answers import RecallAnswer, Received
from ebbtide.fronts.sdk.sessions import Body, ModelCall, identify_owner
from ebbtide.runtime import Report
from ebbtide.wire import WIRES
from ebbtide.wire.sse import EventReader

T = TypeVar("T")

_WIRE = WIRES["gemini"]
_METHOD_IN_PATH = re.compile(r"(?s)(?<![^/:])[^/:]+:(?:g|streamG)enerateContent(?:\?.*)?\Z")
_REPORT: ContextVar[Report | None] = ContextVar("ebbtide_report", default=None)
"""The report on the request that was sent last, for the response that is made of its answer."""


class Answer(Protocol):
    """Google's `HttpResponse`: a whole response, or one event of a stream."""

    headers: Mapping[str, str]
    body: str

    def model_copy(self, *, update: Mapping[str, object]) -> Answer: ...


Answers = Iterator[Answer]
AsyncAnswers = AsyncIterator[Answer]


def is_genai(client: object) -> bool:
    """Tell whether this is a client of the google-genai SDK."""
    is_googles = any(kind.__module__.startswith("google.genai.") for kind in type(client).__mro__)
    return is_googles and hasattr(client, "_api_client")


def wrap_genai(client: T, gate: CallGate) -> T:
    """Return a copy of the client, sync and async, whose calls pass through the gate."""
    original = client._api_client  # type: ignore[attr-defined]
    base = type(original)
    api_client: Any = object.__new__(type(base.__name__, (_GatedApi, base), {"gate": gate, "__del__": _leave_open}))
    api_client.__dict__ = original.__dict__
    wrapped = _rebind(client, original, api_client)
    wrapped._ebbtide_client = client  # when it is dropped, it closes the connections
    for side in filter(None, (wrapped, getattr(wrapped, "aio", None))):
        bind_gate(side, gate, credential_of=api_client)
    return cast(T, wrapped)


def find_genai_gate(client: object) -> CallGate | None:
    """Return the gate of a wrapped client, of its `aio` or of its `models`; None for any other object."""
    api_client = getattr(client, "_api_client", None)
    return api_client.gate if isinstance(api_client, _GatedApi) else None


def ask_model(client: object, call: ModelCall, request: Body) -> object:
    """Send a question to the model that it names, with the endpoint of the call that it is about."""
    path = _METHOD_IN_PATH.sub(f"{request.get('model', '')}:generateContent", call.url)
    body = {name: value for name, value in request.items() if name != "model"}
    answer: Answer = client._api_client.request("post", path, body, None)  # type: ignore[attr-defined]
    return json.loads(answer.body)


def write_back(contents: list[object]) -> list[object]:
    """Write contents of the model as the SDK does when a caller sends them back: fields in alphabetical order."""
    return [_sort_fields(content) for content in contents]


def _sort_fields(value: object) -> object:
    """Sort the fields of contents, parts and calls, but not of a call's arguments."""
    if isinstance(value, list):
        return [_sort_fields(part) for part in value]
    if not isinstance(value, Mapping):
        return value
    return {name: value[name] if name == "args" else _sort_fields(value[name]) for name in sorted(value)}


def _rebind(owner: object, original: object, api_client: object) -> Any:
    """Copy an object of the SDK, and all of its parts that use the API client, so that they use the other one."""
    copy: Any = object.__new__(_copy_class(cast(Hashable, type(owner))))
    for name, value in vars(owner).items():
        if value is original:
            copy.__dict__[name] = api_client
        elif getattr(value, "__dict__", {}).get("_api_client") is original:
            copy.__dict__[name] = _rebind(value, original, api_client)
        else:
            copy.__dict__[name] = value
    return copy


@cache
def _copy_class(base: type) -> type:
    """Derive the class of a copy: it closes nothing when it is dropped. That of models attaches reports."""
    bases: tuple[type, ...] = (base,)
    if hasattr(base, "_generate_content"):
        bases = (_AsyncReportingModels if _is_async(base) else _ReportingModels, base)
    members = {"__del__": _leave_open} if hasattr(base, "__del__") else {}
    return type(base.__name__, bases, {**members, "__module__": base.__module__, "__doc__": base.__doc__})


def _leave_open(_: object) -> None:
    """The original closes the connections."""


def _is_async(models: Any) -> bool:
    return inspect.iscoroutinefunction(models._generate_content)


class _ReportingModels:
    def _generate_content(self, **options: object) -> object:
        value = cast(Any, super())._generate_content(**options)
        attach_report(value, _REPORT.get())
        return value

    def _generate_content_stream(self, **options: object) -> Iterator[object]:
        for value in cast(Any, super())._generate_content_stream(**options):
            attach_report(value, _REPORT.get())
            yield value


class _AsyncReportingModels:
    async def _generate_content(self, **options: object) -> object:
        value = await cast(Any, super())._generate_content(**options)
        attach_report(value, _REPORT.get())
        return value

    async def _generate_content_stream(self, **options: object) -> AsyncIterator[object]:
        stream = await cast(Any, super())._generate_content_stream(**options)

        async def values() -> AsyncIterator[object]:
            async for value in stream:
                attach_report(value, _REPORT.get())
                yield value

        return values()


# --- requests ---------------------------------------------------------------------------------------------------------


class _GatedApi:
    """The part of an API client that passes requests through the gate."""

    gate: CallGate

    def request(self, method: str, path: str, body: Body, options: object = None) -> object:
        base = cast(Any, super())
        call = _read_call(self, method, path, body, options)
        gated = self.gate.prepare(call) if call else None
        if gated is None:
            return base.request(method, path, body, options)
        send = partial(_send, lambda sent: base.request(method, path, sent, options))
        answer: Answer = send(gated)
        if not gated.has_recall_tools:
            gated.accept()
            gated.record_bytes(answer.body.encode())
            _REPORT.set(gated.report)
            return answer
        recall = RecallAnswer(gated)
        first = _Whole(answer)
        recall.begin(first)
        shown = b"".join(recall.parts(first, lambda next_call: _Whole(send(next_call))))
        _REPORT.set(recall.gated.report)
        return answer.model_copy(update={"body": shown.decode()})

    def request_streamed(self, method: str, path: str, body: Body, options: object = None) -> Answers:
        base = cast(Any, super())
        call = _read_call(self, method, path, body, options)
        gated = self.gate.prepare(call) if call else None
        if gated is None:
            return cast(Answers, base.request_streamed(method, path, body, options))
        send = partial(_send, lambda sent: _start(base.request_streamed(method, path, sent, options)))
        answers: Answers = send(gated)
        if not gated.has_recall_tools:
            return _record_stream(gated, answers)
        return _show_stream(RecallAnswer(gated), answers, lambda next_call: _Events(send(next_call)))

    async def async_request(self, method: str, path: str, body: Body, options: object = None) -> object:
        base = cast(Any, super())
        call = _read_call(self, method, path, body, options)
        gated = await self.gate.aprepare(call) if call else None
        if gated is None:
            return await base.async_request(method, path, body, options)
        send = partial(_asend, lambda sent: base.async_request(method, path, sent, options))
        answer: Answer = await send(gated)
        if not gated.has_recall_tools:
            gated.accept()
            await asyncio.to_thread(gated.record_bytes, answer.body.encode())
            _REPORT.set(gated.report)
            return answer
        recall = RecallAnswer(gated)
        first = _Whole(answer)
        recall.begin(first)

        async def send_next(next_call: GatedCall) -> Received:
            return _Whole(await send(next_call))

        shown = b"".join([part async for part in recall.aparts(first, send_next)])
        _REPORT.set(recall.gated.report)
        return answer.model_copy(update={"body": shown.decode()})

    async def async_request_streamed(self, method: str, path: str, body: Body, options: object = None) -> AsyncAnswers:
        base = cast(Any, super())
        call = _read_call(self, method, path, body, options)
        gated = await self.gate.aprepare(call) if call else None
        if gated is None:
            return cast(AsyncAnswers, await base.async_request_streamed(method, path, body, options))
        send = partial(_asend, lambda sent: base.async_request_streamed(method, path, sent, options))
        answers: AsyncAnswers = await send(gated)
        if not gated.has_recall_tools:
            return _arecord_stream(gated, answers)

        async def send_next(next_call: GatedCall) -> Received:
            return _Events(await send(next_call))

        return _ashow_stream(RecallAnswer(gated), answers, send_next)


def _read_call(api_client: object, method: str, path: str, body: object, options: object) -> ModelCall | None:
    """Return a call that has its conversation in it; None for any other, which is left alone."""
    if method.lower() != "post" or not isinstance(body, Mapping) or not _METHOD_IN_PATH.search(path):
        return None
    headers = getattr(options, "headers", None) or {}
    extra = getattr(options, "extra_body", None) or {}
    if _WIRE.list_key in extra:
        return None  # the SDK would put it in the place of ours
    # Names that begin with `_` are the SDK's own, and the model is in the path.
    whole = {name: value for name, value in body.items() if not name.startswith("_")}
    whole["model"] = _WIRE.requests.model(path.partition("?")[0], {})
    owner = identify_owner(api_client, headers, whole)
    return ModelCall(wire=_WIRE.name, url=path, body=whole, headers={}, owner=owner)


def _body_to_send(gated: GatedCall) -> dict[str, object]:
    return {name: value for name, value in gated.body.items() if name != "model"}


def _send(start: Callable[[Body], T], gated: GatedCall) -> T:
    try:
        return start(_body_to_send(gated))
    except Exception as error:
        if not gated.shrink_after(error):
            raise
    return start(_body_to_send(gated))


async def _asend(start: Callable[[Body], Awaitable[T]], gated: GatedCall) -> T:
    try:
        return await start(_body_to_send(gated))
    except Exception as error:
        if not await gated.ashrink_after(error):
            raise
    return await start(_body_to_send(gated))


def _start(answers: Answers) -> Answers:
    """Read the first event: until then nothing was sent, and a refusal is not known."""
    first = list(islice(answers, 1))
    return chain(first, answers)


# --- streams ----------------------------------------------------------------------------------------------------------


def _record_stream(gated: GatedCall, answers: Answers) -> Answers:
    gated.accept()
    assembler = _WIRE.replies.stream_assembler()
    try:
        for answer in answers:
            assembler.add(json.loads(answer.body))
            _REPORT.set(gated.report)
            yield answer
    finally:
        if assembler.is_complete:
            gated.record(assembler.response())


async def _arecord_stream(gated: GatedCall, answers: AsyncAnswers) -> AsyncAnswers:
    gated.accept()
    assembler = _WIRE.replies.stream_assembler()
    try:
        async for answer in answers:
            assembler.add(json.loads(answer.body))
            _REPORT.set(gated.report)
            yield answer
    finally:
        if assembler.is_complete:
            await asyncio.to_thread(gated.record, assembler.response())


def _show_stream(recall: RecallAnswer, answers: Answers, send: Callable[[GatedCall], Received]) -> Answers:
    first, reader = _Events(answers), EventReader()
    recall.begin(first)
    for part in recall.parts(first, send):
        for event in reader.feed(part):
            _REPORT.set(recall.gated.report)
            yield first.template.model_copy(update={"body": event.data.decode()})


async def _ashow_stream(
    recall: RecallAnswer, answers: AsyncAnswers, send: Callable[[GatedCall], Awaitable[Received]]
) -> AsyncAnswers:
    first, reader = _Events(answers), EventReader()
    recall.begin(first)
    async for part in recall.aparts(first, send):
        for event in reader.feed(part):
            _REPORT.set(recall.gated.report)
            yield first.template.model_copy(update={"body": event.data.decode()})


class _Whole:
    """A whole answer of Google's SDK, read as the bytes of an HTTP response."""

    status_code = 200
    headers: object = {"content-type": "application/json"}
    template: Answer

    def __init__(self, answer: Answer) -> None:
        self.template = answer

    def iter_bytes(self) -> Iterator[bytes]:
        yield self.template.body.encode()

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        yield self.template.body.encode()

    def read(self) -> bytes:
        return b"".join(self.iter_bytes())

    async def aread(self) -> bytes:
        return b"".join([part async for part in self.aiter_bytes()])

    def close(self) -> None:
        """It was read."""

    async def aclose(self) -> None:
        """It was read."""


class _Events(_Whole):
    """The events of a streamed answer, read as the bytes of a stream of server-sent events."""

    headers: object = {"content-type": "text/event-stream"}

    def __init__(self, answers: Answers | AsyncAnswers) -> None:
        self._answers = answers

    def iter_bytes(self) -> Iterator[bytes]:
        for answer in cast(Answers, self._answers):
            yield self._event(answer)

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        async for answer in cast(AsyncAnswers, self._answers):
            yield self._event(answer)

    def _event(self, answer: Answer) -> bytes:
        self.template = answer
        return b"data: " + answer.body.encode() + b"\n\n"
