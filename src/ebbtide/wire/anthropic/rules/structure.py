"""How the rules read a Messages body, what models accept, and the rules about the order of messages (A1 to A8).

Readers accept any shape and skip what is no block. A message that needs no repair stays the same object, so that its
bytes can be sent unchanged. A model whose name we cannot read is treated as the newest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ebbtide.core.cache.prefix import are_same_objects
from ebbtide.core.texts import CONTINUE, CONVERSATION_NOT_SHOWN, EMPTY_MESSAGE, OPERATOR_INSTRUCTION
from ebbtide.wire.protocol import Log
from ebbtide.wire.validity import Indexed, Json

Block = Mapping[str, Json]
Message = Mapping[str, Json]

THINKING = ("thinking", "redacted_thinking")
SERVER_USE = ("server_tool_use", "mcp_tool_use")


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyFacts:
    """What rules need to know of a body besides its messages."""

    messages: Sequence[Json]
    since: int
    """Messages before this index were sent so and accepted; they are read, not checked."""
    call_ids: AbstractSet[str]
    """Call ids used before `since`."""
    tools: Sequence[Json]
    model: str
    has_thinking_budget: bool
    """Thinking with a budget: the open tool loop must then start with thinking."""
    is_thinking: bool
    """Thinking is on, with or without a budget."""
    has_container: bool
    tool_names: frozenset[str]
    open_call_ids: frozenset[str]
    """Ids of calls in the last accepted message: its results may name them, valid or not."""


def read_facts(body: Mapping[str, Json], since: int, call_ids: AbstractSet[str]) -> BodyFacts:
    thinking = body.get("thinking")
    mode = thinking.get("type") if isinstance(thinking, dict) else None
    model, tools = body.get("model"), body.get("tools")
    tool_list = tools if isinstance(tools, list) else []
    names = (tool.get("name") for tool in tool_list if isinstance(tool, dict))
    open_calls = calls(body["messages"][since - 1]) if since else []
    return BodyFacts(
        messages=body["messages"],
        since=since,
        call_ids=call_ids,
        tools=tool_list,
        model=model if isinstance(model, str) else "",
        has_thinking_budget=mode == "enabled",
        is_thinking=mode in ("enabled", "adaptive"),
        has_container=bool(body.get("container")),
        tool_names=frozenset(name for name in names if isinstance(name, str)),
        open_call_ids=frozenset(str(call.get("id")) for call in open_calls),
    )


def role(message: Json) -> str:
    value = message.get("role") if isinstance(message, dict) else None
    return value if isinstance(value, str) else ""


def text_block(words: str) -> Block:
    return {"type": "text", "text": words}


def kind(block: Json) -> str:
    value = block.get("type") if isinstance(block, dict) else None
    return value if isinstance(value, str) else ""


def blocks(message: Json) -> list[Block]:
    """A bare string is one text block; an empty one is none."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [text_block(content)] if content else []
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def replace_blocks(message: Message, new: Sequence[Block]) -> Message:
    """Return the message with these blocks; the same object if it has them already."""
    content = message.get("content")
    if isinstance(content, str) and list(new) == blocks(message):
        return message
    if isinstance(content, list) and are_same_objects(content, new):
        return message
    return {**message, "content": list(new)}


def drop_fields(block: Block, *fields: str) -> Block:
    return {key: value for key, value in block.items() if key not in fields}


def calls(message: Json) -> list[Block]:
    return [block for block in blocks(message) if kind(block) == "tool_use"] if role(message) == "assistant" else []


def is_programmatic(call: Block) -> bool:
    """Called by code that runs in the provider's container, which waits for the result."""
    caller = call.get("caller")
    return isinstance(caller, dict) and str(caller.get("type", "")).startswith("code_execution")


def is_server_result(block: Block) -> bool:
    return kind(block).endswith("_tool_result")


