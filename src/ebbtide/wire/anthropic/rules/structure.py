"""A1 to A8: who speaks, in which order, and that something is said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ebbtide.wire.anthropic.rules.blocks import (
    CONTINUE,
    EARLIER,
    EMPTY,
    OPERATOR,
    Block,
    Message,
    Request,
    Turn,
    blocks,
    ends_in_server_use,
    kind,
    numbered,
    role,
    text,
    with_blocks,
)
from ebbtide.wire.anthropic.rules.models import takes_prefill, takes_system_turns
from ebbtide.wire.findings import Finding, Json, Log

MOST = 100_000
NO_PREFILL = "This model does not support assistant message prefill. The conversation must end with a user message."
NOT_IN_SYSTEM = ("image", "document", "search_result", "tool_use", "tool_result")
"""A3, text only; other types are newer than we are, and pass."""
MOVABLE = ("text", "image", "document", "search_result", "tool_use", "tool_result")
"""What a user turn can take over from a system turn. A call among it is refused later, by A20."""


def broken(request: Request) -> Iterator[Finding]:
    messages, last = request.messages, len(request.messages) - 1
    if not messages:
        yield Finding("A1", "messages", "at least one message is required")
        return
    if len(messages) > MOST:
        yield Finding("A1", "messages", f"at most {MOST} messages are allowed")
    if request.since == 0 and role(messages[0]) == "assistant":
        yield Finding("A4", "messages.0", 'first message must use the "user" role')
    for index, message in numbered(messages, request.since):
        path = f"messages.{index}"
        if role(message) == "system" and not takes_system_turns(request.model):
            yield Finding("A2", path, "role 'system' is not supported on this model")
        elif role(message) == "system" and not is_well_placed(messages, index):
            yield Finding("A3", path, "a system message must follow a user message and precede an assistant message")
        if index and role(message) == role(messages[index - 1]):
            yield Finding("A5", path, 'roles must alternate between "user" and "assistant"')
        if not blocks(message) and not (index == last and may_end_empty(message, request)):
            problem = "all messages must have non-empty content except for the optional final assistant message"
            yield Finding("A8", path, problem)
    yield from _broken_end(request, last)


def _broken_end(request: Request, last: int) -> Iterator[Finding]:
    message = request.messages[last]
    if role(message) != "assistant" or ends_in_server_use(message):
        return
    if not takes_prefill(request.model):
        yield Finding("A6", f"messages.{last}", NO_PREFILL)
    elif _trailing_space(message):
        yield Finding("A7", f"messages.{last}", "final assistant content cannot end with trailing whitespace")


def is_well_placed(messages: Sequence[Json], index: int) -> bool:
    """A3: after a user turn or a paused one, before an assistant turn or at the end, and only words."""
    before = messages[index - 1] if index else None
    after = messages[index + 1] if index + 1 < len(messages) else None
    return (
        (role(before) == "user" or ends_in_server_use(before))
        and (after is None or role(after) == "assistant")
        and not any(kind(block) in NOT_IN_SYSTEM for block in blocks(messages[index]))
    )


def may_end_empty(message: Json, request: Request) -> bool:
    """A8: the optional final assistant message, where the model takes one at all."""
    return role(message) == "assistant" and takes_prefill(request.model) and not request.manual


def settled(turns: list[Turn], before: Sequence[Json], request: Request, log: Log) -> list[Turn]:
    """A2, A3, A5, A8 together, for each can bring about the other. `before` holds the accepted messages ahead."""
    spoken = _coalesced(_without_empty(turns, before, request, log), log)
    messages = [*before, *(turn.message for turn in spoken)]
    placed = []
    for index, turn in enumerate(spoken, len(before)):
        if role(turn.message) != "system":
            placed.append(turn)
        elif not takes_system_turns(request.model):
            placed.append(_as_user(turn, "A2", "role 'system' is not supported on this model", log))
        elif not is_well_placed(messages, index):
            placed.append(_as_user(turn, "A3", "a system message is misplaced", log))
        else:
            placed.append(turn)
    return _coalesced(placed, log)


def _without_empty(turns: list[Turn], before: Sequence[Json], request: Request, log: Log) -> list[Turn]:
    """A8: an empty message goes; a user's leaves a placeholder where two assistant turns would meet."""
    turns_left: list[Turn] = []
    for index, turn in enumerate(turns):
        if blocks(turn.message) or (turn is turns[-1] and may_end_empty(turn.message, request)):
            turns_left.append(turn)
            continue
        previous = role(turns_left[-1].message) if turns_left else role(before[-1]) if before else ""
        following = next((role(later.message) for later in turns[index:] if blocks(later.message)), "")
        is_needed = role(turn.message) == "user" and "user" not in (previous, following)
        problem = "all messages must have non-empty content except for the optional final assistant message"
        log.note("A8", f"messages.{turn.at}", problem, "placeholder" if is_needed else "dropped")
        if is_needed:
            turns_left.append(Turn(turn.at, {**turn.message, "content": [text(EMPTY)]}))
    return turns_left


