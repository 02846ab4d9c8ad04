"""Bedrock's Converse API: results right behind calls, no blank words, the user first and last (K1 to K5)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from upstream.encoding import unencodable
from upstream.finding import Body, Json, Rules, Said, dicts, text_of

EXCEEDS = (
    "The number of toolResult blocks at messages.{at}.content exceeds the number of toolUse blocks of previous turn."
)
EXPECTED = "Expected toolResult blocks at messages.{at}.content for the following Ids: {ids}"
DOUBLED = "The toolUse blocks at messages.{at}.content contain duplicate Ids: {ids}"
APART = "messages.{at}.content: Conversation blocks and {kind} blocks cannot be provided in the same turn."
EMPTY_FAILURE = "The content field at messages.{at}.content.{n}.toolResult cannot be empty when status value is error."
BLANK = "The text field in the ContentBlock object at messages.{at}.content.{n} is blank."
EMPTY = "The content field in the Message object at messages.{at} is empty."
STARTS = "A conversation must start with a user message."
ALTERNATES = "A conversation must alternate between user and assistant roles."
PREFILL = "This model does not support assistant message prefill. The conversation must end with a user message."
NO_TOOLS = "The toolConfig field must be defined when using toolUse and toolResult content blocks."
UNKNOWN = 'Unknown parameter in messages[{at}].content[{n}]: "{name}"'
KINDS = frozenset(
    {
        *("text", "image", "document", "video", "audio", "toolUse", "toolResult", "guardContent", "cachePoint"),
        *("reasoningContent", "citationsContent", "searchResult"),
    }
)
PLAIN_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
STRICT_MODELS = re.compile(r"(^|\.)(mistral|meta|cohere|ai21)\.")


def model_of(body: Body) -> str:
    return text_of(body.get("modelId")) or text_of(body.get("model"))


def messages(body: Body) -> list[Body]:
    return dicts(body.get("messages"))


def blocks(message: Body) -> list[Body]:
    return dicts(message.get("content"))


def uses(message: Body) -> list[Body]:
    return [block["toolUse"] for block in blocks(message) if isinstance(block.get("toolUse"), dict)]


def results(message: Body) -> list[Body]:
    return [block["toolResult"] for block in blocks(message) if isinstance(block.get("toolResult"), dict)]


def _pairs(body: Body) -> Iterator[Said]:
    turns = [*messages(body), {}]
    asked: list[Json] = []
    for at, message in enumerate(turns):
        given = [result.get("toolUseId") for result in results(message)]
        missing = [one for one in asked if one not in given]
        if missing:
            yield f"messages.{at}.content", EXPECTED.format(at=at, ids=", ".join(map(str, missing)))
        if len(given) > len(asked) or any(one not in asked for one in given) or len(set(map(str, given))) < len(given):
            yield f"messages.{at}.content", EXCEEDS.format(at=at)
        asked = [use.get("toolUseId") for use in uses(message)]
        if asked and message.get("role") != "assistant":
            yield f"messages.{at}.content", "toolUse blocks can only be in assistant messages."
        if given and message.get("role") != "user":
            yield f"messages.{at}.content", "toolResult blocks can only be in user messages."


def _results_first(body: Body) -> Iterator[Said]:
    for at, message in enumerate(messages(body)):
        is_result = ["toolResult" in block for block in blocks(message) if "cachePoint" not in block]
        if sorted(is_result, reverse=True) != is_result:
            yield f"messages.{at}.content", "toolResult blocks come before others."


def _apart(body: Body) -> Iterator[Said]:
    if not STRICT_MODELS.search(model_of(body)):
        return
    for at, message in enumerate(messages(body)):
        speaks = any("text" in block for block in blocks(message))
        for kind, found in (("tool use", uses(message)), ("tool result", results(message))):
            if speaks and found:
                yield f"messages.{at}.content", APART.format(at=at, kind=kind)


def _failures(body: Body) -> Iterator[Said]:
    for at, message in enumerate(messages(body)):
        for n, block in enumerate(blocks(message)):
            result = block.get("toolResult")
            if isinstance(result, dict) and result.get("status") == "error" and not result.get("content"):
                yield f"messages.{at}.content.{n}", EMPTY_FAILURE.format(at=at, n=n)


def _words(body: Body) -> Iterator[Said]:
    for at, message in enumerate(messages(body)):
        if not any("cachePoint" not in block for block in blocks(message)):
            yield f"messages.{at}", EMPTY.format(at=at)
        for n, block in enumerate(blocks(message)):
            result = block.get("toolResult")
            inner = dicts(result.get("content")) if isinstance(result, dict) else []
            for one in (block, *inner):
                if "text" in one and not text_of(one["text"]).strip():
                    yield f"messages.{at}.content.{n}", BLANK.format(at=at, n=n)


def _order(body: Body) -> Iterator[Said]:
    turns = messages(body)
    if not turns or turns[0].get("role") != "user":
        yield "messages.0.role", STARTS


def _tools_missing(body: Body) -> Iterator[Said]:
    turns = messages(body)
    needs_tools = any(uses(message) or results(message) for message in turns)
    config = body.get("toolConfig")
    if needs_tools and not (isinstance(config, dict) and dicts(config.get("tools"))):
        yield "toolConfig", NO_TOOLS


def _alternates(body: Body) -> Iterator[Said]:
    turns = messages(body)
    for at, message in enumerate(turns):
        if message.get("role") not in ("user", "assistant"):
            yield f"messages.{at}.role", "Value at 'role' must satisfy enum value set: [user, assistant]"
        if at and message.get("role") == turns[at - 1].get("role"):
            yield f"messages.{at}.role", ALTERNATES


def _ends_with_user(body: Body) -> Iterator[Said]:
    turns = messages(body)
    if turns and turns[-1].get("role") == "assistant":
        yield "messages", PREFILL


def _shapes(body: Body) -> Iterator[Said]:
    """What boto3 refuses by itself before it sends anything."""
    for at, message in enumerate(messages(body)):
        if not isinstance(message.get("content"), list):
            yield f"messages.{at}.content", "Invalid type for parameter: valid types: list, tuple"
        for n, block in enumerate(blocks(message)):
            if len(KINDS & block.keys()) > 1 or ("type" in block and len(block) > 1):
                yield f"messages.{at}.content.{n}", "Invalid number of parameters set for tagged union structure"
            text = block.get("text", "")
            if not isinstance(text, str):
                yield f"messages.{at}.content.{n}.text", "Invalid type for parameter: valid types: str"
        for use in uses(message):
            if not isinstance(use.get("input"), dict) or not text_of(use.get("name")):
                yield f"messages.{at}.content", "Invalid type for parameter toolUse"
        for result in results(message):
            content = result.get("content")
            if not isinstance(content, list) or len(dicts(content)) < len(content):
                yield f"messages.{at}.content", "Invalid type for parameter toolResult.content"


def _known_fields(body: Body) -> Iterator[Said]:
    """And it refuses names that it does not know. A kind that this list does not have may be new."""
    for at, message in enumerate(messages(body)):
        for n, block in enumerate(blocks(message)):
            for name in block.keys() - KINDS if KINDS & block.keys() else ():
                yield f"messages.{at}.content.{n}", UNKNOWN.format(at=at, n=n, name=name)


def _ids(body: Body) -> Iterator[Said]:
    seen: set[str] = set()
    for at, message in enumerate(messages(body)):
        ids = [use.get("toolUseId") for use in uses(message)]
        for one in (*ids, *(result.get("toolUseId") for result in results(message))):
            if not PLAIN_ID.match(text_of(one)):
                yield f"messages.{at}.content", "toolUseId must satisfy regular expression pattern: [a-zA-Z0-9_-]+"
        again = [str(one) for n, one in enumerate(ids) if str(one) in seen or one in ids[:n]]
        if again:
            yield f"messages.{at}.content", DOUBLED.format(at=at, ids=", ".join(again))
        seen |= set(map(str, ids))


def _signed(body: Body) -> Iterator[Said]:
    if "claude" not in model_of(body):
        return
    for at, message in enumerate(messages(body)):
        for n, block in enumerate(blocks(message)):
            reasoning = block.get("reasoningContent")
            text = reasoning.get("reasoningText") if isinstance(reasoning, dict) else None
            if isinstance(text, dict) and not text.get("signature"):
                yield f"messages.{at}.content.{n}", "messages: thinking.signature: Field required"


def _cache_points(body: Body) -> Iterator[Said]:
    config = body.get("toolConfig")
    sections = [dicts(config.get("tools"))] if isinstance(config, dict) else []
    sections += [dicts(body.get("system")), *map(blocks, messages(body))]
    total = sum("cachePoint" in block for section in sections for block in section)
    if total > 4:
        yield "", f"A maximum of 4 blocks with cache_control may be provided. Found {total}."


def _encodable(body: Body) -> Iterator[Said]:
    yield from unencodable(body, "")


RULES: Rules[Body] = {
    "A5": _alternates,
    "A6": _ends_with_user,
    "A11": _encodable,
    "A14": _ids,
    "A19": _results_first,
    "A34": _signed,
    "A45": _cache_points,
    "K1": _pairs,
    "K2": _apart,
    "K3": _failures,
    "K4": _words,
    "K5": _order,
    "fields": _known_fields,
    "shape": _shapes,
}
WARNINGS: Rules[Body] = {"K5": _tools_missing}