def ends_in_server_use(message: Json) -> bool:
    """A30: tell whether this is a paused turn, which is sent back unchanged without a user turn after it."""
    parts = blocks(message)
    return role(message) == "assistant" and bool(parts) and kind(parts[-1]) in SERVER_USE


def enumerate_from(messages: Sequence[Json], since: int) -> Iterator[tuple[int, Json]]:
    return ((index, messages[index]) for index in range(since, len(messages)))


_FAMILY_FIRST = re.compile(r"claude-(opus|sonnet|haiku|fable|mythos)-(\d{1,2})(?:-(\d{1,2}))?(?!\d)")
"""`claude-sonnet-4-5-20250929`, also inside `anthropic.claude-...-v1:0` and `anthropic/claude-opus-4.8`."""
_VERSION_FIRST = re.compile(r"claude-(\d)(?:-(\d{1,2}))?(?:-(opus|sonnet|haiku))?(?!\d)")
"""`claude-3-5-sonnet-20241022`, `claude-2.1`."""


def takes_system_turns(model: str) -> bool:
    """A2: mid-conversation `system` arrived with Opus 4.8 and is accepted by version 5 and by unknown names."""
    family_and_version = _version(model)
    if family_and_version is None:
        return True
    family, version = family_and_version
    return version >= ((4, 8) if family == "opus" else (5, 0))


def takes_prefill(model: str) -> bool:
    """A6: a trailing assistant message is refused by Opus and Sonnet from 4.6 on and by every family of version 5."""
    family_and_version = _version(model)
    if family_and_version is None:
        return True
    family, version = family_and_version
    return version < ((4, 6) if family in ("opus", "sonnet") else (5, 0))


def _version(model: str) -> tuple[str, tuple[int, int]] | None:
    name = model.lower().replace(".", "-")
    if match := _FAMILY_FIRST.search(name):
        return match[1], (int(match[2]), int(match[3] or 0))
    if match := _VERSION_FIRST.search(name):
        return match[3] or "", (int(match[1]), int(match[2] or 0))
    return None


MAX_MESSAGES = 100_000
NO_PREFILL = "This model does not support assistant message prefill. The conversation must end with a user message."
NOT_IN_SYSTEM = ("image", "document", "search_result", "tool_use", "tool_result")
"""A3: only text is allowed; types that we do not know pass."""
MOVABLE = ("text", "image", "document", "search_result", "tool_use", "tool_result")
"""What can move from a system turn into a user turn. A20 refuses a call among it later."""


def is_system_message_allowed(messages: Sequence[Json], index: int) -> bool:
    """A3: after a user turn or a paused one, before an assistant turn or at the end, and only text."""
    before = messages[index - 1] if index else None
    after = messages[index + 1] if index + 1 < len(messages) else None
    return (
        (role(before) == "user" or ends_in_server_use(before))
        and (after is None or role(after) == "assistant")
        and not any(kind(block) in NOT_IN_SYSTEM for block in blocks(messages[index]))
    )


def may_end_empty(message: Json, facts: BodyFacts) -> bool:
    """A8: only a final assistant message may be empty, if the model accepts one."""
    return role(message) == "assistant" and takes_prefill(facts.model) and not facts.has_thinking_budget


def fix_structure(entries: list[Indexed], before: Sequence[Json], facts: BodyFacts, log: Log) -> list[Indexed]:
    """Fix A2, A3, A5 and A8 together, because each can cause another. `before` holds the accepted messages."""
    joined = _join_neighbours(_drop_empty(entries, before, facts, log), log)
    messages = [*before, *(entry.message for entry in joined)]
    placed = []
    for index, entry in enumerate(joined, len(before)):
        if role(entry.message) != "system":
            placed.append(entry)
        elif not takes_system_turns(facts.model):
            placed.append(_move_to_user(entry, "A2", "role 'system' is not supported on this model", log))
        elif not is_system_message_allowed(messages, index):
            placed.append(_move_to_user(entry, "A3", "a system message is misplaced", log))
        else:
            placed.append(entry)
    return _join_neighbours(placed, log)


