"""Rules about one message: its role, and blocks that are blocks (K2, K3, K4, A14, A34)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ebbtide.core.texts import NO_RESULT
from ebbtide.wire.bedrock_converse.blocks import KINDS, blocks_of, field, is_cache_point
from ebbtide.wire.blocks import as_str
from ebbtide.wire.protocol import Log
from ebbtide.wire.validity import SHAPE, Indexed, Json, as_text, safe_id

Block = Mapping[str, Json]

CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_KEPT_APART = re.compile(r"(?:^|[./])(?:mistral|meta|cohere|ai21)\.")
"""Models that take calls and results only without text beside them (K2)."""
_OTHERS_FIELDS = ("type", "cache_control")
"""Fields of the blocks of other providers, which boto3 refuses."""
_USERS_ONLY = ("toolResult", "guardContent")
_ASSISTANTS_ONLY = ("toolUse", "reasoningContent")

EMPTY_MESSAGE = "The content field in the Message object at {path} is empty."
BLANK = "The text field in the ContentBlock object at {path} is blank."
EMPTY_FAILURE = "The content field at {path} cannot be empty when status value is error."
APART = "{path}: Conversation blocks and {kind} blocks cannot be provided in the same turn."
NOT_AN_OBJECT = "Expected an object"
NOT_PLAIN = (
    "Value at 'toolUseId' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+"
)


@lru_cache(maxsize=64)
def is_claude(model: str) -> bool:
    return "claude" in model


@lru_cache(maxsize=64)
def separates_text(model: str) -> bool:
    return _KEPT_APART.search(model) is not None


def clean_message(message: Json, index: int, log: Log, *, is_claude: bool) -> Mapping[str, Json] | None:
    """Apply the rules about one message; None if nothing of it can be sent."""
    path = f"messages.{index}"
    if not isinstance(message, dict):
        log.note(SHAPE, path, "expected a message", "dropped")
        return None
    role = message.get("role")
    if role not in ("user", "assistant"):
        log.note(SHAPE, f"{path}.role", "Value at 'role' must be one of: user, assistant")
        return None
    if isinstance(message.get("content"), str) and message["content"]:
        log.note(SHAPE, f"{path}.content", "expected a list of blocks", "made a list")
        message = {**message, "content": blocks_of(message)}
    given = blocks_of(message)
    kept = [_clean_block(block, f"{path}.content.{n}", role, log, is_claude=is_claude) for n, block in enumerate(given)]
    valid: list[Block] = []
    for n, block in enumerate(kept):
        if block is not None and is_cache_point(block) and (not valid or is_cache_point(valid[-1])):
            log.note("A46", f"{path}.content.{n}", "a cache point follows what it caches", "dropped")
        elif block is not None:
            valid.append(block)
    if not valid:
        log.note("K4", path, EMPTY_MESSAGE.format(path=path), "dropped")
        return None
    is_same = len(valid) == len(given) and all(new is old for new, old in zip(valid, given, strict=True))
    return message if is_same else {**message, "content": valid}


def _clean_block(block: Json, path: str, role: str, log: Log, *, is_claude: bool) -> Block | None:
    if isinstance(block, str) and block.strip():
        log.note(SHAPE, path, "expected a block", "made text")
        return {"text": block}
    if not isinstance(block, dict):
        log.note(SHAPE, path, "expected a block", "dropped")
        return None
    kinds = [name for name in block if name in KINDS and block[name] is not None]
    if kinds and len(block) > 1:
        block, kinds = _one_kind(block, kinds, path, log)
    if not kinds and (not block or not KINDS.isdisjoint(block)):
        log.note("K4", path, "a block that is nothing", "dropped")
        return None
    kind = kinds[0] if kinds else ""
    if kind in (_USERS_ONLY if role == "assistant" else _ASSISTANTS_ONLY):
        log.note("K1", f"{path}.{kind}", f"a {role} message has no {kind}", "dropped")
        return None
    clean = _CLEANERS.get(kind)
    if clean is not None and not isinstance(block[kind], str if kind == "text" else dict):
        if kind != "text":
            log.note(SHAPE, f"{path}.{kind}", NOT_AN_OBJECT, "dropped")
            return None
        log.note(SHAPE, f"{path}.text", "expected a string", "made text")
        block = {"text": as_text(block["text"])}
    if kind == "reasoningContent" and is_claude and _is_unsigned(block[kind]):
        log.note("A34", path, "reasoningText.signature: Field required", "dropped")
        return None
    return block if clean is None else clean(block, path, log)


def _one_kind(block: Block, kinds: list[str], path: str, log: Log) -> tuple[dict[str, Json], list[str]]:
    """A block is one thing. Fields of other providers and an empty text go; two things have no repair."""
    fixed = {name: value for name, value in block.items() if name not in _OTHERS_FIELDS and value is not None}
    if len(kinds) > 1 and fixed.get("text") == "":
        fixed, kinds = (
            {name: value for name, value in fixed.items() if name != "text"},
            [k for k in kinds if k != "text"],
        )
    if len(fixed) < len(block):
        log.note(SHAPE, path, "a block has one field", "other fields dropped")
    if len(kinds) > 1:
        log.note(SHAPE, path, f"a block is one thing, not {' and '.join(kinds)}")
    return fixed, kinds


def _is_unsigned(reasoning: Block) -> bool:
    text = field(reasoning, "reasoningText")
    return text is not None and not as_str(text.get("signature"))


def _clean_text(block: Block, path: str, log: Log) -> Block | None:
    if block["text"].strip():
        return block
    log.note("K4", path, BLANK.format(path=path), "dropped")
    return None


def _clean_call(block: Block, path: str, log: Log) -> Block | None:
    call, path = block["toolUse"], f"{path}.toolUse"
    name, arguments = call.get("name"), call.get("input")
    if not isinstance(name, str) or not name:
        log.note(SHAPE, f"{path}.name", "a call has a name", "dropped")
        return None
    fixed = dict(call)
    if not TOOL_NAME.fullmatch(name):
        fixed["name"] = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64]
        log.note("A25", f"{path}.name", "a name has letters, digits, '_' and '-', 64 at the most", fixed["name"])
    if not isinstance(arguments, dict):
        fixed["input"] = _as_object(arguments)
        log.note("A21", f"{path}.input", NOT_AN_OBJECT, "made an object")
    return _with_plain_id(block, "toolUse", call, fixed, path, log)


def _as_object(value: Any) -> dict[str, Any]:
    """Return an object that says the same. Some clients write arguments as JSON in a string."""
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            parsed = None
        return parsed if isinstance(parsed, dict) else {"input": value}
    return {} if value is None else {"input": value}


def _clean_result(block: Block, path: str, log: Log) -> Block | None:
    result, path = block["toolResult"], f"{path}.toolResult"
    fixed = dict(result)
    content = result.get("content")
    if not isinstance(content, list):
        fixed["content"] = [] if content is None else [{"text": as_text(content)}]
        log.note("A22", f"{path}.content", "expected a list of parts", "made a list")
    if result.get("status") not in (None, "success", "error"):
        del fixed["status"]
        log.note(SHAPE, f"{path}.status", "Value at 'status' must be one of: success, error", "dropped")
    parts = [_clean_part(part, f"{path}.content.{n}", log) for n, part in enumerate(fixed["content"])]
    if any(part is not given for part, given in zip(parts, fixed["content"], strict=True)):
        fixed["content"] = [part for part in parts if part is not None]
    if not fixed["content"] and fixed.get("status") == "error":
        log.note("K3", path, EMPTY_FAILURE.format(path=path), "text added")
        fixed["content"] = [{"text": NO_RESULT}]
    return _with_plain_id(block, "toolResult", result, fixed, path, log)


def _clean_part(part: Json, path: str, log: Log) -> Json:
    if isinstance(part, str) and part.strip():
        log.note(SHAPE, path, "expected a part", "made text")
        return {"text": part}
    if not isinstance(part, dict):
        log.note(SHAPE, path, "expected a part", "dropped")
        return None
    text = part.get("text")
    if "text" in part and not (isinstance(text, str) and text.strip()):
        log.note("K4", path, BLANK.format(path=path), "dropped")
        return {"text": as_text(text)} if text and not isinstance(text, str) else None
    if "text" in part and any(name in part for name in _OTHERS_FIELDS):
        log.note(SHAPE, path, "a part has one field", "other fields dropped")
        return {"text": text}
    return part


def _with_plain_id(block: Block, kind: str, before: Block, fixed: dict[str, Any], path: str, log: Log) -> Block:
    identity = safe_id(fixed.get("toolUseId"), "tooluse_", CALL_ID)
    if identity != fixed.get("toolUseId"):
        log.note("A14", f"{path}.toolUseId", NOT_PLAIN, "replaced")
        fixed["toolUseId"] = identity
    return block if fixed == before else {kind: fixed}


_CLEANERS = {
    "text": _clean_text,
    "toolUse": _clean_call,
    "toolResult": _clean_result,
    "reasoningContent": lambda block, *_: block,
}


def separate_text(entry: Indexed, log: Log) -> Indexed:
    """K2: text beside results moves into the last one, and text beside calls stays in the log only."""
    message, path = entry.message, f"messages.{entry.index}.content"
    blocks = blocks_of(message)
    kind = next((kind for block in blocks for kind in ("toolUse", "toolResult") if field(block, kind) is not None), "")
    texts = [block for block in blocks if "text" in block]
    if not kind or not texts:
        return entry
    rest = [block for block in blocks if "text" not in block]
    if kind == "toolUse":
        log.note("K2", path, APART.format(path=path, kind="tool use"), "text left out")
        return Indexed(entry.index, {**message, "content": rest})
    log.note("K2", path, APART.format(path=path, kind="tool result"), "text moved into the last result")
    last = next(n for n in reversed(range(len(rest))) if field(rest[n], "toolResult") is not None)
    result = rest[last]["toolResult"]
    rest[last] = {"toolResult": {**result, "content": [*result["content"], *texts]}}
    return Indexed(entry.index, {**message, "content": rest})
