"""The providers' SDKs behind one class: build a request body, stream the reply, read it.

A stream is read in its own thread, so that a user who interrupts need not wait for the next word.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, cast

from ebbtide.config import Access
from ebbtide.core.errors import BadConfig
from ebbtide.core.types import Usage
from ebbtide.fronts.chat.tools import Arguments, Tool
from ebbtide.wire import WIRES

if TYPE_CHECKING:
    import anthropic
    import openai

Body = dict[str, object]

MISSING_EXTRA = "ebb chat needs more packages. Install them with: pip install 'ebbtide[chat]'"
NO_KEY = """\
there is no model to talk to. Choose one of these:
  export ANTHROPIC_API_KEY=...          then: ebb chat
  export OPENAI_API_KEY=...             then: ebb chat
  ebb chat --base-url URL --model NAME  for your own server: llama.cpp, Ollama, vLLM
  ebb chat --local                      a small model on this machine; no key, no network"""
_TIMEOUT = 600.0  # seconds without a byte: thinking models are silent for minutes, and Esc ends it earlier
_TRUNCATED = ("max_tokens", "length", "max_output_tokens")  # what each API calls a reply that reached the output limit
_POLL_INTERVAL = 0.05  # seconds between checks whether the user interrupted


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    id: str
    name: str
    arguments: Arguments | None
    """None if they are not a JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    text: str
    calls: tuple[ToolCall, ...]
    usage: Usage
    is_truncated: bool = False
    """It reached the output limit."""


Piece = str | Body
"""What a stream yields: text as it arrives, and at the end the response as it would be without streaming."""


class IncompleteReply(Exception):
    def __init__(self) -> None:
        super().__init__("the provider closed the connection before the reply was complete")


class Interruption(Exception):
    """The user interrupted the agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One model behind one API."""

    model: str
    wire: str
    stream: Callable[[Mapping[str, object]], Iterator[Piece]] = field(repr=False)
    fixed_fields: Mapping[str, object] = field(default_factory=dict)
    """What this API needs in every request. It never changes, so that the cached prefix stays valid."""

    def build_body(self, request: Mapping[str, object]) -> Body:
        return {**request, **self.fixed_fields}

    def read(self, response: Mapping[str, object]) -> Reply:
        wire = WIRES[self.wire]
        blocks = [
            block
            for message in wire.replies.as_messages(response)
            for block in wire.messages.split(message, wire.list_key)
        ]
        return Reply(
            text="".join(block.text for block in blocks if block.kind == "text"),
            calls=tuple(
                ToolCall(id=block.call_id, name=block.name, arguments=_parse_arguments(block.text))
                for block in blocks
                if block.kind == "call"
            ),
            usage=wire.replies.usage(response) or Usage(),
            is_truncated=wire.replies.read_answer(response).stop_reason in _TRUNCATED,
        )


def _parse_arguments(text: str) -> Arguments | None:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return Arguments(value) if isinstance(value, dict) else None


def define_tools(tools: Iterable[Tool], wire: str) -> list[Body]:
    return [WIRES[wire].requests.tool_definition(tool.name, tool.description, tool.schema()) for tool in tools]


# --- streams -----------------------------------------------------------------------------------------------------


def wait_for_response(open_stream: Callable[[], Iterator[Piece]], stop: threading.Event) -> Body:
    """Read a stream to its end and return the response only."""
    for piece in stream_until_stopped(open_stream, stop):
        if not isinstance(piece, str):
            return piece
    raise IncompleteReply


def stream_until_stopped(open_stream: Callable[[], Iterator[Piece]], stop: threading.Event) -> Iterator[Piece]:
    """Yield the pieces of a stream. Raise `Interruption` once `stop` is set; the thread that reads then ends too."""
    pieces: queue.Queue[Piece | BaseException | None] = queue.Queue()

    def pump() -> None:
        try:
            for piece in open_stream():
                pieces.put(piece)
                if stop.is_set():
                    return
            pieces.put(None)
        except BaseException as error:  # noqa: BLE001  # Raised again in the thread that reads the queue.
            pieces.put(error)

    if stop.is_set():
        raise Interruption
    threading.Thread(target=pump, daemon=True).start()
    while True:
        if stop.is_set():
            raise Interruption
        try:
            piece = pieces.get(timeout=_POLL_INTERVAL)
        except queue.Empty:
            continue
        if piece is None:
            return
        if isinstance(piece, BaseException):
            raise piece
        yield piece


