"""Conversations of mostly the user's own words, and of thousands of short ones: the default never refuses them."""

from __future__ import annotations

import json

import pytest

from ebbtide.core.stub import parse
from ebbtide.runtime import Context
from ebbtide.store import MemoryStore
from ebbtide.wire import WIRES
from ebbtide.wire.validity import violations
from runtime.sessions import Clock
from upstream.pixels import png
from wire_messages import text_message

MODELS = {
    "anthropic": "claude-opus-4-8",
    "openai_chat": "some-local-model",
    "openai_responses": "gpt-5",
    "gemini": "gemini-2.5-pro",
    "bedrock_converse": "amazon.nova-pro-v1:0",
}


def request(wire, messages):
    return {
        "model": MODELS[wire],
        WIRES[wire].list_key: messages,
        **({"max_tokens": 500} if wire == "anthropic" else {}),
    }


def words(n, number):
    return f"Requirement {n}: " + " ".join(f"gauge{n}x{k}" for k in range(number))


def lines_of(body):
    """All lines of all texts in a request."""
    found = []

    def look(value):
        if isinstance(value, str):
            found.extend(value.split("\n"))
        for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            look(one)

    look(body)
    return found


def readable(context, body):
    """All that can be read by the files that a request names."""
    paths = {stub.path for line in lines_of(body) if (stub := parse(line)) and stub.path}
    texts = []
    for path in sorted(paths):
        page = context.read(path)
        texts.append(page.text)
        while page.next is not None:
            page = context.read(path, page.next)
            texts[-1] += page.text
    return "\n".join(texts)


@pytest.mark.parametrize("answers", ["Noted.", ""], ids=["answered", "in a row"])
@pytest.mark.parametrize("window", [4_000, 16_000])
@pytest.mark.parametrize("wire", WIRES)
def test_a_conversation_of_only_user_messages_continues_without_limit(wire, window, answers):
    clock = Clock()
    context = Context(window=window, wire=wire, store=MemoryStore(), clock=clock)
    messages, said, edited = [], [], 0
    for n in range(120):
        said.append(words(n, window // 160))
        messages.append(text_message(wire, "user", said[-1]))
        ready = context.prepare(request(wire, list(messages)))
        clock.tick()
        assert ready.report.tokens_after <= window
        assert [str(one) for one in violations(WIRES[wire], dict(ready.body))] == []
        edited += bool(ready.report.edits)
        if answers:
            messages.append(text_message(wire, "assistant", answers))

    sent_json = json.dumps(ready.body)
    assert said[-1] in sent_json
    behind = readable(context, ready.body)
    assert [one[:20] for one in said if one not in sent_json and one not in behind] == []
    # As long as half the window they stand there whole, the newest of them; and not every turn folds anew.
    whole = [one in sent_json for one in said]
    assert whole == sorted(whole)
    assert 3 < sum(whole) < 100
    assert edited < 60


@pytest.mark.parametrize("roles", [("user", "assistant"), ("user",)], ids=["in turns", "the user alone"])
@pytest.mark.parametrize("wire", WIRES)
def test_thousands_of_tiny_messages_are_sent(wire, roles):
    """What they cost is around them: a fold makes a few messages of thousands."""
    context = Context(window=30_000, wire=wire, store=MemoryStore())
    said = [f"w{n}" for n in range(5_001)]
    messages = [text_message(wire, roles[n % len(roles)], one) for n, one in enumerate(said)]

    ready = context.prepare(request(wire, messages))

    assert ready.report.edits
    assert ready.report.tokens_after <= 30_000
    assert [str(one) for one in violations(WIRES[wire], dict(ready.body))] == []
    shown = set(lines_of(ready.body))
    behind = set(readable(context, ready.body).split("\n"))
    assert [one for n, one in enumerate(said) if messages[n]["role"] == "user" and one not in shown | behind] == []


def test_the_newest_message_stays_complete_in_a_loop_that_compacts_its_own_steps():
    """A request for much, with a picture, and many steps since: they leave, and it does not."""
    asked = words(0, 760)
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png(320, 200)}}
    messages = [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": [picture, {"type": "text", "text": asked}]},
    ]
    context = Context(window=12_000, store=MemoryStore())
    for n in range(30):
        call = {"type": "tool_use", "id": f"t{n}", "name": "Bash", "input": {"command": f"make step{n} " + "x" * 400}}
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"step {n} is done\n" * 30}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
        ready = context.prepare(request("anthropic", list(messages)))
        sent_json = json.dumps(ready.body)
        assert asked in sent_json
        assert picture["source"]["data"] in sent_json
        assert f"step {n} is done" in sent_json

    assert {edit.by for edit in context.edits()} & {"summarize", "fold_to_fit"}
