"""What OpenAI Chat Completions and compatible servers refuse, and the repairs.

Rule   keeps                                                              function
-----  -----------------------------------------------------------------  ----------------
C1     every call answered directly after it, before any other role       _answer_calls
C2     no tool message without its call                                   _answer_calls
C3     `tool_calls` absent or not empty                                   _fix_calls
C4     call ids of at most 40 characters                                  _fix_call, _fix_result_id
C5     one tool message per id, ids unique in one message (unverified)    _rename_duplicates, _answer_calls
C6     `content` null only beside calls, refusal or audio (unverified)    _fix_content
C8     arguments are a string, kept as they are even if not JSON          _fix_call
C13    a refusal, content null, survives                                  _fix_content
A11    JSON and UTF-8                                                     ../validity

Not checked here: C7 C9 C10 C12 (unverified, and no harmless repair), C11 (size: the engine fits).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from ebbtide.core.texts import NO_RESULT
from ebbtide.wire.call_pairs import choose_results, make_unique_id, with_call_id
from ebbtide.wire.protocol import Log
from ebbtide.wire.validity import SHAPE, Json, as_text, safe_id

Body = Mapping[str, Json]
Message = Mapping[str, Json]

CALL_ID = re.compile(r".{1,40}", re.DOTALL)
WORDLESS = ("tool_calls", "function_call", "refusal", "audio")
"""C6, C13: beside one of these an assistant message needs no content."""
TOO_LONG = "string too long. Expected a string with maximum length 40"
NOT_ANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: "
)
NOT_ASKED = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."


def repair(body: Body, since: int, _call_ids: AbstractSet[str], _breakpoints: int | None, log: Log) -> Body:
    messages = body["messages"]
    if not messages:
        log.note(SHAPE, "messages", "[] is too short")
    new = [(index, _clean_message(messages[index], index, log)) for index in range(since, len(messages))]
    if log.is_hopeless:
        return body
    cleaned = [(index, message) for index, message in new if message is not None]
    return {**body, "messages": [*messages[:since], *_pair_calls(cleaned, log)]}


def is_ordinary(_body: Body, _since: int, _call_ids: AbstractSet[str], _breakpoints: int | None) -> bool:
    return False


def drop_broken_thinking(message: Json) -> Json:
    return message


def list_rule(_value: Json) -> str:
    return SHAPE


def first_to_check(messages: Sequence[Json], since: int) -> int:
    """Checking starts at the calls whose results may still arrive."""
    start = since
    while start and role(messages[start - 1]) == "tool":
        start -= 1
    return start - 1 if start and _calls(messages[start - 1]) else since


def call_ids(message: Json) -> frozenset[str]:
    return frozenset(str(call.get("id")) for call in _calls(message))


def role(message: Json) -> str:
    value = message.get("role") if isinstance(message, dict) else None
    return value if isinstance(value, str) else ""


def _calls(message: Json) -> list[Message]:
    calls = message.get("tool_calls") if role(message) == "assistant" else None
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _clean_message(message: Json, index: int, log: Log) -> Message | None:
    """Apply the rules about one message; None if it was no message. A note without a repair refuses the request."""
    path = f"messages.{index}"
    if not isinstance(message, dict) or not ("role" in message or "content" in message):
        log.note(SHAPE, path, "expected an object", "dropped")
        return None
    if not role(message):
        log.note(SHAPE, f"{path}.role", "Missing required parameter")
        return None
    return _fix_content(_fix_result_id(_fix_calls(message, path, log), path, log), path, log)


def _fix_calls(message: Message, path: str, log: Log) -> Message:
    """C3: an assistant message has calls, or no `tool_calls` field. Null counts as absent, as with OpenAI."""
    tool_calls = message.get("tool_calls")
    # An empty array is refused in a message of any role.
    if tool_calls is None or (role(message) != "assistant" and tool_calls != []):
        return message
    calls = tool_calls if isinstance(tool_calls, list) else []
    valid_calls = [
        call for index, part in enumerate(calls) if (call := _fix_call(part, f"{path}.tool_calls.{index}", log))
    ]
    if valid_calls:
        same = len(valid_calls) == len(calls) and all(old is new for old, new in zip(calls, valid_calls, strict=True))
        return message if same else {**message, "tool_calls": valid_calls}
    problem = "empty array. Expected an array with minimum length 1, but got an empty array instead."
    log.note("C3", f"{path}.tool_calls", problem, "field dropped")
    return {key: value for key, value in message.items() if key != "tool_calls"}


def _fix_call(part: Json, path: str, log: Log) -> Message | None:
    """C4, C8. Drop a call without a function. Calls of unknown types pass once their id is valid."""
    if not isinstance(part, dict) or (part.get("type", "function") == "function" and not _has_name(part)):
        log.note(SHAPE, path, "expected a function call", "dropped")
        return None
    call: Message = part
    identity = safe_id(call.get("id"), "call_", CALL_ID)
    if identity != call.get("id"):
        log.note("C4", f"{path}.id", TOO_LONG, "id mapped")
        call = {**call, "id": identity}
    function = call.get("function")
    if isinstance(function, dict) and not isinstance(function.get("arguments"), str):
        log.note("C8", f"{path}.function.arguments", "expected a string", "made a string")
        arguments = function.get("arguments")
        call = {**call, "function": {**function, "arguments": "{}" if arguments is None else as_text(arguments)}}
    return call


def _has_name(call: Message) -> bool:
    function = call.get("function")
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def _fix_result_id(message: Message, path: str, log: Log) -> Message:
    """C4: map a result's id in the same way as its call's."""
    if role(message) != "tool":
        return message
    identity = safe_id(message.get("tool_call_id"), "call_", CALL_ID)
    if identity == message.get("tool_call_id"):
        return message
    log.note("C4", f"{path}.tool_call_id", TOO_LONG, "id mapped")
    return {**message, "tool_call_id": identity}


def _fix_content(message: Message, path: str, log: Log) -> Message:
    """C6, C13: content is a string or parts; null is allowed only beside calls, a refusal or audio."""
    content = message.get("content")
    if isinstance(content, str):
        return message
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        if len(parts) == len(content):
            return message
        log.note(SHAPE, f"{path}.content", "expected content parts", "strings made parts, the rest dropped")
        parts_fixed = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
        return {**message, "content": [part for part in parts_fixed if isinstance(part, dict)] or ""}
    if content is not None:
        log.note(SHAPE, f"{path}.content", "expected a string or an array", "made text")
        return {**message, "content": as_text(content)}
    if role(message) == "assistant" and any(message.get(field) is not None for field in WORDLESS):
        return message
    log.note("C6", f"{path}.content", "expected a string, got null", "made empty")
    return {**message, "content": ""}


def _pair_calls(entries: list[tuple[int, Message]], log: Log) -> list[Message]:
    """In each run from one assistant message to the next, move the results to the front."""
    paired: list[Message] = []
    run: list[tuple[int, Message]] = []
    calls: list[tuple[str, str]] = []
    for index, message in entries:
        if role(message) != "assistant":
            run.append((index, message))
            continue
        paired += _answer_calls(run, calls, log)
        message, calls = _rename_duplicates(message, index, log)
        paired.append(message)
        run = []
    return paired + _answer_calls(run, calls, log)


def _rename_duplicates(message: Message, index: int, log: Log) -> tuple[Message, list[tuple[str, str]]]:
    """C5: make ids unique in one message. Also return each call's id from the client and the one to send."""
    names: list[tuple[str, str]] = []
    calls = []
    for n, call in enumerate(_calls(message)):
        client_id = call["id"]
        sent_id = make_unique_id(client_id, [used for _, used in names], "call_", index, n)
        if sent_id != client_id:
            log.note("C5", f"messages.{index}.tool_calls.{n}.id", "tool call ids must be unique", "renamed")
        names.append((client_id, sent_id))
        calls.append(call if sent_id == client_id else {**call, "id": sent_id})
    is_renamed = any(client_id != sent_id for client_id, sent_id in names)
    return ({**message, "tool_calls": calls} if is_renamed else message), names


