"""Rules about calls and results (A15 to A20, A27, A28), and about the provider's own tools (A26, A29, A41).

A call is answered in the next message, once, before any other block. The provider's own call and its result stay
together or are dropped together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ebbtide.wire.anthropic.rules.content import RESULT_PARTS
from ebbtide.wire.anthropic.rules.structure import (
    ORPHANED,
    SERVER_USE,
    THINKING,
    UNANSWERED,
    Block,
    BodyFacts,
    blocks,
    calls,
    drop_fields,
    ends_in_server_use,
    enumerate_from,
    is_programmatic,
    is_server_result,
    is_system_message_allowed,
    kind,
    replace_blocks,
    role,
    takes_system_turns,
    text_block,
)
from ebbtide.wire.protocol import Finding
from ebbtide.wire.validity import Indexed, Json, Log, as_text, make_id


def find_pair_problems(facts: BodyFacts) -> Iterator[Finding]:
    used_ids = set(facts.call_ids)
    for index, message in enumerate_from(facts.messages, max(facts.since - 1, 0)):
        following = facts.messages[index + 1] if index + 1 < len(facts.messages) else None
        yield from _find_unanswered(index, message, following)
        if index < facts.since:
            continue
        yield from _find_misplaced(index, message)
        yield from _find_reused_ids(index, message, used_ids)
        yield from _find_wrong_results(index, message, facts.messages[index - 1] if index else None)
    yield from _find_missing_container(facts)


def _find_unanswered(index: int, message: Json, following: Json) -> Iterator[Finding]:
    """A16: each call has its result in the next message."""
    answered = {as_text(block.get("tool_use_id")) for block in _results(following)}
    missing = [identity for call in calls(message) if (identity := as_text(call.get("id"))) not in answered]
    if missing:
        yield Finding(
            "A16",
            f"messages.{index}",
            f"`tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(missing)}. Each "
            "`tool_use` block must have a corresponding `tool_result` block in the next message.",
        )


def _find_misplaced(index: int, message: Json) -> Iterator[Finding]:
    """A20: calls are the assistant's, results the user's."""
    stranger = "tool_result" if role(message) == "assistant" else "tool_use"
    for at, block in enumerate(blocks(message)):
        if kind(block) == stranger:
            owner = "user" if stranger == "tool_result" else "assistant"
            path = f"messages.{index}.content.{at}"
            yield Finding("A20", path, f"`{stranger}` blocks can only be in `{owner}` messages")


def _find_reused_ids(index: int, message: Json, used_ids: set[str]) -> Iterator[Finding]:
    """A15: call ids are unique in the whole request."""
    for at, block in enumerate(blocks(message)):
        if kind(block) != "tool_use":
            continue
        if as_text(block.get("id")) in used_ids:
            yield Finding("A15", f"messages.{index}.content.{at}", "`tool_use` ids must be unique")
        used_ids.add(as_text(block.get("id")))


def _find_wrong_results(index: int, message: Json, before: Json) -> Iterator[Finding]:
    """A17, A18, A19, A27."""
    open_ids = {as_text(call.get("id")) for call in calls(before)}
    answers: Counter[str] = Counter()
    has_other_blocks = False
    for at, block in enumerate(blocks(message)):
        path = f"messages.{index}.content.{at}"
        if kind(block) != "tool_result":
            has_other_blocks = True
            continue
        identity = as_text(block.get("tool_use_id"))
        answers[identity] += 1
        if identity not in open_ids and role(message) != "assistant":
            yield Finding(
                "A17",
                path,
                f"unexpected `tool_use_id` found in `tool_result` blocks: {identity}. Each `tool_result` block must "
                "have a corresponding `tool_use` block in the previous message.",
            )
        if answers[identity] == 2:
            detail = f"Found multiple `tool_result` blocks with id: {identity}"
            yield Finding("A18", path, f"each tool_use must have a single result. {detail}")
        if has_other_blocks and role(message) == "user":
            yield Finding("A19", path, "`tool_result` blocks must come first in the message")
    if has_other_blocks and answers and any(is_programmatic(call) for call in calls(before)):
        yield Finding("A27", f"messages.{index}", "a reply to programmatic calls holds only `tool_result` blocks")


def _find_missing_container(facts: BodyFacts) -> Iterator[Finding]:
    """A28: code that waits in a container can only be answered there."""
    open_calls = [call for message in facts.messages[-2:] for call in calls(message)]
    if not facts.has_container and any(is_programmatic(call) for call in open_calls):
        detail = "is required when there are pending tool uses generated by code execution with tools."
        yield Finding("A28", "container", f"container_id {detail}")


def move_results_to_user(entries: list[Indexed], log: Log) -> list[Indexed]:
    """A20: results in an assistant message move into a user message after it."""
    moved = []
    for entry in entries:
        results = _results(entry.message, "assistant")
        if not results:
            moved.append(entry)
            continue
        for at, block in enumerate(blocks(entry.message)):
            if kind(block) == "tool_result":
                path = f"messages.{entry.index}.content.{at}"
                log.note("A20", path, "`tool_result` blocks can only be in `user` messages", "moved to a user message")
        own = [block for block in blocks(entry.message) if kind(block) != "tool_result"]
        moved.append(Indexed(entry.index, replace_blocks(entry.message, own)))
        moved.append(Indexed(entry.index, {"role": "user", "content": results}))
    return moved


@dataclass(frozen=True, slots=True)
class _OpenCall:
    """A call that waits for its result: its id from the client, and the id to send."""

    client_id: str
    sent_id: str
    is_from_code: bool


def pair_calls(entries: list[Indexed], before: Json, call_ids: AbstractSet[str], log: Log) -> list[Indexed]:
    """Answer every call in the next message, and drop results without a call in the message before."""
    used_ids = set(call_ids)
    open_calls = [_OpenCall(str(call.get("id")), str(call.get("id")), is_programmatic(call)) for call in calls(before)]
    paired: list[Indexed] = []
    for entry in entries:
        if role(entry.message) == "user":
            paired.append(_answer_calls(entry, open_calls, log))
            open_calls = []
            continue
        if open_calls:
            paired.append(_answer_calls(Indexed(entry.index, {"role": "user", "content": []}), open_calls, log))
        entry, open_calls = _rename_duplicates(entry, used_ids, log)
        paired.append(entry)
    if open_calls:
        end = (entries[-1].index if entries else 0) + 1
        paired.append(_answer_calls(Indexed(end, {"role": "user", "content": []}), open_calls, log))
    return paired


def _rename_duplicates(entry: Indexed, used_ids: set[str], log: Log) -> tuple[Indexed, list[_OpenCall]]:
    """A15: rename a repeated id by its position, which stays the same while the history only grows."""
    parts, open_calls = [], []
    for at, block in enumerate(blocks(entry.message)):
        if kind(block) != "tool_use" or role(entry.message) != "assistant":
            parts.append(block)
            continue
        client_id = sent_id = block["id"]
        attempt = 0
        while sent_id in used_ids:
            sent_id = make_id("toolu_", "again", client_id, entry.index, at, attempt)
            attempt += 1
        used_ids.add(sent_id)
        open_calls.append(_OpenCall(client_id, sent_id, is_programmatic(block)))
        if sent_id != client_id:
            log.note("A15", f"messages.{entry.index}.content.{at}", "`tool_use` ids must be unique", "renamed")
        parts.append(block if sent_id == client_id else {**block, "id": sent_id})
    return Indexed(entry.index, replace_blocks(entry.message, parts)), open_calls


def _answer_calls(entry: Indexed, open_calls: list[_OpenCall], log: Log) -> Indexed:
    """A16 to A19: one result for each call first, then placeholders for missing ones, then the other blocks."""
    results_by_id: dict[str, list[Block]] = defaultdict(list)
    for block in _results(entry.message):
        results_by_id[block["tool_use_id"]].append(block)
    calls_left = Counter(call.client_id for call in open_calls)
    chosen: dict[int, str] = {}
    missing: list[_OpenCall] = []
    for call in open_calls:
        calls_left[call.client_id] -= 1
        candidates = results_by_id[call.client_id]
        # Several calls of one id take their results in order; the last one takes the last result (A18).
        if candidates:
            chosen[id(candidates.pop(0 if calls_left[call.client_id] else -1))] = call.sent_id
        else:
            missing.append(call)
    results = [_with_call_id(block, chosen[id(block)]) for block in _results(entry.message) if id(block) in chosen]
    results += [_missing_result(call.sent_id) for call in missing]
    others = [block for block in blocks(entry.message) if kind(block) != "tool_result"]
    _note_answers(entry, open_calls, missing, chosen, log)
    if others and any(call.is_from_code for call in open_calls):
        log.note(
            "A27", f"messages.{entry.index}", "only `tool_result` blocks are allowed here", "moved into the result"
        )
        results[-1], others = _append_to_result(results[-1], others), []
    content = [*results, *others]
    return Indexed(entry.index, replace_blocks(entry.message, content or [text_block(ORPHANED)]))


def _note_answers(
    entry: Indexed, open_calls: list[_OpenCall], missing: list[_OpenCall], chosen: dict[int, str], log: Log
) -> None:
    """Note what `_answer_calls` did, in the order of the rules."""
    path = f"messages.{entry.index}"
    for call in missing:
        message = f"`tool_use` ids were found without `tool_result` blocks immediately after: {call.client_id}"
        log.note("A16", path, message, "stand-in result")
    open_ids = {call.client_id for call in open_calls}
    has_other_blocks = False
    for at, block in enumerate(blocks(entry.message)):
        block_path = f"{path}.content.{at}"
        if kind(block) != "tool_result":
            has_other_blocks = True
        elif id(block) in chosen and has_other_blocks:
            log.note("A19", block_path, "`tool_result` blocks must come first in the message", "moved to the front")
        elif id(block) not in chosen and block["tool_use_id"] in open_ids:
            log.note("A18", block_path, "each tool_use must have a single result", "the last one kept")
        elif id(block) not in chosen:
            log.note("A17", block_path, f"unexpected `tool_use_id`: {block['tool_use_id']}", "dropped")


def _results(message: Json, speaker: str = "user") -> list[Block]:
    return [block for block in blocks(message) if kind(block) == "tool_result"] if role(message) == speaker else []


def _with_call_id(block: Block, identity: str) -> Block:
    return block if block["tool_use_id"] == identity else {**block, "tool_use_id": identity}


def _missing_result(identity: str) -> Block:
    return {"type": "tool_result", "tool_use_id": identity, "content": UNANSWERED, "is_error": True}


def _append_to_result(result: Block, others: Sequence[Block]) -> Block:
    """A27: move blocks beside a programmatic result into it."""
    content = result.get("content") or []
    parts = [text_block(content)] if isinstance(content, str) else list(content)
    return {
        **result,
        "content": [*parts, *(drop_fields(block, "cache_control") for block in others if kind(block) in RESULT_PARTS)],
    }


def find_server_tool_problems(facts: BodyFacts) -> Iterator[Finding]:
    for index, _ in enumerate_from(facts.messages, facts.since):
        yield from _find_invalid_blocks(facts.messages, index, facts).values()


def drop_server_tool_halves(
    entries: list[Indexed], before: Sequence[Json], facts: BodyFacts, log: Log
) -> list[Indexed]:
    """Drop halves of server-tool pairs, and what a fallback made invalid."""
    messages = [*before, *(entry.message for entry in entries)]
    remaining_entries = []
    for index, entry in enumerate(entries, len(before)):
        invalid = _find_invalid_blocks(messages, index, facts)
        log += [
            Finding(finding.rule, f"messages.{entry.index}", finding.message, "dropped with its group")
            for finding in invalid.values()
        ]
        remaining = [block for at, block in enumerate(blocks(entry.message)) if at not in invalid]
        remaining_entries.append(Indexed(entry.index, replace_blocks(entry.message, remaining)) if invalid else entry)
    return remaining_entries


def _find_invalid_blocks(messages: Sequence[Json], index: int, facts: BodyFacts) -> dict[int, Finding]:
    """Find the blocks of one message that must go, by index."""
    message, path = messages[index], f"messages.{index}.content"
    parts = blocks(message)
    if not any(is_server_result(block) or kind(block) in (*SERVER_USE, "fallback") for block in parts):
        return {}
    if role(message) != "assistant":
        return {
            at: _unexpected_result(f"{path}.{at}", block) for at, block in enumerate(parts) if is_server_result(block)
        }
    invalid = _find_voided_by_fallback(parts, path)
    invalid |= _find_advice_without_advisor(parts, path, facts)
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
        elif identity in uses or not _answers_earlier_use(messages, index, identity, facts):
            invalid[at] = _unexpected_result(f"{path}.{at}", block)
    for identity, at in uses.items():
        if identity not in answered and not _may_stay_open(messages, index, identity, facts):
            problem = f"`{kind(parts[at])}` {identity} was found without its result block"
            invalid[at] = Finding("A29", f"{path}.{at}", problem)
    return invalid


def _unexpected_result(path: str, block: Block) -> Finding:
    name, identity = kind(block), as_text(block.get("tool_use_id"))
    return Finding(
        "A29",
        path,
        f"unexpected `tool_use_id` found in `{name}` blocks: {identity}. Each `{name}` block must have a corresponding "
        "`server_tool_use` block before it.",
    )


def _may_stay_open(messages: Sequence[Json], index: int, identity: str, facts: BodyFacts) -> bool:
    """A30: a paused turn at the end or before operator text, and code that waits for the calls it made."""
    message = messages[index]
    if any(is_programmatic(call) and call["caller"].get("tool_id") == identity for call in calls(message)):
        return True
    if not ends_in_server_use(message) or calls(message):
        return False
    if index == len(messages) - 1:
        return True
    operator_next = role(messages[index + 1]) == "system" and takes_system_turns(facts.model)
    return operator_next and is_system_message_allowed(messages, index + 1)


def _answers_earlier_use(messages: Sequence[Json], index: int, identity: str, facts: BodyFacts) -> bool:
    """Tell whether a result answers a use that an earlier message was allowed to leave open."""
    for earlier in range(index - 1, -1, -1):
        for block in blocks(messages[earlier]):
            if is_server_result(block) and as_text(block.get("tool_use_id")) == identity:
                return False
            if kind(block) in SERVER_USE and as_text(block.get("id")) == identity:
                return role(messages[earlier]) == "assistant" and _may_stay_open(messages, earlier, identity, facts)
    return False


def _find_advice_without_advisor(parts: Sequence[Block], path: str, facts: BodyFacts) -> dict[int, Finding]:
    """A26: advice stays only while the advisor is among the tools."""
    advice = {at for at, block in enumerate(parts) if kind(block) == "advisor_tool_result"}
    if not advice or any(kind(tool).startswith("advisor") for tool in facts.tools):
        return {}
    use_ids = {as_text(parts[at].get("tool_use_id")) for at in advice}
    advice |= {
        at for at, block in enumerate(parts) if kind(block) in SERVER_USE and as_text(block.get("id")) in use_ids
    }
    message = "advisor_tool_result blocks require the advisor tool in tools"
    return {at: Finding("A26", f"{path}.{at}", message) for at in sorted(advice)}


def _find_voided_by_fallback(parts: Sequence[Block], path: str) -> dict[int, Finding]:
    """A41: after a fallback in mid-output, the first model's thinking, calls and open server uses are not sent back.

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
