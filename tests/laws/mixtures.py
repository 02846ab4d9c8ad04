"""Conversations of any mixture: sizes from one word to most of a window, every role, all wires, in any order.

`Mixture` grows one conversation from a random generator; `requests` yields it each time that the model would be asked.
What the users said is remembered, each message with words that occur nowhere else, so that a test can look for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.wire import WIRES
from upstream.pixels import png

Body = dict[str, Any]
WORDS = [
    "level",
    "datum",
    "gauge",
    "reading",
    "harbour",
    "tide",
    "northing",
    "chart",
    "survey",
    "marker",
    "buoy",
    "sounding",
    "pilot",
    "draft",
    "keel",
]
WINDOWS = (4_000, 8_000, 16_000, 30_000, 64_000)
MODELS = {
    "anthropic": ("claude-sonnet-4-5", "claude-opus-4-8"),
    "openai_chat": ("gpt-4.1", "some-local-model"),
    "openai_responses": ("gpt-5",),
    "gemini": ("gemini-2.5-pro", "gemini-3-pro-preview"),
    "bedrock_converse": ("anthropic.claude-sonnet-4-5-20250929-v1:0", "us.amazon.nova-pro-v1:0"),
}
WITHOUT_NOTES = ("gemini", "bedrock_converse")
"""APIs in which a message of the operator cannot be written."""
ROLES = ("user", "assistant", "step", "note")


class Sizes(NamedTuple):
    """Tokens that texts of one conversation have, as shares of its window, and how often each size comes."""

    tiny: int
    short: int
    medium: int
    long: int


PROFILES = (Sizes(1, 0, 0, 0), Sizes(6, 3, 1, 0), Sizes(1, 3, 3, 1), Sizes(0, 1, 2, 4), Sizes(0, 0, 0, 1))


@dataclass(kw_only=True)
class Mixture:
    """One conversation, and the request that it is now."""

    wire: str
    rng: Random
    window: int
    model: str
    max_output: int
    most: int
    """Tokens of the largest message."""
    sizes: Sizes
    roles: dict[str, int]
    alternates: bool
    thinks: bool
    system: str = ""
    tools: int = 0
    steady: int = 0
    """Steps of a loop before the user may speak again."""
    messages: list[Body] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """What the user said, oldest first."""
    _calls: int = 0
    _texts: int = 0

    def body(self) -> Body:
        about: Body = {"model": self.model}
        if self.wire == "anthropic":
            about |= {"max_tokens": self.max_output, **({"system": self.system} if self.system else {})}
            if self.thinks:
                budget = {"type": "enabled", "budget_tokens": 1024}
                about["thinking"] = {"type": "adaptive"} if self.model == "claude-opus-4-8" else budget
            schema = {"type": "object", "properties": {"path": {"type": "string"}}}
            tools = [{"name": f"read_{n}", "description": "Reads.", "input_schema": schema} for n in range(self.tools)]
        elif self.wire == "openai_chat":
            about |= {"max_tokens": self.max_output}
            tools = [
                {"type": "function", "function": {"name": f"read_{n}", "parameters": {"type": "object"}}}
                for n in range(self.tools)
            ]
        elif self.wire == "gemini":
            about["generationConfig"] = {"maxOutputTokens": self.max_output}
            if self.system:
                about["systemInstruction"] = {"parts": [{"text": self.system}]}
            functions = [{"name": f"read_{n}", "parameters": {"type": "object"}} for n in range(self.tools)]
            tools = [{"functionDeclarations": functions}] if functions else []
        elif self.wire == "bedrock_converse":
            about = {"modelId": self.model, "inferenceConfig": {"maxTokens": self.max_output}}
            if self.system:
                about["system"] = [{"text": self.system}]
            specs = [{"name": f"read_{n}", "inputSchema": {"json": {"type": "object"}}} for n in range(self.tools)]
            if specs:
                about["toolConfig"] = {"tools": [{"toolSpec": spec} for spec in specs]}
            tools = []
        else:
            about |= {"max_output_tokens": self.max_output, **({"instructions": self.system} if self.system else {})}
            tools = [
                {"type": "function", "name": f"read_{n}", "parameters": {"type": "object"}} for n in range(self.tools)
            ]
        first = [{"role": "system", "content": self.system}] if self.system and self.wire == "openai_chat" else []
        return {**about, **({"tools": tools} if tools else {}), WIRES[self.wire].list_key: [*first, *self.messages]}

    # --- what is said ---------------------------------------------------------------------------------------------

    def text(self, tokens: int) -> str:
        """So many tokens, about, that begin and end with words which occur nowhere else."""
        self._texts += 1
        if tokens <= 3:
            return f"w{self._texts}"
        rng, name = self.rng, f"canary-{self._texts}"
        word = DEFAULT.text(" ".join(WORDS)) / len(WORDS)
        between = rng.choice([" ", " ", "\n", ". "])
        words = rng.choices(WORDS, k=max(1, int((tokens - 6) / (word + (0.8 if between != " " else 0)))))
        return f"{name} {between.join(words)} end-{name}"

    def size(self) -> int:
        kinds = ["tiny", "short", "medium", "long"]
        kind = self.rng.choices(kinds, weights=self.sizes)[0]
        most = self.most
        least, largest = {"tiny": (1, 2), "short": (4, 40), "medium": (40, 600), "long": (600, most)}[kind]
        return self.rng.randint(min(least, most), max(min(least, most), min(largest, most)))

    def user(self) -> None:
        text = self.text(self.size())
        self.said.append(text)
        picture = self.most > 3_000 and self.rng.random() < 0.05
        if self.wire == "anthropic":
            image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png(640, 480)}}
            content: Any = [image, {"type": "text", "text": text}] if picture else text
        elif self.wire == "openai_chat":
            image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png(640, 480)}"}}
            content = [image, {"type": "text", "text": text}] if picture else text
        elif self.wire == "gemini":
            image = {"inlineData": {"mimeType": "image/png", "data": png(640, 480)}}
            self.messages.append({"role": "user", "parts": [*([image] if picture else []), {"text": text}]})
            return
        elif self.wire == "bedrock_converse":
            image = {"image": {"format": "png", "source": {"bytes": png(640, 480)}}}
            content = [*([image] if picture else []), {"text": text}]
        else:
            image = {"type": "input_image", "image_url": f"data:image/png;base64,{png(640, 480)}"}
            content = [*([image] if picture else []), {"type": "input_text", "text": text}]
        self.messages.append({"role": "user", "content": content})

    def assistant(self) -> None:
        text = self.text(self.size())
        if self.wire == "openai_responses":
            self.messages.append({"role": "assistant", "content": [{"type": "output_text", "text": text}]})
            return
        if self.wire == "gemini":
            self.messages.append({"role": "model", "parts": [{"text": text}]})
            return
        if self.wire == "bedrock_converse":
            self.messages.append({"role": "assistant", "content": [{"text": text}]})
            return
        content: Any = text
        if self.thinks:
            content = [*self._thought(), {"type": "text", "text": text}]
        self.messages.append({"role": "assistant", "content": content})

    def note(self) -> None:
        self.messages.append({"role": "system", "content": self.text(self.rng.randint(4, 40))})

    def step(self) -> None:
        """Calls, all at once, and their results."""
        number = self.rng.choice([1, 1, 1, 2, 4])
        calls = range(self._calls, self._calls + number)
        self._calls += number
        given = {n: {"path": f"src/{n}.py"} for n in calls}
        sizes = [max(1, self.size() // number) for _ in calls]
        told = {n: self.text(size) for n, size in zip(calls, sizes, strict=True)}
        if self.wire == "anthropic":
            made = [{"type": "tool_use", "id": f"toolu_{n}", "name": "read_0", "input": given[n]} for n in calls]
            results = [{"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": told[n]} for n in calls]
            thought = self._thought() if self.rng.random() < 0.7 else []
            self.messages.append({"role": "assistant", "content": [*thought, *made]})
            self.messages.append({"role": "user", "content": results})
        elif self.wire == "openai_chat":
            made = [
                {
                    "id": f"c{n}", "type": "function",
                    "function": {"name": "read_0", "arguments": json.dumps(given[n])},
                }
                for n in calls
            ]  # fmt: skip
            self.messages.append({"role": "assistant", "content": None, "tool_calls": made})
            self.messages += [{"role": "tool", "tool_call_id": f"c{n}", "content": told[n]} for n in calls]
        elif self.wire == "gemini":
            parts: list[Body] = [{"functionCall": {"name": "read_0", "args": given[n]}} for n in calls]
            parts[0]["thoughtSignature"] = "c2ln"
            results = [{"functionResponse": {"name": "read_0", "response": {"output": told[n]}}} for n in calls]
            self.messages += [{"role": "model", "parts": parts}, {"role": "user", "parts": results}]
        elif self.wire == "bedrock_converse":
            uses = [{"toolUseId": f"tooluse_{n}", "name": "read_0", "input": given[n]} for n in calls]
            outputs = [{"toolUseId": f"tooluse_{n}", "content": [{"text": told[n]}]} for n in calls]
            self.messages.append({"role": "assistant", "content": [{"toolUse": use} for use in uses]})
            self.messages.append({"role": "user", "content": [{"toolResult": one} for one in outputs]})
        else:
            for n in calls:
                arguments = json.dumps(given[n])
                call = {"type": "function_call", "call_id": f"c{n}", "name": "read_0", "arguments": arguments}
                self.messages.append(call)
            self.messages += [{"type": "function_call_output", "call_id": f"c{n}", "output": told[n]} for n in calls]

    def _thought(self) -> list[Body]:
        if not self.thinks or self.wire != "anthropic":
            return []
        return [{"type": "thinking", "thinking": self.text(20), "signature": "c2ln" * self.rng.randint(1, 40)}]

    # --- growing --------------------------------------------------------------------------------------------------

    def grow(self) -> Iterator[Body]:
        """A message more each time, and the request where it is the model's turn."""
        last = ""
        while True:
            kind = self._next(last)
            getattr(self, kind)()
            last = kind
            if kind in ("user", "step"):
                yield self.body()

    def _next(self, last: str) -> str:
        if not last:
            return "user"
        if last == "note":
            # It stands between the user's side and the assistant's (A3).
            return "assistant" if not self.tools else self.rng.choice(["assistant", "step"])
        weights = dict(self.roles)
        if not self.tools:
            weights["step"] = 0
        if last == "step":
            weights["user"] = 0
            weights["assistant"] = 1 if self.rng.randrange(1 + self.steady) == 0 else 0
            weights["step"] = 1
        if self.alternates:
            weights |= {"user": 0} if last == "user" else {}
            weights |= {"assistant": 0, "step": 0, "note": 0} if last == "assistant" else {}
        if last == "assistant":
            # Two of the assistant's in a row are its own business; a note needs the user's side before it.
            weights |= {"note": 0, "assistant": 0, "user": 1, "step": 0}
        if last == "user" and not any(weights.values()):
            return "assistant"
        kinds = list(ROLES)
        return self.rng.choices(kinds, weights=[weights[kind] for kind in kinds])[0]


def mixture(wire: str, rng: Random) -> Mixture:
    """Settings of one conversation, drawn."""
    window = rng.choice(WINDOWS)
    tools = rng.choice([0, 1, 1, 3])
    thinks = wire == "anthropic" and rng.random() < 0.4
    output = rng.choice([200, window // 16, window // 4])
    most = rng.choice([window // 40, window // 8, window // 3, window // 2])
    model = rng.choice(MODELS[wire])
    # Not every model takes a note of the operator between messages (A2).
    notes = 0 if model == "claude-sonnet-4-5" or wire in WITHOUT_NOTES else rng.choice([0, 0, 1])
    made = Mixture(
        wire=wire, rng=rng, window=window, model=model,
        max_output=max(1_500, output) if thinks else output, most=most,
        sizes=rng.choice(PROFILES),
        roles={"user": rng.choice([1, 1, 5, 20]), "assistant": 2, "step": rng.choice([0, 2, 8]), "note": notes},
        alternates=rng.random() < 0.7, thinks=thinks, tools=tools, steady=rng.choice([2, 10, 100]),
    )  # fmt: skip
    made.system = made.text(rng.choice([5, 50, window // 10])) if rng.random() < 0.7 else ""
    return made
