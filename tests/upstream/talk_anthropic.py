"""A session on Anthropic's wire: signed thinking, server tools, documents, and marks that move as clients move them."""

from __future__ import annotations

import base64
from random import Random

from upstream import signing
from upstream.finding import Body
from upstream.models import Model, model
from upstream.pixels import png
from upstream.prefix import message_units, units
from upstream.render import name
from upstream.story import Call, Question, Step

MODELS = (
    "claude-sonnet-4-5",
    "claude-haiku-4-5-20251001",
    "claude-opus-4-8",
    "claude-sonnet-5",
    "claude-fable-5",
    "claude-fable-5-1",
    "claude-opus-5-5",
)
TOOLS = {"read": "Read", "shell": "Bash", "grep": "Grep", "edit": "Edit", "write": "Write"}
EPHEMERAL = {"type": "ephemeral"}
PICTURE = png(640, 480)
PDF = base64.b64encode(b"%PDF-1.4\n1 0 obj<</Type /Pages>>endobj\n2 0 obj<</Type /Page>>endobj\n%%EOF").decode()
SYSTEM = "You are a careful engineer. Read before you write. " * 40


class AnthropicTalk:
    def __init__(self, rng: Random, name: str = "") -> None:
        choice = MODELS[rng.randrange(len(MODELS))]
        self.model = name or choice
        self.family: Model = model(self.model)
        thinks, marks, self.salt = rng.randrange(3) > 0, rng.randrange(2) == 0, rng.randrange(1 << 20)
        # Where the model cannot be told not to think, every session thinks.
        self.thinks = thinks or self.family.always_thinking or self.family.preserved_thinking
        self.interleaved = rng.randrange(2) == 0 or not self.family.manual_thinking
        self.marks = marks
        self.settings = self._settings()
        self.messages: list[Body] = []
        self.digest = signing.extend("", units("anthropic", self.settings))
        self.fresh_turn = True
        self.ids = 0

    def _settings(self) -> Body:
        system: Body = {"type": "text", "text": SYSTEM}
        tools: list[Body] = [_tool(each) for each in TOOLS.values()]
        tools.append({"type": "web_search_20250305", "name": "web_search", "max_uses": 5})
        settings: Body = {"model": self.model, "max_tokens": 8192, "system": [system], "tools": tools}
        if self.marks:
            system["cache_control"] = EPHEMERAL
        if self.thinks and self.family.manual_thinking and not self.family.preserved_thinking:
            settings["thinking"] = {"type": "enabled", "budget_tokens": 4096}
        elif self.thinks:
            settings["thinking"] = {"type": "adaptive"}
        return settings

    def body(self) -> Body:
        """A marked session carries its mark on the newest message, which is a copy: marks never enter the history."""
        messages = list(self.messages)
        last = messages[-1]
        if self.marks and last["role"] == "user" and isinstance(last["content"], list):
            *before, block = last["content"]
            messages[-1] = {**last, "content": [*before, {**block, "cache_control": EPHEMERAL}]}
        return {**self.settings, "messages": messages}

    def ask(self, question: Question) -> None:
        self.fresh_turn = True
        blocks: list[Body] = [{"type": "text", "text": question.text}]
        if question.picture:
            blocks.insert(0, _picture())
        if question.document:
            source = {"type": "base64", "media_type": "application/pdf", "data": PDF}
            blocks.insert(0, {"type": "document", "source": source, "title": "规格.pdf"})
        plain = len(blocks) == 1 and not self.marks and not question.notice
        self._user(question.text if plain else blocks, question.notice)

    def act(self, step: Step) -> None:
        calls = [(self._id("toolu_"), call) for call in step.calls]
        content = self._thinking(step.thought)
        if step.said:
            content.append({"type": "text", "text": step.said})
        if step.searched:
            content += self._search(step.searched)
        content += [_use(call_id, call) for call_id, call in calls]
        self._add("assistant", content)
        self._user([_result(call_id, call) for call_id, call in calls], step.notice)

    def reply(self, thought: str, words: str, declined: bool) -> None:
        said = "I can't help with that." if declined else words
        self._add("assistant", [*self._thinking(thought), {"type": "text", "text": said}])

    def _thinking(self, thought: str) -> list[Body]:
        """Without interleaving a turn thinks once, at its start."""
        wanted = self.thinks and (self.interleaved or self.fresh_turn)
        self.fresh_turn = False
        if not wanted:
            return []
        if not thought:
            return [{"type": "redacted_thinking", "data": signing.redact(self.model, self.digest)}]
        return [{"type": "thinking", "thinking": thought, "signature": signing.sign(self.model, thought, self.digest)}]

    def _search(self, query: str) -> list[Body]:
        use = self._id("srvtoolu_")
        page = {"url": "https://example.org/queue", "title": "Queues", "page_age": "3 days ago"}
        found = {"type": "web_search_result", **page, "encrypted_content": signing.seal(use)}
        cited = {"type": "web_search_result_location", "url": page["url"], "title": page["title"]}
        citation = {**cited, "encrypted_index": signing.seal(use + "0"), "cited_text": "A queue may time out."}
        return [
            {"type": "server_tool_use", "id": use, "name": "web_search", "input": {"query": query}},
            {"type": "web_search_tool_result", "tool_use_id": use, "content": [found]},
            {"type": "text", "text": "The documentation says it may time out.", "citations": [citation]},
        ]

    def _user(self, content: str | list[Body], notice: str) -> None:
        """Operator text is a message of its own where the model knows that, else a reminder at the message's end."""
        if not notice or self.family.system_messages or isinstance(content, str):
            self._add("user", content)
        else:
            # Text after results opens a turn to some readers of the rules; the next answer then thinks again.
            self.fresh_turn = True
            reminder = {"type": "text", "text": f"<system-reminder>{notice}</system-reminder>"}
            self._add("user", [*content, reminder])
        if notice and self.family.system_messages:
            self._add("system", notice)

    def _add(self, role: str, content: str | list[Body]) -> None:
        message = {"role": role, "content": content}
        self.digest = signing.extend(self.digest, list(message_units(len(self.messages), message)))
        self.messages.append(message)

    def _id(self, prefix: str) -> str:
        self.ids += 1
        return name(prefix, self.salt, self.ids)


def _tool(tool: str) -> Body:
    properties = {key: {"type": "string"} for key in ("file_path", "command", "pattern", "content")}
    return {
        "name": tool,
        "description": f"{tool}: see the manual.",
        "input_schema": {"type": "object", "properties": properties},
    }


def _use(call_id: str, call: Call) -> Body:
    given: dict[str, Body] = {
        "read": {"file_path": call.path},
        "shell": {"command": call.detail, "description": "run it"},
        "grep": {"pattern": call.detail, "path": call.path},
        "edit": {"file_path": call.path, "old_string": "retry", "new_string": call.detail},
        "write": {"file_path": call.path, "content": f"{call.detail}\n" * 30},
    }
    return {"type": "tool_use", "id": call_id, "name": TOOLS[call.kind], "input": given[call.kind]}


def _result(call_id: str, call: Call) -> Body:
    result: Body = {"type": "tool_result", "tool_use_id": call_id, "content": call.result}
    if call.picture:
        result["content"] = [{"type": "text", "text": "The file is an image."}, _picture()]
    elif call.kind == "grep" and call.result:
        result["content"] = [{"type": "text", "text": call.result}]
    if call.failed and call.result:
        result["is_error"] = True
    return result


def _picture() -> Body:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}
