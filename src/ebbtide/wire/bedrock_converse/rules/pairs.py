"""Calls and their results: in the next message, one for each, before anything else (K1, A15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from ebbtide.core.texts import NO_RESULT
from ebbtide.wire.bedrock_converse.blocks import blocks_of, calls_of, field, is_cache_point
from ebbtide.wire.call_pairs import choose_results, make_unique_id, with_call_id
from ebbtide.wire.protocol import Log
from ebbtide.wire.validity import Indexed, Json

Block = Mapping[str, Json]

TOO_MANY_RESULTS = "The number of toolResult blocks at {path} exceeds the number of toolUse blocks of previous turn."
MISSING_RESULTS = "Expected toolResult blocks at {path} for the following Ids: {ids}"
DUPLICATE_IDS = "The toolUse blocks at {path} contain duplicate Ids: {ids}"
NOT_FIRST = "toolResult blocks come before other blocks"


def pair_results(entries: list[Indexed], accepted_ids: AbstractSet[str], log: Log) -> list[Indexed]:
    """Give each message with calls one with their results. Roles alternate already."""
    paired: list[Indexed] = []
    used = set(accepted_ids)
    open_calls: list[tuple[str, str]] = []
    """The client's id of each call of the message before, and the id that is sent."""
    for entry in entries:
        if entry.message["role"] == "assistant":
            entry, open_calls = _name_calls(entry, used, log)
            paired.append(entry)
            continue
        message = _answer(open_calls, entry, log)
        paired += [Indexed(entry.index, message)] if message is not None else []
        open_calls = []
    if open_calls:
        last, ids = paired[-1], [sent for _, sent in open_calls]
        log.note("K1", f"messages.{last.index}", _missing(last.index + 1, ids), "stand-in results added")
        paired.append(Indexed(last.index, {"role": "user", "content": [_stand_in(call_id) for call_id in ids]}))
    return paired


def _name_calls(entry: Indexed, used: set[str], log: Log) -> tuple[Indexed, list[tuple[str, str]]]:
    """Return the message with ids that no earlier call has, and those ids beside the client's."""
    calls = calls_of(entry.message)
    if not calls:
        return entry, []
    ids: list[tuple[str, str]] = []
    for n, call in enumerate(calls):
        given = call["toolUseId"]
        ids.append((given, make_unique_id(given, used, "tooluse_", entry.index, n)))
        used.add(ids[-1][1])
    if all(given == sent for given, sent in ids):
        return entry, ids
    path = f"messages.{entry.index}.content"
    again = ", ".join(given for given, sent in ids if given != sent)
    log.note("A15", path, DUPLICATE_IDS.format(path=path, ids=again), "renamed")
    new_ids = iter(sent for _, sent in ids)
    content = [
        block
        if field(block, "toolUse") is None
        else {"toolUse": with_call_id(block["toolUse"], "toolUseId", next(new_ids))}
        for block in blocks_of(entry.message)
    ]
    return Indexed(entry.index, {**entry.message, "content": content}), ids


def _answer(calls: Sequence[tuple[str, str]], entry: Indexed, log: Log) -> Block | None:
    """Return a message with exactly the results of these calls first; None if nothing remains."""
    message, path = entry.message, f"messages.{entry.index}.content"
    blocks = blocks_of(message)
    results = [result for block in blocks if (result := field(block, "toolResult")) is not None]
    if not calls and not results:
        return message
    chosen, missing = choose_results([given for given, _ in calls], results, "toolUseId")
    answered: list[list[Any]] = []
    rest: list[Any] = []
    seen_other = is_moved = False
    group = rest
    for n, block in enumerate(blocks):
        result = field(block, "toolResult")
        if result is None and is_cache_point(block) and n:
            group.append(block)
            continue
        if result is None:
            seen_other, group = True, rest
            rest.append(block)
            continue
        if id(result) not in chosen:
            log.note("K1", f"{path}.{n}", TOO_MANY_RESULTS.format(path=path), "dropped")
            group = []
            continue
        sent = with_call_id(result, "toolUseId", calls[chosen[id(result)]][1])
        group = [block if sent is result else {"toolResult": sent}]
        answered.append(group)
        is_moved = is_moved or seen_other
    if is_moved:
        log.note("A19", path, NOT_FIRST, "moved to the front")
    if missing:
        ids = [calls[n][1] for n in missing]
        log.note("K1", path, _missing(entry.index, ids), "stand-in results added")
        answered += [[_stand_in(call_id)] for call_id in ids]
    content = [*(block for group in answered for block in group), *rest]
    if len(content) == len(blocks) and all(new is old for new, old in zip(content, blocks, strict=True)):
        return message
    return {**message, "content": content} if content else None


def _missing(index: int, ids: Sequence[str]) -> str:
    return MISSING_RESULTS.format(path=f"messages.{index}.content", ids=", ".join(ids))


def _stand_in(call_id: str) -> Block:
    return {"toolResult": {"toolUseId": call_id, "content": [{"text": NO_RESULT}], "status": "error"}}
