"""Generated histories: valid ones from a grammar per wire, and ways to spoil them.

The grammar is the providers' rules read forwards, written without looking at the code that checks them.
"""

from __future__ import annotations

import base64
import copy
from typing import Any

from hypothesis import strategies as st

Body = dict[str, Any]

WORDS = st.sampled_from(["go", "列出文件", "ok 👍", "a\nb", "{}", "<x>"])
CLAUDES = ["claude-opus-4-8", "claude-sonnet-5", "claude-sonnet-4-5-20250929", "claude-3-5-haiku-latest", "local-model"]
OLD_CLAUDES = ("claude-sonnet-4-5-20250929", "claude-3-5-haiku-latest")
JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5) | st.just(float("nan")) | st.just("\ud800"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "id"]), inner, max_size=3)
    ),
    max_leaves=5,
)


def png(width: int, height: int) -> str:
    """A PNG's first bytes, claiming any size."""
    head = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return base64.b64encode(head).decode()


def picture(width: int = 10, height: int = 10) -> Body:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png(width, height)}}


@st.composite
def anthropic(draw: st.DrawFn) -> Body:
    """Turns of user, assistant with or without calls, results, operator text where the model takes it."""
    model = draw(st.sampled_from(CLAUDES))
    manual = model in OLD_CLAUDES and draw(st.booleans())
    messages: list[Body] = []
    for turn in range(draw(st.integers(1, 4))):
        messages.append({"role": "user", "content": draw(_said())})
        if model not in OLD_CLAUDES and draw(st.booleans()):
            messages.append({"role": "system", "content": draw(WORDS)})
        for step in range(draw(st.integers(0, 3))):
            messages += draw(_tool_round(f"{turn}_{step}", manual))
        messages.append({"role": "assistant", "content": draw(_reply(manual))})
    messages.append({"role": "user", "content": draw(_said())})
    body = {"model": model, "max_tokens": 9000, "messages": messages, "tools": [{"name": "bash", "input_schema": {}}]}
    if manual:
        body["thinking"] = {"type": "enabled", "budget_tokens": 2000}
    if draw(st.booleans()):
        body["system"] = [{"type": "text", "text": "be good", "cache_control": {"type": "ephemeral"}}]
    return body


def _said() -> st.SearchStrategy[Any]:
    parts = st.lists(st.one_of(WORDS.map(_text), st.just(picture())), min_size=1, max_size=3)
    return st.one_of(WORDS, parts)


def _text(words: str) -> Body:
    return {"type": "text", "text": words}


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}


@st.composite
def _reply(draw: st.DrawFn, manual: bool) -> Any:
    parts: list[Body] = [THOUGHT] if manual or draw(st.booleans()) else []
    if draw(st.booleans()):
        parts.append({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}})
        parts.append({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []})
    parts.append(_text(draw(WORDS)))
    return parts if len(parts) > 1 else draw(st.sampled_from([parts, parts[0]["text"]]))


@st.composite
def _tool_round(draw: st.DrawFn, key: str, manual: bool) -> list[Body]:
    ids = [f"toolu_{key}_{n}" for n in range(draw(st.integers(1, 3)))]
    thought = [THOUGHT] if manual or draw(st.booleans()) else []
    said = [_text(draw(WORDS))] if draw(st.booleans()) else []
    uses = [{"type": "tool_use", "id": identity, "name": "bash", "input": {"n": 1}} for identity in ids]
    results = [{"type": "tool_result", "tool_use_id": identity, "content": draw(_outcome())} for identity in ids]
    results = draw(st.permutations(results))
    more = [_text("<system-reminder>x</system-reminder>")] if draw(st.booleans()) else []
    return [{"role": "assistant", "content": thought + said + uses}, {"role": "user", "content": results + more}]


def _outcome() -> st.SearchStrategy[Any]:
    parts = st.lists(st.one_of(WORDS.map(_text), st.just(picture())), min_size=1, max_size=2)
    return st.one_of(WORDS, st.just(""), parts, st.just([{"type": "tool_reference", "tool_name": "bash"}]))


