"""A session on Bedrock's Converse API: signed thinking of Claude, media, results as text and as JSON, cache points."""

from __future__ import annotations

import base64
from random import Random

from upstream import signing
from upstream.finding import Body
from upstream.pixels import png
from upstream.prefix import message_units, units
from upstream.render import as_base64, name
from upstream.story import Call, Question, Step

BOUND = "us.anthropic.claude-opus-5-5-v1:0"
MODELS = ("anthropic.claude-sonnet-4-5-20250929-v1:0", BOUND, "us.amazon.nova-pro-v1:0")
TOOLS = {"read": "read_file", "shell": "run_shell", "grep": "search_files", "edit": "edit_file", "write": "write_file"}
POINT: Body = {"cachePoint": {"type": "default"}}
PICTURE = png(640, 480)
PDF = base64.b64encode(b"%PDF-1.4\n1 0 obj<</Type /Pages>>endobj\n2 0 obj<</Type /Page>>endobj\n%%EOF").decode()
SYSTEM = "You are a careful engineer. Read before you write. " * 40


class BedrockTalk:
    def __init__(self, rng: Random, name: str = "") -> None:
        choice = MODELS[rng.randrange(len(MODELS))]
        self.model = name or choice
        self.salt = rng.randrange(1 << 20)
        self.has_points = rng.randrange(2) == 0
        self.thinks = "claude" in self.model and (self.model == BOUND or rng.randrange(2) == 0)
        self.settings = self._settings()
        self.messages: list[Body] = []
        self.digest = signing.extend("", units("bedrock_converse", self.settings))
        self.ids = 0

    def _settings(self) -> Body:
        points = [POINT] if self.has_points else []
        settings: Body = {
            "modelId": self.model,
            "system": [{"text": SYSTEM}, *points],
            "toolConfig": {"tools": [*map(_tool, TOOLS.values()), *points]},
            "inferenceConfig": {"maxTokens": 4096},
        }
        if self.thinks:
            settings["additionalModelRequestFields"] = {"thinking": {"type": "enabled", "budget_tokens": 2048}}
        return settings

    def body(self) -> Body:
        """The newest message carries a cache point, in a copy: they never enter the history."""
        messages = list(self.messages)
        if self.has_points and messages[-1]["role"] == "user":
            messages[-1] = {**messages[-1], "content": [*messages[-1]["content"], POINT]}
        return {**self.settings, "messages": messages}

    def ask(self, question: Question) -> None:
        content: list[Body] = []
        if question.picture:
            content.append(_picture())
        if question.document:
            content.append({"document": {"format": "pdf", "name": "spec", "source": {"bytes": PDF}}})
        content.append({"text": question.text})
        if question.notice:
            content.append({"text": f"<system-reminder>{question.notice}</system-reminder>"})
        self._add("user", content)

    def act(self, step: Step) -> None:
        calls = [(self._id(), call) for call in step.calls]
        content = self._thought(step.thought)
        if step.said:
            content.append({"text": step.said})
        if step.searched:
            source = {"location": {"web": {"url": "https://example.org/queue"}}, "title": "Queues"}
            content.append({"citationsContent": {"content": [{"text": "It may time out."}], "citations": [source]}})
        content += [
            {"toolUse": {"toolUseId": id, "name": TOOLS[call.kind], "input": _given(call)}} for id, call in calls
        ]
        self._add("assistant", content)
        answers = [_result(id, call) for id, call in calls]
        if step.notice:
            answers.append({"text": f"<system-reminder>{step.notice}</system-reminder>"})
        self._add("user", answers)

    def reply(self, thought: str, words: str, declined: bool) -> None:
        said = "I can't help with that." if declined else words
        self._add("assistant", [*self._thought(thought), {"text": said}])

    def _thought(self, thought: str) -> list[Body]:
        if not self.thinks:
            return []
        if not thought:
            return [{"reasoningContent": {"redactedContent": as_base64(signing.redact(self.model, self.digest))}}]
        text = {"text": thought, "signature": signing.sign(self.model, thought, self.digest)}
        return [{"reasoningContent": {"reasoningText": text}}]

    def _add(self, role: str, content: list[Body]) -> None:
        message = {"role": role, "content": content}
        self.digest = signing.extend(self.digest, list(message_units(len(self.messages), message)))
        self.messages.append(message)

    def _id(self) -> str:
        self.ids += 1
        return name("tooluse_", self.salt, self.ids)


def _given(call: Call) -> Body:
    given: dict[str, Body] = {
        "read": {"path": call.path},
        "shell": {"command": call.detail},
        "grep": {"query": call.detail, "path": call.path},
        "edit": {"path": call.path, "old": "retry", "new": call.detail},
        "write": {"path": call.path, "content": f"{call.detail}\n" * 30},
    }
    return given[call.kind]


def _result(id: str, call: Call) -> Body:
    content: list[Body] = [{"text": call.result}] if call.result else []
    if call.kind == "grep":
        content = [{"json": {"matches": call.result.splitlines(), "truncated": False}}]
    if call.picture:
        content = [{"text": "The file is an image."}, _picture()]
    failed = {"status": "error"} if call.failed and call.result else {}
    return {"toolResult": {"toolUseId": id, "content": content, **failed}}


def _picture() -> Body:
    return {"image": {"format": "png", "source": {"bytes": PICTURE}}}


def _tool(tool: str) -> Body:
    schema = {"type": "object", "properties": {"path": {"type": "string"}, "command": {"type": "string"}}}
    return {"toolSpec": {"name": tool, "description": "See the manual.", "inputSchema": {"json": schema}}}
