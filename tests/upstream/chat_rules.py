"""OpenAI Chat Completions: an answer for every call, a call for every answer (C1 to C12)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from upstream.encoding import unencodable
from upstream.finding import Body, Rules, Said, dicts, text_of

LONGEST_ID = 40
UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: {ids}"
)
ORPHAN = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
EMPTY_CALLS = "Invalid '{path}': empty array. Expected an array with minimum length 1, but got an empty array instead."
LONG = (
    "Invalid '{path}': string too long. Expected a string with maximum length {most}, "
    "but got a string with length {had} instead."
)
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
MOST_TOOLS = 128
REASONING = re.compile(r"(?:^|/)(?:o\d|gpt-5)")
MISTRAL_ID = re.compile(r"[a-zA-Z0-9]{9}")


def _messages(body: Body) -> list[Body]:
    return dicts(body.get("messages"))


def _calls(message: Body) -> list[Body]:
    return dicts(message.get("tool_calls")) if message.get("role") == "assistant" else []


def _ids(message: Body) -> list[str]:
    return [text_of(call.get("id")) for call in _calls(message)]


def _answers(messages: list[Body], after: int) -> list[str]:
    """Ids that the unbroken run of tool messages after this one answers."""
    found: list[str] = []
    for message in messages[after + 1 :]:
        if message.get("role") != "tool":
            break
        found.append(text_of(message.get("tool_call_id")))
    return found


def _answered(body: Body) -> Iterator[Said]:
    messages = _messages(body)
    for at, message in enumerate(messages):
        answers = _answers(messages, at) if _calls(message) else []
        missing = [call for call in _ids(message) if call not in answers]
        if missing:
            yield f"messages.[{at}].tool_calls", UNANSWERED.format(ids=", ".join(missing))


def _asked(body: Body) -> Iterator[Said]:
    waiting: set[str] = set()
    for at, message in enumerate(_messages(body)):
        if message.get("role") != "tool":
            waiting = set(_ids(message))
        elif text_of(message.get("tool_call_id")) not in waiting:
            yield f"messages.[{at}].role", ORPHAN


def _calls_not_empty(body: Body) -> Iterator[Said]:
    for at, message in enumerate(_messages(body)):
        if message.get("tool_calls") == []:
            path = f"messages[{at}].tool_calls"
            yield path, EMPTY_CALLS.format(path=path)


def _short_ids(body: Body) -> Iterator[Said]:
    for at, message in enumerate(_messages(body)):
        for place, call in enumerate(_ids(message)):
            if len(call) > LONGEST_ID:
                path = f"messages[{at}].tool_calls[{place}].id"
                yield path, LONG.format(path=path, most=LONGEST_ID, had=len(call))


def _arguments(body: Body) -> Iterator[Said]:
    for at, message in enumerate(_messages(body)):
        for place, call in enumerate(_calls(message)):
            function = call.get("function")
            if isinstance(function, dict) and not isinstance(function.get("arguments"), str):
                path = f"messages[{at}].tool_calls[{place}].function.arguments"
                yield path, f"Invalid type for '{path}': expected a string, but got something else instead."


def _encodable(body: Body) -> Iterator[Said]:
    yield from unencodable(body, "")


RULES: Rules[Body] = {
    "A11": _encodable,
    "C1": _answered,
    "C2": _asked,
    "C3": _calls_not_empty,
    "C4": _short_ids,
    "C8": _arguments,
}


def _one_answer(body: Body) -> Iterator[Said]:
    messages = _messages(body)
    for at, message in enumerate(messages):
        calls, answers = Counter(_ids(message)), Counter(_answers(messages, at) if _calls(message) else ())
        for call in sorted(call for call in calls | answers if max(calls[call], answers[call]) > 1):
            yield f"messages.[{at}]", f"'{call}' must have one call and one tool message"


def _null_content(body: Body) -> Iterator[Said]:
    for at, message in enumerate(_messages(body)):
        excused = any(message.get(field) for field in ("tool_calls", "function_call", "refusal", "audio"))
        if message.get("content") is None and not (message.get("role") == "assistant" and excused):
            yield f"messages.[{at}].content", "Invalid value for 'content': expected a string, got null."


def _tool_parts(body: Body) -> Iterator[Said]:
    for at, message in enumerate(_messages(body)):
        role, kinds = message.get("role"), {part.get("type") for part in dicts(message.get("content"))}
        if (role == "tool" and kinds - {"text"}) or (role != "user" and "image_url" in kinds):
            yield f"messages.[{at}].content", f"Invalid content type in a message with role '{role}'."


def _functions(body: Body) -> Iterator[Said]:
    tools = dicts(body.get("tools"))
    if len(tools) > MOST_TOOLS:
        yield "tools", f"Invalid 'tools': array too long. Expected an array with maximum length {MOST_TOOLS}."
    named = [(f"tools[{at}].function.name", tool.get("function")) for at, tool in enumerate(tools)]
    for at, message in enumerate(_messages(body)):
        named += [(f"messages[{at}].tool_calls[{n}]", call.get("function")) for n, call in enumerate(_calls(message))]
    for path, function in named:
        if isinstance(function, dict) and not NAME.fullmatch(text_of(function.get("name"))):
            yield path, f"Invalid '{path}': string does not match pattern '^[a-zA-Z0-9_-]{{1,64}}$'."


def _reasoning_model(body: Body) -> Iterator[Said]:
    if not REASONING.search(text_of(body.get("model"))):
        return
    if "max_tokens" in body:
        yield "max_tokens", "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    for at, message in enumerate(_messages(body)):
        if message.get("role") == "system":
            yield f"messages.[{at}].role", "'system' is not supported with this model; use 'developer'."


def _compatibles(body: Body) -> Iterator[Said]:
    model, messages = text_of(body.get("model")), _messages(body)
    if "mistral" in model:
        for at, message in enumerate(messages):
            if any(not MISTRAL_ID.fullmatch(call) for call in _ids(message)):
                yield f"messages.[{at}].tool_calls", "Tool call id must be 9 characters of a-z, A-Z, 0-9."
        if messages and messages[-1].get("role") not in ("user", "tool"):
            yield "messages", "Expected last role User or Tool."
    if re.search("deepseek|kimi", model) and messages and messages[-1].get("role") == "tool":
        for at in _open_loop(messages):
            if not isinstance(messages[at].get("reasoning_content"), str):
                yield f"messages.[{at}]", "reasoning_content is missing in an assistant message of the open tool loop"


def _open_loop(messages: list[Body]) -> list[int]:
    users = [at for at, message in enumerate(messages) if message.get("role") == "user"]
    start = users[-1] if users else 0
    return [at for at in range(start, len(messages)) if messages[at].get("role") == "assistant"]


WARNINGS: Rules[Body] = {
    "C5": _one_answer,
    "C6": _null_content,
    "C7": _tool_parts,
    "C9": _functions,
    "C10": _reasoning_model,
    "C12": _compatibles,
}
