"""An agent at work against a provider on a real socket that checks every rule, binds thinking, and bills its cache."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import quote

import pytest

from ebbtide.runtime import Context
from ebbtide.wire import WIRES
from laws.promises import JOINED
from runtime.sessions import Clock
from upstream.caching import MARKED
from upstream.finding import Body
from upstream.prefix import units
from upstream.script import Part, Say, Think, Use
from upstream.server import Upstream
from wire_messages import text_message

TURNS = 60
WINDOW = 24_000
PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "gemini": "/v1beta/models/{model}:generateContent",
    "bedrock_converse": "/model/{model}/converse",
}
MODELS = {
    "claude-opus-5-5": "anthropic",  # signed thinking is bound to all before it (A63)
    "claude-sonnet-5": "anthropic",
    "claude-sonnet-4-5": "anthropic",  # manual thinking must open the assistant's turn (A37)
    "gpt-5": "openai_chat",
    "gpt-5-codex": "openai_responses",
    "gemini-2.5-pro": "gemini",
    "gemini-3-pro-preview": "gemini",  # the first call of a step must be signed (G5)
    "us.anthropic.claude-opus-5-5-v1:0": "bedrock_converse",  # and here as well thinking is bound to its prefix
    "us.amazon.nova-pro-v1:0": "bedrock_converse",
}
SYSTEM = "You are a careful engineer. Read before you write. " * 60


def said(n: int, wire: str) -> list[Part]:
    """Every seventh request ends a turn; in between one or two tools are called, now and then to write a file."""
    parts: list[Part] = [] if wire == "openai_chat" else [Think(f"thought {n}: look before you leap")]
    if n % 7 == 6:
        return [*parts, Say(f"Done with part {n}. " * 30)]
    uses = [Use("read", {"path": f"src/f{n}_{at}.py"}) for at in range(1 + (n % 3 == 0))]
    if n % 5 == 2:
        uses.append(Use("write", {"path": f"src/new{n}.py", "content": f"line {n}\n" * 200}))
    return [*parts, Say(f"step {n}"), *uses]


class Agent:
    """A client that knows nothing of Ebbtide but `prepare` and `record`."""

    def __init__(self, model: str, upstream: Upstream, context: Context) -> None:
        self.model, self.wire, self.upstream, self.context = model, MODELS[model], upstream, context
        self.history: list[Body] = []
        self.edited: list[bool] = []

    def turn(self, n: int) -> None:
        if n % 7 == 0:
            self.history = [*self.history, text_message(self.wire, "user", f"Now do part {n // 7}, please.")]
        ready = self.context.prepare({**self._settings(), WIRES[self.wire].list_key: list(self.history)})
        status, answer = self._post(ready.body)
        assert status == 200, answer
        assert {told.partition(" ")[0] for told in ready.report.repairs} <= JOINED, "the hardener hides what we broke"
        ready.record(answer)
        self.edited.append(bool(ready.report.edits))
        self.history = [*self.history, *self._heard(answer, n)]

    def _settings(self) -> Body:
        model = {"model": self.model}
        if self.wire == "anthropic":
            manual = {"type": "enabled", "budget_tokens": 1_024}
            thinking = manual if self.model == "claude-sonnet-4-5" else {"type": "adaptive"}
            tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("read", "write")]
            return {**model, "max_tokens": 2_000, "system": SYSTEM, "thinking": thinking, "tools": tools}
        if self.wire == "gemini":
            functions = [{"name": name, "parameters": {"type": "object"}} for name in ("read", "write")]
            return {"systemInstruction": {"parts": [{"text": SYSTEM}]}, "tools": [{"functionDeclarations": functions}]}
        if self.wire == "bedrock_converse":
            specs = [{"name": name, "inputSchema": {"json": {"type": "object"}}} for name in ("read", "write")]
            tools = {"tools": [{"toolSpec": spec} for spec in specs]}
            return {"modelId": self.model, "system": [{"text": SYSTEM}], "toolConfig": tools}
        return model if self.wire == "openai_chat" else {**model, "instructions": SYSTEM, "store": False}

    def _post(self, body: Body) -> tuple[int, Body]:
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream.port, timeout=240)
        try:
            path = PATHS[self.wire].format(model=quote(self.model))
            body = {name: value for name, value in body.items() if name != "modelId"}
            connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def _heard(self, answer: Body, n: int) -> list[Body]:
        output = f"src/f{n}.py: def step(queue, lock): return queue.take()\n" * 60
        if self.wire == "anthropic":
            uses = [block for block in answer["content"] if block["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": use["id"], "content": output} for use in uses]
            told = {"role": "assistant", "content": answer["content"]}
            return [told, {"role": "user", "content": results}] if results else [told]
        if self.wire == "openai_chat":
            message = answer["choices"][0]["message"]
            calls = message.get("tool_calls") or []
            return [message, *({"role": "tool", "tool_call_id": call["id"], "content": output} for call in calls)]
        if self.wire == "gemini":
            content = answer["candidates"][0]["content"]
            calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
            results = [
                {"functionResponse": {"id": call["id"], "name": call["name"], "response": {"output": output}}}
                for call in calls
            ]
            return [content, {"role": "user", "parts": results}] if results else [content]
        if self.wire == "bedrock_converse":
            message = answer["output"]["message"]
            uses = [block["toolUse"] for block in message["content"] if "toolUse" in block]
            outputs = [{"toolUseId": use["toolUseId"], "content": [{"text": output}]} for use in uses]
            return (
                [message, {"role": "user", "content": [{"toolResult": one} for one in outputs]}] if uses else [message]
            )
        calls = [item for item in answer["output"] if item["type"] == "function_call"]
        results = [{"type": "function_call_output", "call_id": one["call_id"], "output": output} for one in calls]
        return [*answer["output"], *results]


@pytest.mark.parametrize("model", MODELS)
def test_sixty_turns_in_a_small_window_are_never_refused(model: str) -> None:
    """And the cache follows: between edits each request reads what the one before it left."""
    wire, clock = MODELS[model], Clock()
    counted = iter(range(10**6))

    def script(body: Body) -> Any:
        return said(next(counted), wire)

    with Upstream(script, window=WINDOW, clock=clock) as upstream:
        context = Context(model=model, window=WINDOW, marks=True, wire=wire, clock=clock)
        agent = Agent(model, upstream, context)
        for n in range(TURNS):
            agent.turn(n)
            clock.tick(20.0)

    assert [exchange.refused for exchange in upstream.requests if exchange.refused] == []
    assert any(agent.edited), "the window was never under pressure"
    check_cache(wire, agent, upstream)


def check_cache(wire: str, agent: Agent, upstream: Upstream) -> None:
    sent = [[unit.text for unit in units(wire, exchange.parsed)] for exchange in upstream.requests]
    for n in range(1, len(sent)):
        if agent.edited[n]:
            continue
        assert sent[n][: len(sent[n - 1])] == sent[n - 1], f"request {n} does not extend the one before"
        before, now = upstream.requests[n - 1].usage, upstream.requests[n].usage
        assert before is not None
        assert now is not None
        # A mark under the model's minimum is ignored, and OpenAI's cache goes in steps of 128 from 1,024 on.
        cached = before.read + before.written if wire in MARKED else before.prompt - 128 - 1_024
        assert now.read >= min(cached, before.prompt), f"request {n} read {now.read} of {cached}"


@pytest.mark.parametrize("model", list(MODELS))
def test_an_endless_tool_loop_is_compacted_at_a_valid_cut(model):
    """One request of the user and 60 calls, each with thinking: without a cut inside the loop the session would die."""
    wire, clock = MODELS[model], Clock()
    counted = iter(range(10**6))

    def script(_: Body) -> list[Part]:
        n = next(counted)
        thought: list[Part] = [] if wire == "openai_chat" else [Think(f"thought {n}: look before you leap " * 20)]
        return [*thought, Say(f"step {n} " * 60), Use("read", {"path": f"src/f{n}.py"})]

    with Upstream(script, window=WINDOW, clock=clock) as upstream:
        context = Context(model=model, window=WINDOW, marks=True, wire=wire, clock=clock)
        agent = Agent(model, upstream, context)
        for n in range(TURNS):
            agent.turn(7 * n + 1 if n else 0)

    assert any(edit.by == "summarize" for edit in context.edits())
