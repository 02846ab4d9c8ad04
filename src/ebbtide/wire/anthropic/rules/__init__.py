"""What the Anthropic Messages API refuses, and the repairs.

Rule     keeps                                                            lives in
-------  ---------------------------------------------------------------  ------------
A1-A8    roles alternate, and no message is empty                         structure
A9       text has words                                                   content, positions
A10 A13  fields known to be refused are dropped; unknown ones pass        content
A11      JSON and UTF-8                                                   ../../validity
A14      call ids are plain                                               content
A15-A20  calls and results pair up, unique, adjacent, results first       pairs
A21-A23  a call's input, a result's parts, references to tools            content
A25      tool names                                                       positions, content
A26 A29  server-tool pairs, advisor blocks; A30 is their exemption        pairs
A27 A28  programmatic calls                                               pairs
A34 A40  thinking is signed, with A39: all of a message's or none         content
A37 A38  thinking where it must and may stand                             positions
A41      fallback blocks                                                  pairs
A45 A48  number and order of cache breakpoints                            positions
A46 A47  where a breakpoint may be, A49: what it says                     content, positions
A54-A57  images and documents                                             content
A61      compaction blocks                                                content

Not checked here: A12 A59 A60 (size: the engine fits), A24 A33 A43 (unverified), A31 A32 A44 A62 (pass through),
A35 A36 A63 (need what was sent before: the engine), A42 A53 A58 (the client's own parameters: the provider's answer is
better than our guess, and beta headers that we do not see change the rules), A50-A52 (silent: where marks are set).
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from ebbtide.wire.anthropic.rules import content, pairs, positions, structure
from ebbtide.wire.anthropic.rules.fast_path import is_ordinary
from ebbtide.wire.anthropic.rules.structure import (
    THINKING,
    BodyFacts,
    are_same_objects,
    blocks,
    enumerate_from,
    kind,
    read_facts,
    role,
)
from ebbtide.wire.protocol import Finding
from ebbtide.wire.validity import (
    Indexed,
    Json,
    Log,
    find_unencodable_parts,
    is_encodable,
    make_parts_encodable,
    refuse,
    refuse_unrepairable,
)

Body = Mapping[str, Json]


def check(body: Body, since: int, call_ids: AbstractSet[str], breakpoints: int | None) -> list[Finding]:
    """Find all that is wrong from `since` on. For a body that is not valid JSON nothing else is reported."""
    return [] if is_ordinary(body, since, call_ids, breakpoints) else find_problems(body, since, call_ids, breakpoints)


def find_problems(body: Body, since: int, call_ids: AbstractSet[str], breakpoint_count: int | None) -> list[Finding]:
    if found := find_unencodable_parts(body, "messages", since):
        return found
    facts = read_facts(body, since, call_ids)
    log = Log()
    for index, message in enumerate_from(facts.messages, since):
        content.clean_message(Indexed(index, message), facts, log)
    if not since:
        positions.fix_system_and_tools(body, log)
        log += positions.find_tool_problems(body.get("tools"))
    log += structure.find_structure_problems(facts)
    log += pairs.find_pair_problems(facts)
    log += pairs.find_server_tool_problems(facts)
    log += positions.find_thinking_problems(facts)
    log += (finding for _, finding, _, _ in content.find_crowded_images(facts.messages, since))
    log += positions.find_breakpoint_problems(body, since, breakpoint_count)
    return log


def repair(body: Body, since: int, call_ids: AbstractSet[str]) -> tuple[Body, list[Finding]]:
    """Return a valid body, and what was repaired."""
    log = Log()
    body = _make_encodable(body, since, log)
    body = positions.fix_system_and_tools(body, log)
    facts = read_facts(body, since, call_ids)
    before = list(facts.messages[:since])
    entries = [Indexed(index, message) for index, message in enumerate_from(facts.messages, since)]
    cleaned = [clean for entry in entries if (clean := content.clean_message(entry, facts, log)) is not None]
    refuse_unrepairable(log)
    entries = _fix_until_stable(pairs.move_results_to_user(cleaned, log), before, facts, log)
    entries = entries if before else structure.start_with_user(entries, log)
    entries = pairs.pair_calls(entries, before[-1] if before else None, call_ids, log)
    messages = [*before, *(entry.message for entry in entries)]
    if not messages:
        refuse(Finding("A1", "messages", "at least one message is required"))
    messages = structure.fix_end(messages, facts, log)
    body, messages = positions.fix_thinking(body, messages, replace(facts, messages=messages), log)
    messages = structure.fix_end(messages, facts, log)  # without its thinking the last message may end in white space
    for index, finding, old, new in content.find_crowded_images(messages, since):
        log.append(finding)
        messages[index] = content.replace_image(messages[index], old, new)
    return positions.fix_breakpoints({**body, "messages": messages}, log), log


def list_rule(_value: Json) -> str:
    return "A1"


def first_to_check(messages: list[Json], since: int) -> int:
    """Check one message earlier if the first new message must join the last accepted one (A5).

    The joined message only grows at its end, so the cached prefix of blocks still holds.
    """
    joins = 0 < since < len(messages) and role(messages[since - 1]) == role(messages[since]) != ""
    return since - 1 if joins else since


def call_ids(message: Json) -> frozenset[str]:
    return frozenset(str(block.get("id")) for block in blocks(message) if kind(block) == "tool_use")


def _fix_until_stable(entries: list[Indexed], before: list[Json], facts: BodyFacts, log: Log) -> list[Indexed]:
    """Repeat until nothing changes: dropping half a server pair can empty a message, joining can complete a pair."""
    while True:
        entries = structure.fix_structure(entries, before, facts, log)
        repaired_entries = pairs.drop_server_tool_halves(entries, before, facts, log)
        if are_same_objects(entries, repaired_entries):
            return entries
        entries = repaired_entries


def _make_encodable(body: Body, since: int, log: Log) -> Body:
    """A11. Signed thinking cannot be repaired: drop a block with a broken character."""
    log += find_unencodable_parts(body, "messages", since)
    if not log:
        return body
    refuse_unrepairable(log)
    messages = [message if is_encodable(message) else _drop_broken_thinking(message) for message in body["messages"]]
    return make_parts_encodable({**body, "messages": [*body["messages"][:since], *messages[since:]]}, "messages", since)


def _drop_broken_thinking(message: Json) -> Json:
    parts = message.get("content") if isinstance(message, dict) else None
    if not isinstance(parts, list):
        return message
    return {**message, "content": [block for block in parts if kind(block) not in THINKING or is_encodable(block)]}
