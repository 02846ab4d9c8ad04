"""A recorded history of OpenAI Responses, repaired."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ebbtide.wire.blocks import as_str
from ebbtide.wire.client_history import NO_RESULT, ClientHistory, Message
from ebbtide.wire.openai_responses.rules.items import OUTPUTS

_CALLS = ("function_call", "local_shell_call", "custom_tool_call", "tool_search_call")


class History(ClientHistory):
    """Each type of call has its type of output. Reasoning must be followed by what it led to."""

    def calls_in(self, message: Message) -> Iterator[tuple[str, dict[str, Any]]]:
        kind, call_id = as_str(message.get("type")), as_str(message.get("call_id"))
        if kind not in _CALLS or not call_id:
            return
        output: dict[str, Any] = {"output": NO_RESULT}
        if kind == "tool_search_call":
            output = {"status": "completed", "execution": "client", "tools": []}
        yield call_id, {"type": OUTPUTS[kind][0], "call_id": call_id, **output}

    def result_id(self, part: dict[str, Any]) -> str | None:
        is_output = as_str(part.get("type")) in {OUTPUTS[call][0] for call in _CALLS}
        return as_str(part.get("call_id")) if is_output else None

    def add_reply(self, messages: tuple[Message, ...]) -> None:
        while messages and messages[-1].get("type") == "reasoning":
            self.on_repair("reasoning with nothing after it, left out")
            messages = messages[:-1]
        super().add_reply(messages)

    def with_results_cleared(self, message: Message, call_ids: frozenset[str], placeholder: str) -> Message:
        is_cleared = as_str(message.get("call_id")) in call_ids and "output" in message
        return {**message, "output": placeholder} if is_cleared else message
