"""Calls and their responses: directly after each other, as many, in the same order (G2, G3, G4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ebbtide.core.texts import NO_RESULT
from ebbtide.wire.blocks import answer_in_order, as_str
from ebbtide.wire.gemini.fields import (
    call_of,
    is_model_content,
    make_response,
    parts_of,
    remove_fields,
    replace_field,
    response_of,
)
from ebbtide.wire.protocol import Log
from ebbtide.wire.validity import Indexed, Json

NOT_AFTER_CALL = "Please ensure that function response turn comes immediately after a function call turn."
NOT_AS_MANY = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the "
    "function call turn."
)
NOT_ITS_CALL = "Please ensure that each function response has the name and the id of its function call."

Part = Mapping[str, Json]


def pair_responses(entries: list[Indexed], log: Log, *, may_answer_earlier: bool) -> list[Indexed]:
    """Give each content with calls one with their responses. Roles alternate already.

    `may_answer_earlier` if the calls that the first content answers may be in `cachedContent`.
    """
    paired: list[Indexed] = []
    calls: list[Part] = []
    for n, entry in enumerate(entries):
        if not is_model_content(entry.message):
            is_free = not n and may_answer_earlier
            content = entry.message if is_free else _answer(calls, entry, log)
            paired += [Indexed(entry.index, content)] if content is not None else []
            calls = []
            continue
        calls = [call for part in parts_of(entry.message) if (call := call_of(part)) is not None]
        paired.append(entry)
    if calls:
        last = entries[-1]
        log.note("G3", f"contents.{last.index}", NOT_AS_MANY, "stand-in responses added")
        paired.append(Indexed(last.index, {"role": "user", "parts": stand_ins(last.message)}))
    return paired


def stand_ins(content: Json) -> list[Part]:
    """Return a response for each call of a content."""
    return [_stand_in(call) for part in parts_of(content) if (call := call_of(part)) is not None]


def _stand_in(call: Part) -> Part:
    return make_response(as_str(call.get("name")), as_str(call.get("id")), NO_RESULT, is_error=True)


def _answer(calls: Sequence[Part], entry: Indexed, log: Log) -> Part | None:
    """Return a content with exactly the responses to these calls first; None if nothing remains."""
    parts = parts_of(entry.message)
    if _is_in_order(calls, parts):
        return entry.message
    given = [(n, response) for n, part in enumerate(parts) if (response := response_of(part)) is not None]
    if not calls and not given:
        return entry.message
    chosen = answer_in_order([_key(call) for call in calls], [_key(response) for _, response in given])
    path = f"contents.{entry.index}"
    responses: list[Part] = [{}] * len(calls)
    for (n, response), call in zip(given, chosen, strict=True):
        if call is None:
            rule, problem = ("G3", NOT_AS_MANY) if calls else ("G2", NOT_AFTER_CALL)
            log.note(rule, f"{path}.parts.{n}", problem, "dropped")
        else:
            responses[call] = _with_key(parts[n], response, calls[call])
            if responses[call] is not parts[n]:
                log.note("G4", f"{path}.parts.{n}", NOT_ITS_CALL, "named like its call")
            elif n != call:
                log.note("G4", f"{path}.parts.{n}", NOT_ITS_CALL, "moved to its place")
    for call, response in enumerate(responses):
        if not response:
            log.note("G3", path, NOT_AS_MANY, "stand-in response added")
            responses[call] = _stand_in(calls[call])
    rest = [part for part in parts if response_of(part) is None]
    return {**entry.message, "role": "user", "parts": [*responses, *rest]} if responses or rest else None


def _is_in_order(calls: Sequence[Part], parts: Sequence[Any]) -> bool:
    responses = [response_of(part) for part in parts]
    first = responses[: len(calls)]
    if len(first) < len(calls) or any(response is not None for response in responses[len(calls) :]):
        return False
    return all(response is not None and _fits(call, response) for call, response in zip(calls, first, strict=True))


def _fits(call: Part, response: Part) -> bool:
    identity = response.get("id")
    return response.get("name") == call.get("name") and (not identity or identity == call.get("id"))


def _key(fields: Part) -> tuple[str, str]:
    return as_str(fields.get("name")), as_str(fields.get("id"))


def _with_key(part: Part, response: Part, call: Part) -> Part:
    """Return the response's part with the name and the id of its call."""
    if _fits(call, response):
        return part
    identity = {"id": call["id"]} if call.get("id") else {}
    fixed = {**identity, **remove_fields(response, "id", "name"), "name": call["name"]}
    return replace_field(part, "functionResponse", fixed)
