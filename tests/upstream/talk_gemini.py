"""A session on Gemini's wire: with and without ids, in both spellings, signed calls, media, code that Google ran."""

from __future__ import annotations

import base64
from random import Random

from upstream import signing
from upstream.finding import Body
from upstream.pixels import png
from upstream.render import name
from upstream.story import Call, Question, Step

MODELS = ("gemini-3-pro-preview", "gemini-3-pro-preview", "gemini-2.5-pro", "gemini-2.5-flash")
TOOLS = {"read": "read_file", "shell": "run_shell", "grep": "search_files", "edit": "edit_file", "write": "write_file"}
PICTURE = png(640, 480)
PDF = base64.b64encode(b"%PDF-1.4\n1 0 obj<</Type /Pages>>endobj\n2 0 obj<</Type /Page>>endobj\n%%EOF").decode()
SYSTEM = "You are a careful engineer. Read before you write. " * 40


class GeminiTalk:
    def __init__(self, rng: Random, model: str = "") -> None:
        choice = MODELS[rng.randrange(len(MODELS))]
        self.model = model or choice
        self.salt = rng.randrange(1 << 20)
        self.has_ids = rng.randrange(2) == 0
        self.is_snake = rng.randrange(3) == 0
        self.thinks = self.model.startswith("gemini-3") or rng.randrange(2) == 0
        self.names_role = rng.randrange(4) > 0
        self.settings: Body = {
            "model": self.model,
            self._key("systemInstruction"): {"parts": [{"text": SYSTEM}]},
            "tools": [{self._key("functionDeclarations"): [_tool(each) for each in TOOLS.values()]}],
            self._key("generationConfig"): {self._key("maxOutputTokens"): 4096},
        }
        self.contents: list[Body] = []
        self.ids = 0

    def body(self) -> Body:
        return {**self.settings, "contents": list(self.contents)}

    def ask(self, question: Question) -> None:
        parts: list[Body] = []
        if question.picture:
            parts.append(self._inline("image/png", PICTURE))
        if question.document:
            parts.append(self._inline("application/pdf", PDF))
        parts.append({"text": question.text})
        if question.notice:
            parts.append({"text": f"<system-reminder>{question.notice}</system-reminder>"})
        role = {"role": "user"} if self.names_role else {}
        self.contents.append({**role, "parts": parts})

    def act(self, step: Step) -> None:
        calls = [(self._id(), call) for call in step.calls]
        parts = self._thought(step.thought)
        if step.said:
            parts.append({"text": step.said})
        if step.searched:
            code = {"language": "PYTHON", "code": f"print({step.searched!r})"}
            parts.append({self._key("executableCode"): code})
            parts.append(
                {self._key("codeExecutionResult"): {"outcome": "OUTCOME_OK", "output": "python queue timeout"}}
            )
        for n, (id, call) in enumerate(calls):
            parts.append(self._call(id, call, signed=not n))
        self.contents.append({"role": "model", "parts": parts})
        answers = [self._response(id, call) for id, call in calls]
        if step.notice:
            answers.append({"text": f"<system-reminder>{step.notice}</system-reminder>"})
        self.contents.append({"role": "user", "parts": answers})

    def reply(self, thought: str, words: str, declined: bool) -> None:
        said = "I can't help with that." if declined else words
        parts = [*self._thought(thought), {"text": said}]
        if self.thinks:
            parts.append({"text": "", self._key("thoughtSignature"): signing.sign_part(self.model, "")})
        self.contents.append({"role": "model", "parts": parts})

    def _thought(self, thought: str) -> list[Body]:
        if not thought or not self.thinks:
            return []
        signature = signing.sign_part(self.model, thought)
        return [{"text": thought, "thought": True, self._key("thoughtSignature"): signature}]

    def _call(self, id: str, call: Call, *, signed: bool) -> Body:
        given: dict[str, Body] = {
            "read": {"path": call.path},
            "shell": {"command": call.detail},
            "grep": {"query": call.detail, "path": call.path},
            "edit": {"path": call.path, "old": "retry", "new": call.detail},
            "write": {"path": call.path, "content": f"{call.detail}\n" * 30},
        }
        function: Body = {**({"id": id} if id else {}), "name": TOOLS[call.kind], "args": given[call.kind]}
        part: Body = {self._key("functionCall"): function}
        if signed and self.thinks:
            part[self._key("thoughtSignature")] = signing.sign_part(self.model, signing.call_words(function))
        return part

    def _response(self, id: str, call: Call) -> Body:
        response: Body = {"output": call.result}
        if call.failed and call.result:
            response = {"error": call.result}
        elif call.kind == "grep":
            response = {"matches": call.result.splitlines(), "truncated": False}
        elif call.kind == "shell":
            response = {"result": call.result}
        function: Body = {**({"id": id} if id else {}), "name": TOOLS[call.kind], "response": response}
        if call.picture:
            function["parts"] = [self._inline("image/png", PICTURE)]
        return {self._key("functionResponse"): function}

    def _inline(self, kind: str, data: str) -> Body:
        return {self._key("inlineData"): {self._key("mimeType"): kind, "data": data}}

    def _id(self) -> str:
        self.ids += 1
        return name("", self.salt, self.ids)[:12] if self.has_ids else ""

    def _key(self, camel: str) -> str:
        return (
            "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in camel)
            if self.is_snake
            else camel
        )


def _tool(tool: str) -> Body:
    schema = {"type": "object", "properties": {"path": {"type": "string"}, "command": {"type": "string"}}}
    return {"name": tool, "description": "See the manual.", "parameters": schema}