@st.composite
def openai_chat(draw: st.DrawFn) -> Body:
    messages: list[Body] = [{"role": "system", "content": "be good"}]
    for turn in range(draw(st.integers(1, 4))):
        messages.append({"role": "user", "content": draw(st.one_of(WORDS, WORDS.map(lambda w: [_text(w)])))})
        for _ in range(draw(st.integers(0, 3))):
            ids = [f"call_{n}" for n in range(draw(st.integers(1, 3)))]
            function = {"name": "bash", "arguments": draw(st.sampled_from(["{}", "", "{not json"]))}
            calls = [{"id": identity, "type": "function", "function": function} for identity in ids]
            messages.append({"role": "assistant", "content": draw(st.one_of(st.none(), WORDS)), "tool_calls": calls})
            for identity in draw(st.permutations(ids)):
                messages.append({"role": "tool", "tool_call_id": identity, "content": draw(WORDS)})
        if turn % 2:
            messages.append({"role": "assistant", "content": None, "refusal": "no"})
        else:
            messages.append({"role": "assistant", "content": draw(WORDS)})
    return {"model": "gpt-4.1", "messages": messages}


@st.composite
def openai_responses(draw: st.DrawFn) -> Body:
    items: list[Body] = []
    store = draw(st.booleans())
    number = 0
    for _ in range(draw(st.integers(1, 3))):
        items.append({"role": "user", "content": draw(WORDS)})
        for _ in range(draw(st.integers(0, 3))):
            number += 1
            items += draw(_response_round(number))
        number += 1
        items += [_reasoning(number)] if draw(st.booleans()) else []
        parts = [{"type": "output_text", "text": draw(WORDS)}, {"type": "output_text", "text": "more"}]
        items.append({"type": "message", "id": f"msg_{number}", "role": "assistant", "content": parts, "phase": "x"})
    body: Body = {"model": "gpt-5", "input": items, "store": store}
    if draw(st.booleans()):
        body["previous_response_id"] = "resp_1"
        items.insert(0, {"type": "function_call_output", "call_id": "call_elsewhere", "output": "x"})
    return body


def _reasoning(number: int) -> Body:
    return {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "Z0FB"}


@st.composite
def _response_round(draw: st.DrawFn, number: int) -> list[Body]:
    made: list[Body] = [_reasoning(number)] if draw(st.booleans()) else []
    given: list[Body] = []
    for at in range(draw(st.integers(1, 3))):
        identity = f"call_{number}_{at}"
        if draw(st.booleans()):
            made.append(
                {
                    "type": "function_call",
                    "id": f"fc_{number}_{at}",
                    "call_id": identity,
                    "name": "f",
                    "arguments": "{}",
                }
            )
            given.append({"type": "function_call_output", "call_id": identity, "output": draw(WORDS)})
        else:
            made.append(
                {"type": "custom_tool_call", "id": f"ctc_{number}_{at}", "call_id": identity, "name": "p", "input": "x"}
            )
            given.append({"type": "custom_tool_call_output", "call_id": identity, "output": draw(WORDS)})
    return made + draw(st.permutations(given))


SIGNED = {"thoughtSignature": "c2ln"}


@st.composite
def gemini(draw: st.DrawFn) -> Body:
    """Turns of user and model, calls with and without ids, in both spellings."""
    is_new = draw(st.booleans())
    contents: list[Body] = []
    for turn in range(draw(st.integers(1, 4))):
        contents.append({**draw(st.sampled_from([{"role": "user"}, {}])), "parts": draw(_asked())})
        for step in range(draw(st.integers(0, 3))):
            contents += draw(_gemini_round(f"{turn}_{step}", is_new))
        thought = [{"text": "hm", "thought": True, **SIGNED}] if draw(st.booleans()) else []
        ending = [{"text": "", **SIGNED}] if draw(st.booleans()) else []
        contents.append({"role": "model", "parts": [*thought, {"text": draw(WORDS)}, *ending]})
    contents.append({"role": "user", "parts": draw(_asked())})
    body: Body = {"model": "gemini-3-pro-preview" if is_new else "gemini-2.5-pro", "contents": contents}
    if draw(st.booleans()):
        body["systemInstruction"] = {"parts": [{"text": "be good"}]}
    return body


