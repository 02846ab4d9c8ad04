"""R1, R2, R11: every call has its output, every output its call, and the two are of a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ebbtide.wire.findings import Finding, Log
from ebbtide.wire.openai_responses.rules.items import (
    OUTPUT_TYPES,
    OUTPUTS,
    TEXT_OUTPUTS,
    UNANSWERED,
    VOID,
    At,
    Item,
    call_id,
    is_models,
    kind,
    pairs_by_call_id,
)


@dataclass(frozen=True, slots=True)
class Pairing:
    """What is wrong between calls and outputs, by position."""

    orphans: Mapping[int, Finding]
    mistyped: Mapping[int, str]
    """The type each output should have."""
    unanswered: Sequence[int]


def broken_pairs(entries: Sequence[At], lenient: Callable[[], bool], accepted_ids: AbstractSet[str]) -> Pairing:
    """R1, R2, R11: an output answers the open call of its id; of two outputs for one call the later one counts.

    A call repeated while it is still open is one call: the second has no output of its own to wait for. `lenient` tells
    whether calls may live on the server; to know it may take the whole body, and an output with its call never asks.
    """
    open_calls: dict[str, int] = {}
    answers: dict[str, tuple[int, int]] = {}
    orphans: dict[int, Finding] = {}
    mistyped: dict[int, str] = {}
    unanswered: list[int] = []
    for at, entry in enumerate(entries):
        item, identity = entry.item, call_id(entry.item) if entry.item else ""
        if pairs_by_call_id(item) and identity in open_calls:
            orphans[at] = Finding("R9", f"input.{entry.at}", f"Duplicate call found with call_id {identity}.")
        elif pairs_by_call_id(item):
            open_calls[identity] = at
        if kind(item) not in OUTPUT_TYPES:
            continue
        if identity in open_calls:
            call = open_calls.pop(identity)
            answers[identity] = (call, at)
        elif identity in answers:
            call, earlier = answers[identity]
            orphans[earlier] = _orphan(entries[earlier], identity)
            mistyped.pop(earlier, None)
            answers[identity] = (call, at)
        else:
            if identity not in accepted_ids and not lenient():
                orphans[at] = _orphan(entry, identity)
            continue
        expected_types = OUTPUTS[kind(entries[call].item)]
        if kind(item) not in expected_types:
            problem = f"No tool call found for {kind(item)} with call_id {identity}."
            orphans[at] = Finding("R11", f"input.{entry.at}", problem)
            if expected_types[0] in TEXT_OUTPUTS and kind(item) in TEXT_OUTPUTS:
                mistyped[at] = expected_types[0]
            else:
                answers.pop(identity)
                unanswered.append(call)
    return Pairing(orphans, mistyped, sorted([*unanswered, *open_calls.values()]))


def _orphan(entry: At, identity: str) -> Finding:
    return Finding("R2", f"input.{entry.at}", f"No tool call found for function call output with call_id {identity}.")


def no_output(item: Item) -> str:
    return f"No tool output found for function call {call_id(item)}."


def matched(entries: list[At], lenient: Callable[[], bool], accepted_ids: AbstractSet[str], log: Log) -> list[At]:
    """R2, R9, R11: outputs without a call and calls said twice go; an output of the wrong name gets the right one."""
    pairing = broken_pairs(entries, lenient, accepted_ids)
    matched_entries = []
    for at, entry in enumerate(entries):
        if at in pairing.mistyped:
            entry = At(entry.at, {**entry.item, "type": pairing.mistyped[at]})
        if at in pairing.orphans:
            finding = pairing.orphans[at]
            repaired = "type corrected" if at in pairing.mistyped else "dropped"
            log.note(finding.rule, finding.path, finding.message, repaired)
        if at not in pairing.orphans or at in pairing.mistyped:
            matched_entries.append(entry)
    return matched_entries


def completed(entries: list[At], log: Log) -> list[At]:
    """R1: a stand-in for each missing output, behind the outputs of the same reply. A call that only a screen or a
    patch could answer goes, and its reasoning with it."""
    unanswered = {entries[at].at for at in broken_pairs(entries, lambda: True, frozenset()).unanswered}
    done: list[At] = []
    added: list[At] = []
    for entry in entries:
        new_reply = is_models(entry.item) and bool(done) and kind(done[-1].item) in OUTPUT_TYPES
        if new_reply or not (is_models(entry.item) or kind(entry.item) in OUTPUT_TYPES):
            done, added = done + added, []
        if not (entry.at in unanswered and pairs_by_call_id(entry.item)):
            done.append(entry)
            continue
        stand_in = _stand_in(entry.item)
        log.note("R1", f"input.{entry.at}", no_output(entry.item), "stand-in" if stand_in else "call dropped")
        if stand_in:
            done.append(entry)
            added.append(At(entry.at, stand_in))
        else:
            done = _void_before(done)
    return done + added


def _stand_in(call: Item) -> Item | None:
    name, identity = kind(call), call_id(call)
    if name in ("function_call", "local_shell_call"):
        return {"type": "function_call_output", "call_id": identity, "output": UNANSWERED}
    if name == "custom_tool_call":
        return {"type": "custom_tool_call_output", "call_id": identity, "output": UNANSWERED}
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


def _void_before(entries: list[At]) -> list[At]:
    """The reasoning whose follower has gone cannot stay."""
    for at in range(len(entries) - 1, -1, -1):
        if kind(entries[at].item) == "reasoning":
            return [*entries[:at], At(entries[at].at, VOID), *entries[at + 1 :]]
        if not (is_models(entries[at].item) or kind(entries[at].item) in OUTPUT_TYPES):
            break
    return entries
