"""The providers' own SDKs behind one protocol of three methods. What the model said is handed on as it came.

A stream is read in a thread of its own, so that a person who wants it to end need not wait for the next word.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, cast

from ebbtide.core.errors import BadConfig
from ebbtide.core.types import Usage
from ebbtide.fronts.chat.tools import Given, Tool
from ebbtide.wire import WIRES

if TYPE_CHECKING:
    import anthropic
    import openai

WireName = Literal["anthropic", "openai_chat", "openai_responses"]
Body = dict[str, object]

MISSING = "ebb chat needs the extra: pip install 'ebbtide[chat]'"
_PATIENCE = 600.0  # seconds without a byte: thinking models are silent for minutes, and Esc ends it earlier
_POLL = 0.05  # seconds between looks at whether the person wants it to end


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    id: str
    name: str
    given: Given | None
    """None where the arguments are no JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    text: str
    calls: tuple[Call, ...]
    usage: Usage
    cut: bool = False
    """It ended at the limit of its length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The whole response, as the provider would have sent it without a stream."""

    response: Body


class Provider(Protocol):
    """One model behind one API."""

    @property
    def model(self) -> str: ...

    @property
    def wire(self) -> WireName: ...

    def body(self, request: Mapping[str, object]) -> Body:
        """The request with what this API wants in each: fixed, so that the cached prefix holds."""
        ...

    def stream(self, body: Mapping[str, object]) -> Iterator[str | Finished]:
        """Words as they come, and at last the response."""
        ...

    def read(self, response: Mapping[str, object]) -> Reply: ...


def define(tools: Iterable[Tool], wire: WireName) -> list[Body]:
    return [_DEFINE[wire](tool) for tool in tools]


_DEFINE: Mapping[str, Callable[[Tool], Body]] = {
    "anthropic": lambda tool: {"name": tool.name, "description": tool.about, "input_schema": tool.schema()},
    "openai_chat": lambda tool: {
        "type": "function",
        "function": {"name": tool.name, "description": tool.about, "parameters": tool.schema()},
    },
    "openai_responses": lambda tool: {
        "type": "function",
        "name": tool.name,
        "description": tool.about,
        "parameters": tool.schema(),
        "strict": False,
    },
}


def complete(pieces: Iterator[str | Finished]) -> Body:
    """The response alone, for questions whose words nobody watches."""
    found = next((piece.response for piece in pieces if isinstance(piece, Finished)), None)
    if found is None:
        raise BrokenOff
    return found


class BrokenOff(Exception):
    """The stream ended before the answer did."""

    def __init__(self) -> None:
        super().__init__("the answer broke off before its end")


class Interrupted(Exception):
    """The person wanted it to end."""


def watched(pieces: Callable[[], Iterator[str | Finished]], stop: threading.Event) -> Iterator[str | Finished]:
    """The pieces, until there are no more or `stop` is set. What is still under way then ends by itself."""
    held: queue.Queue[str | Finished | BaseException | None] = queue.Queue()

    def pump() -> None:
        try:
            for piece in pieces():
                held.put(piece)
                if stop.is_set():
                    return
            held.put(None)
        except BaseException as failed:  # noqa: BLE001  # It is raised again where somebody waits for it.
            held.put(failed)

    if stop.is_set():
        raise Interrupted
    threading.Thread(target=pump, daemon=True).start()
    while True:
        if stop.is_set():
            raise Interrupted
        try:
            piece = held.get(timeout=_POLL)
        except queue.Empty:
            continue
        if piece is None:
            return
        if isinstance(piece, BaseException):
            raise piece
        yield piece


def _usage(wire: WireName, response: Mapping[str, object]) -> Usage:
    return WIRES[wire].replies.usage(dict(response)) or Usage()