def _coalesced(turns: list[Turn], log: Log) -> list[Turn]:
    """A5: neighbours of one role are one turn. A system turn between them keeps them apart."""
    joined_turns: list[Turn] = []
    for turn in turns:
        if not joined_turns or role(joined_turns[-1].message) != role(turn.message):
            joined_turns.append(turn)
            continue
        log.note("A5", f"messages.{turn.at}", 'roles must alternate between "user" and "assistant"', "joined")
        joined = [*blocks(joined_turns[-1].message), *blocks(turn.message)]
        joined_turns[-1] = Turn(joined_turns[-1].at, with_blocks(joined_turns[-1].message, joined))
    return joined_turns


def _as_user(turn: Turn, rule: str, why: str, log: Log) -> Turn:
    """A2: operator text the model will not take as such becomes part of the user turn, and says what it is."""
    log.note(rule, f"messages.{turn.at}", why, "moved into the user turn")
    parts: list[Block] = []
    for block in blocks(turn.message):
        if kind(block) == "text" and not any(kind(part) == "text" for part in parts):
            parts.append({**block, "text": OPERATOR + block["text"]})
        elif kind(block) in MOVABLE:
            parts.append(block)
    return Turn(turn.at, {**turn.message, "role": "user", "content": parts or [text(EMPTY)]})


def opened(turns: list[Turn], log: Log) -> list[Turn]:
    """A4: the first message is the user's."""
    if not turns or role(turns[0].message) == "user":
        return turns
    log.note("A4", "messages.0", 'first message must use the "user" role', "placeholder put before it")
    return [Turn(0, {"role": "user", "content": EARLIER}), *turns]


def ended(messages: list[Message], request: Request, log: Log) -> list[Message]:
    """A6, A7: how the conversation may end."""
    last = messages[-1]
    if role(last) != "assistant" or ends_in_server_use(last):
        return messages
    path = f"messages.{len(messages) - 1}"
    if not takes_prefill(request.model):
        log.note("A6", path, NO_PREFILL, "user turn added")
        return [*messages, {"role": "user", "content": CONTINUE}]
    if not _trailing_space(last):
        return messages
    log.note("A7", path, "final assistant content cannot end with trailing whitespace", "stripped")
    *others, final = blocks(last)
    if isinstance(last["content"], str):
        return [*messages[:-1], {**last, "content": last["content"].rstrip()}]
    return [*messages[:-1], with_blocks(last, [*others, {**final, "text": final["text"].rstrip()}])]


def _trailing_space(message: Json) -> bool:
    parts = blocks(message)
    if not parts or kind(parts[-1]) != "text":
        return False
    words = parts[-1].get("text")
    return isinstance(words, str) and words != words.rstrip()
