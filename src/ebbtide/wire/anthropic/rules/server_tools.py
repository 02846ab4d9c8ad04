"""A26, A29, A41: what the provider's own tools left behind stays whole or goes whole.

The judge is one function that names the blocks to go; the validator reports them and the hardener takes them out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ebbtide.wire.anthropic.rules.blocks import (
    SERVER_USE,
    THINKING,
    Block,
    Request,
    Turn,
    blocks,
    calls,
    ends_in_server_use,
    is_programmatic,
    is_server_result,
    kind,
    numbered,
    role,
    with_blocks,
)
from ebbtide.wire.anthropic.rules.models import takes_system_turns
from ebbtide.wire.anthropic.rules.structure import is_well_placed
from ebbtide.wire.findings import Finding, Json, Log, as_text


def broken(request: Request) -> Iterator[Finding]:
    for index, _ in numbered(request.messages, request.since):
        yield from _leaving(request.messages, index, request).values()


def whole(turns: list[Turn], before: Sequence[Json], request: Request, log: Log) -> list[Turn]:
    """The turns without halves of server-tool pairs and without what a fallback has voided."""
    messages = [*before, *(turn.message for turn in turns)]
    whole_turns = []
    for index, turn in enumerate(turns, len(before)):
        invalid = _leaving(messages, index, request)
        log += [
            Finding(finding.rule, f"messages.{turn.at}", finding.message, "dropped with its group")
            for finding in invalid.values()
        ]
        remaining = [block for at, block in enumerate(blocks(turn.message)) if at not in invalid]
        whole_turns.append(Turn(turn.at, with_blocks(turn.message, remaining)) if invalid else turn)
    return whole_turns


def _leaving(messages: Sequence[Json], index: int, request: Request) -> dict[int, Finding]:
    """The blocks of one message that may not stay, by position."""
    message, path = messages[index], f"messages.{index}.content"
    parts = blocks(message)
    if not any(is_server_result(block) or kind(block) in (*SERVER_USE, "fallback") for block in parts):
        return {}
    if role(message) != "assistant":
        return {at: _unasked(f"{path}.{at}", block) for at, block in enumerate(parts) if is_server_result(block)}
    invalid = _voided(parts, path)
    invalid |= _without_advisor(parts, path, request)
    uses = {
        as_text(block.get("id")): at
        for at, block in enumerate(parts)
        if kind(block) in SERVER_USE and at not in invalid
    }
    answered = set()
    for at, block in enumerate(parts):
        identity = as_text(block.get("tool_use_id"))
        if not is_server_result(block) or at in invalid:
            continue
        if uses.get(identity, at) < at and identity not in answered:
            answered.add(identity)
        elif identity in uses or not _left_open_before(messages, index, identity, request):
            invalid[at] = _unasked(f"{path}.{at}", block)
    for identity, at in uses.items():
        if identity not in answered and not _may_stay_open(messages, index, identity, request):
            what = f"`{kind(parts[at])}` {identity} was found without its result block"
            invalid[at] = Finding("A29", f"{path}.{at}", what)
    return invalid


def _unasked(path: str, block: Block) -> Finding:
    name, identity = kind(block), as_text(block.get("tool_use_id"))
    return Finding(
        "A29",
        path,
        f"unexpected `tool_use_id` found in `{name}` blocks: {identity}. Each `{name}` block must have a corresponding "
        "`server_tool_use` block before it.",
    )


def _may_stay_open(messages: Sequence[Json], index: int, identity: str, request: Request) -> bool:
    """A30: a paused turn at the end or before operator text, and code that waits for the calls it made."""
    message = messages[index]
    if any(is_programmatic(call) and call["caller"].get("tool_id") == identity for call in calls(message)):
        return True
    if not ends_in_server_use(message) or calls(message):
        return False
    if index == len(messages) - 1:
        return True
    operator_next = role(messages[index + 1]) == "system" and takes_system_turns(request.model)
    return operator_next and is_well_placed(messages, index + 1)


def _left_open_before(messages: Sequence[Json], index: int, identity: str, request: Request) -> bool:
    """Whether this result answers a use that an earlier message rightly left open. Looks back only when asked."""
    for earlier in range(index - 1, -1, -1):
        for block in blocks(messages[earlier]):
            if is_server_result(block) and as_text(block.get("tool_use_id")) == identity:
                return False
            if kind(block) in SERVER_USE and as_text(block.get("id")) == identity:
                return role(messages[earlier]) == "assistant" and _may_stay_open(messages, earlier, identity, request)
    return False


def _without_advisor(parts: Sequence[Block], path: str, request: Request) -> dict[int, Finding]:
    """A26: advice stays only while the advisor is among the tools."""
    advice = {at for at, block in enumerate(parts) if kind(block) == "advisor_tool_result"}
    if not advice or any(kind(tool).startswith("advisor") for tool in request.tools):
        return {}
    use_ids = {as_text(parts[at].get("tool_use_id")) for at in advice}
    advice |= {
        at for at, block in enumerate(parts) if kind(block) in SERVER_USE and as_text(block.get("id")) in use_ids
    }
    message = "advisor_tool_result blocks require the advisor tool in tools"
    return {at: Finding("A26", f"{path}.{at}", message) for at in sorted(advice)}


def _voided(parts: Sequence[Block], path: str) -> dict[int, Finding]:
    """A41: after a fallback in mid-output, the first model's thinking, calls and open server uses do not go back.

    Mid-output means that something was said or called before the fallback; thinking alone keeps its place.
    """
    last = max((at for at, block in enumerate(parts) if kind(block) == "fallback"), default=-1)
    ahead = parts[: max(last, 0)]
    if not any(kind(block) in ("text", "tool_use", *SERVER_USE) for block in ahead):
        return {}
    answered = {as_text(block.get("tool_use_id")) for block in ahead if is_server_result(block)}
    return {
        at: Finding("A41", f"{path}.{at}", f"`{kind(block)}` before a fallback block cannot be sent back")
        for at, block in enumerate(ahead)
        if kind(block) in (*THINKING, "tool_use")
        or (kind(block) in SERVER_USE and as_text(block.get("id")) not in answered)
    }
