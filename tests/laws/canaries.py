"""Conversations in which every text carries marks of its own: a text in the wrong place is seen by its marks.

A conversation is a list of exchanges, an exchange a list of lines: the user's words, calls with their results, a reply.
Two conversations are made together, so that they begin alike and differ in ways that are drawn.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ebbtide.wire import WIRES
from upstream.signing import call_words, sign_part

Body = dict[str, Any]
Kind = Literal["user", "say", "call", "result", "reminder", "note"]

_MARK = re.compile(r"\b(?:reef|deep)[a-z][0-9]{5}\b")
_TOPIC = re.compile(r"\btopic[a-z][0-9]{5}\b")
MODELS = {
    "anthropic": "claude-opus-4-8",
    "openai_chat": "gpt-4.1",
    "openai_responses": "gpt-4.1",
    "gemini": "gemini-3-pro-preview",
    "bedrock_converse": "anthropic.claude-sonnet-4-5-20250929-v1:0",
}
SYSTEM = "You are a careful engineer. Read before you write, and say what you found. "
WORDS = (
    "the queue waits for its lock",
    "a step returns what it took",
    "no test covers this branch",
    "see the log below",
)


def marks(value: object) -> set[str]:
    """Marks anywhere in a body, or in a text."""
    return set(_MARK.findall(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)))


def topics(value: object) -> list[str]:
    """Words to search a text by, in order. They are no marks: a query may be echoed."""
    return _TOPIC.findall(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def topic_of(mark: str) -> str:
    return f"topic{mark[4:]}"


@dataclass(frozen=True, slots=True)
class Line:
    kind: Kind
    text: str
    """A call's is its path."""
    id: str = ""
    name: str = ""


class NumberedTexts:
    """Writes texts, each with a number of its own."""

    def __init__(self) -> None:
        self.count = 0

    def text(self, label: str, lines: int = 1) -> str:
        """A mark at its beginning, one in the middle of it, and words."""
        self.count += 1
        number = f"{label}{self.count:05}"
        filler = [f"{n}: {WORDS[(n + self.count) % len(WORDS)]}" for n in range(lines)]
        middle = len(filler) // 2
        head = f"topic{number} reef{number} {filler[0]}"
        return "\n".join([head, *filler[1:middle], f"here is deep{number}", *filler[middle or 1 :]])


Exchange = tuple[Line, ...]


