"""What the reply formats of all wires share: reading events and usage, and finding our recall calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ebbtide.core.tokens.usage import usage_from
from ebbtide.core.tool_calls import RECALL_TOOLS
from ebbtide.core.types import Usage
from ebbtide.wire.blocks import as_mapping
from ebbtide.wire.sse import Event

MAX_REPLY = 8 << 20
"""Characters of a reply that is put together; a client could not send more back."""

_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


def parse_event(event: Event) -> dict[str, Any]:
    """Return an event's data if it is an object; an empty one for anything else, such as `[DONE]`."""
    try:
        text = str(event.data, "utf-8", "surrogatepass").strip()
        # `json.loads` takes as long again as a small event.
        value, end = _scan(text, 0)
    except (StopIteration, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) and end == len(text) else {}


def read_usage(response: Mapping[str, Any]) -> Usage | None:
    return usage_from(response.get("usage"))


def openai_usage(usage: Usage | None, prompt: str, output: str) -> dict[str, Any]:
    """Return the field that bills a response. `prompt` and `output` are the API's words for both sides."""
    if usage is None:
        return {}
    counts = {
        f"{prompt}_tokens": usage.prompt,
        f"{output}_tokens": usage.output,
        f"{prompt}_tokens_details": {"cached_tokens": usage.cache_read},
    }
    return {"usage": counts}


def openai_error_body(reason: str, *, is_overloaded: bool) -> dict[str, Any]:
    kind, code = ("server_error", None) if is_overloaded else ("invalid_request_error", "context_length_exceeded")
    return {"error": {"message": reason, "type": kind, "param": None, "code": code}}


def is_recall_call(call: Mapping[str, Any]) -> bool:
    return call.get("type") in ("tool_use", "function_call") and call.get("name") in RECALL_TOOLS


class NumberedMerger:
    """Part of a `ResponseMerger`: hides recall calls, and numbers on what the client sees of several responses."""

    def __init__(self) -> None:
        self.is_hiding = False
        self._responses = self._offset = 0
        """Responses before the current one, and how many of their parts the client saw."""
        self._hidden, self._visible = set[int](), dict[int, int]()
        """Parts of the current response, by number: those that are hidden, and the number the client sees."""

    def start_next(self) -> None:
        self._responses, self.is_hiding = self._responses + 1, False
        self._offset += len(self._visible)
        self._hidden, self._visible = set(), {}

    def _renumber(
        self, event: Mapping[str, Any], field: str, started: Mapping[str, Any] | None
    ) -> Mapping[str, Any] | None:
        """Return the event of a part with the number that the client sees; None if the part is hidden.

        `started` is the part if it begins with this event.
        """
        index = event.get(field)
        if not isinstance(index, int):
            return event
        if started is not None and is_recall_call(started):
            self._hidden.add(index)
            self.is_hiding = True
        elif started is not None:
            self._visible[index] = self._offset + len(self._visible)
        number = self._visible.get(index, index)
        return None if index in self._hidden else event if number == index else {**event, field: number}


def sum_output(responses: Sequence[Mapping[str, Any]], field: str) -> dict[str, Any]:
    """Return the last response's usage with the output of all; empty if the last one has none."""
    usages = [as_mapping(response.get("usage")) for response in responses]
    return {**usages[-1], field: sum(as_int(usage.get(field)) for usage in usages)} if usages[-1] else {}


def merge_openai_usage(responses: Sequence[Mapping[str, Any]], prompt: str, output: str) -> dict[str, Any] | None:
    """Return the bill of merged responses, with the API's words for both sides as in `openai_usage`."""
    usage = sum_output(responses, f"{output}_tokens")
    total = as_int(usage.get(f"{prompt}_tokens")) + as_int(usage.get(f"{output}_tokens"))
    return {**usage, "total_tokens": total} if usage else None


def as_dicts(value: Any) -> list[dict[str, Any]]:
    return [element for element in value if isinstance(element, dict)] if isinstance(value, list) else []


def as_int(value: Any) -> int:
    return value if isinstance(value, int) else 0
