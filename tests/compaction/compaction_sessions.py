"""Conversations that have to be folded, and those who are asked about them."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any

from ebbtide.audit.replan import Difference, check_message_ids, replan
from ebbtide.policy import PRESETS
from ebbtide.runtime import Context, Ready
from ebbtide.store import LogReader
from ebbtide.wire import WIRES
from ebbtide.wire.validity import violations
from runtime.sessions import EARLY, Clock, digest, unmarked
from upstream.check import refusals
from upstream.server import Upstream

Body = dict[str, Any]
WINDOW = 8_000
MODEL = "claude-opus-4-5"
SUMMARY = "<summary>\n## Intent\nThe gauge reads wrong and is to be mended.\n</summary>"


def request_of(n: int) -> str:
    return f"Request {n}: the gauge in src/tide/gauge{n}.py is off by {n} centimetres, see to it."


def turn(n: int, lines: int = 3) -> list[Body]:
    """The user's words, a file read, and what the assistant said of it."""
    output = f"src/tide/gauge{n}.py:12: reading = level - datum_{n}\n" * lines
    call = {"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {"file_path": f"src/tide/gauge{n}.py"}}
    return [
        {"role": "user", "content": request_of(n)},
        {"role": "assistant", "content": [{"type": "text", "text": f"I look at gauge {n}."}, call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{n}", "content": output}]},
        {"role": "assistant", "content": f"Gauge {n} subtracts datum_{n} twice; it is mended now. " * 12},
    ]


def talk(turns: int, lines: int = 3) -> list[Body]:
    """So many turns, and the next request."""
    messages = [message for n in range(turns) for message in turn(n, lines)]
    return [*messages, {"role": "user", "content": request_of(turns)}]


def body(messages: list[Body], **more: object) -> Body:
    return {"model": MODEL, "max_tokens": 500, "messages": messages, **more}


class RecordingSummarizer:
    """A summarizer that remembers what it was asked. `says` is an answer, an exception, or what makes one of the n-th
    request."""

    def __init__(self, says: object = SUMMARY) -> None:
        self.says = says
        self.requests: list[Body] = []

    def __call__(self, request: Body) -> object:
        self.requests.append(request)
        said = self.says(request) if callable(self.says) else self.says
        if isinstance(said, BaseException):
            raise said
        return said


class EventLog:
    """A listener."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []

    def __call__(self, event: Any) -> None:
        self.events.append((event.kind, dict(event.fields)))

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.events]

    def told(self, kind: str) -> list[dict[str, object]]:
        return [fields for one, fields in self.events if one == kind]


def context(**options: Any) -> Context:
    settings = {"model": MODEL, "window": WINDOW, "clock": Clock(), "policy": EARLY, "marks": False}
    return Context(**{**settings, **options})


def walk(ctx: Context, messages: list[Body], start: int = 1) -> Iterator[Ready]:
    """Every request that a client of this conversation would have sent."""
    for n in range(start, len(messages) + 1, 2):
        ready = ctx.prepare(body(messages[:n]))
        assert [str(one) for one in violations(WIRES["anthropic"], ready.body)] == []
        assert [str(one) for one in refusals("anthropic", ready.body)] == []
        yield ready


def until(ctx: Context, messages: list[Body], done: Callable[[Ready], bool]) -> tuple[int, Ready]:
    """How many messages the request had that did it, and what became of it."""
    for n, ready in enumerate(walk(ctx, messages)):
        if done(ready):
            return 2 * n + 1, ready
    raise AssertionError("it never happened")


def folded(ready: Ready) -> bool:
    return any(edit.by in ("summarize", "fold_regions") for edit in ready.report.edits)


def text_of(ready: Ready) -> str:
    return json.dumps(ready.body, ensure_ascii=False)


def sent(ready: Ready) -> str:
    return digest(unmarked(ready.body["messages"]))


def replanned(log: LogReader) -> tuple[int, list[Difference]]:
    """How many plans could be made again from the log, and what came out otherwise."""
    records = log.read().records
    plan_count, differences = replan(records, {**PRESETS, EARLY.name: EARLY})
    return plan_count, [*differences, *check_message_ids(records)]


def posted(upstream: Upstream, request: Body) -> Body:
    """What the scripted provider answers. A refusal is raised in its words, as an SDK would."""
    connection = http.client.HTTPConnection("127.0.0.1", upstream.port, timeout=120)
    try:
        connection.request("POST", "/v1/messages", json.dumps(request), {"content-type": "application/json"})
        response = connection.getresponse()
        data: Body = json.loads(response.read())
        if response.status != 200:
            raise RuntimeError(data["error"]["message"])
        return data
    finally:
        connection.close()


LONG = talk(40)
SOFT, HIGH, HARD = (int(share * (WINDOW - 500)) for share in (0.65, 0.80, 0.95))
"""Levels of the default policy beside a reply of 500 tokens."""
