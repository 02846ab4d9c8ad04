"""Turns of the Gemini API: results and texts of a turn are one content of the user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ebbtide.core.errors import BadRequest
from ebbtide.wire.gemini.fields import call_of, find, is_thought, make_response, parts_of, signature_of
from ebbtide.wire.turns import Block, CallResult, OpenCall, Reply, as_list, to_dict

model_field = "model"
tools_field = "tools"
max_tokens_field = "generationConfig.maxOutputTokens"
default_max_tokens: int | None = None
joins_results = True

_NO_ID = "call without an id: "
"""Begins the kind of such a call, before its name."""


def system_fields(system: Sequence[Block]) -> Block:
    return {"systemInstruction": {"parts": [{"text": block.get("text", "")} for block in system]}}


def system_messages(_system: Sequence[Block]) -> list[Block]:
    return []


def read_reply(response: object) -> Reply:
    """A call without an id is known by the name of its function; the second one by `name-2`."""
    reply = to_dict(response, "response")
    content = reply
    if "parts" not in reply:
        candidates = as_list(reply.get("candidates"))
        if not candidates and find(reply, "promptFeedback") is None:
            raise BadRequest("a reply has candidates", path="response.candidates")
        candidate = to_dict(candidates[0], "response.candidates.0") if candidates else {}
        content = to_dict(candidate.get("content") or {}, "response.candidates.0.content")
    if content.get("role") not in (None, "model"):
        raise BadRequest("a reply has the role model", path="response.role")
    parts = [to_dict(part, f"response.parts.{n}") for n, part in enumerate(parts_of(content))]
    parts = [part for part in parts if signature_of(part) or not (is_thought(part) or part.get("text") == "")]
    messages: list[Block] = [{**content, "role": "model", "parts": parts}] if parts else []
    return Reply(messages=messages, calls=_open_calls(parts))


def _open_calls(parts: Sequence[Block]) -> list[OpenCall]:
    calls: list[OpenCall] = []
    ids = set[str]()
    for call in filter(None, map(call_of, parts)):
        name, id, number = str(call.get("name")), str(call.get("id") or ""), 1
        kind = name if id else _NO_ID + name
        id = id or name
        while id in ids:
            number += 1
            id = f"{name}-{number}"
        ids.add(id)
        calls.append(OpenCall(id=id, kind=kind))
    return calls


def write_turn(results: Sequence[CallResult], texts: Sequence[str]) -> Iterator[Block]:
    yield {"role": "user", "parts": [*map(_write_result, results), *({"text": text} for text in texts)]}


def _write_result(result: CallResult) -> Block:
    name = result.call.kind.removeprefix(_NO_ID)
    id = result.call.id if name == result.call.kind else ""
    if isinstance(result.content, str):
        return make_response(name, id, result.content, is_error=result.is_error)
    text = "\n".join(str(part["text"]) for part in result.content if "text" in part)
    part = make_response(name, id, text, is_error=result.is_error)
    media = [dict(part) for part in result.content if "text" not in part]
    if media:
        part["functionResponse"]["parts"] = media
    return part
