"""The repair of a whole Messages body, step by step. What the check reports is what the repair would note."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from ebbtide.wire.anthropic.rules import content, pairs, positions, structure
from ebbtide.wire.anthropic.rules.structure import (
    THINKING,
    BodyFacts,
    are_same_objects,
    enumerate_from,
    kind,
    read_facts,
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
    body = positions.fix_system_and_tools(body, log)
    if not since:
        log += positions.find_tool_problems(body.get("tools"))
    if len(body["messages"]) > structure.MAX_MESSAGES:
        log.note("A1", "messages", f"at most {structure.MAX_MESSAGES} messages are allowed")
    facts = read_facts(body, since, call_ids)
    entries = [Indexed(index, message) for index, message in enumerate_from(facts.messages, since)]
    cleaned = [clean for entry in entries if (clean := content.clean_message(entry, facts, log)) is not None]
    if log.is_hopeless:
        return body, log
    before = list(facts.messages[:since])
    entries = _fix_until_stable(pairs.move_results_to_user(cleaned, log), before, facts, log)
    entries = entries if before else structure.start_with_user(entries, log)
    entries = pairs.pair_calls(entries, before[-1] if before else None, call_ids, log)
    messages = [*before, *(entry.message for entry in entries)]
    if not messages:
        log.note("A1", "messages", "at least one message is required")
        return body, log
    messages = structure.fix_end(messages, facts, log)
    body, messages = positions.fix_thinking(body, messages, replace(facts, messages=messages), log)
    messages = structure.fix_end(messages, facts, log)  # without its thinking the last message may end in white space
    for index, finding, old, new in content.find_crowded_images(messages, since):
        log.append(finding)
        messages[index] = content.replace_image(messages[index], old, new)
    log += pairs.find_missing_container(replace(facts, messages=messages))
    return positions.fix_breakpoints({**body, "messages": messages}, since, breakpoints, log), log


def _fix_until_stable(entries: list[Indexed], before: list[Json], facts: BodyFacts, log: Log) -> list[Indexed]:
    """Repeat until nothing changes: dropping half a server pair can empty a message, joining can complete a pair."""
    while True:
        entries = structure.fix_structure(entries, before, facts, log)
        repaired_entries = pairs.drop_server_tool_halves(entries, before, facts, log)
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
