"""A turn with nothing to do costs what is new, however long the conversation is and whatever was done to it before."""

import json
from dataclasses import replace
from functools import partial

import pytest

from bytecode_count import count_bytecodes
from ebbtide.policy import PRESETS
from ebbtide.policy.levels import shares
from ebbtide.runtime import Context
from ebbtide.store import MemoryStore
from runtime.sessions import EARLY
from wire_messages import text_message

FAR_DOWN = replace(EARLY, levels=shares(warning=0.8, soft=0.8, auto=0.8, hard=0.95, low=0.2))
"""One batch goes far below every level, so the turns after it have nothing to do."""
ENDLESS = 10**9
CLEARS_ALWAYS = {"learn-v5"}
"""Its policy looks for old results on every turn, which is a glance at each entry."""
SHORT, LONG = 80, 240
"""Exchanges. Marks are looked for among the last forty messages: the short one has more."""


def anthropic(n):
    call = {"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {"file_path": f"src/f{n}.py"}}
    result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": words(n)}
    return [
        {"role": "assistant", "content": [{"type": "text", "text": f"step {n}"}, call]},
        {"role": "user", "content": [result]},
    ]


def openai_chat(n):
    function = {"name": "Read", "arguments": json.dumps({"file_path": f"src/f{n}.py"})}
    call = {"id": f"t{n}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": f"step {n}", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"t{n}", "content": words(n)},
    ]


def openai_responses(n):
    arguments = json.dumps({"file_path": f"src/f{n}.py"})
    return [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"step {n}"}]},
        {"type": "function_call", "call_id": f"t{n}", "name": "Read", "arguments": arguments},
        {"type": "function_call_output", "call_id": f"t{n}", "output": words(n)},
    ]


def gemini(n):
    call = {"functionCall": {"name": "Read", "args": {"file_path": f"src/f{n}.py"}}, "thoughtSignature": "c2ln"}
    result = {"functionResponse": {"name": "Read", "response": {"output": words(n)}}}
    return [{"role": "model", "parts": [{"text": f"step {n}"}, call]}, {"role": "user", "parts": [result]}]


def bedrock_converse(n):
    call = {"toolUse": {"toolUseId": f"tooluse_{n}", "name": "Read", "input": {"file_path": f"src/f{n}.py"}}}
    result = {"toolResult": {"toolUseId": f"tooluse_{n}", "content": [{"text": words(n)}]}}
    return [{"role": "assistant", "content": [{"text": f"step {n}"}, call]}, {"role": "user", "content": [result]}]


CONVERSE = {
    "modelId": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "toolConfig": {"tools": [{"toolSpec": {"name": "Read", "inputSchema": {"json": {"type": "object"}}}}]},
}


def words(n):
    return "".join(f"{n}.{line}: the gauge reads {n * line} over datum\n" for line in range(40))


WIRES = {
    "anthropic": (anthropic, "messages", {"model": "claude-sonnet-5", "max_tokens": 1000, "system": "Be brief."}),
    "openai_chat": (openai_chat, "messages", {"model": "gpt-5"}),
    "openai_responses": (openai_responses, "input", {"model": "gpt-5"}),
    "gemini": (gemini, "contents", {"model": "gemini-3-pro-preview"}),
    "bedrock_converse": (bedrock_converse, "messages", CONVERSE),
}


class Block:
    """Stands for an SDK's block: knows how to dump itself."""

    def __init__(self, fields):
        self.fields = fields

    def model_dump(self, **_):
        return dict(self.fields)


def _is_list(message, key):
    return isinstance(message.get(key), list)


def as_objects(messages):
    """What the model said, as SDKs give it."""
    return [
        {
            **message,
            **{key: [Block(part) for part in message[key]] for key in ("content", "parts") if _is_list(message, key)},
        }
        for message in messages
    ]


def idle_steps(wire, form, held, exchanges):
    """Of the cheapest of three turns at the end of so many exchanges: now and then one has more to do."""
    say, key, around = WIRES[wire]
    talk = [text_message(wire, "user", "fix the gauge")]
    objects = form == "objects"
    for n in range(exchanges):
        talk += as_objects(say(n)) if objects else say(n)

    def request():
        body = {**around, key: talk}
        raw = json.dumps(body) if form in ("bytes", "copies") else ""
        return raw.encode() if form == "bytes" else json.loads(raw) if raw else body

    tokens = Context(window=ENDLESS, wire=wire).prepare(request()).report.tokens_before
    window = int(tokens / 0.8 * 0.98) if held else ENDLESS
    ctx = Context(model=around.get("model", around.get("modelId")), window=window, wire=wire, policy=FAR_DOWN)
    assert bool(ctx.prepare(request()).report.edits) is held
    counts = []
    for n in range(exchanges, exchanges + 4):
        talk += as_objects(say(n)) if objects else say(n)
        body = request()
        counts.append(count_bytecodes(partial(ctx.prepare, body)))
        assert not ctx._last.report.edits
        assert bool(ctx._last.report.held) is held
    return min(counts[1:])


@pytest.mark.parametrize("held", [False, True], ids=["untouched", "edits held"])
@pytest.mark.parametrize("form", ["dict", "copies", "objects", "bytes"])
@pytest.mark.parametrize("wire", WIRES)
def test_an_idle_turn_of_a_long_conversation_takes_the_steps_of_a_short_one(wire, form, held):
    short, long = (idle_steps(wire, form, held, exchanges) for exchanges in (SHORT, LONG))

    assert long < 1.15 * short


def preset_steps(policy, held, talking, exchanges):
    """The same under a preset, in one long loop or with a word of the user after each exchange."""
    say, key, around = WIRES["anthropic"]

    def more(n):
        # Names that the presets know: each clears the results of its own tools. Short, so that none has to.
        told = json.dumps(say(n)).replace('"Read"', f'"{("Read", "read_file")[n % 2]}"')
        told = json.loads(told.replace(json.dumps(words(n)), json.dumps(words(n)[:400])))
        messages = [{"role": "assistant", "content": f"done {n}"}, {"role": "user", "content": f"and {n}?"}]
        return [*told, *(messages if talking else [])]

    talk = [{"role": "user", "content": "fix the gauge"}]
    for n in range(exchanges):
        talk += more(n)
    store, fixed = MemoryStore(), {"model": around.get("model", around.get("modelId")), "wire": "anthropic"}
    if held:
        tokens = Context(window=ENDLESS).prepare({**around, key: talk}).report.tokens_before
        first = Context(**fixed, window=int(tokens / 0.8 * 0.98), policy=FAR_DOWN, store=store)
        assert first.prepare({**around, key: talk}).report.edits
    ctx = Context(**fixed, window=ENDLESS, policy=policy, store=store)
    ctx.prepare({**around, key: talk})
    counts = []
    for n in range(exchanges, exchanges + 4):
        talk += more(n)
        counts.append(count_bytecodes(partial(ctx.prepare, {**around, key: talk})))
        assert not ctx._last.report.edits
        assert bool(ctx._last.report.held) is held
    return min(counts[1:])


@pytest.mark.parametrize("talking", [False, True], ids=["in a loop", "in turns"])
@pytest.mark.parametrize("held", [False, True], ids=["untouched", "edits held"])
@pytest.mark.parametrize(
    "policy", [name for name in PRESETS if name not in CLEARS_ALWAYS | {"default", "keep-more", "spend-less"}]
)
def test_an_idle_turn_under_a_preset_takes_no_more_in_a_long_conversation(policy, held, talking):
    short, long = (preset_steps(policy, held, talking, exchanges) for exchanges in (SHORT, LONG))

    assert long < 1.1 * short