class ExchangeWriter:
    """Writes exchanges: of both conversations, of one, or with the same calls and other texts."""

    def __init__(self, chance: random.Random, *, most_lines: int = 120) -> None:
        self.pen, self.chance, self.most_lines, self.calls = NumberedTexts(), chance, most_lines, 0

    def exchange(self, label: str) -> Exchange:
        lines = [Line("user", self.pen.text(label, self.chance.choice((1, 1, 4))))]
        for _ in range(self.chance.randint(1, 3)):
            self.calls += 1
            if self.chance.random() < 0.6:
                lines.append(Line("say", self.pen.text(label)))
            name = self.chance.choice(("read_file", "Read", "Bash", "grep"))
            lines.append(Line("call", self.pen.text(label).split("\n")[0], f"call_{self.calls:012}", name))
            size = self.chance.choice((3, self.most_lines // 2, self.most_lines))
            lines.append(Line("result", self.pen.text(label, size), f"call_{self.calls:012}"))
            if self.chance.random() < 0.2:
                lines.append(Line("reminder", self.reminder(label)))
        return (*lines, Line("say", self.pen.text(label, 2)))

    def reminder(self, label: str) -> str:
        return f"<system-reminder>\n{self.pen.text(label)}\n</system-reminder>"

    def other(self, exchange: Exchange, label: str, kinds: Sequence[Kind]) -> Exchange:
        """The same exchange, with other texts in lines of these kinds."""
        return tuple(self.rewrite(line, label) if line.kind in kinds else line for line in exchange)

    def rewrite(self, line: Line, label: str) -> Line:
        if line.kind == "reminder":
            return replace(line, text=self.reminder(label))
        text = self.pen.text(label, line.text.count("\n") or 1)
        return replace(line, text=text.split("\n")[0] if line.kind == "call" else text)

    def pair(self, slots: Sequence[str], *, is_shuffled: bool = False) -> tuple[list[Exchange], list[Exchange]]:
        """Two conversations, from what each place of them is; see `SLOTS`. The first is always of both."""
        first, second = [self.exchange("c")], []
        second = list(first)
        for slot in slots:
            if slot == "a":
                first.append(self.exchange("a"))
                continue
            if slot == "b":
                second.append(self.exchange("b"))
                continue
            shared = self.exchange("c")
            first.append(self.other(shared, "a", SLOTS[slot]))
            second.append(self.other(shared, "b", SLOTS[slot]))
        if is_shuffled:
            rest = second[1:]
            self.chance.shuffle(rest)
            second = [second[0], *rest]
        return first, second


SLOTS: dict[str, tuple[Kind, ...]] = {
    "same": (),
    "a": (),
    "b": (),
    "results": ("result",),
    "replies": ("say",),
    "reminders": ("reminder",),
    "arguments": ("call",),
    "users": ("user",),
}
"""What differs between two conversations in one place: all of it stands in both, in one only, or lines of a kind differ.
Where results differ the ids of their calls do not: some local servers count from `call_0` in each conversation."""


def flat(exchanges: Iterable[Exchange]) -> list[Line]:
    return [line for exchange in exchanges for line in exchange]


def points(lines: Sequence[Line]) -> list[int]:
    """How many lines a request may have: it ends with what a client says, and no call is open."""
    closed = [n for n, line in enumerate(lines, 1) if line.kind in ("user", "result")]
    # A reminder behind a result goes out with it.
    return [n + 1 if n < len(lines) and lines[n].kind == "reminder" else n for n in closed]


def messages(wire: str, lines: Sequence[Line]) -> list[Body]:
    """As a client of that wire has them. Neighbours on one side share a message where the wire has blocks."""
    found: list[Body] = []
    for line in lines:
        if wire == "anthropic":
            _add_anthropic(found, line)
        elif wire == "openai_chat":
            _add_chat(found, line)
        elif wire == "gemini":
            _add_gemini(found, line)
        elif wire == "bedrock_converse":
            _add_converse(found, line)
        else:
            found.append(_response_item(line))
    return found


def _add_anthropic(found: list[Body], line: Line) -> None:
    role = "assistant" if line.kind in ("say", "call") else "system" if line.kind == "note" else "user"
    block: Body = {"type": "text", "text": line.text}
    if line.kind == "call":
        block = {"type": "tool_use", "id": line.id, "name": line.name, "input": {"path": line.text}}
    if line.kind == "result":
        block = {"type": "tool_result", "tool_use_id": line.id, "content": line.text}
    if line.kind == "note":
        found.append({"role": "system", "content": line.text})
    elif found and found[-1]["role"] == role:
        found[-1]["content"].append(block)
    else:
        found.append({"role": role, "content": [block]})


def _add_chat(found: list[Body], line: Line) -> None:
    if line.kind == "call":
        function = {"name": line.name, "arguments": json.dumps({"path": line.text})}
        call = {"id": line.id, "type": "function", "function": function}
        if found and found[-1]["role"] == "assistant":
            found[-1].setdefault("tool_calls", []).append(call)
        else:
            found.append({"role": "assistant", "content": None, "tool_calls": [call]})
    elif line.kind == "result":
        found.append({"role": "tool", "tool_call_id": line.id, "content": line.text})
    else:
        role = "assistant" if line.kind == "say" else "system" if line.kind == "note" else "user"
        found.append({"role": role, "content": line.text})


def _add_gemini(found: list[Body], line: Line) -> None:
    """The wire has no operator's messages; a client puts such a note into a reminder."""
    role = "model" if line.kind in ("say", "call") else "user"
    text = f"<system-reminder>{line.text}</system-reminder>" if line.kind == "note" else line.text
    part: Body = {"text": text}
    if line.kind == "call":
        part = {"functionCall": {"name": line.name, "args": {"path": line.text}}}
    if line.kind == "result":
        calls = [one["functionCall"] for one in found[-1]["parts"] if "functionCall" in one] if found else []
        name = calls[0]["name"] if calls else line.name
        part = {"functionResponse": {"name": name, "response": {"output": line.text}}}
    if found and found[-1]["role"] == role:
        found[-1]["parts"].append(part)
    else:
        found.append({"role": role, "parts": [part]})
    calls_of_step = [one for one in found[-1]["parts"] if "functionCall" in one]
    if line.kind == "call" and len(calls_of_step) == 1:
        part["thoughtSignature"] = sign_part("gemini-3-pro-preview", call_words(part["functionCall"]))


def _add_converse(found: list[Body], line: Line) -> None:
    """The API has no operator's messages; a client puts such a note into a reminder."""
    role = "assistant" if line.kind in ("say", "call") else "user"
    block: Body = {"text": f"<system-reminder>{line.text}</system-reminder>" if line.kind == "note" else line.text}
    if line.kind == "call":
        block = {"toolUse": {"toolUseId": line.id, "name": line.name, "input": {"path": line.text}}}
    if line.kind == "result":
        block = {"toolResult": {"toolUseId": line.id, "content": [{"text": line.text}]}}
    if found and found[-1]["role"] == role:
        found[-1]["content"].append(block)
    else:
        found.append({"role": role, "content": [block]})


def _response_item(line: Line) -> Body:
    if line.kind == "call":
        arguments = json.dumps({"path": line.text})
        return {"type": "function_call", "call_id": line.id, "name": line.name, "arguments": arguments}
    if line.kind == "result":
        return {"type": "function_call_output", "call_id": line.id, "output": line.text}
    if line.kind == "say":
        return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": line.text}]}
    return {"role": "system" if line.kind == "note" else "user", "content": line.text}


TOOLS = ("read_file", "Read", "Bash", "grep")


def body_of(wire: str, lines: Sequence[Line], system: str = SYSTEM) -> Body:
    around: Body = {"model": MODELS[wire]}
    history = messages(wire, lines)
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    if wire == "anthropic":
        around |= {"max_tokens": 500, "system": system}
        around["tools"] = [{"name": name, "input_schema": schema} for name in TOOLS]
    elif wire == "openai_chat":
        functions = [{"name": name, "parameters": schema} for name in TOOLS]
        around["tools"] = [{"type": "function", "function": function} for function in functions]
        history = [{"role": "system", "content": system}, *history]
    elif wire == "gemini":
        around |= {"systemInstruction": {"parts": [{"text": system}]}, "generationConfig": {"maxOutputTokens": 500}}
        around["tools"] = [{"functionDeclarations": [{"name": name, "parameters": schema} for name in TOOLS]}]
    elif wire == "bedrock_converse":
        specs = [{"name": name, "inputSchema": {"json": schema}} for name in TOOLS]
        around = {"modelId": MODELS[wire], "system": [{"text": system}], "inferenceConfig": {"maxTokens": 500}}
        around["toolConfig"] = {"tools": [{"toolSpec": spec} for spec in specs]}
    else:
        around |= {"instructions": system, "store": False, "max_output_tokens": 500}
        around["tools"] = [{"type": "function", "name": name, "parameters": schema, "strict": False} for name in TOOLS]
    return {**around, WIRES[wire].list_key: history}


def reply_of(wire: str, lines: Sequence[Line]) -> Body:
    """What a provider would have answered, for these lines of the assistant's."""
    history = messages(wire, lines)
    if wire == "anthropic":
        return {"role": "assistant", "content": history[0]["content"] if history else [], "stop_reason": "end_turn"}
    if wire == "openai_chat":
        return {"choices": [{"message": history[0] if history else {"role": "assistant", "content": ""}}]}
    if wire == "gemini":
        content = history[0] if history else {"role": "model", "parts": []}
        return {"candidates": [{"content": content, "finishReason": "STOP"}]}
    if wire == "bedrock_converse":
        message = history[0] if history else {"role": "assistant", "content": []}
        return {"output": {"message": message}, "stopReason": "end_turn"}
    return {"output": history}


def next_reply(lines: Sequence[Line], point: int) -> list[Line]:
    """The assistant's lines behind that point, up to what the client says next."""
    found: list[Line] = []
    for line in lines[point:]:
        if line.kind not in ("say", "call"):
            break
        found.append(line)
    return found
