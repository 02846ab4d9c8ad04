"""A session on OpenAI's Responses wire: reasoning groups, custom tool calls, searches, with and without item ids."""

from __future__ import annotations

from random import Random

from upstream import render
from upstream.finding import Body
from upstream.pixels import png
from upstream.script import Say, Think, Use
from upstream.story import Call, Question, Step

MODELS = ("gpt-5-codex", "gpt-5", "gpt-4.1")
PICTURE = f"data:image/png;base64,{png(640, 480)}"
INSTRUCTIONS = "You are a careful engineer. Read before you write. " * 40
Found = list[tuple[str, Body]]


class ResponsesTalk:
    def __init__(self, rng: Random, model: str = "") -> None:
        choice = MODELS[rng.randrange(len(MODELS))]
        self.model = model or choice
        self.salt = rng.randrange(1 << 20)
        self.thinks = self.model.startswith("gpt-5")
        # Some clients take the ids off before they send items back; then nothing ties a group but its order.
        self.named = rng.randrange(3) > 0
        stored = rng.randrange(2) == 0
        self.settings: Body = {"model": self.model, "instructions": INSTRUCTIONS, "tools": _tools(), "store": stored}
        if not stored:
            self.settings["include"] = ["reasoning.encrypted_content"]
        self.input: list[Body] = []
        self.turns = 0

    def body(self) -> Body:
        return {**self.settings, "input": list(self.input)}

    def ask(self, question: Question) -> None:
        parts: list[Body] = [{"type": "input_text", "text": question.text}]
        if question.picture:
            parts.append({"type": "input_image", "image_url": PICTURE})
        if question.document:
            parts.insert(
                0, {"type": "input_file", "filename": "规格.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}
            )
        self.input.append({"type": "message", "role": "user", "content": parts})
        self._notice(question.notice)

    def act(self, step: Step) -> None:
        found = self._opening(step.thought)
        if step.searched:
            action = {"type": "search", "query": step.searched}
            found.append(("ws", {"type": "web_search_call", "status": "completed", "action": action}))
        if step.said:
            found.append(self._said(step.said, "commentary"))
        salt = self._salt()
        calls = [render.item_of(_use(call), render.name("call_", salt, at)) for at, call in enumerate(step.calls)]
        self._add([*found, *calls], salt)
        for (_, sent), call in zip(calls, step.calls, strict=True):
            self.input.append(_output(sent, call))
        self._notice(step.notice)

    def reply(self, thought: str, words: str, declined: bool) -> None:
        found = self._opening(thought)
        if declined:
            part = {"type": "refusal", "refusal": "I can't help with that."}
            found.append(("msg", {"type": "message", "role": "assistant", "status": "completed", "content": [part]}))
        else:
            found.append(self._said(words, "final_answer"))
        self._add(found, self._salt())

    def _opening(self, thought: str) -> Found:
        return [render.item_of(Think(thought), f"thought{self.turns}")] if self.thinks else []

    def _said(self, text: str, phase: str) -> tuple[str, Body]:
        prefix, message = render.item_of(Say(text), "")
        return prefix, {**message, "phase": phase} if self.thinks else message

    def _add(self, found: Found, salt: str) -> None:
        self.input += render.numbered(found, salt) if self.named else [item for _, item in found]

    def _salt(self) -> str:
        self.turns += 1
        return render.name("", self.salt, self.turns)[:12]

    def _notice(self, text: str) -> None:
        if text:
            parts = [{"type": "input_text", "text": text}]
            self.input.append({"type": "message", "role": "developer", "content": parts})


def _use(call: Call) -> Use:
    if call.kind in ("edit", "write"):
        verb = "Update" if call.kind == "edit" else "Add"
        return Use("apply_patch", f"*** Begin Patch\n*** {verb} File: {call.path}\n+{call.detail}\n*** End Patch")
    if call.kind == "read" and len(call.path) % 2:
        return Use("read_file", {"path": call.path})
    command = {"read": f"cat {call.path}", "grep": f"rg '{call.detail}' {call.path}"}.get(call.kind, call.detail)
    return Use("shell", {"command": ["bash", "-lc", command], "workdir": "."})


def _output(sent: Body, call: Call) -> Body:
    output: str | list[Body] = call.result
    if call.picture:
        output = [
            {"type": "input_text", "text": "The file is an image."},
            {"type": "input_image", "image_url": PICTURE},
        ]
    return {"type": f"{sent['type']}_output", "call_id": sent["call_id"], "output": output}


def _tools() -> list[Body]:
    schema = {"type": "object", "properties": {"command": {"type": "array", "items": {"type": "string"}}}}
    functions: list[Body] = [
        {"type": "function", "name": each, "parameters": schema} for each in ("shell", "read_file")
    ]
    return [*functions, {"type": "custom", "name": "apply_patch"}, {"type": "web_search"}]
