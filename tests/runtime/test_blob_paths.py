"""What a request says of where a text is kept is true: the file is there, or recall opens the handle, or it says no."""

import json
import os
import re
from typing import Any

import pytest

import ebbtide
from ebbtide import Context, WontFit
from ebbtide.core.errors import BadRequest
from ebbtide.policy import PRESETS
from ebbtide.wire import WIRES
from ebbtide.wire.protocol import Wire
from wire_messages import step_messages, text_message

NAMES = re.compile(r"(?:memory:|[/~])?[\w./@+-]*\w\.(?:txt|json|jsonl|md)\b|#[0-9a-f]{8,20}\b")
"""What reads like a file or like a handle."""


def anthropic(n: int, output: str) -> list[dict[str, Any]]:
    use = {"type": "tool_use", "id": f"call_{n}", "name": "Bash", "input": {"command": f"make part{n}"}}
    return [
        {"role": "user", "content": f"build part {n} and tell me what broke. " + "Mind the cache. " * 60},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"call_{n}", "content": output}]},
        {"role": "assistant", "content": f"part {n} failed in module_{n}"},
    ]


def openai_chat(n: int, output: str) -> list[dict[str, Any]]:
    function = {"name": "Bash", "arguments": json.dumps({"command": f"make part{n}"})}
    call = {"id": f"call_{n}", "type": "function", "function": function}
    return [
        {"role": "user", "content": f"build part {n} and tell me what broke. " + "Mind the cache. " * 60},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{n}", "content": output},
        {"role": "assistant", "content": f"part {n} failed in module_{n}"},
    ]


def openai_responses(n: int, output: str) -> list[dict[str, Any]]:
    arguments = json.dumps({"command": f"make part{n}"})
    return [
        {"role": "user", "content": f"build part {n} and tell me what broke. " + "Mind the cache. " * 60},
        {"type": "function_call", "call_id": f"call_{n}", "name": "Bash", "arguments": arguments},
        {"type": "function_call_output", "call_id": f"call_{n}", "output": output},
        {"role": "assistant", "content": f"part {n} failed in module_{n}"},
    ]


def gemini(n: int, output: str) -> list[dict[str, Any]]:
    question = f"build part {n} and tell me what broke. " + "Mind the cache. " * 60
    return [
        text_message("gemini", "user", question),
        *step_messages("gemini", "", "Bash", {"command": f"make part{n}"}, output),
        text_message("gemini", "assistant", f"part {n} failed in module_{n}"),
    ]


def bedrock_converse(n: int, output: str) -> list[dict[str, Any]]:
    wire, question = "bedrock_converse", f"build part {n} and tell me what broke. " + "Mind the cache. " * 60
    return [
        text_message(wire, "user", question),
        *step_messages(wire, f"tooluse_{n}", "Bash", {"command": f"make part{n}"}, output),
        text_message(wire, "assistant", f"part {n} failed in module_{n}"),
    ]


TURNS = {
    "anthropic": anthropic,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "gemini": gemini,
    "bedrock_converse": bedrock_converse,
}


def output(n: int) -> str:
    """Some are large enough for every preset's limit, and an error stays open."""
    lines = [f"step {k} of part {n}: checksum {k * 7919 + n:08x}" for k in range(1_500 if n % 3 == 0 else 60)]
    return "\n".join([*lines, f"Error: module_{n} is missing symbol_{n}"])


def requests(wire: str) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = []
    out = []
    for n in range(24):
        said = [*said, *TURNS[wire](n, output(n))]
        if n % 6 == 5:
            question = text_message(wire, "user", f"go on with {n}")
            shown: Wire = WIRES[wire]
            limit = {} if wire in ("gemini", "bedrock_converse") else {"max_tokens": 1_000}
            out.append({"model": "m", **limit, shown.list_key: [*said, question]})
    return out


def names_added(came: object, went: object) -> set[str]:
    before, after = json.dumps(came, ensure_ascii=False), json.dumps(went, ensure_ascii=False)
    return {name for name in NAMES.findall(after.replace("\\n", "\n")) if name not in before}


def prepared(context: Context, request: dict[str, Any]) -> Any:
    """What goes out; of a preset that refuses here, nothing does."""
    try:
        return context.prepare(request).body
    except WontFit:
        return None


@pytest.mark.parametrize("recall", ["path", "tool"])
@pytest.mark.parametrize("wire", TURNS)
@pytest.mark.parametrize("policy", PRESETS)
def test_without_a_store_every_name_in_a_request_is_opened_by_recall(policy, wire, recall):
    context = Context(policy=policy, wire=wire, window=30_000, recall=recall)
    edited = 0

    for request in requests(wire):
        body = prepared(context, request)
        if body is None:
            continue
        edited += body is not request
        for name in names_added(request, body):
            assert name.startswith(("memory:", "#")), f"{name} reads like a file, and there is no store"
            assert context.read(name).total > 0
        sent = json.dumps(body)
        for promise in ("saved to", "Saved to", "Use Read", "read_file"):
            assert promise not in sent, f"{promise!r} promises a file"

    assert edited, "nothing left, so nothing was looked at"


@pytest.mark.parametrize("wire", TURNS)
@pytest.mark.parametrize("policy", PRESETS)
def test_with_a_store_every_name_is_a_file_or_a_handle(policy, wire, tmp_path):
    context = Context(policy=policy, wire=wire, window=30_000, store=tmp_path / "store")

    for request in requests(wire):
        body = prepared(context, request)
        for name in names_added(request, body) if body is not None else ():
            assert os.path.exists(name) or context.read(name).total > 0


@pytest.mark.parametrize("wire", TURNS)
@pytest.mark.parametrize("policy", PRESETS)
def test_fit_saves_nothing_and_names_no_file(policy, wire):
    request = requests(wire)[-1]

    try:
        body = ebbtide.fit(request, policy=policy, wire=wire, window=30_000).body
    except WontFit:
        return

    assert names_added(request, body) == set()
    assert "saved to" not in json.dumps(body)


def test_a_handle_in_memory_opens_only_what_this_session_saved():
    context = Context(window=30_000)
    context.prepare(requests("anthropic")[-1])

    with pytest.raises(BadRequest, match="not a handle of this session"):
        context.read("memory:call_999.txt")