def _asked() -> st.SearchStrategy[Any]:
    inline = {"inlineData": {"mimeType": "image/png", "data": png(10, 10)}}
    file = {"file_data": {"mime_type": "video/mp4", "file_uri": "gs://b/v.mp4"}, "video_metadata": {"fps": 1}}
    return st.lists(
        st.one_of(WORDS.map(lambda words: {"text": words}), st.sampled_from([inline, file])), min_size=1, max_size=3
    )


@st.composite
def _gemini_round(draw: st.DrawFn, key: str, is_new: bool) -> list[Body]:
    has_ids, is_snake = draw(st.booleans()), draw(st.booleans())
    call_key, response_key = (
        ("function_call", "function_response") if is_snake else ("functionCall", "functionResponse")
    )
    signature = {"thought_signature" if is_snake else "thoughtSignature": "c2ln"} if is_new else {}
    said = [{"text": draw(WORDS)}] if draw(st.booleans()) else []
    ran = [{"executableCode": {"code": "1"}}, {"codeExecutionResult": {"output": "1"}}] if draw(st.booleans()) else []
    calls, responses = list[Body](), list[Body]()
    for n in range(draw(st.integers(1, 3))):
        id = {"id": f"{key}_{n}"} if has_ids else {}
        name = draw(st.sampled_from(["bash", "read"]))
        calls.append({call_key: {**id, "name": name, "args": {"n": 1}}, **(signature if not n else {})})
        shown = id if draw(st.booleans()) else {}
        responses.append({response_key: {**shown, "name": name, "response": draw(_gemini_outcome())}})
    more = [{"text": "<system-reminder>x</system-reminder>"}] if draw(st.booleans()) else []
    role = draw(st.sampled_from(["user", "function"])) if not more else "user"
    return [{"role": "model", "parts": [*said, *ran, *calls]}, {"role": role, "parts": [*responses, *more]}]


def _gemini_outcome() -> st.SearchStrategy[Body]:
    return st.sampled_from([{"output": "ok"}, {"error": "no"}, {"result": "a\nb"}, {}, {"rows": [1, 2], "more": False}])


@st.composite
def bedrock_converse(draw: st.DrawFn) -> Body:
    """Turns of user and assistant, with cache points behind blocks."""
    messages: list[Body] = []
    for turn in range(draw(st.integers(1, 4))):
        messages.append({"role": "user", "content": draw(_converse_said())})
        for step in range(draw(st.integers(0, 3))):
            messages += draw(_converse_round(f"{turn}_{step}"))
        thought = [CONVERSE_THOUGHT] if draw(st.booleans()) else []
        messages.append({"role": "assistant", "content": [*thought, {"text": draw(WORDS)}]})
    messages.append({"role": "user", "content": [*draw(_converse_said()), POINT]})
    tools = {"tools": [{"toolSpec": {"name": "bash", "inputSchema": {"json": {}}}}, POINT]}
    model = draw(st.sampled_from(["us.anthropic.claude-sonnet-4-5-20250929-v1:0", "amazon.nova-pro-v1:0"]))
    body: Body = {"modelId": model, "messages": messages, "toolConfig": tools}
    if draw(st.booleans()):
        body["system"] = [{"text": "be good"}, POINT]
    return body


POINT: Body = {"cachePoint": {"type": "default"}}
CONVERSE_THOUGHT: Body = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}


