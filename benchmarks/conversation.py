"""One generated agent session, the same for all subjects: a task, then endless tool calls with their results.

Results are one to two kilobytes of what tools print: numbered source, a listing, a log. Equal seeds give equal text.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

TASK = "The nightly import drops rows with an empty currency. Find out why, fix it, and run the tests."
_WORDS = [
    *("account", "batch", "buffer", "cache", "client", "column", "commit", "config", "currency", "cursor", "error"),
    *("field", "handler", "import", "index", "invoice", "journal", "ledger", "line", "loader", "logger", "merge"),
    *("order", "parser", "payment", "queue", "record", "result", "retry", "row", "schema", "session", "source"),
    *("status", "stream", "table", "task", "token", "total", "update", "user", "value", "window", "worker", "writer"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One exchange: a short text of the assistant, a tool call and its result."""

    id: str
    said: str
    tool: str
    arguments: dict[str, object]
    result: str


def steps(seed: int = 7) -> Iterator[Step]:
    """Yield an endless session. No two steps are equal, so recognizing a text saves nothing."""
    dice, n = random.Random(seed), 0
    while True:
        path = f"src/{dice.choice(_WORDS)}/{dice.choice(_WORDS)}_{n}.py"
        tool, arguments, line = dice.choice(
            (
                ("Read", {"file_path": path, "offset": n, "limit": 40}, _source),
                ("Grep", {"pattern": dice.choice(_WORDS), "path": path}, _match),
                ("Bash", {"command": f"python -m pytest {path} -q", "timeout": 60}, _log),
            )
        )
        length = dice.randint(1000, 2000)
        text = ""
        while len(text) < length:
            text += line(dice, path) + "\n"
        said = f"Next I look at the {dice.choice(_WORDS)} of {path}."
        yield Step(id=f"toolu_{n:08d}", said=said, tool=tool, arguments=arguments, result=text)
        n += 1


def _source(dice: random.Random, path: str) -> str:
    del path
    name, first, second = dice.sample(_WORDS, 3)
    default = dice.randint(0, 99)
    return f"{dice.randint(1, 900):6}\t    {name} = self.{first}.get({second!r}, {default})  # {first} of {name}"


def _match(dice: random.Random, path: str) -> str:
    name, given = "_".join(dice.sample(_WORDS, 2)), dice.choice(_WORDS)
    return f"{path}:{dice.randint(1, 900)}:    def {name}(self, {given}: str) -> int:"


def _log(dice: random.Random, path: str) -> str:
    clock = f"{dice.randint(0, 23):02}:{dice.randint(0, 59):02}:{dice.randint(0, 59):02}"
    return f"2026-03-04 {clock} INFO {path}: {' '.join(dice.sample(_WORDS, 5))} in {dice.random():.3f}s"


def anthropic(step: Step) -> list[dict[str, object]]:
    """The exchange as two messages of an Anthropic request."""
    call = {"type": "tool_use", "id": step.id, "name": step.tool, "input": step.arguments}
    result = {"type": "tool_result", "tool_use_id": step.id, "content": step.result}
    return [
        {"role": "assistant", "content": [{"type": "text", "text": step.said}, call]},
        {"role": "user", "content": [result]},
    ]


def openai(step: Step) -> list[dict[str, object]]:
    """The exchange as two messages of an OpenAI Chat Completions request."""
    function = {"name": step.tool, "arguments": json.dumps(step.arguments)}
    call = {"id": step.id, "type": "function", "function": function}
    said: dict[str, object] = {"role": "assistant", "content": step.said, "tool_calls": [call]}
    return [said, {"role": "tool", "tool_call_id": step.id, "content": step.result}]


def tools() -> list[dict[str, object]]:
    """Twenty schemas, as many as a coding agent has."""
    named = ["Read", "Grep", "Bash", *(f"tool_{n}" for n in range(17))]
    fields = {word: {"type": "string", "description": f"The {word} to use."} for word in _WORDS[:6]}
    schema = {"type": "object", "properties": fields, "required": _WORDS[:2]}
    return [{"name": name, "description": f"{name} for the session.", "input_schema": schema} for name in named]


def request(messages: list[dict[str, object]]) -> dict[str, object]:
    return {
        "model": "claude-sonnet-5",
        "max_tokens": 8000,
        "system": "You are a careful engineer.",
        "tools": tools(),
        "messages": messages,
    }
