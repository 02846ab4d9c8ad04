"""A37, A38: where thinking must stand and where it may not. (A34, A39 and A40 live in `content`, with the blocks.)

A35, A36 and A63 need the bytes that were sent before, which only the engine has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ebbtide.wire.anthropic.rules.blocks import (
    CONTINUE,
    THINKING,
    Message,
    Request,
    blocks,
    ends_in_server_use,
    kind,
    role,
    with_blocks,
)
from ebbtide.wire.anthropic.rules.models import takes_prefill
from ebbtide.wire.findings import Finding, Json, Log

OPENERS = (*THINKING, "fallback", "compaction")
"""Blocks a turn may begin with under manual thinking; the last two stand in for thinking that was left out."""


def broken(request: Request) -> Iterator[Finding]:
    index = _thoughtless(request)
    if index is not None:
        first_kind = kind((blocks(request.messages[index]) or [{}])[0]) or "nothing"
        yield Finding(
            "A37",
            f"messages.{index}.content.0.type",
            f"Expected `thinking` or `redacted_thinking`, but found `{first_kind}`. When `thinking` is enabled, a final "
            "`assistant` message must start with a thinking block. To avoid this requirement, disable `thinking`.",
        )
    if _thinks_at_the_end(request):
        yield Finding(
            "A38",
            f"messages.{len(request.messages) - 1}",
            "When thinking is disabled, an `assistant` message in the final position cannot contain `thinking`.",
        )


def mended(
    body: Mapping[str, Json], messages: list[Message], request: Request, log: Log
) -> tuple[Mapping[str, Json], list[Message]]:
    """Thinking cannot be invented: a loop that began without it goes on without it, and a bare prefill is answered."""
    last = len(messages) - 1
    index = _thoughtless(request)
    if index is not None and index == last and not ends_in_server_use(messages[-1]):
        log.note("A37", f"messages.{last}", "a final `assistant` message must start with a thinking block", "answered")
        return body, [*messages, {"role": "user", "content": CONTINUE}]
    if index is not None:
        problem = "Expected `thinking` or `redacted_thinking`"
        log.note("A37", f"messages.{index}.content.0.type", problem, "thinking switched off")
        return {key: value for key, value in body.items() if key != "thinking"}, messages
    if not _thinks_at_the_end(request):
        return body, messages
    problem = "When thinking is disabled, the final `assistant` message cannot contain `thinking`."
    log.note("A38", f"messages.{last}", problem, "thinking stripped")
    others = [block for block in blocks(messages[-1]) if kind(block) not in THINKING]
    return body, [*messages[:-1], with_blocks(messages[-1], others)]


def _thoughtless(request: Request) -> int | None:
    """A37: the first assistant message of the open loop, if manual thinking wants it to start with thinking."""
    if not request.manual:
        return None
    first = _loop_start(request.messages)
    if first is None or (first < request.since and first != len(request.messages) - 1):
        return None
    parts = blocks(request.messages[first])
    return None if parts and kind(parts[0]) in OPENERS else first


def _loop_start(messages: Sequence[Json]) -> int | None:
    """The loop is what came since the user last said more than results."""
    first = None
    for index in range(len(messages) - 1, -1, -1):
        if role(messages[index]) == "assistant":
            first = index
        elif role(messages[index]) == "user" and any(kind(block) != "tool_result" for block in blocks(messages[index])):
            break
    return first


def _thinks_at_the_end(request: Request) -> bool:
    """A38, for models that take a final assistant message at all; a paused turn goes back verbatim (A30)."""
    last = request.messages[-1] if request.messages else None
    if request.thinks or role(last) != "assistant" or ends_in_server_use(last) or not takes_prefill(request.model):
        return False
    return any(kind(block) in THINKING for block in blocks(last))
