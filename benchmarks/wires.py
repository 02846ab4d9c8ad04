"""What a turn costs on each API format, in one run: the same conversation, idle and read for the first time.

    python benchmarks/wires.py [--messages 1000] [--turns 40] [--json]

The formats take turns, so that a busy machine slows all of them. `steps` are bytecodes of our own code, which are equal
on every machine; work in C (hashing, JSON) is only in the times.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from conversation import TASK, Step, steps

import ebbtide
from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.wire import WIRES
from ebbtide.wire.reader import Reader

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from bytecode_count import count_bytecodes
from wire_messages import text_message

ENDLESS = 10**9
BASE = "anthropic"
MODELS = {
    "anthropic": "claude-sonnet-5",
    "openai_chat": "gpt-5",
    "openai_responses": "gpt-5",
    "gemini": "gemini-3-pro-preview",
    "bedrock_converse": "anthropic.claude-sonnet-4-5-20250929-v1:0",
}
Body = dict[str, Any]


def exchange(wire: str, step: Step) -> list[Body]:
    """The words of the assistant, a call and its result."""
    if wire == "anthropic":
        call: Body = {"type": "tool_use", "id": step.id, "name": step.tool, "input": step.arguments}
        result: Body = {"type": "tool_result", "tool_use_id": step.id, "content": step.result}
        said = [{"type": "text", "text": step.said}, call]
        return [{"role": "assistant", "content": said}, {"role": "user", "content": [result]}]
    if wire == "openai_chat":
        function = {"name": step.tool, "arguments": json.dumps(step.arguments)}
        calls = [{"id": step.id, "type": "function", "function": function}]
        message = {"role": "assistant", "content": step.said, "tool_calls": calls}
        return [message, {"role": "tool", "tool_call_id": step.id, "content": step.result}]
    if wire == "gemini":
        call = {"functionCall": {"id": step.id, "name": step.tool, "args": step.arguments}, "thoughtSignature": "c2ln"}
        response = {"id": step.id, "name": step.tool, "response": {"output": step.result}}
        said = [{"text": step.said}, call]
        return [{"role": "model", "parts": said}, {"role": "user", "parts": [{"functionResponse": response}]}]
    if wire == "bedrock_converse":
        call = {"toolUse": {"toolUseId": step.id, "name": step.tool, "input": step.arguments}}
        result = {"toolResult": {"toolUseId": step.id, "content": [{"text": step.result}]}}
        said = [{"text": step.said}, call]
        return [{"role": "assistant", "content": said}, {"role": "user", "content": [result]}]
    call = {"call_id": step.id, "name": step.tool, "arguments": json.dumps(step.arguments)}
    said = [{"type": "output_text", "text": step.said}]
    return [
        {"type": "message", "role": "assistant", "content": said},
        {"type": "function_call", **call},
        {"type": "function_call_output", "call_id": step.id, "output": step.result},
    ]


def body_of(wire: str, talk: list[Body]) -> Body:
    about: Body = {"max_tokens": 1_000} if wire == "anthropic" else {}
    if wire == "bedrock_converse":
        # It takes calls only from those who define tools.
        about = {"toolConfig": {"tools": [{"toolSpec": {"name": "Read", "inputSchema": {"json": {"type": "object"}}}}]}}
    return {WIRES[wire].turns.model_field: MODELS[wire], **about, WIRES[wire].list_key: talk}


def idle(wire: str, exchanges: int) -> Iterator[Callable[[], object]]:
    """One exchange more in a known conversation."""
    more = steps()
    talk = [text_message(wire, "user", TASK)]
    for step in islice(more, exchanges):
        talk += exchange(wire, step)
    context = ebbtide.Context(window=ENDLESS, wire=wire)
    context.prepare(body_of(wire, talk))
    while True:
        talk += exchange(wire, next(more))
        yield partial(context.prepare, body_of(wire, talk))


def first_read(wire: str, exchanges: int) -> Iterator[Callable[[], object]]:
    """A whole conversation that nobody read before, as bytes of JSON."""
    talk = [
        text_message(wire, "user", TASK),
        *(one for step in islice(steps(), exchanges) for one in exchange(wire, step)),
    ]
    raw = json.dumps(body_of(wire, talk)).encode()
    while True:
        yield partial(Reader(DEFAULT, wire=WIRES[wire]).read, raw)


def first_prepare(wire: str, exchanges: int) -> Iterator[Callable[[], object]]:
    """The same through a new `Context`: checked, measured and recorded in memory."""
    talk = [
        text_message(wire, "user", TASK),
        *(one for step in islice(steps(), exchanges) for one in exchange(wire, step)),
    ]
    raw = json.dumps(body_of(wire, talk)).encode()
    while True:
        yield partial(ebbtide.Context(window=ENDLESS, wire=wire).prepare, raw)


KINDS = {"idle": idle, "first read": first_read, "first prepare": first_prepare}


def measure(kind: str, exchanges: int, turns: int) -> dict[str, dict[str, float]]:
    subjects = {wire: KINDS[kind](wire, exchanges) for wire in WIRES}
    taken: dict[str, list[float]] = {wire: [] for wire in subjects}
    for _ in range(turns):
        gc.collect()
        gc.disable()
        for wire, subject in subjects.items():
            action = next(subject)
            began = time.process_time()
            action()
            taken[wire].append(1_000 * (time.process_time() - began))
        gc.enable()
    found = {}
    for wire, subject in subjects.items():
        found[wire] = {"least_ms": min(taken[wire]), "steps": count_bytecodes(next(subject))}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=1_000)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    results = {kind: measure(kind, given.messages // 2, given.turns if kind == "idle" else 8) for kind in KINDS}
    if given.json:
        print(json.dumps(results, indent=1))
        return 0
    for kind, rows in results.items():
        print(f"{kind}, {given.messages} messages")
        base = rows[BASE]
        for wire, row in rows.items():
            ratios = f"{row['least_ms'] / base['least_ms']:.2f} times, {row['steps'] / base['steps']:.2f} times"
            print(f"  {wire:17} {row['least_ms']:9.3f} ms  {row['steps']:10,.0f} steps   {ratios} of Anthropic's")
    return 0


if __name__ == "__main__":
    sys.exit(main())
