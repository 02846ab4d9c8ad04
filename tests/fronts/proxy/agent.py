"""A client with a tool loop, that knows nothing of Ebbtide: it has a base URL, and sends its whole history each time."""

from __future__ import annotations

import http.client
import json

from fronts.proxy.proxy_runner import WAIT
from upstream.finding import Body
from upstream.script import Part, Say, Think, Use
from upstream.server import Upstream

PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "gemini": "/v1beta/models/gemini-3-pro-preview:generateContent",
}
MODELS = {
    "anthropic": "claude-opus-5-5",
    "openai_chat": "gpt-5",
    "openai_responses": "gpt-5-codex",
    "gemini": "gemini-3-pro-preview",
}
KEYS = {"anthropic": "messages", "openai_chat": "messages", "openai_responses": "input", "gemini": "contents"}
SYSTEM = "You are a careful engineer. Read before you write. " * 40
OUTPUT = "src/f{n}.py: def step(queue, lock): return queue.take()\n"


def looping(wire: str):
    """A script that always calls one more tool, with thinking where the wire signs it."""
    counted = iter(range(10**6))

    def script(_: Body) -> list[Part]:
        n = next(counted)
        thought: list[Part] = [] if wire == "openai_chat" else [Think(f"thought {n}: look before you leap " * 5)]
        return [*thought, Say(f"step {n} " * 20), Use("read", {"path": f"src/f{n}.py"})]

    return script


def addressed(path: str, body: Body) -> tuple[str, Body]:
    """The path and the body of a request; Gemini's path says whether it is streamed, and for which model it is. So does
    Bedrock's."""
    if "modelId" in body:
        return path, {name: value for name, value in body.items() if name != "modelId"}
    if "contents" not in body:
        return path, body
    body = {name: value for name, value in body.items() if name != "model"}
    if not body.pop("stream", False):
        return path, body
    return path.replace(":generateContent", ":streamGenerateContent?alt=sse"), body


class Agent:
    def __init__(self, wire: str, port: int, upstream: Upstream, *, lines: int = 60, **headers: str) -> None:
        self.wire, self.port, self.upstream, self.lines = wire, port, upstream, lines
        self.headers = {"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        self.history: list[Body] = [{"role": "user", "content": "Go through the code, file by file."}]

    def request(self, **more: object) -> Body:
        if self.wire == "anthropic":
            tools = [{"name": "read", "input_schema": {"type": "object"}}]
            around = {"max_tokens": 2_000, "system": SYSTEM, "thinking": {"type": "adaptive"}, "tools": tools}
        elif self.wire == "gemini":
            declared = [{"name": "read", "parameters": {"type": "object"}}]
            around = {"tools": [{"functionDeclarations": declared}], "systemInstruction": {"parts": [{"text": SYSTEM}]}}
        else:
            function = {"name": "read", "parameters": {"type": "object"}}
            chat = self.wire == "openai_chat"
            tool = {"type": "function", "function": function} if chat else {"type": "function", **function}
            around = {"tools": [tool], **({} if chat else {"instructions": SYSTEM, "store": False})}
        history = list(self.history) if self.wire != "gemini" else list(map(_content, self.history))
        return {"model": MODELS[self.wire], **around, KEYS[self.wire]: history, **more}

    def post(self, body: Body, path: str = "") -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)
        try:
            path, body = addressed(path or PATHS[self.wire], body)
            connection.request("POST", path, json.dumps(body), self.headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def turn(self, n: int, *, stream: bool = False) -> None:
        status, raw = self.post(self.request(**({"stream": True} if stream else {})))
        assert status == 200, raw[:500]
        answer = self.upstream.requests[-1].response
        if not stream:
            assert json.loads(raw) == answer
        self.history = [*self.history, *self._heard(answer, n)]

    def _heard(self, answer: Body, n: int) -> list[Body]:
        output = OUTPUT.format(n=n) * self.lines
        if self.wire == "anthropic":
            uses = [block for block in answer["content"] if block["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": use["id"], "content": output} for use in uses]
            return [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": results}]
        if self.wire == "openai_chat":
            message = answer["choices"][0]["message"]
            calls = message.get("tool_calls") or []
            return [message, *({"role": "tool", "tool_call_id": call["id"], "content": output} for call in calls)]
        if self.wire == "gemini":
            content = answer["candidates"][0]["content"]
            calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
            responses = [
                {"functionResponse": {"id": call["id"], "name": call["name"], "response": {"output": output}}}
                for call in calls
            ]
            return [content, *([{"role": "user", "parts": responses}] if responses else [])]
        calls = [item for item in answer["output"] if item["type"] == "function_call"]
        results = [{"type": "function_call_output", "call_id": one["call_id"], "output": output} for one in calls]
        return [*answer["output"], *results]


def _content(message: Body) -> Body:
    role = "model" if message["role"] == "assistant" else message["role"]
    return message if "parts" in message else {"role": role, "parts": [{"text": message["content"]}]}
