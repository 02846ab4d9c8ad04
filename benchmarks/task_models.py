"""Who answers the questions of `tasks.py`: a scripted reader, or a model behind an API."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from task_conversations import NONE, Task

from ebbtide.core.tool_calls import SEARCH_TOOL
from ebbtide.replay.request_tracker import all_text, request_messages
from ebbtide.wire import WIRES

_PATHS = {"anthropic": "/v1/messages", "openai_chat": "/v1/chat/completions"}
_ATTEMPTS = 5
_SECONDS = 900.0  # for one answer: a local model on a busy core may take minutes


class Refused(Exception):
    """The provider refused the request."""


class NoAnswer(Exception):
    """The provider failed each time, such as a local server that cannot parse what its model wrote."""


class Model(Protocol):
    wire: str

    def ask(self, body: Mapping[str, Any], task: Task) -> dict[str, Any]:
        """Return the provider's response."""


@dataclass(slots=True)
class Reader:
    """Needs no model: it answers if the request shows the answer, else searches once if it can, else says NONE.

    So it shows what a perfect reader could know, and nothing about what a model makes of it.
    """

    wire: str = "anthropic"

    def ask(self, body: Mapping[str, Any], task: Task) -> dict[str, Any]:
        wire = WIRES[self.wire]
        messages = request_messages(wire, body)
        # What a search brought comes second: an older value may be in it.
        shown = re.findall(task.shown, all_text(wire, messages[:-1]))
        shown = shown or re.findall(task.shown, all_text(wire, messages))
        has_searched = SEARCH_TOOL in str(messages[-2:])
        can_search = SEARCH_TOOL in wire.requests.tool_names(body.get("tools", []))
        if shown or has_searched or not can_search:
            return {"role": "assistant", "content": [{"type": "text", "text": shown[-1] if shown else NONE}]}
        call = {"type": "tool_use", "id": "toolu_search", "name": SEARCH_TOOL, "input": {"query": task.question}}
        return {"role": "assistant", "content": [call]}


@dataclass(slots=True)
class Api:
    """A model behind Anthropic's or OpenAI's API, or a server that speaks one of them."""

    wire: str
    address: str
    model: str
    key: str = field(default="", repr=False)
    answer_tokens: int = 1_000

    def ask(self, body: Mapping[str, Any], task: Task) -> dict[str, Any]:
        del task
        limit = "max_completion_tokens" if self.wire == "openai_chat" and self.key else "max_tokens"
        request = {name: value for name, value in body.items() if name != "max_tokens"}
        request |= {"model": self.model, limit: self.answer_tokens}
        if not self.key:
            request["temperature"] = 0
        return self._post(json.dumps(request).encode())

    def _post(self, data: bytes) -> dict[str, Any]:
        headers = {"content-type": "application/json"}
        if self.key and self.wire == "anthropic":
            headers |= {"x-api-key": self.key, "anthropic-version": "2023-06-01"}
        elif self.key:
            headers["authorization"] = f"Bearer {self.key}"
        request = urllib.request.Request(self.address.rstrip("/") + _PATHS[self.wire], data, headers)
        failure = ""
        for attempt in range(_ATTEMPTS if self.key else 1):
            try:
                with urllib.request.urlopen(request, timeout=_SECONDS) as response:
                    answer: dict[str, Any] = json.load(response)
                    return answer
            except urllib.error.HTTPError as error:
                if error.code in (408, 409, 429) or error.code >= 500:
                    failure = f"HTTP {error.code}: {error.read()[:200].decode(errors='replace')}"
                    time.sleep(2.0**attempt if self.key else 0.0)
                    continue
                raise Refused(f"HTTP {error.code}: {error.read()[:300].decode(errors='replace')}") from None
        raise NoAnswer(failure)