def _given(arguments: object) -> Given | None:
    if isinstance(arguments, Mapping):
        return arguments
    try:
        value = json.loads(str(arguments or "{}"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _objects(value: object) -> list[Body]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _joined(parts: Iterable[Mapping[str, object]], kinds: Sequence[str]) -> str:
    return "".join(str(part.get("text") or "") for part in parts if part.get("type") in kinds)


# --- Anthropic ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Anthropic:
    model: str
    client: anthropic.Anthropic = field(repr=False)
    wire: WireName = "anthropic"

    def body(self, request: Mapping[str, object]) -> Body:
        return dict(request)

    def stream(self, body: Mapping[str, object]) -> Iterator[str | Finished]:
        with self.client.messages.stream(**cast("dict[str, object]", body)) as stream:  # type: ignore[arg-type]
            yield from stream.text_stream
            whole = stream.get_final_message()
        if whole.stop_reason is None:
            raise BrokenOff
        yield Finished(response=whole.model_dump(mode="json", exclude_unset=True, warnings=False))

    def read(self, response: Mapping[str, object]) -> Reply:
        blocks = _objects(response.get("content"))
        calls = tuple(
            Call(id=str(one["id"]), name=str(one["name"]), given=_given(one.get("input")))
            for one in blocks
            if one.get("type") == "tool_use"
        )
        cut = response.get("stop_reason") == "max_tokens"
        return Reply(text=_joined(blocks, ("text",)), calls=calls, usage=_usage(self.wire, response), cut=cut)


# --- Chat Completions --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """OpenAI's older API, which llama.cpp, Ollama, vLLM and many others speak."""

    model: str
    client: openai.OpenAI = field(repr=False)
    wire: WireName = "openai_chat"

    def body(self, request: Mapping[str, object]) -> Body:
        return dict(request)

    def stream(self, body: Mapping[str, object]) -> Iterator[str | Finished]:
        asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
        gathered = Gathered()
        with self.client.chat.completions.create(**asked) as chunks:  # type: ignore[call-overload]
            for chunk in chunks:
                if said := gathered.add(chunk.model_dump(mode="json", exclude_unset=True)):
                    yield said
        if not gathered.reason:
            raise BrokenOff
        yield Finished(response=gathered.response())

    def read(self, response: Mapping[str, object]) -> Reply:
        choice = _objects(response.get("choices"))[0]
        message = cast(Body, choice.get("message") or {})
        functions = [(one["id"], cast(Body, one["function"])) for one in _objects(message.get("tool_calls"))]
        calls = tuple(
            Call(id=str(id), name=str(one["name"]), given=_given(one.get("arguments"))) for id, one in functions
        )
        cut = choice.get("finish_reason") == "length"
        return Reply(text=str(message.get("content") or ""), calls=calls, usage=_usage(self.wire, response), cut=cut)


@dataclass(slots=True)
class Gathered:
    """The chunks of one answer, put together. Servers differ in what they leave out: nothing is taken for granted."""

    head: Body = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    calls: dict[int, dict[str, str]] = field(default_factory=dict)
    reason: str = ""
    usage: object = None

    def add(self, chunk: Body) -> str:
        """Words that are new."""
        self.head = self.head or {key: chunk[key] for key in ("id", "model", "created") if key in chunk}
        self.usage = chunk.get("usage") or self.usage
        said = ""
        for choice in _objects(chunk.get("choices"))[:1]:
            delta = cast(Body, choice.get("delta") or {})
            said = str(delta.get("content") or "")
            self.words.append(said)
            self.refusal.append(str(delta.get("refusal") or ""))
            self.reason = str(choice.get("finish_reason") or self.reason)
            for n, call in enumerate(_objects(delta.get("tool_calls"))):
                self._call(n, call)
        return said

    def _call(self, nth: int, call: Body) -> None:
        index = call.get("index")
        slot = self.calls.setdefault(index if isinstance(index, int) else nth, {"id": "", "name": "", "arguments": ""})
        function = cast(Body, call.get("function") or {})
        slot["id"] = slot["id"] or str(call.get("id") or "")
        slot["name"] = slot["name"] or str(function.get("name") or "")
        slot["arguments"] += str(function.get("arguments") or "")

    def response(self) -> Body:
        message: Body = {"role": "assistant", "content": "".join(self.words) or None}
        if refusal := "".join(self.refusal):
            message["refusal"] = refusal
        if self.calls:
            message["tool_calls"] = [
                {
                    "id": slot["id"] or f"call_{self.head.get('id', '')}_{n}",
                    "type": "function",
                    "function": {"name": slot["name"], "arguments": slot["arguments"] or "{}"},
                }
                for n, slot in sorted(self.calls.items())
            ]
        choice: Body = {"index": 0, "message": message, "finish_reason": self.reason}
        told: Body = {**self.head, "object": "chat.completion", "choices": [choice]}
        return {**told, "usage": self.usage} if self.usage else told


# --- Responses ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Responses:
    """OpenAI's newer API. Nothing is kept at the provider: the log is the truth, and reasoning comes back sealed."""

    model: str
    client: openai.OpenAI = field(repr=False)
    wire: WireName = "openai_responses"

    def body(self, request: Mapping[str, object]) -> Body:
        return {**request, "store": False, "include": ["reasoning.encrypted_content"]}

    def stream(self, body: Mapping[str, object]) -> Iterator[str | Finished]:
        with self.client.responses.create(**{**body, "stream": True}) as events:  # type: ignore[call-overload]
            for event in events:
                if event.type == "response.output_text.delta":
                    yield str(event.delta)
                elif event.type in ("response.completed", "response.incomplete"):
                    yield Finished(response=event.response.model_dump(mode="json", exclude_unset=True, warnings=False))
                    return
                elif event.type == "response.failed":
                    raise RuntimeError(str(event.response.error))
        raise BrokenOff

    def read(self, response: Mapping[str, object]) -> Reply:
        items = _objects(response.get("output"))
        parts = [part for one in items if one.get("type") == "message" for part in _objects(one.get("content"))]
        calls = tuple(
            Call(id=str(one["call_id"]), name=str(one["name"]), given=_given(one.get("arguments")))
            for one in items
            if one.get("type") == "function_call"
        )
        cut = response.get("status") == "incomplete"
        return Reply(text=_joined(parts, ("output_text",)), calls=calls, usage=_usage(self.wire, response), cut=cut)


# --- by name -----------------------------------------------------------------------------------------------------


def anthropic_client(key: str, url: str) -> anthropic.Anthropic:
    try:
        import anthropic  # noqa: PLC0415
    except ImportError as error:
        raise BadConfig(MISSING) from error
    return anthropic.Anthropic(api_key=key, base_url=url or None, timeout=_PATIENCE)


def openai_client(key: str, url: str) -> openai.OpenAI:
    try:
        import openai  # noqa: PLC0415
    except ImportError as error:
        raise BadConfig(MISSING) from error
    # Local servers want no key, and the SDK wants one.
    return openai.OpenAI(api_key=key or "none", base_url=url or None, timeout=_PATIENCE)