def _drop_empty(entries: list[Indexed], before: Sequence[Json], facts: BodyFacts, log: Log) -> list[Indexed]:
    """A8: drop empty messages; keep a placeholder for a user message between two assistant turns."""
    turns_left: list[Indexed] = []
    for index, entry in enumerate(entries):
        if blocks(entry.message) or (entry is entries[-1] and may_end_empty(entry.message, facts)):
            turns_left.append(entry)
            continue
        previous = role(turns_left[-1].message) if turns_left else role(before[-1]) if before else ""
        following = next((role(later.message) for later in entries[index:] if blocks(later.message)), "")
        is_needed = role(entry.message) == "user" and "user" not in (previous, following)
        problem = "all messages must have non-empty content except for the optional final assistant message"
        log.note("A8", f"messages.{entry.index}", problem, "placeholder" if is_needed else "dropped")
        if is_needed:
            turns_left.append(Indexed(entry.index, {**entry.message, "content": [text_block(EMPTY_MESSAGE)]}))
    return turns_left


def _join_neighbours(entries: list[Indexed], log: Log) -> list[Indexed]:
    """A5: join neighbours of one role. A system turn keeps its neighbours apart."""
    joined_turns: list[Indexed] = []
    for entry in entries:
        if not joined_turns or role(joined_turns[-1].message) != role(entry.message):
            joined_turns.append(entry)
            continue
        log.note("A5", f"messages.{entry.index}", 'roles must alternate between "user" and "assistant"', "joined")
        joined = [*blocks(joined_turns[-1].message), *blocks(entry.message)]
        joined_turns[-1] = Indexed(joined_turns[-1].index, replace_blocks(joined_turns[-1].message, joined))
    return joined_turns


def _move_to_user(entry: Indexed, rule: str, why: str, log: Log) -> Indexed:
    """A2: move system text that the model refuses into the user turn, and say there what it is."""
    log.note(rule, f"messages.{entry.index}", why, "moved into the user turn")
    parts: list[Block] = []
    for block in blocks(entry.message):
        if kind(block) == "text" and not any(kind(part) == "text" for part in parts):
            parts.append({**block, "text": OPERATOR_INSTRUCTION + block["text"]})
        elif kind(block) in MOVABLE:
            parts.append(block)
    return Indexed(entry.index, {**entry.message, "role": "user", "content": parts or [text_block(EMPTY_MESSAGE)]})


def start_with_user(entries: list[Indexed], log: Log) -> list[Indexed]:
    """A4: the first message is the user's."""
    if not entries or role(entries[0].message) == "user":
        return entries
    log.note("A4", "messages.0", 'first message must use the "user" role', "placeholder put before it")
    return [Indexed(0, {"role": "user", "content": CONVERSATION_NOT_SHOWN}), *entries]


def fix_end(messages: list[Message], facts: BodyFacts, log: Log) -> list[Message]:
    """A6, A7: fix how the conversation ends."""
    last = messages[-1]
    if role(last) != "assistant" or ends_in_server_use(last):
        return messages
    path = f"messages.{len(messages) - 1}"
    if not takes_prefill(facts.model):
        log.note("A6", path, NO_PREFILL, "user turn added")
        return [*messages, {"role": "user", "content": CONTINUE}]
    if not _has_trailing_space(last):
        return messages
    log.note("A7", path, "final assistant content cannot end with trailing whitespace", "stripped")
    *others, final = blocks(last)
    if isinstance(last["content"], str):
        return [*messages[:-1], {**last, "content": last["content"].rstrip()}]
    return [*messages[:-1], replace_blocks(last, [*others, {**final, "text": final["text"].rstrip()}])]


def _has_trailing_space(message: Json) -> bool:
    parts = blocks(message)
    if not parts or kind(parts[-1]) != "text":
        return False
    words = parts[-1].get("text")
    return isinstance(words, str) and words != words.rstrip()