def _converse_said() -> st.SearchStrategy[Any]:
    image = {"image": {"format": "png", "source": {"bytes": png(10, 10)}}}
    guarded = {"guardContent": {"text": {"text": "x"}}}
    kinds = st.one_of(WORDS.map(lambda words: {"text": words}), st.sampled_from([image, guarded]))
    return st.lists(kinds, min_size=1, max_size=3)


@st.composite
def _converse_round(draw: st.DrawFn, key: str) -> list[Body]:
    ids = [f"tooluse_{key}_{n}" for n in range(draw(st.integers(1, 3)))]
    thought = [CONVERSE_THOUGHT] if draw(st.booleans()) else []
    said = [{"text": draw(WORDS)}] if draw(st.booleans()) else []
    calls = [{"toolUse": {"toolUseId": id, "name": "bash", "input": {"n": 1}}} for id in ids]
    results = [{"toolResult": {"toolUseId": id, **draw(_converse_outcome())}} for id in ids]
    more = [{"text": "<system-reminder>x</system-reminder>"}] if draw(st.booleans()) else []
    return [
        {"role": "assistant", "content": [*thought, *said, *calls]},
        {"role": "user", "content": [*draw(st.permutations(results)), *more]},
    ]


def _converse_outcome() -> st.SearchStrategy[Body]:
    return st.sampled_from(
        [
            {"content": [{"text": "ok"}]},
            {"content": []},
            {"content": [{"json": {"rows": [1, 2]}}], "status": "success"},
            {"content": [{"text": "no"}], "status": "error"},
            {"content": [{"text": "a"}, {"image": {"format": "png", "source": {"bytes": png(10, 10)}}}]},
        ]
    )


GRAMMARS = {
    "anthropic": anthropic,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "gemini": gemini,
    "bedrock_converse": bedrock_converse,
}
LISTS = {
    "anthropic": "messages",
    "openai_chat": "messages",
    "openai_responses": "input",
    "gemini": "contents",
    "bedrock_converse": "messages",
}
FIELDS = ["role", "content", "type", "id", "tool_use_id", "text", "tool_calls", "tool_call_id", "call_id", "output",
          "input", "arguments", "function", "name", "signature", "source", "cache_control", "thinking", "summary",
          "parts", "functionCall", "functionResponse", "response", "args", "thought", "thoughtSignature",
          "toolUse", "toolResult", "toolUseId", "status", "reasoningContent", "cachePoint"]  # fmt: skip


@st.composite
def spoiled(draw: st.DrawFn, wire: str) -> Body:
    """A valid history with a few accidents: messages and blocks lost, doubled, swapped, fields lost or garbled."""
    body = copy.deepcopy(draw(GRAMMARS[wire]()))
    for _ in range(draw(st.integers(1, 5))):
        accidents = [_spoil_list, _spoil_block, _spoil_field, _spoil_top, _intrude, _intrude, _intrude]
        draw(st.sampled_from(accidents))(draw, body, wire)
    return body


def _spoil_list(draw: st.DrawFn, body: Body, wire: str) -> None:
    _disturb(draw, body.get(LISTS[wire]))


def _spoil_block(draw: st.DrawFn, body: Body, wire: str) -> None:
    message = _one(draw, body.get(LISTS[wire]))
    if isinstance(message, dict):
        parts = message.get(draw(st.sampled_from(["parts"] if wire == "gemini" else ["content", "tool_calls"])))
        block = _one(draw, parts)
        _disturb(draw, block.get("content") if isinstance(block, dict) and draw(st.booleans()) else parts)


def _spoil_field(draw: st.DrawFn, body: Body, wire: str) -> None:
    thing = _one(draw, body.get(LISTS[wire]))
    for _ in range(draw(st.integers(0, 2))):
        deeper = thing.get("parts" if wire == "gemini" else "content") if isinstance(thing, dict) else None
        thing = _one(draw, deeper) if isinstance(deeper, list) and deeper else thing
    if isinstance(thing, dict):
        field = draw(st.sampled_from(FIELDS))
        if draw(st.booleans()):
            thing.pop(field, None)
        else:
            thing[field] = draw(st.one_of(JSONISH, st.sampled_from(["", "  ", "x" * 70, "a b", "user", "assistant"])))


