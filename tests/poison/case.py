"""One history that wedged a real session, in the fewest messages that show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    source: str
    """The public thread, as `repository#number`; where none is known, the rule that was read from source or docs."""
    wire: Literal["anthropic", "openai_chat", "openai_responses", "gemini", "bedrock_converse"]
    rules: tuple[str, ...]
    """The rules of validity.md it breaks; none if it depends on beta headers alone and must pass untouched."""
    body: Json
    refused: bool = False
    """Nothing can be done in the request alone; the refusal names path and rule."""


def user(*content: Any) -> Json:
    return {"role": "user", "content": content[0] if len(content) == 1 and isinstance(content[0], str) else [*content]}


def assistant(*content: Any) -> Json:
    return {**user(*content), "role": "assistant"}


def text(words: str, **more: Any) -> Json:
    return {"type": "text", "text": words, **more}


def use(identity: Any, **more: Any) -> Json:
    return {"type": "tool_use", "id": identity, "name": "bash", "input": {"command": "ls"}, **more}


def result(identity: Any, content: Any = "ok", **more: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": identity, "content": content, **more}


MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
THOUGHT = {"type": "thinking", "thinking": "Let me look.", "signature": "EqQBCgIYAhIM"}
TOOLS = [{"name": "bash", "input_schema": {"type": "object"}}]
