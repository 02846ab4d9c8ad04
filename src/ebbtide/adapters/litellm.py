"""LiteLLM: the SDK's `completion`, and a hook for the proxy. Requests of all its providers are in one format.

chat = Completions(store="agents")
answer = chat.completion(model="anthropic/claude-sonnet-5", messages=messages, litellm_session_id="chat-42")
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from . import require

require("litellm", "1.92")

import litellm
from litellm.integrations.custom_logger import CustomLogger

import ebbtide

OnReport = Callable[[str, ebbtide.Report], None]
_FIELDS = ("model", "messages", "input", "instructions", "system", "tools", "max_tokens", "max_completion_tokens")
"""What the size of a request depends on, and what an edit may change."""
_WIRES = {
    **dict.fromkeys(("completion", "acompletion"), "openai_chat"),
    "anthropic_messages": "anthropic",
    **dict.fromkeys(("responses", "aresponses"), "openai_responses"),
}
_MAX_SESSIONS = 256
"""Sessions kept in memory. An older one is read from the store or, without a store, planned again."""
_MAX_PENDING = 4096
"""Calls of the proxy whose answer has not come yet."""


@dataclass(frozen=True)
class _Call:
    """One request, prepared. A context serves one call at a time, so its lock is held while it works."""

    session: str
    context: ebbtide.Context
    lock: threading.Lock
    ready: ebbtide.Ready

    def make_smaller(self, error: Exception) -> _Call:
        """Prepare the request again after the provider refused it for its size."""
        with self.lock:
            return replace(self, ready=self.context.overflowed(error))

    def record(self, answer: object) -> None:
        with self.lock:
            self.ready.record(answer)


class _Sessions:
    """The contexts of named conversations."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = dict(options)
        self._contexts: OrderedDict[tuple[str, str], tuple[ebbtide.Context, threading.Lock]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, name: str, wire: str, model: str) -> tuple[ebbtide.Context, threading.Lock]:
        with self._lock:
            if (name, wire) not in self._contexts:
                context = ebbtide.Context(session=name, wire=wire, model=model, **self._options)
                self._contexts[name, wire] = (context, threading.Lock())
            self._contexts.move_to_end((name, wire))
            while len(self._contexts) > _MAX_SESSIONS:
                self._contexts.popitem(last=False)
            return self._contexts[name, wire]

    def prepare(self, name: str, wire: str, request: Mapping[str, Any]) -> _Call:
        context, lock = self.find(name, wire, str(request["model"]).rpartition("/")[2])
        with lock:
            return _Call(name, context, lock, context.prepare(_fields(request)))


class Completions:
    """`litellm.completion` and `acompletion` whose requests fit the window.

    The options are those of `ebbtide.Context`. `litellm_session_id`, or `metadata={"session_id": ...}`, names the
    conversation of a call. `on_report` gets the session and the report of each request that was accepted. For the
    model to read removed text back, pass `recall="tool"`, add `recall_tools()` to the tools of every call, and answer
    calls of these tools with `answer_recall`.
    """

    def __init__(self, *, recall: Any = "off", on_report: OnReport | None = None, **options: Any) -> None:
        self._sessions = _Sessions({**options, "recall": recall})
        self._on_report = on_report

    def completion(self, **request: Any) -> Any:
        call = self._prepare(request)
        try:
            answer = litellm.completion(**{**request, **call.ready.body})
        except litellm.ContextWindowExceededError as error:
            call = call.make_smaller(error)
            answer = litellm.completion(**{**request, **call.ready.body})
        self._report(call)
        if request.get("stream"):
            return _record_stream(call, answer)
        call.record(answer)
        return answer

    async def acompletion(self, **request: Any) -> Any:
        call = await asyncio.to_thread(self._prepare, request)
        try:
            answer = await litellm.acompletion(**{**request, **call.ready.body})
        except litellm.ContextWindowExceededError as error:
            call = await asyncio.to_thread(call.make_smaller, error)
            answer = await litellm.acompletion(**{**request, **call.ready.body})
        self._report(call)
        if request.get("stream"):
            return _record_async_stream(call, answer)
        await asyncio.to_thread(call.record, answer)
        return answer

    def _report(self, call: _Call) -> None:
        if self._on_report is not None:
            self._on_report(call.session, call.ready.report)

    def recall_tools(self) -> list[dict[str, Any]]:
        return ebbtide.recall_tools("openai_chat")

    def answer_recall(self, session: str, name: str, arguments: str) -> str:
        """Answer the model's call of a recall tool."""
        context, lock = self._sessions.find(session, "openai_chat", "")
        with lock:
            return context.recall_answer(name, arguments)

    def _prepare(self, request: Mapping[str, Any]) -> _Call:
        name = name_session(request)
        if not name:
            raise ebbtide.BadRequest(
                "this call does not say which conversation it belongs to: pass litellm_session_id= or "
                'metadata={"session_id": ...}'
            )
        return self._sessions.prepare(name, "openai_chat", request)


def name_session(request: Mapping[str, Any]) -> str:
    """Return the name that a request gives its conversation, or ''."""
    metadata = request.get("metadata") or {}
    headers = (request.get("proxy_server_request") or {}).get("headers") or {}
    names = (request.get("litellm_session_id"), metadata.get("session_id"), request.get("prompt_cache_key"))
    return str(next(filter(None, (*names, headers.get("x-session-id"))), ""))


def _fields(request: Mapping[str, Any]) -> dict[str, Any]:
    return {name: request[name] for name in _FIELDS if name in request}


def _record_stream(call: _Call, chunks: Iterator[Any]) -> Iterator[Any]:
    seen = []
    for chunk in chunks:
        seen.append(chunk)
        yield chunk
    call.record(litellm.stream_chunk_builder(seen))


async def _record_async_stream(call: _Call, chunks: Any) -> AsyncIterator[Any]:
    seen = []
    async for chunk in chunks:
        seen.append(chunk)
        yield chunk
    await asyncio.to_thread(call.record, litellm.stream_chunk_builder(seen))


class ProxyHook(CustomLogger):
    """A callback of LiteLLM's proxy: `litellm_settings: {callbacks: my_module.hook}`.

    The options are those of `ebbtide.Context`. The session that a request names belongs to the key of its caller. A
    request that names none is made to fit `window`, if there is one, and nothing is remembered.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._window: int = options.get("window") or 0
        self._sessions = _Sessions({"recall": "off", **options})
        self._pending: OrderedDict[str, _Call] = OrderedDict()

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> dict[str, Any]:
        wire, name = _WIRES.get(call_type), name_session(data)
        if wire is None or not (name or self._window):
            return data
        fields = _fields(data)
        if not name:
            return {**data, **ebbtide.fit(fields, window=self._window).body}
        owner = hashlib.sha256(str(user_api_key_dict.token or "").encode()).hexdigest()[:16]
        call = await asyncio.to_thread(self._sessions.prepare, f"{owner}-{name}", wire, data)
        self._pending[data["litellm_call_id"]] = call
        while len(self._pending) > _MAX_PENDING:
            self._pending.popitem(last=False)
        return {**data, **call.ready.body}

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        call = self._pending.pop(kwargs.get("litellm_call_id") or "", None)
        if call is not None:
            await asyncio.to_thread(call.record, response_obj)
