"""Whatever a program hands in: a valid body comes out, or an error of ours that says where it is wrong."""

import datetime
import json
from base64 import b64encode

import pytest

import ebbtide
from ebbtide import Context
from ebbtide.core.errors import BadRequest, WontFit
from ebbtide.wire import WIRES
from odd_requests import BODIES, FOREIGN, JSON, Odd, cycle, nested, odd_requests
from wire_messages import text_message

EVERY = 11
"""Of the generated requests one in so many goes through a whole session; all go through `fit`."""


def longer(wire: str) -> dict[str, object]:
    """The body of a wire with words before and behind that a small window does not hold."""
    key = WIRES[wire].list_key
    words = [
        text_message(wire, role, f"{role} says {n} " + "and so on " * 300)
        for n in range(4)
        for role in ("user", "assistant")
    ]
    body = BODIES[wire]
    first = body[key][:1] if wire == "openai_chat" else []
    return {**body, key: [*first, *words, *body[key][len(first) :], *words[1:], text_message(wire, "user", "next")]}


LONG = {wire: longer(wire) for wire in BODIES}


def say(odd: Odd) -> str:
    return f"{odd.wire} {odd.where} {odd.kind}"


def is_json(body: object) -> bool:
    """Whether a provider's SDK could send it. Halves of characters are its own business."""
    try:
        json.dumps(body, allow_nan=False, default=as_sdks_write)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def as_sdks_write(one: object) -> object:
    """What an SDK makes of an object of its own, and boto3 of bytes."""
    if isinstance(one, bytes):
        return b64encode(one).decode()
    if not hasattr(type(one), "model_dump"):
        raise TypeError(f"a {type(one).__name__} is not JSON")
    return one.model_dump()


def unexpected(odd: Odd, do) -> str:
    """What went wrong that is no error of ours; empty where nothing did."""
    try:
        body = do(odd.body)
    except (BadRequest, WontFit) as refused:
        if isinstance(refused, BadRequest) and not str(refused):
            return f"{say(odd)}: a refusal without a word"
        return ""
    except Exception as raised:
        return f"{say(odd)}: {type(raised).__name__}"
    return "" if is_json(body) else f"{say(odd)}: what goes out is no JSON"


@pytest.mark.parametrize("values", [JSON, FOREIGN], ids=["json", "foreign"])
def test_fit_accepts_or_refuses_every_odd_request(values):
    told = [
        unexpected(odd, lambda body, wire=odd.wire: ebbtide.fit(body, wire=wire).body) for odd in odd_requests(values)
    ]

    assert len(told) > 2_000
    assert [one for one in told if one] == []


def test_a_request_that_is_cut_accepts_or_refuses_every_odd_part():
    """The same where old turns leave: what is odd is then in the part that is written anew, or beside it."""
    told, edited = [], 0
    for n, odd in enumerate(odd_requests(JSON, LONG)):
        if n % EVERY:
            continue

        def cut(body, wire=odd.wire):
            nonlocal edited
            ready = ebbtide.fit(body, wire=wire, window=3_000)
            edited += ready.body is not body
            return ready.body

        told.append(unexpected(odd, cut))

    assert edited > 100
    assert [one for one in told if one] == []


@pytest.mark.parametrize("values", [JSON, FOREIGN], ids=["json", "foreign"])
def test_a_session_accepts_or_refuses_every_odd_request_and_continues(values):
    """As the first request, as the second, and with the next good one after it."""
    told = []
    for n, odd in enumerate(odd_requests(values)):
        if n % EVERY:
            continue

        def whole(body, wire=odd.wire):
            context = Context(wire=wire, window=100_000)
            good = BODIES[wire]
            first = context.prepare(good).body
            try:
                return context.prepare(body).body
            finally:
                assert context.prepare(good).body == first
                context.recall("next")

        told.append(unexpected(odd, whole))

    assert [one for one in told if one] == []


def test_as_bytes_every_odd_request_is_accepted_or_refused():
    told = []
    for n, odd in enumerate(odd_requests({**JSON, "abyss": nested(400)})):
        if n % EVERY == 0:
            raw = json.dumps(odd.body).encode()
            told.append(
                unexpected(odd._replace(body=raw), lambda body: json.loads(Context(window=9_000).prepare(body).body))
            )

    assert [one for one in told if one] == []


@pytest.mark.parametrize("values", [JSON, FOREIGN], ids=["json", "foreign"])
def test_an_odd_response_is_recorded_or_refused(values):
    responses = {
        "anthropic": {"content": [{"type": "text", "text": "x"}], "usage": {"input_tokens": 1, "output_tokens": 1}},
        "openai_chat": {
            "choices": [{"message": {"role": "assistant", "content": "x"}}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1},
        },
        "openai_responses": {
            "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]}],
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
        "gemini": {
            "candidates": [{"content": {"role": "model", "parts": [{"text": "x"}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1},
        },
        "bedrock_converse": {
            "output": {"message": {"role": "assistant", "content": [{"text": "x"}]}},
            "stopReason": "end_turn",
            "usage": {"inputTokens": 1, "outputTokens": 1},
        },
    }
    told = []
    for odd in odd_requests(values, responses):

        def recorded(response, wire=odd.wire):
            context = Context(wire=wire, window=100_000)
            context.prepare(BODIES[wire])
            try:
                context.record(response)
            finally:
                context.prepare(BODIES[wire])
                context.recall("next")
            return {}

        told.append(unexpected(odd, recorded))

    assert [one for one in told if one] == []


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"x"}, "messages.2.content.0.tool_use_id"),
        (float("nan"), "messages.1.content.1.input.path"),
        ({1: "x"}, "messages.0.content.1.source"),
        (cycle(), "messages.4.content"),
        (datetime.date(2026, 1, 1), "tools.0.description"),
        (10**5_000, "metadata.user_id"),
    ],
    ids=["set", "nan", "key", "cycle", "date", "digits"],
)
def test_a_refusal_says_where(value, path):
    body = json.loads(json.dumps({**BODIES["anthropic"], "metadata": {"user_id": "u"}}))
    at, keys = body, [int(key) if key.isdigit() else key for key in path.split(".")]
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value

    with pytest.raises(BadRequest) as refused:
        ebbtide.fit(body)

    assert refused.value.path.startswith(path)


@pytest.mark.parametrize("role", [["user"], {"a": 1}, 7, True, "nobody"])
@pytest.mark.parametrize("wire", BODIES)
def test_a_role_that_is_none_is_refused_by_its_place(wire, role):
    key = WIRES[wire].list_key
    with pytest.raises(BadRequest, match="role must be") as refused:
        ebbtide.fit({key: [{"role": role, "content": "x"}]}, wire=wire)

    assert refused.value.path == f"{key}.0.role"
