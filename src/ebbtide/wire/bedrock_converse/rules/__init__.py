"""What the Converse API refuses, and the repairs.

Rule     keeps                                                              function
-------  -----------------------------------------------------------------  ------------------------------
K1       each call has one result, in the next message; no other results    pair_results
K2       models that want them apart: no text beside calls and results      separate_text
K3       a failed result has content                                        clean_message
K4       no text is blank, and no message is empty                          clean_message
K5       the user begins; tools are defined if there are calls              _fix_ends, _define_tools
A5 A6    roles alternate, and the user is last                              merge_neighbours, _fix_ends
A11      JSON and UTF-8                                                     ../../validity
A14 A15  ids of calls are plain, and differ                                 clean_message, pair_results
A34      thinking of Claude is signed                                       clean_message
A45      at most four cache points                                          _limit_cache_points

Not checked here: size (the engine fits), and what differs from model to model beside K2: Bedrock knows better than
we would guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from ebbtide.core.texts import CONVERSATION_NOT_SHOWN
from ebbtide.wire.bedrock_converse.blocks import blocks_of, calls_of, field, is_cache_point
from ebbtide.wire.bedrock_converse.rules import ordinary
from ebbtide.wire.bedrock_converse.rules.content import clean_message, is_claude, separate_text, separates_text
from ebbtide.wire.bedrock_converse.rules.ordinary import MAX_CACHE_POINTS
from ebbtide.wire.bedrock_converse.rules.pairs import pair_results
from ebbtide.wire.blocks import as_mapping, as_str
from ebbtide.wire.protocol import Log
from ebbtide.wire.validity import SHAPE, Indexed, Json, is_encodable

Body = Mapping[str, Json]

GO_ON = "Please continue."
STARTS_WITH_ASSISTANT = (
    "A conversation must start with a user message. Try again with a conversation that starts with a user message."
)
ENDS_WITH_ASSISTANT = (
    "This model does not support assistant message prefill. The conversation must end with a user message."
)
ALTERNATE = "A conversation must alternate between user and assistant roles."
NOT_DEFINED = "The toolConfig field must be defined when using toolUse and toolResult content blocks."
TOO_MANY = "A maximum of 4 cache points may be provided."
NO_MESSAGES = "The messages field is empty."


def repair(body: Body, since: int, call_ids: AbstractSet[str], _breakpoints: int | None, log: Log) -> Body:
    messages, model = body["messages"], as_str(body.get("modelId") or body.get("model"))
    cleaned = ((n, clean_message(messages[n], n, log, is_claude=is_claude(model))) for n in range(since, len(messages)))
    entries = [Indexed(n, message) for n, message in cleaned if message is not None]
    if log.is_hopeless:
        return body
    entries = merge_neighbours(entries, log)
    entries = merge_neighbours(pair_results(entries, call_ids, log), log)
    if not entries and not since:
        log.note(SHAPE, "messages", NO_MESSAGES)
        return body
    entries = _fix_ends(entries, log, has_earlier=since > 0)
    if separates_text(model):
        entries = [separate_text(entry, log) for entry in entries]
    repaired = {**body, "messages": [*messages[:since], *(entry.message for entry in entries)]}
    return _limit_cache_points(_define_tools(repaired, call_ids, log), log)


def is_ordinary(body: Body, since: int, call_ids: AbstractSet[str], breakpoints: int | None) -> bool:
    return ordinary.is_ordinary(body, since, call_ids, breakpoints)


def drop_broken_thinking(message: Json) -> Json:
    blocks = blocks_of(message)
    kept = [block for block in blocks if field(block, "reasoningContent") is None or is_encodable(block)]
    return message if len(kept) == len(blocks) else {**message, "content": kept}


def list_rule(_value: Json) -> str:
    return SHAPE


def first_to_check(messages: Sequence[Json], since: int) -> int:
    """Check the last accepted message too, and the calls that it answers, unless an answer of the model follows it."""
    if not 0 < since < len(messages):
        return since
    roles = [as_mapping(message).get("role") for message in messages[since - 1 : since + 1]]
    if roles == ["user", "assistant"]:
        return since
    start = since - 1
    answers = start and any(field(block, "toolResult") is not None for block in blocks_of(messages[start]))
    return start - 1 if answers else start


def call_ids(message: Json) -> frozenset[str]:
    return frozenset(str(call.get("toolUseId")) for call in calls_of(message))


def merge_neighbours(entries: list[Indexed], log: Log) -> list[Indexed]:
    """A5: roles alternate."""
    merged: list[Indexed] = []
    for entry in entries:
        last = merged[-1] if merged else None
        if last is None or last.message["role"] != entry.message["role"]:
            merged.append(entry)
            continue
        log.note("A5", f"messages.{entry.index}.role", ALTERNATE, "joined with the message before")
        content = [*blocks_of(last.message), *blocks_of(entry.message)]
        merged[-1] = Indexed(last.index, {**last.message, "content": content})
    return merged


def _fix_ends(entries: list[Indexed], log: Log, *, has_earlier: bool) -> list[Indexed]:
    """K5, A6: begin and end with the user."""
    if not entries:
        return entries
    first, last = entries[0], entries[-1]
    if not has_earlier and first.message["role"] == "assistant":
        log.note("K5", f"messages.{first.index}.role", STARTS_WITH_ASSISTANT, "user message added before")
        entries = [Indexed(first.index, {"role": "user", "content": [{"text": CONVERSATION_NOT_SHOWN}]}), *entries]
    if last.message["role"] == "assistant":
        log.note("A6", f"messages.{last.index}.role", ENDS_WITH_ASSISTANT, "user message added")
        entries = [*entries, Indexed(last.index, {"role": "user", "content": [{"text": GO_ON}]})]
    return entries


def _define_tools(body: Body, accepted_ids: AbstractSet[str], log: Log) -> Body:
    """K5: define the tools that the conversation calls. Only for clients that define none."""
    config = as_mapping(body.get("toolConfig"))
    if config.get("tools") or not (accepted_ids or any(map(calls_of, body["messages"]))):
        return body
    names = dict.fromkeys(as_str(call.get("name")) for message in body["messages"] for call in calls_of(message))
    log.note("K5", "toolConfig", NOT_DEFINED, "defined the tools that are called")
    tools = [{"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}} for name in names if name]
    return {**body, "toolConfig": {**config, "tools": tools}}


def _limit_cache_points(body: Body, log: Log) -> Body:
    """A45: the oldest cache points in messages go first. A later one caches all that they would."""
    tools, system = as_mapping(body.get("toolConfig")).get("tools"), body.get("system")
    sections = [section for section in (tools, system) if isinstance(section, list)]
    spare = sum(
        is_cache_point(block) for section in (*sections, *map(blocks_of, body["messages"])) for block in section
    )
    spare -= MAX_CACHE_POINTS
    if spare <= 0:
        return body
    messages = list(body["messages"])
    for n, message in enumerate(messages):
        kept = []
        for block in blocks_of(message):
            if spare > 0 and is_cache_point(block):
                log.note("A45", f"messages.{n}.content", TOO_MANY, "dropped")
                spare -= 1
            else:
                kept.append(block)
        if len(kept) < len(blocks_of(message)):
            messages[n] = {**message, "content": kept}
    return {**body, "messages": messages}
