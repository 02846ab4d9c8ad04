"""A session on OpenAI's Chat wire and its compatibles: refusals, custom tools, operator messages, spoken reasoning."""

from __future__ import annotations

import json
from random import Random

from upstream.finding import Body
from upstream.pixels import png
from upstream.render import REASONS_ALOUD, name
from upstream.story import Call, Question, Step

MODELS = ("gpt-4.1", "gpt-5", "deepseek-reasoner", "qwen3-coder")
TOOLS = {"read": "read_file", "shell": "run_shell", "grep": "search_files", "edit": "edit_file", "write": "write_file"}
PICTURE = f"data:image/png;base64,{png(640, 480)}"
SYSTEM = "You are a careful engineer. Read before you write. " * 40


class ChatTalk:
    def __init__(self, rng: Random, model: str = "") -> None:
        choice = MODELS[rng.randrange(len(MODELS))]
        self.model = model or choice
        self.salt = rng.randrange(1 << 20)
        self.reasoning = self.model.startswith("gpt-5")
        self.operator = "developer" if self.reasoning else "system"
        self.aloud = any(maker in self.model for maker in REASONS_ALOUD)
        limit = "max_completion_tokens" if self.reasoning else "max_tokens"
        self.settings: Body = {"model": self.model, limit: 4096, "tools": [_tool(each) for each in TOOLS.values()]}
        if self.reasoning:
            self.settings["tools"].append({"type": "custom", "custom": {"name": "apply_patch"}})
        self.messages: list[Body] = [{"role": self.operator, "content": SYSTEM}]
        self.ids = 0

    def body(self) -> Body:
        return {**self.settings, "messages": list(self.messages)}

    def ask(self, question: Question) -> None:
        content: str | list[Body] = question.text
        if question.picture:
            content = [{"type": "text", "text": question.text}, {"type": "image_url", "image_url": {"url": PICTURE}}]
        self.messages.append({"role": "user", "content": content})
        self._notice(question.notice)

    def act(self, step: Step) -> None:
        calls = [self._call(call) for call in step.calls]
        message: Body = {"role": "assistant", "content": step.said or None}
        if self.aloud:
            message["reasoning_content"] = step.thought
        self.messages.append({**message, "tool_calls": calls})
        for sent, call in zip(calls, step.calls, strict=True):
            parts = [{"type": "text", "text": call.result}] if call.kind == "grep" and call.result else call.result
            self.messages.append({"role": "tool", "tool_call_id": sent["id"], "content": parts})
        self._notice(step.notice)

    def reply(self, thought: str, words: str, declined: bool) -> None:
        if declined:
            self.messages.append({"role": "assistant", "content": None, "refusal": "I can't help with that."})
        elif self.aloud:
            self.messages.append({"role": "assistant", "content": words, "reasoning_content": thought})
        else:
            self.messages.append({"role": "assistant", "content": words})

    def _notice(self, text: str) -> None:
        if text:
            self.messages.append({"role": self.operator, "content": text})

    def _call(self, call: Call) -> Body:
        self.ids += 1
        call_id = name("call_", self.salt, self.ids)
        if self.reasoning and call.kind == "edit":
            patch = f"*** Begin Patch\n*** Update File: {call.path}\n-retry\n+{call.detail}\n*** End Patch"
            return {"id": call_id, "type": "custom", "custom": {"name": "apply_patch", "input": patch}}
        given: dict[str, Body] = {
            "read": {"path": call.path},
            "shell": {"command": call.detail},
            "grep": {"query": call.detail, "path": call.path},
            "edit": {"path": call.path, "old": "retry", "new": call.detail},
            "write": {"path": call.path, "content": f"{call.detail}\n" * 30},
        }
        function = {"name": TOOLS[call.kind], "arguments": json.dumps(given[call.kind], ensure_ascii=False)}
        return {"id": call_id, "type": "function", "function": function}


def _tool(tool: str) -> Body:
    schema = {"type": "object", "properties": {"path": {"type": "string"}, "command": {"type": "string"}}}
    return {"type": "function", "function": {"name": tool, "description": "See the manual.", "parameters": schema}}