def _stream_anthropic(client: anthropic.Anthropic, body: Mapping[str, object]) -> Iterator[Piece]:
    with client.messages.stream(**cast("Body", body)) as stream:  # type: ignore[arg-type]
        yield from stream.text_stream
        message = stream.get_final_message()
    if message.stop_reason is None:
        raise IncompleteReply
    yield message.model_dump(mode="json", exclude_unset=True, warnings=False)


def _stream_chat_completions(client: openai.OpenAI, body: Mapping[str, object]) -> Iterator[Piece]:
    options = {**body, "stream": True, "stream_options": {"include_usage": True}}
    assembler = WIRES["openai_chat"].replies.stream_assembler()
    with client.chat.completions.create(**options) as chunks:  # type: ignore[call-overload]
        for chunk in chunks:
            event = chunk.model_dump(mode="json", exclude_unset=True)
            for choice in event.get("choices") or ():
                choice["delta"] = _clean_delta(choice.get("delta") or {})
                if text := choice["delta"].get("content"):
                    yield text
            assembler.add(event)
    if not assembler.is_complete:
        raise IncompleteReply
    response = assembler.response()
    for n, call in enumerate(response["choices"][0]["message"].get("tool_calls", ())):
        call["id"] = call["id"] or f"call_{response.get('id') or ''}_{n}"
        call["function"]["arguments"] = call["function"]["arguments"] or "{}"
    yield response


def _clean_delta(delta: Body) -> dict[str, str | list[Body]]:
    """Servers differ: some omit the index of a call, some add fields that a later request may not carry."""
    clean: dict[str, str | list[Body]] = {key: str(delta[key]) for key in ("content", "refusal") if delta.get(key)}
    if calls := cast("list[Body] | None", delta.get("tool_calls")):
        clean["tool_calls"] = [
            {**call, "index": call["index"] if isinstance(call.get("index"), int) else n}
            for n, call in enumerate(calls)
        ]
    return clean


def _stream_responses(client: openai.OpenAI, body: Mapping[str, object]) -> Iterator[Piece]:
    with client.responses.create(**{**body, "stream": True}) as events:  # type: ignore[call-overload]
        for event in events:
            if event.type == "response.output_text.delta":
                yield str(event.delta)
            elif event.type in ("response.completed", "response.incomplete"):
                yield event.response.model_dump(mode="json", exclude_unset=True, warnings=False)
                return
            elif event.type == "response.failed":
                raise RuntimeError(str(event.response.error))
    raise IncompleteReply


# --- by name -----------------------------------------------------------------------------------------------------


def make_provider(name: str, model: str, url: str, access: Access) -> Provider:
    """`name` is one of `model_choice.PROVIDERS`. Without a `url`, that of the environment or the SDK is used."""
    if name == "anthropic":
        stream = partial(_stream_anthropic, _anthropic_client(url, access))
        return Provider(model=model, wire="anthropic", stream=stream)
    client = openai_client(url, access)
    if name == "responses":
        # The log is the only copy of the conversation: the provider keeps nothing, and sends reasoning encrypted.
        fixed: Body = {"store": False, "include": ["reasoning.encrypted_content"]}
        stream = partial(_stream_responses, client)
        return Provider(model=model, wire="openai_responses", stream=stream, fixed_fields=fixed)
    return Provider(model=model, wire="openai_chat", stream=partial(_stream_chat_completions, client))


def _anthropic_client(url: str, access: Access) -> anthropic.Anthropic:
    try:
        import anthropic  # noqa: PLC0415
    except ImportError as error:
        raise BadConfig(MISSING_EXTRA) from error
    key, address = _key_and_address(access.anthropic_key, url or access.anthropic_url)
    return anthropic.Anthropic(api_key=key, base_url=address, timeout=_TIMEOUT)


def openai_client(url: str, access: Access) -> openai.OpenAI:
    try:
        import openai  # noqa: PLC0415
    except ImportError as error:
        raise BadConfig(MISSING_EXTRA) from error
    key, address = _key_and_address(access.openai_key, url or access.openai_url)
    return openai.OpenAI(api_key=key, base_url=address, timeout=_TIMEOUT)


def _key_and_address(key: str, address: str) -> tuple[str, str | None]:
    if not key and not address:
        raise BadConfig(NO_KEY)
    # Local servers need no key, but the SDKs do.
    return key or "none", address or None
