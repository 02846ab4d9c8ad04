"""Gemini's generateContent: answers right behind calls, as many, signed where Gemini 3 wants it (G1 to G9)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from upstream.encoding import unencodable
from upstream.finding import Body, Json, Rules, Said, dicts, text_of

AFTER_USER = (
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
)
AFTER_CALL = "Please ensure that function response turn comes immediately after a function call turn."
AS_MANY = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the "
    "function call turn."
)
UNSIGNED = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
    "correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call "
    "`default_api:{name}` , position {position}."
)
UNKNOWN = "Invalid JSON payload received. Unknown name \"{name}\" at '{path}': Cannot find field."
WANTS_SIGNATURES = re.compile(r"gemini-3")
HUMP = re.compile(r"([a-z])([A-Z])")
KINDS = (
    *("text", "inlineData", "fileData", "functionCall", "functionResponse"),
    *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
)
BESIDE = ("thought", "thoughtSignature", "videoMetadata", "partMetadata", "mediaResolution")
FIELDS = {
    "": (
        *("model", "contents", "systemInstruction", "tools", "toolConfig", "safetySettings", "generationConfig"),
        *("cachedContent", "labels"),
    ),
    "content": ("role", "parts"),
    "part": (*KINDS, *BESIDE),
    "functionCall": ("id", "name", "args", "partialArgs", "willContinue"),
    "functionResponse": ("id", "name", "response", "parts", "willContinue", "scheduling"),
}


_SPELLED = {
    kind: {spelled for name in names for spelled in (name, HUMP.sub(r"\1_\2", name).lower())}
    for kind, names in FIELDS.items()
}
"""The fields that there are, in both spellings."""


def value(fields: Json, name: str) -> Json:
    """A field, however its name is spelled."""
    if not isinstance(fields, dict):
        return None
    given = fields.get(name)
    return fields.get(HUMP.sub(r"\1_\2", name).lower()) if given is None else given


def contents(body: Body) -> list[Body]:
    return dicts(body.get("contents"))


def parts(content: Body) -> list[Body]:
    return dicts(content.get("parts"))


def calls(content: Body) -> list[Body]:
    return [value(part, "functionCall") for part in parts(content) if value(part, "functionCall") is not None]


def responses(content: Body) -> list[Body]:
    return [value(part, "functionResponse") for part in parts(content) if value(part, "functionResponse") is not None]


def by_model(content: Body) -> bool:
    return content.get("role") == "model"


def _starts_with_user(body: Body) -> Iterator[Said]:
    turns = contents(body)
    for at, content in enumerate(turns):
        if by_model(content) and not at and not value(body, "cachedContent"):
            yield f"contents[{at}]", AFTER_USER
        if calls(content) and not by_model(content):
            yield f"contents[{at}]", AFTER_USER


def _responses_follow(body: Body) -> Iterator[Said]:
    turns = contents(body)
    for at, content in enumerate(turns):
        cached = not at and value(body, "cachedContent")
        if responses(content) and not cached and not (at and by_model(turns[at - 1]) and calls(turns[at - 1])):
            yield f"contents[{at}]", AFTER_CALL
        if responses(content) and by_model(content):
            yield f"contents[{at}].role", AFTER_CALL


def _as_many(body: Body) -> Iterator[Said]:
    turns = [*contents(body), {}]
    for at, content in enumerate(turns[:-1]):
        wanted = calls(content) if by_model(content) else []
        if wanted and len(responses(turns[at + 1])) != len(wanted):
            yield f"contents[{at + 1}]", AS_MANY


def _same_calls(body: Body) -> Iterator[Said]:
    turns = [*contents(body), {}]
    for at, content in enumerate(turns[:-1]):
        asked, answered = calls(content) if by_model(content) else [], responses(turns[at + 1])
        for call, response in zip(asked, answered, strict=False):
            ids = response.get("id"), call.get("id")
            if call.get("name") != response.get("name") or (ids[0] and ids[0] != ids[1]):
                yield f"contents[{at + 1}]", "Please ensure that function responses have names and ids of their calls."
        first = [value(part, "functionResponse") is not None for part in parts(turns[at + 1])]
        if sorted(first, reverse=True) != first:
            yield f"contents[{at + 1}]", "Please ensure that function responses come first in their turn."


def _signed(body: Body) -> Iterator[Said]:
    if not WANTS_SIGNATURES.search(text_of(body.get("model"))):
        return
    turns = contents(body)
    users = [at for at, content in enumerate(turns) if not by_model(content) and not responses(content)]
    for at in range(users[-1] if users else 0, len(turns)):
        steps = [part for part in parts(turns[at]) if value(part, "functionCall") is not None]
        if by_model(turns[at]) and steps and not value(steps[0], "thoughtSignature"):
            name = value(steps[0], "functionCall").get("name")
            yield f"contents[{at}]", UNSIGNED.format(name=name, position=at + 1)


def _turns(body: Body) -> Iterator[Said]:
    turns = contents(body)
    if not turns:
        yield "contents", "* GenerateContentRequest.contents: contents is not specified"
    for at, content in enumerate(turns):
        role = content.get("role")
        if role not in (None, "", "user", "model", "function"):
            yield f"contents[{at}].role", "Please use a valid role: user, model."
        if at and by_model(content) == by_model(turns[at - 1]):
            yield f"contents[{at}].role", "Please ensure that multiturn requests alternate between user and model."
        if not parts(content):
            yield f"contents[{at}].parts", "contents.parts must not be empty."
        for n, part in enumerate(parts(content)):
            kinds = [kind for kind in KINDS if value(part, kind) is not None]
            unsigned = kinds == ["text"] and part["text"] == "" and not value(part, "thoughtSignature")
            # A kind that this list does not have is refused by its field.
            is_new = not kinds and any(name not in _SPELLED["part"] for name in part)
            if (len(kinds) != 1 and not is_new) or unsigned:
                yield f"contents[{at}].parts[{n}]", "required oneof field 'data' must have one initialized field"
    if turns and by_model(turns[-1]):
        yield "contents", "Please ensure that multiturn requests end with a user role or a function response."


def _thoughts(body: Body) -> Iterator[Said]:
    for at, content in enumerate(contents(body)):
        for n, part in enumerate(parts(content)):
            if part.get("thought") and not value(part, "thoughtSignature"):
                yield f"contents[{at}].parts[{n}]", "Thought parts need their thought_signature."


def _objects(body: Body) -> Iterator[Said]:
    for at, content in enumerate(contents(body)):
        for response in responses(content):
            if not isinstance(response.get("response"), dict):
                yield f"contents[{at}]", "Invalid value at 'function_response.response' (type.googleapis.com/Struct)"
        for call in calls(content):
            if not isinstance(call.get("args", {}), dict):
                yield f"contents[{at}]", "Invalid value at 'function_call.args' (type.googleapis.com/Struct)"


def _known_fields(body: Body) -> Iterator[Said]:
    yield from _unknown(body, "", "")
    for at, content in enumerate(contents(body)):
        yield from _unknown(content, "content", f"contents[{at}]")
        for n, part in enumerate(parts(content)):
            path = f"contents[{at}].parts[{n}]"
            yield from _unknown(part, "part", path)
            for kind in ("functionCall", "functionResponse"):
                yield from _unknown(value(part, kind) or {}, kind, f"{path}.{kind}")


def _unknown(fields: Json, kind: str, path: str) -> Iterator[Said]:
    for name in fields if isinstance(fields, dict) else ():
        if name not in _SPELLED[kind]:
            yield path, UNKNOWN.format(name=name, path=path)


def _encodable(body: Body) -> Iterator[Said]:
    yield from unencodable(body, "")


RULES: Rules[Body] = {
    "A11": _encodable,
    "G1": _starts_with_user,
    "G2": _responses_follow,
    "G3": _as_many,
    "G4": _same_calls,
    "G5": _signed,
    "G7": _turns,
    "G8": _thoughts,
    "G9": _objects,
    "fields": _known_fields,
}
WARNINGS: Rules[Body] = {}
