"""Generated sessions are what a client could send: accepted, growing, and as varied as real ones."""

from __future__ import annotations

import json
from itertools import pairwise, takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upstream import signing
from upstream.caching import Cache
from upstream.check import WIRES, refusals, refusals_bytes, warnings
from upstream.finding import Body
from upstream.talk_anthropic import MODELS
from upstream.talks import bodies, grow, history, sessions

SEEDS = range(60)
KEYS = ("messages", "input", "contents")


def turns_of(body: Body) -> list[Body]:
    found: list[Body] = next(body[key] for key in KEYS if key in body)
    return found


@pytest.mark.parametrize("wire", WIRES)
@settings(deadline=None)
@given(data=st.data())
def test_every_generated_request_is_accepted_without_a_warning(wire: str, data: st.DataObject) -> None:
    body = data.draw(bodies(wire))

    assert refusals_bytes(wire, json.dumps(body).encode(), betas=()) == []
    assert warnings(wire, body) == []
    assert signing.refusals(wire, body) == []


@pytest.mark.parametrize("wire", WIRES)
@settings(deadline=None)
@given(data=st.data())
def test_dropping_any_one_message_that_answers_a_call_is_refused(wire: str, data: st.DataObject) -> None:
    body = data.draw(bodies(wire))
    answers = [at for at, turn in enumerate(turns_of(body)) if _answers(turn)]
    if not answers:
        return
    gone = data.draw(st.sampled_from(answers))
    field = next(key for key in KEYS if key in body)

    assert refusals(wire, {**body, field: [turn for at, turn in enumerate(turns_of(body)) if at != gone]})


def _answers(turn: Body) -> bool:
    content = turn.get("content", turn.get("parts"))
    blocks = content if isinstance(content, list) else []
    answers = ("functionResponse", "function_response")
    inside = any(block.get("type") == "tool_result" or any(key in block for key in answers) for block in blocks)
    return inside or turn.get("role") == "tool" or str(turn.get("type")).endswith("_call_output")


@pytest.mark.parametrize("wire", WIRES)
@settings(deadline=None)
@given(data=st.data())
def test_each_request_extends_the_one_before(wire: str, data: st.DataObject) -> None:
    for earlier, later in pairwise(data.draw(sessions(wire))):
        kept = len(turns_of(earlier)) - 1

        assert turns_of(later)[:kept] == turns_of(earlier)[:kept]
        assert len(turns_of(later)) > len(turns_of(earlier))
        assert later.keys() == earlier.keys()
        assert all(later[key] == earlier[key] for key in later if key not in KEYS)


@pytest.mark.parametrize("wire", WIRES)
def test_unchanged_messages_are_the_same_objects(wire: str) -> None:
    for seed in SEEDS:
        for earlier, later in pairwise(grow(wire, seed, 3)):
            same = takewhile(lambda pair: pair[0] is pair[1], zip(turns_of(earlier), turns_of(later), strict=False))
            # A client that moves its mark sends a copy of the one message that carries it.
            assert len(list(same)) >= len(turns_of(earlier)) - 1


@pytest.mark.parametrize("wire", WIRES)
def test_a_seed_gives_a_session_and_a_longer_one_begins_with_it(wire: str) -> None:
    for seed in range(10):
        short, long = list(grow(wire, seed, 2)), list(grow(wire, seed, 4))

        assert short == long[: len(short)]
        assert history(wire, seed, 2) == short[-1]


FEATURES = {
    "anthropic": [
        '"type": "thinking"',
        '"type": "redacted_thinking"',
        '"type": "image"',
        '"type": "document"',
        '"type": "server_tool_use"',
        '"role": "system"',
        '"is_error": true',
        '"content": ""',
        "system-reminder",
        '"cache_control"',
        '"encrypted_index"',
        "队列",
        *(f'"model": "{model}"' for model in MODELS),
    ],
    "openai_chat": [
        '"image_url"',
        '"refusal": "',
        '"role": "developer"',
        '"type": "custom"',
        '"reasoning_content"',
        '"content": null',
        "run_shell",
        "read_file",
        "队列",
    ],
    "openai_responses": [
        '"type": "reasoning"',
        '"type": "custom_tool_call_output"',
        '"type": "web_search_call"',
        '"input_image"',
        '"type": "refusal"',
        '"store": false',
        '"phase"',
        "apply_patch",
        "队列",
    ],
    "gemini": [
        '"functionCall"',
        '"function_call"',
        '"thoughtSignature"',
        '"thought_signature"',
        '"thought": true',
        '"inlineData"',
        '"executableCode"',
        '"error"',
        '"matches"',
        '"id"',
        '"model": "gemini-2.5-pro"',
        '"model": "gemini-3-pro-preview"',
        "队列",
    ],
    "bedrock_converse": [
        '"toolUse"',
        '"toolResult"',
        '"reasoningText"',
        '"redactedContent"',
        '"cachePoint"',
        '"image"',
        '"document"',
        '"citationsContent"',
        '"status": "error"',
        '"json"',
        "system-reminder",
        "claude-opus-5-5",
        "nova-pro",
        "队列",
    ],
}


@pytest.mark.parametrize("wire", WIRES)
def test_sixty_random_seeds_show_every_feature(wire: str) -> None:
    spelled = [json.dumps(history(wire, seed, 6), ensure_ascii=False) for seed in SEEDS]

    assert any(" v1\\n" in text for text in spelled), "a file that was changed reads differently"
    assert [feature for feature in FEATURES[wire] if not any(feature in text for text in spelled)] == []
    assert min(map(len, spelled)) < 30_000 < 200_000 < max(map(len, spelled))


def test_files_are_read_again_with_the_same_content() -> None:
    for seed in SEEDS:
        results = [
            block["content"]
            for message in history("anthropic", seed, 6)["messages"]
            for block in (
                message["content"] if message["role"] == "user" and isinstance(message["content"], list) else []
            )
            if block["type"] == "tool_result" and isinstance(block["content"], str) and len(block["content"]) > 500
        ]
        if len(set(results)) < len(results):
            return
    raise AssertionError("no file was read twice")


def test_parallel_calls_occur_on_every_wire() -> None:
    chat = [len(m.get("tool_calls", [])) for seed in SEEDS for m in turns_of(history("openai_chat", seed, 4))]
    blocks = [
        sum(block["type"] == "tool_use" for block in message["content"])
        for seed in SEEDS
        for message in turns_of(history("anthropic", seed, 4))
        if message["role"] == "assistant"
    ]
    kinds = [turns_of(history("openai_responses", seed, 4)) for seed in SEEDS]
    doubled = [a["type"] == b["type"] == "function_call" for items in kinds for a, b in pairwise(items)]

    assert max(chat) >= 3
    assert max(blocks) >= 3
    assert any(doubled)


def test_a_marked_session_is_billed_once_for_what_it_repeats() -> None:
    """The honest simulation rewards a client that only extends: far more is read than written."""
    marked = next(
        session
        for session in (list(grow("anthropic", seed, 12)) for seed in range(100))
        if "cache_control" in session[0]["system"][0] and len(session) > 15
    )
    cache = Cache(lambda: 0.0)
    bills = [cache.bill("anthropic", body) for body in marked]

    assert sum(bill.read for bill in bills) > 2 * sum(bill.written + bill.fresh for bill in bills)
    assert all(bill.prompt >= 0 and min(bill.fresh, bill.read, bill.written) >= 0 for bill in bills)
