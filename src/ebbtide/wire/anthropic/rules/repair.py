"""The repair of a whole Messages body, step by step. What the check reports is what the repair would note."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from ebbtide.core.cache.prefix import are_same_objects
from ebbtide.wire.anthropic.rules.content import clean_message, find_crowded_images, replace_image
from ebbtide.wire.anthropic.rules.pairs import (
    drop_server_tool_halves,
    find_missing_container,
    move_results_to_user,
    pair_calls,
)
from ebbtide.wire.anthropic.rules.positions import (
    find_tool_problems,
    fix_breakpoints,
    fix_system_and_tools,
    fix_thinking,
)
from ebbtide.wire.anthropic.rules.structure import (
    MAX_MESSAGES,
    THINKING,
    BodyFacts,
    enumerate_from,
    fix_end,
    fix_structure,
    kind,
    read_facts,
    start_with_user,
)
from ebbtide.wire.validity import (
    Indexed,
    Json,
    Log,
    find_unencodable_parts,
    is_encodable,
    make_parts_encodable,
)

Body = Mapping[str, Json]


def repair_body(body: Body, since: int, call_ids: AbstractSet[str], breakpoints: int | None) -> tuple[Body, Log]:
    """Repair what is wrong from `since` on, and note it. If a note has no repair, the body is not valid."""
    log = Log(find_unencodable_parts(body, "messages", since))
    if log:
        if log.is_hopeless:
            return body, log
        body = _make_encodable(body, since)
    body = fix_system_and_tools(body, log)
    if not since:
        log += find_tool_problems(body.get("tools"))
    if len(body["messages"]) > MAX_MESSAGES:
        log.note("A1", "messages", f"at most {MAX_MESSAGES} messages are allowed")
    facts = read_facts(body, since, call_ids)
    entries = [Indexed(index, message) for index, message in enumerate_from(facts.messages, since)]
    cleaned = [clean for entry in entries if (clean := clean_message(entry, facts, log)) is not None]
    if log.is_hopeless:
        return body, log
    before = list(facts.messages[:since])
    entries = _fix_until_stable(move_results_to_user(cleaned, log), before, facts, log)
    entries = entries if before else start_with_user(entries, log)
    entries = pair_calls(entries, before[-1] if before else None, call_ids, log)
    messages = [*before, *(entry.message for entry in entries)]
    if not messages:
        log.note("A1", "messages", "at least one message is required")
        return body, log
    messages = fix_end(messages, facts, log)
    body, messages = fix_thinking(body, messages, replace(facts, messages=messages), log)
    messages = fix_end(messages, facts, log)  # without its thinking the last message may end in white space
    for index, finding, old, new in find_crowded_images(messages, since):
        log.append(finding)
        messages[index] = replace_image(messages[index], old, new)
    log += find_missing_container(replace(facts, messages=messages))
    return fix_breakpoints({**body, "messages": messages}, since, breakpoints, log), log


def _fix_until_stable(entries: list[Indexed], before: list[Json], facts: BodyFacts, log: Log) -> list[Indexed]:
    """Repeat until nothing changes: dropping half a server pair can empty a message, joining can complete a pair."""
    while True:
        entries = fix_structure(entries, before, facts, log)
        repaired_entries = drop_server_tool_halves(entries, before, facts, log)
        if are_same_objects(entries, repaired_entries):
            return entries
        entries = repaired_entries


def _make_encodable(body: Body, since: int) -> Body:
    """A11. Signed thinking cannot be repaired: drop a block with a broken character."""
    messages = [message if is_encodable(message) else _drop_broken_thinking(message) for message in body["messages"]]
    return make_parts_encodable({**body, "messages": [*body["messages"][:since], *messages[since:]]}, "messages", since)


def _drop_broken_thinking(message: Json) -> Json:
    parts = message.get("content") if isinstance(message, dict) else None
    if not isinstance(parts, list):
        return message
    return {**message, "content": [block for block in parts if kind(block) not in THINKING or is_encodable(block)]}