def _answer_calls(run: list[tuple[int, Message]], calls: list[tuple[str, str]], log: Log) -> list[Message]:
    """C1, C2: results first, then placeholders for missing ones, then the other messages before the next reply."""
    results = [message for _, message in run if role(message) == "tool"]
    is_in_order = len(results) == len(calls) and all(role(message) == "tool" for _, message in run[: len(calls)])
    if is_in_order and {message["tool_call_id"] for message in results} == {sent_id for _, sent_id in calls}:
        return [message for _, message in run]
    chosen, unanswered = choose_results([client_id for client_id, _ in calls], results, "tool_call_id")
    missing = [calls[index][1] for index in unanswered]
    _note_answers(run, calls, missing, chosen, log)
    results = [
        with_call_id(message, "tool_call_id", calls[chosen[id(message)]][1])
        for message in results
        if id(message) in chosen
    ]
    stand_ins = [{"role": "tool", "tool_call_id": identity, "content": NO_RESULT} for identity in missing]
    return [*results, *stand_ins, *(message for _, message in run if role(message) != "tool")]


def _note_answers(
    run: list[tuple[int, Message]], calls: list[tuple[str, str]], missing: list[str], chosen: dict[int, int], log: Log
) -> None:
    """Note what `_answer_calls` did."""
    open_ids = {client_id for client_id, _ in calls}
    has_other_messages = False
    for index, message in run:
        path = f"messages.{index}"
        if role(message) != "tool":
            has_other_messages = True
        elif id(message) in chosen and has_other_messages:
            log.note("C1", path, NOT_ANSWERED + message["tool_call_id"], "moved to its call")
        elif id(message) not in chosen and message["tool_call_id"] in open_ids:
            log.note("C5", path, "one tool message per tool_call_id", "the last one kept")
        elif id(message) not in chosen:
            log.note("C2", path, NOT_ASKED, "dropped")
    for identity in missing:
        log.note("C1", f"messages.{run[0][0] if run else 'end'}", NOT_ANSWERED + identity, "stand-in result")
