"""Who may speak when, and with what: the rules of messages, roles and empty content (A1 to A11)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from upstream.anthropic_request import Block, Message, Request, within
from upstream.encoding import unencodable
from upstream.finding import Rules, Said, dicts, text_of

MOST_MESSAGES = 100_000
EMPTY = "text content blocks must be non-empty"
BLANK = "text content blocks must contain non-whitespace text"
EXTRA = "Extra inputs are not permitted"
NO_PREFILL = "This model does not support assistant message prefill. The conversation must end with a user message."
EMPTY_MESSAGE = "all messages must have non-empty content except for the optional final assistant message"


def _some_messages(request: Request) -> Iterator[Said]:
    if not request.messages:
        yield "messages", "messages: at least one message is required"
    if len(request.messages) > MOST_MESSAGES:
        yield "messages", f"messages: at most {MOST_MESSAGES} messages are allowed"


def _roles(request: Request) -> Iterator[Said]:
    for message in request.messages:
        if message.role == "system" and not request.model.system_messages:
            yield f"{message.path}.role", "role 'system' is not supported on this model"
        if message.role not in ("user", "assistant", "system"):
            yield f"{message.path}.role", f"{message.path}.role: Input should be 'user' or 'assistant'"


def _system_messages(request: Request) -> Iterator[Said]:
    for message in request.messages:
        if message.role != "system":
            continue
        before = request.messages[message.index - 1] if message.index else None
        after = request.messages[message.index + 1] if message.index + 1 < len(request.messages) else None
        if before is None:
            yield message.path, f"{message.path}: a system message cannot be the first message"
        elif before.role != "user" and not before.ends_in_server_tool:
            yield message.path, f"{message.path}: a system message must follow a user message"
        if after is not None and after.role != "assistant":
            yield message.path, f"{message.path}: a system message must be last or followed by an assistant message"
        if any(block.type != "text" for block in message.blocks):
            yield message.path, f"{message.path}: a system message may contain only text"


def _user_first(request: Request) -> Iterator[Said]:
    if request.messages and request.messages[0].role != "user":
        yield "messages", 'messages: first message must use the "user" role'


def _alternation(request: Request) -> Iterator[Said]:
    """The direct API combines equal neighbours today and its compatibles refuse them: the stricter one is played.

    A paused turn and its continuation are two assistant messages in a row by the provider's own instructions.
    """
    for one, other in pairwise(request.messages):
        if one.role == other.role and not one.ends_in_server_tool:
            yield other.path, 'messages: roles must alternate between "user" and "assistant"'


def _prefill(request: Request) -> Iterator[Said]:
    last = request.last
    if last and last.role == "assistant" and not request.model.prefill and not last.ends_in_server_tool:
        yield last.path, NO_PREFILL


def _trailing_space(request: Request) -> Iterator[Said]:
    last = request.last
    if last is None or last.role != "assistant" or not request.model.prefill or last.last_type != "text":
        return
    text = text_of(last.blocks[-1].data.get("text"))
    if text != text.rstrip():
        yield last.path, "messages: final assistant content cannot end with trailing whitespace"


def _empty_messages(request: Request) -> Iterator[Said]:
    for message in request.messages:
        strange = isinstance(message.content, list) and len(dicts(message.content)) < len(message.content)
        if strange or not isinstance(message.content, (str, list)):
            yield f"{message.path}.content", f"{message.path}.content: Input should be a valid list"
        elif not message.content and not _optional_final(request, message):
            yield message.path, f"{message.path}: {EMPTY_MESSAGE}"


def _optional_final(request: Request, message: Message) -> bool:
    return message is request.last and message.role == "assistant"


def _empty_text(request: Request) -> Iterator[Said]:
    """A bare string is no block: in a message A8 sees an empty one, in `system` and in a result it is accepted.

    A block whose text is null or no text at all has none.
    """
    results = (block for block in request.blocks() if isinstance(block.data.get("content"), list))
    listed = (part for block in results for part in within(block))
    for block in (*request.system, *request.blocks(), *listed):
        text = block.data.get("text")
        if block.type != "text" or (isinstance(text, str) and text.strip()):
            continue
        yield block.path, f"{block.path.split('.')[0]}: {BLANK if text else EMPTY}"


def _named_extras(request: Request) -> Iterator[Said]:
    """Only the fields that were seen refused; whatever else is unknown is a warning."""
    for block in request.blocks("tool_use"):
        if "text" in block.data:
            yield f"{block.typed}.text", f"{block.typed}.text: {EXTRA}"
    for block in (*request.tools, *request.system, *request.blocks(), *request.parts()):
        mark = block.data.get("cache_control")
        if isinstance(mark, dict) and "scope" in mark:
            path = f"{block.path}.cache_control.ephemeral.scope"
            yield path, f"{path}: {EXTRA}"


def _encodable(request: Request) -> Iterator[Said]:
    yield from unencodable(request.body, "")


RULES: Rules[Request] = {
    "A11": _encodable,
    "A1": _some_messages,
    "A2": _roles,
    "A3": _system_messages,
    "A4": _user_first,
    "A5": _alternation,
    "A6": _prefill,
    "A7": _trailing_space,
    "A8": _empty_messages,
    "A9": _empty_text,
    "A10": _named_extras,
}

FIELDS = {
    "text": "type text cache_control citations",
    "image": "type source cache_control",
    "document": "type source title context citations cache_control",
    "search_result": "type source title content citations cache_control",
    "tool_use": "type id name input cache_control caller",
    "tool_result": "type tool_use_id content is_error cache_control",
    "thinking": "type thinking signature",
    "redacted_thinking": "type data",
    "server_tool_use": "type id name input cache_control caller",
    "mcp_tool_use": "type id name server_name input cache_control",
    "compaction": "type content encrypted_content cache_control",
}
OTHER_TYPES = {"fallback", "container_upload", "tool_reference"}


def unknown_fields(request: Request) -> Iterator[Said]:
    """A10 in full: what is not on the list of a known block. Our own metadata inside a block shows up here."""
    for at, entry in enumerate(dicts(request.body.get("messages"))):
        for key in entry.keys() - {"role", "content"}:
            yield f"messages.{at}.{key}", f"messages.{at}.{key}: {EXTRA}"
    for block in (*request.system, *request.blocks(), *(part for part in _result_parts(request))):
        for key in block.data.keys() - set(FIELDS.get(block.type, "").split()):
            if block.type in FIELDS:
                yield f"{block.typed}.{key}", f"{block.typed}.{key}: {EXTRA}"


def _result_parts(request: Request) -> Iterator[Block]:
    for block in request.blocks("tool_result"):
        yield from within(block)


def unknown_blocks(request: Request) -> Iterator[Said]:
    for block in request.blocks():
        if block.type not in FIELDS and block.type not in OTHER_TYPES and not block.server_result:
            yield (
                f"{block.path}.type",
                f"{block.path}: Input tag '{block.type}' does not match any of the expected tags",
            )
