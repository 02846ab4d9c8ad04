"""What the side requests of several wires share: fields that Anthropic and OpenAI name alike."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ebbtide.wire.blocks import as_mapping

THINKING_ROOM = 16_000
"""Tokens added to the cap if thinking has no budget, because thinking counts as output. With a cap of 4,000
the sum stays under what Anthropic's SDK sends without streaming (about 21,000)."""

_NOT_ASKED_AGAIN = frozenset(
    {
        *("stream", "stream_options", "background"),  # We want one answer, now.
        *("n", "prediction"),  # Billed, and of no use.
        *("stop", "stop_sequences"),  # The client's stop words would cut a summary.
        "truncation",  # We prefer an error to a summary of a conversation without its middle.
        *("guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs"),  # vLLM
        *("grammar", "json_schema"),  # llama.cpp
        "output_format",  # Anthropic's beta name for `output_config.format`
    }
)
"""Fields left out of the question. Only the formats are part of the cached prefix, and they would forbid prose."""

NEWER_OPENAI = re.compile(r"(?:^|/)(?:o\d|gpt-[5-9])")
"""C10: models that accept only `max_completion_tokens`."""
_THINKS_BY_DEFAULT = re.compile(rf"{NEWER_OPENAI.pattern}|claude-(?:fable|mythos)")


class SharedRequests:
    """The part of `SideRequests` that is the same for Anthropic and OpenAI."""

    def model(self, _path: str, body: Mapping[str, Any]) -> str:
        return str(body.get("model") or "")

    def wants_stream(self, _path: str, body: Mapping[str, Any]) -> bool:
        return bool(body.get("stream"))

    def address(self, url: str, body: Mapping[str, Any], wants_stream: bool) -> tuple[str, Mapping[str, Any]]:
        return url, {**body, "stream": True} if wants_stream else body

    def user_message(self, text: Any) -> dict[str, Any]:
        return {"role": "user", "content": text}

    def tool_names(self, tools: Any) -> list[str]:
        definitions = map(as_mapping, tools if isinstance(tools, list) else ())
        fields = [as_mapping(tool.get("function") or tool) for tool in definitions]
        return [str(tool.get("name") or tool.get("type") or "") for tool in fields]

    def add_tools(self, body: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
        """Of several answers, or of one that is fetched later, we could hold back none. And if the server keeps the
        history, we cannot insert anything into it."""
        kept_by_server = any(map(body.get, ("background", "previous_response_id", "conversation", "thread")))
        if kept_by_server or body.get("n") not in (None, 1):
            return None
        return {**body, "tools": [*body["tools"], *tools]}

    def prepare_question(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Forced calls and formats go too. That may miss the cache; keeping them would cost the answer."""
        removed = {name for name in ("tool_choice", "function_call") if _forces_a_call(body.get(name))}
        if as_mapping(body.get("response_format")).get("type", "text") != "text":
            removed.add("response_format")
        rest = {name: value for name, value in body.items() if name not in _NOT_ASKED_AGAIN | removed}
        for name in ("output_config", "text"):  # Anthropic and Responses: a format among other settings.
            settings = as_mapping(rest.get(name))
            if as_mapping(settings.get("format")).get("type", "text") != "text":
                rest[name] = {key: value for key, value in settings.items() if key != "format"}
                if not rest[name]:
                    del rest[name]
        return rest

    def thinking_room(self, body: Mapping[str, Any]) -> int:
        """Return the tokens that thinking may take before the answer begins; 0 if the request does not think."""
        thinking = as_mapping(body.get("thinking"))
        mode, budget = thinking.get("type"), thinking.get("budget_tokens")
        if mode == "disabled":
            return 0
        if isinstance(budget, int):
            return budget
        effort = as_mapping(body.get("reasoning")).get("effort") or body.get("reasoning_effort")
        is_requested = mode is not None or effort not in (None, "none")
        is_default = effort is None and _THINKS_BY_DEFAULT.search(str(body.get("model", ""))) is not None
        return THINKING_ROOM if is_requested or is_default else 0


def find_provider_compaction(body: Mapping[str, Any]) -> str:
    """Return the setting by which a body asks its provider to remove content, or ''.

    Anthropic's edits that only clear thinking are none: they follow rules that every client has to know.
    """
    management = body.get("context_management")
    edits = as_mapping(management).get("edits") if isinstance(management, Mapping) else management
    types = [str(as_mapping(edit).get("type", "")) for edit in edits] if isinstance(edits, list) else []
    removing = [name for name in types if name and not name.startswith("clear_thinking")]
    if removing:
        return f"context_management: {', '.join(removing)}"
    return "truncation: auto" if body.get("truncation") == "auto" else ""


def _forces_a_call(choice: Any) -> bool:
    if isinstance(choice, str):
        return choice in ("required", "any")
    fields = as_mapping(choice)
    if fields.get("type") == "allowed_tools":
        return "required" in (fields.get("mode"), as_mapping(fields.get("allowed_tools")).get("mode"))
    return bool(fields) and fields.get("type") not in ("auto", "none")
