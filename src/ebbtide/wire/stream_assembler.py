"""A streamed response put together again: what its events add up to, or as much of it as came.

A stream that ended early, or held what nobody here knows, gives its usage and no reply: half a reply in a log would be
taken for what the model said.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

from ebbtide.wire.protocol import as_mapping, as_text
from ebbtide.wire.sse import Event

_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
MOST = 8 << 20
"""Characters of a reply that is put together; more is no reply that a client could send back."""


class Assembly(Protocol):
    """One stream, taken in event by event."""

    whole: bool
    """Ended as it should, and all of it is here."""

    def take(self, event: dict[str, Any]) -> None: ...
    def response(self) -> dict[str, Any]:
        """As the same request would have been answered without a stream; only `usage` can be trusted if not whole."""


_FIELDS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}


class _Anthropic:
    def __init__(self) -> None:
        self.whole = False
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._texts: dict[tuple[int, str], list[str]] = {}
        self._size, self._odd = 0, False

    def take(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "message_start":
            self._message = dict(as_mapping(event.get("message")))
            self._bill(self._message)
        elif kind == "content_block_start":
            self._blocks[_whole(event.get("index"))] = dict(as_mapping(event.get("content_block")))
        elif kind == "content_block_delta":
            self._delta(_whole(event.get("index")), as_mapping(event.get("delta")))
        elif kind == "message_delta":
            self._message.update(as_mapping(event.get("delta")))
            self._bill(event)
        elif kind == "message_stop":
            self.whole = not self._odd and bool(self._message)
        elif kind == "error":
            self._odd = True

    def _delta(self, index: int, delta: Any) -> None:
        field = _FIELDS.get(as_text(delta.get("type")), "")
        piece = delta.get(field)
        if not isinstance(piece, str) or index not in self._blocks:
            self._odd = True
            return
        self._size += len(piece)
        if self._size > MOST:
            self._texts, self._odd = {}, True
        else:
            self._texts.setdefault((index, field), []).append(piece)

    def _bill(self, holder: Any) -> None:
        self._usage.update({k: v for k, v in as_mapping(holder.get("usage")).items() if v is not None})

    def response(self) -> dict[str, Any]:
        for (index, field), pieces in self._texts.items():
            text, block = "".join(pieces), self._blocks[index]
            if field == "partial_json":
                block["input"] = _json(text) if text.strip() else block.get("input", {})
            else:
                block[field] = as_text(block.get(field)) + text
        self._texts = {}
        content = [self._blocks[index] for index in sorted(self._blocks)]
        return {**self._message, "content": content, "usage": self._usage}


class _Chat:
    def __init__(self) -> None:
        self.whole = False
        self._head: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._usage: Any = None
        self._finish: Any = None
        self._size, self._odd = 0, False

    def take(self, event: dict[str, Any]) -> None:
        self._head = self._head or {k: event.get(k) for k in ("id", "model")}
        if isinstance(event.get("usage"), dict):
            self._usage = event["usage"]
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict) or choice.get("index", 0) != 0:
                self._odd = True  # several answers: which one the client keeps is not ours to know
                continue
            self._delta(as_mapping(choice.get("delta")))
            self._finish = choice.get("finish_reason") or self._finish
        self._odd = self._odd or bool(event.get("error"))
        self.whole = bool(self._finish) and not self._odd

    def _delta(self, delta: Any) -> None:
        for field, piece in delta.items():
            if isinstance(piece, str) and field != "role":
                self._size += len(piece)
                self._texts.setdefault(field, []).append(piece)
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            self._call(as_mapping(call))
        if self._size > MOST:
            self._texts, self._odd = {}, True

    def _call(self, call: Any) -> None:
        made = self._calls.setdefault(_whole(call.get("index")), {"function": {"name": "", "arguments": []}})
        made.update({k: v for k, v in call.items() if k in ("id", "type") and v})
        function = as_mapping(call.get("function"))
        made["function"]["name"] = function.get("name") or made["function"]["name"]
        piece = as_text(function.get("arguments"))
        self._size += len(piece)
        made["function"]["arguments"].append(piece)

    def response(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None}
        message |= {field: "".join(pieces) for field, pieces in self._texts.items()}
        if self._calls:
            message["tool_calls"] = [_called(self._calls[index]) for index in sorted(self._calls)]
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return {**self._head, "choices": [choice], "usage": self._usage}


def _called(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    whole = {"name": function["name"], "arguments": "".join(function["arguments"])}
    return {"id": call.get("id", ""), "type": call.get("type", "function"), "function": whole}


class _Responses:
    """The last event carries it all."""

    def __init__(self) -> None:
        self.whole = False
        self._response: dict[str, Any] = {}

    def take(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            self._response = dict(as_mapping(event.get("response")))
            self.whole = kind != "response.failed"

    def response(self) -> dict[str, Any]:
        return self._response


_ASSEMBLIES: dict[str, Callable[[], Assembly]] = {
    "anthropic": _Anthropic,
    "openai_chat": _Chat,
    "openai_responses": _Responses,
}


def assembly(wire: str) -> Assembly:
    return _ASSEMBLIES[wire]()


def parsed(event: Event) -> dict[str, Any]:
    """Return an event's data if it is an object, and an empty one if it is anything else, as `[DONE]` is."""
    try:
        text = str(event.data, "utf-8", "surrogatepass").strip()
        # Without the wrapping of `json.loads`, which takes as long as a small event.
        value, end = _scan(text, 0)
    except (StopIteration, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) and end == len(text) else {}


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {}
