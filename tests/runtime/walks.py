"""A generated session walked through Context, request by request, as its client would have sent it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ebbtide.core.errors import WontFit
from ebbtide.runtime import Context, Ready
from ebbtide.store import MemoryStore
from ebbtide.wire import WIRES
from runtime.sessions import Clock, digest, without_breakpoints
from upstream.prefix import tokens, units

Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkStep:
    """One request of the walk: what the client had, and what became of it."""

    asked: Body
    ready: Ready | None
    """None where it was refused as too large."""
    refused_again: tuple[str, ...] = ()
    """Why it was refused when it was sent again."""

    def sent(self, wire: str) -> list[str]:
        """Messages that went out, without cache marks, one digest each."""
        return [digest(without_breakpoints(one)) for one in self.ready.body[WIRES[wire].list_key]] if self.ready else []


@dataclass(slots=True, kw_only=True)
class Walk:
    wire: str
    window: int
    policy: str = "default"
    billed: bool = True
    """Whether the provider reports usage."""
    pause: float = 10.0
    store: MemoryStore = field(default_factory=MemoryStore)
    clock: Clock = field(default_factory=Clock)

    def context(self) -> Context:
        return Context(
            window=self.window, policy=self.policy, store=self.store, wire=self.wire, marks=True, clock=self.clock
        )

    def go(
        self, requests: list[Body], each: Callable[[], Context], again: Sequence[Callable[[], Context]] = ()
    ) -> Iterator[WalkStep]:
        """`each` gives the context for a request: always the same one, or a new one on the same log. By those in
        `again` it is sent once more, before any answer has come."""
        for n, request in enumerate(requests):
            ctx = each()
            try:
                ready = ctx.prepare(request)
            except WontFit:
                yield WalkStep(asked=request, ready=None)
                continue
            refused = tuple([why for other in again if (why := self._refused(other(), request))])
            if self.billed and n + 1 < len(requests):
                self.clock.tick(1.0)
                ready.record(reply(self.wire, request, requests[n + 1], ready.body))
            yield WalkStep(asked=request, ready=ready, refused_again=refused)
            self.clock.tick(self.pause)

    def _refused(self, ctx: Context, asked: Body) -> str:
        self.clock.tick(1.0)
        try:
            ctx.prepare(asked)
        except WontFit as refusal:
            return str(refusal)
        return ""


def reply(wire: str, asked: Body, later: Body, sent: Body) -> Body:
    """What the provider said, as the next request has it, billed for what it was sent."""
    key = WIRES[wire].list_key
    said = []
    for message in later[key][len(asked[key]) :]:
        if message.get("role", "assistant") not in ("assistant", "model") or str(message.get("type", "")).endswith(
            "_output"
        ):
            break
        said.append(message)
    prompt, output = tokens(units(wire, sent)), len(json.dumps(said)) // 3
    if wire == "anthropic":
        return {**said[0], "usage": {"input_tokens": prompt, "output_tokens": output}}
    if wire == "openai_chat":
        return {"choices": [{"message": said[0]}], "usage": {"prompt_tokens": prompt, "completion_tokens": output}}
    if wire == "gemini":
        usage = {"promptTokenCount": prompt, "candidatesTokenCount": output, "totalTokenCount": prompt + output}
        return {"candidates": [{"content": said[0], "finishReason": "STOP"}], "usageMetadata": usage}
    if wire == "bedrock_converse":
        usage = {"inputTokens": prompt, "outputTokens": output, "totalTokens": prompt + output}
        return {"output": {"message": said[0]}, "stopReason": "end_turn", "usage": usage}
    return {"output": said, "usage": {"input_tokens": prompt, "output_tokens": output}}
