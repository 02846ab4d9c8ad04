"""Items that belong together: calls with their outputs (R1, R2, R11), reasoning with its followers (R3, R4).

Reasoning and the items after it, up to the next reasoning or the next message of another role, stay together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ebbtide.core.texts import NO_RESULT
from ebbtide.wire.openai_responses.rules.items import (
    NEEDS_ITS_ID,
    OUTPUT_TYPES,
    OUTPUTS,
    PREFIXES,
    REMOVED_REASONING,
    TEXT_OUTPUTS,
    Item,
    call_id,
    drop_id,
    is_from_model,
    kind,
    pairs_by_call_id,
)
from ebbtide.wire.protocol import Finding, Log
from ebbtide.wire.validity import Indexed, as_text


@dataclass(frozen=True, slots=True)
class _BrokenPairs:
    """What is wrong between calls and outputs, by index."""

    orphans: Mapping[int, Finding]
    expected_types: Mapping[int, str]
    """The type each output should have."""
    unanswered: Sequence[int]


def _find_broken_pairs(
    entries: Sequence[Indexed], may_be_on_server: Callable[[], bool], accepted_ids: AbstractSet[str]
) -> _BrokenPairs:
    """R1, R2, R11: an output answers the open call of its id; of two outputs for one call the later one counts.

    A call repeated while it is still open is one call: the second waits for no output. `may_be_on_server` tells whether
    calls may be stored on the server; it may read the whole body, so it is called only for an output without its call.
    """
    open_calls: dict[str, int] = {}
    answers: dict[str, tuple[int, int]] = {}
    orphans: dict[int, Finding] = {}
    expected_types: dict[int, str] = {}
    unanswered: list[int] = []
    for index, entry in enumerate(entries):
        item, identity = entry.message, call_id(entry.message) if entry.message else ""
        if pairs_by_call_id(item) and identity in open_calls:
            orphans[index] = Finding("R9", f"input.{entry.index}", f"Duplicate call found with call_id {identity}.")
        elif pairs_by_call_id(item):
            open_calls[identity] = index
        if kind(item) not in OUTPUT_TYPES:
            continue
        if identity in open_calls:
            call = open_calls.pop(identity)
            answers[identity] = (call, index)
        elif identity in answers:
            call, earlier = answers[identity]
            orphans[earlier] = _unexpected_output(entries[earlier], identity)
            expected_types.pop(earlier, None)
            answers[identity] = (call, index)
        else:
            if identity not in accepted_ids and not may_be_on_server():
                orphans[index] = _unexpected_output(entry, identity)
            continue
        allowed = OUTPUTS[kind(entries[call].message)]
        if kind(item) not in allowed:
            problem = f"No tool call found for {kind(item)} with call_id {identity}."
            orphans[index] = Finding("R11", f"input.{entry.index}", problem)
            if allowed[0] in TEXT_OUTPUTS and kind(item) in TEXT_OUTPUTS:
                expected_types[index] = allowed[0]
            else:
                answers.pop(identity)
                unanswered.append(call)
    return _BrokenPairs(orphans, expected_types, sorted([*unanswered, *open_calls.values()]))


def _unexpected_output(entry: Indexed, identity: str) -> Finding:
    return Finding(
        "R2", f"input.{entry.index}", f"No tool call found for function call output with call_id {identity}."
    )


def _describe_missing_output(item: Item) -> str:
    return f"No tool output found for function call {call_id(item)}."


def pair_outputs(
    entries: list[Indexed], may_be_on_server: Callable[[], bool], accepted_ids: AbstractSet[str], log: Log
) -> list[Indexed]:
    """R1, R2, R9, R11: one output of the right type for each call."""
    pairing = _find_broken_pairs(entries, may_be_on_server, accepted_ids)
    if not pairing.orphans and not pairing.unanswered:
        return entries
    return _add_missing_outputs(_match_outputs(entries, pairing, log), log)


def _match_outputs(entries: list[Indexed], pairing: _BrokenPairs, log: Log) -> list[Indexed]:
    """R2, R9, R11: drop outputs without a call and repeated calls; correct the type of an output."""
    matched_entries = []
    for index, entry in enumerate(entries):
        if index in pairing.expected_types:
            entry = Indexed(entry.index, {**entry.message, "type": pairing.expected_types[index]})
        if index in pairing.orphans:
            finding = pairing.orphans[index]
            repaired = "type corrected" if index in pairing.expected_types else "dropped"
            log.note(finding.rule, finding.path, finding.message, repaired)
        if index not in pairing.orphans or index in pairing.expected_types:
            matched_entries.append(entry)
    return matched_entries


def _add_missing_outputs(entries: list[Indexed], log: Log) -> list[Indexed]:
    """R1: add a placeholder for each missing output, behind the outputs of the same reply. Drop a call that only a
    screen or a patch could answer, with its reasoning."""
    unanswered = {entries[index].index for index in _find_broken_pairs(entries, lambda: True, frozenset()).unanswered}
    done: list[Indexed] = []
    added: list[Indexed] = []
    for entry in entries:
        new_reply = is_from_model(entry.message) and bool(done) and kind(done[-1].message) in OUTPUT_TYPES
        if new_reply or not (is_from_model(entry.message) or kind(entry.message) in OUTPUT_TYPES):
            done, added = done + added, []
        if not (entry.index in unanswered and pairs_by_call_id(entry.message)):
            done.append(entry)
            continue
        output = _missing_output(entry.message)
        log.note(
            "R1",
            f"input.{entry.index}",
            _describe_missing_output(entry.message),
            "stand-in" if output else "call dropped",
        )
        if output:
            done.append(entry)
            added.append(Indexed(entry.index, output))
        else:
            done = _remove_reasoning_before(done)
    return done + added


def _missing_output(call: Item) -> Item | None:
    name, identity = kind(call), call_id(call)
    if name in ("function_call", "local_shell_call"):
        return {"type": "function_call_output", "call_id": identity, "output": NO_RESULT}
    if name == "custom_tool_call":
        return {"type": "custom_tool_call_output", "call_id": identity, "output": NO_RESULT}
    if name == "tool_search_call":
        return {
            "type": "tool_search_output",
            "call_id": identity,
            "status": "completed",
            "execution": "client",
            "tools": [],
        }
    if name == "mcp_approval_request":
        # Silence is not consent.
        return {"type": "mcp_approval_response", "approval_request_id": identity, "approve": False}
    return None


def _remove_reasoning_before(entries: list[Indexed]) -> list[Indexed]:
    """The reasoning whose follower has gone cannot stay."""
    for index in range(len(entries) - 1, -1, -1):
        if kind(entries[index].message) == "reasoning":
            return [*entries[:index], Indexed(entries[index].index, REMOVED_REASONING), *entries[index + 1 :]]
        if not (is_from_model(entries[index].message) or kind(entries[index].message) in OUTPUT_TYPES):
            break
    return entries


def _find_lonely_reasoning(entries: Sequence[Indexed]) -> list[int]:
    """R3: reasoning with nothing of the model's after it. Several in a row share the follower."""
    indexes = []
    has_follower = False
    for index in range(len(entries) - 1, -1, -1):
        if kind(entries[index].message) == "reasoning":
            indexes += [] if has_follower or entries[index].message is REMOVED_REASONING else [index]
        else:
            has_follower = is_from_model(entries[index].message)
    return sorted(indexes)