def _spoil_top(draw: st.DrawFn, body: Body, wire: str) -> None:
    field = draw(st.sampled_from(["tools", "system", "thinking", "model", "store", "cache_control", "container"]))
    body[field] = draw(JSONISH)


def _intrude(draw: st.DrawFn, body: Body, wire: str) -> None:
    """Something real in a place or a state where it should not be."""
    items = body.get(LISTS[wire])
    if not isinstance(items, list):
        return
    if wire != "anthropic" or not items or draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), copy.deepcopy(draw(st.sampled_from(STRAY_ITEMS[wire]))))
        return
    message = _one(draw, items)
    if isinstance(message, dict):
        content = message.get("content")
        parts = content if isinstance(content, list) else [_text(str(content))]
        parts.insert(draw(st.integers(0, len(parts))), copy.deepcopy(draw(st.sampled_from(STRAY_BLOCKS))))
        message["content"] = parts


MARKED = {"type": "text", "text": "m", "cache_control": {"type": "ephemeral"}}
BY_CODE = {"caller": {"type": "code_execution_20250825", "tool_id": "srvtoolu_code"}}
STRAY_BLOCKS = [
    MARKED,
    {**MARKED, "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    {**MARKED, "text": ""},
    {**MARKED, "cache_control": {"type": "forever"}},
    {"type": "thinking", "thinking": "cut"},
    {**THOUGHT, "cache_control": {"type": "ephemeral"}},
    THOUGHT,
    {"type": "redacted_thinking"},
    {"type": "redacted_thinking", "data": "x"},
    {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}},
    {"type": "server_tool_use", "id": "srvtoolu_2", "name": "web_search", "input": {}},
    {"type": "server_tool_use", "id": "srvtoolu_code", "name": "code_execution", "input": {}},
    {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_code", "content": {}},
    {"type": "advisor_tool_result", "tool_use_id": "srvtoolu_1", "content": {}},
    {"type": "tool_use", "id": "toolu_code", "name": "bash", "input": {}, **BY_CODE},
    {"type": "tool_use", "id": "toolu_0_0_0", "name": "a.b", "input": "{}", "text": ""},
    {"type": "tool_result", "tool_use_id": "toolu_0_0_0", "content": [{"type": "tool_reference", "tool_name": "gone"}]},
    {"type": "tool_result", "tool_use_id": "toolu_code", "content": [MARKED], "is_error": True},
    {"type": "compaction", "content": ""},
    {"type": "something_new", "payload": 1},
    picture(9000, 1),
    picture(3000, 1),
    {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE\nRi0="}},
]
CALL = {"id": "call_0", "type": "function", "function": {"name": "f", "arguments": "{}"}}
STRAY_ITEMS: dict[str, list[Body]] = {
    "anthropic": [
        {"role": "system", "content": "from the operator"},
        {"role": "system", "content": [_text("look"), picture()]},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": "and so "},
        {"role": "user", "content": []},
        {"role": "user", "content": [picture(3000, 1)] * 22},
        {"role": "assistant", "content": [{"type": "server_tool_use", "id": "srvtoolu_9", "name": "x", "input": {}}]},
    ],
    "openai_chat": [
        {"role": "tool", "tool_call_id": "call_0", "content": "late"},
        {"role": "tool", "content": None},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": None, "tool_calls": [CALL, CALL, {**CALL, "id": "x" * 41}]},
        {"role": "assistant", "tool_calls": [{**CALL, "id": None, "function": {"name": "f", "arguments": {}}}]},
        {"role": "user", "content": None},
    ],
    "gemini": [
        {"role": "user", "parts": []},
        {"role": "model", "parts": [{"text": ""}]},
        {"role": "model", "parts": [{"text": "hm", "thought": True}]},
        {"role": "model", "parts": [{"text": "and so "}]},
        {"role": "model", "parts": [{"functionCall": {"name": "bash", "args": {}}}]},
        {
            "role": "model",
            "parts": [{"functionCall": {"id": "0_0_0", "name": "bash"}, **SIGNED}, {"function_call": {}}],
        },
        {"role": "model", "parts": [{"functionResponse": {"name": "bash", "response": {"output": "x"}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "bash", "response": {"output": "late"}}}]},
        {"role": "user", "parts": [{"functionResponse": {"id": "0_0_0", "name": "read", "response": "text"}}]},
        {"role": "function", "parts": [{"function_response": {"name": "bash"}}, {"text": "more"}]},
        {"role": "user", "parts": [{"functionCall": {"name": "bash", "args": "{}"}}]},
        {"role": "user", "parts": ["bare", {"text": "x", "inlineData": {"mimeType": "image/png", "data": ""}}]},
        {"role": "model", "parts": [{"somethingNew": 1}, SIGNED]},
        {"parts": "bare"},
    ],
    "bedrock_converse": [
        {"role": "user", "content": []},
        {"role": "user", "content": [POINT]},
        {"role": "assistant", "content": [{"text": " "}]},
        {"role": "assistant", "content": [{"reasoningContent": {"reasoningText": {"text": "hm"}}}, POINT]},
        {"role": "assistant", "content": [{"text": "and so "}]},
        {"role": "assistant", "content": "bare"},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "tooluse_0_0_0", "name": "bash", "input": "{}"}}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a:b", "name": "a b"}}, {"toolUse": None}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "tooluse_0_0_0", "content": "late"}}]},
        {"role": "user", "content": [{"text": "x"}, {"toolResult": {"toolUseId": "a:b", "status": "error"}}, POINT]},
        {"role": "user", "content": [{"type": "text", "text": "theirs"}, {"toolUse": {}}, POINT, POINT, POINT]},
        {"role": "user", "content": [{"somethingNew": 1}, "bare"]},
    ],
    "openai_responses": [
        {"type": "reasoning", "id": "rs_stray", "summary": []},
        {"type": "reasoning", "summary": [], "encrypted_content": "x"},
        {"type": "function_call", "id": "item_1", "call_id": "call_stray", "name": "f", "arguments": "{}"},
        {"type": "custom_tool_call_output", "call_id": "call_stray", "output": "x"},
        {"type": "computer_call", "id": "cu_1", "call_id": "call_screen", "action": {}},
        {"type": "computer_call_output", "call_id": "call_screen", "output": {}},
        {"type": "local_shell_call", "id": "lsh_1", "call_id": "call_shell", "action": {}},
        {"type": "mcp_approval_request", "id": "mcpr_1", "name": "x", "arguments": "{}"},
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_2", "approve": True},
        {"type": "tool_search_call", "call_id": None, "execution": "server"},
        {"type": "tool_search_call", "call_id": "call_search", "execution": "client"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "item_reference", "id": "rs_stored"},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": "again"},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"},
    ],
}


def _one(draw: st.DrawFn, parts: Any) -> Any:
    return parts[draw(st.integers(0, len(parts) - 1))] if isinstance(parts, list) and parts else None


def _disturb(draw: st.DrawFn, parts: Any) -> None:
    if not isinstance(parts, list) or not parts:
        return
    here, there = draw(st.integers(0, len(parts) - 1)), draw(st.integers(0, len(parts) - 1))
    what = draw(st.sampled_from(["lose", "double", "swap", "garble", "insert"]))
    if what == "lose":
        del parts[here]
    elif what == "double":
        parts.insert(there, copy.deepcopy(parts[here]))
    elif what == "swap":
        parts[here], parts[there] = parts[there], parts[here]
    elif what == "garble":
        parts[here] = draw(JSONISH)
    else:
        parts.insert(here, draw(JSONISH))