def _missing_follower(entry: Indexed) -> Finding:
    identity = as_text(entry.message.get("id"))
    problem = f"Item '{identity}' of type 'reasoning' was provided without its required following item."
    return Finding("R3", f"input.{entry.index}", problem, "dropped")


def regroup(entries: list[Indexed], log: Log) -> list[Indexed]:
    """R3, R4: reasoning that cannot stay goes, and what followed it goes on without the ids that ask for it."""
    lonely_indexes = _find_lonely_reasoning(entries)
    log += (_missing_follower(entries[index]) for index in lonely_indexes)
    regroup = []
    is_orphaned = False
    for index, entry in enumerate(entries):
        if kind(entry.message) == "reasoning":
            is_orphaned = index in lonely_indexes or entry.message is REMOVED_REASONING
            if not is_orphaned:
                regroup.append(entry)
        elif not is_from_model(entry.message):
            is_orphaned = is_orphaned and kind(entry.message) in OUTPUT_TYPES
            regroup.append(entry)
        elif not is_orphaned or "id" not in entry.message or kind(entry.message) not in (*PREFIXES, *NEEDS_ITS_ID):
            regroup.append(entry)
        else:
            problem = f"Item '{as_text(entry.message['id'])}' was provided without its required 'reasoning' item"
            must_go = kind(entry.message) in NEEDS_ITS_ID
            log.note("R4", f"input.{entry.index}", problem, "dropped" if must_go else "id dropped")
            regroup += [] if must_go else [Indexed(entry.index, drop_id(entry.message))]
    return regroup
