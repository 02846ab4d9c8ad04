"""What the Gemini API refuses, and the repairs.

Rule   keeps                                                              function
-----  -----------------------------------------------------------------  ----------------
G1     the first content is the user's                                    _fix_ends
G2     responses directly after their calls, and nowhere else             pair_responses
G3     as many responses as calls, in one content                         pair_responses
G4     names and ids of responses fit the calls; in order, before text    pair_responses
G5     in the current turn the first call of each step is signed          sign_calls
G6     a signature stays on its part                                      (nothing moves or joins parts)
G7     roles alternate, the last content is the user's, none is empty     clean_content, merge_neighbours, _fix_ends
G8     no thoughts without a signature                                    clean_content
G9     a function response is an object                                   clean_content
A11    JSON and UTF-8                                                     ../../validity

Not checked here: G10 (size: the engine fits), and whether a signature comes from the host that the request is sent to
(G6): nothing in a body tells. If the host says so, `remove_signatures` leaves out what was there by then.

With `cachedContent` the first contents are on the server: the body may then begin with an answer to a call there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from ebbtide.core.texts import CONVERSATION_NOT_SHOWN
from ebbtide.wire.gemini.fields import call_of, find, is_model_content, is_thought, parts_of, response_of
from ebbtide.wire.gemini.rules import ordinary
from ebbtide.wire.gemini.rules.content import clean_content
from ebbtide.wire.gemini.rules.fields import clean_fields
from ebbtide.wire.gemini.rules.pairs import pair_responses
from ebbtide.wire.gemini.rules.signatures import sign_calls
from ebbtide.wire.protocol import Log
from ebbtide.wire.validity import SHAPE, Indexed, Json, is_encodable

Body = Mapping[str, Json]

GO_ON = "Please continue."
STARTS_WITH_MODEL = (
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
)
ENDS_WITH_MODEL = "Please ensure that multiturn requests end with a user turn or a function response."
ALTERNATE = "Please ensure that multiturn requests alternate between user and model."


def repair(body: Body, since: int, _call_ids: AbstractSet[str], _breakpoints: int | None, log: Log) -> Body:
    body = clean_fields(body, log)
    contents = body["contents"]
    cleaned = ((n, clean_content(contents[n], n, log)) for n in range(since, len(contents)))
    entries = [Indexed(n, content) for n, content in cleaned if content is not None]
    if log.is_hopeless:
        return body
    has_earlier = since > 0 or bool(find(body, "cachedContent"))
    entries = merge_neighbours(entries, log)
    entries = merge_neighbours(pair_responses(entries, log, may_answer_earlier=not since and has_earlier), log)
    if not entries and not since:
        log.note(SHAPE, "contents", "GenerateContentRequest.contents: contents is not specified")
        return body
    entries = _fix_ends(entries, log, has_earlier=has_earlier)
    entries = sign_calls(body, since, entries, log)
    return {**body, "contents": [*contents[:since], *(entry.message for entry in entries)]}


def is_ordinary(body: Body, since: int, _call_ids: AbstractSet[str], _breakpoints: int | None) -> bool:
    return ordinary.is_ordinary(body, since)


def drop_broken_thinking(content: Json) -> Json:
    parts = parts_of(content)
    kept = [part for part in parts if not is_thought(part) or is_encodable(part)]
    return content if len(kept) == len(parts) else {**content, "parts": kept}


def list_rule(_value: Json) -> str:
    return SHAPE


def first_to_check(contents: Sequence[Json], since: int) -> int:
    """Checking starts at the last accepted content, or at the calls that it answers."""
    start = max(0, since - 1)
    answers = start and any(response_of(part) is not None for part in parts_of(contents[start]))
    return start - 1 if answers else start


def call_ids(content: Json) -> frozenset[str]:
    calls = [call for part in parts_of(content) if (call := call_of(part)) is not None]
    return frozenset(str(call["id"]) for call in calls if call.get("id"))


def merge_neighbours(entries: list[Indexed], log: Log) -> list[Indexed]:
    """G7: roles alternate. Parts stay as they are (G6)."""
    merged: list[Indexed] = []
    for entry in entries:
        last = merged[-1] if merged else None
        if last is None or is_model_content(last.message) != is_model_content(entry.message):
            merged.append(entry)
            continue
        log.note("G7", f"contents.{entry.index}.role", ALTERNATE, "joined with the content before")
        parts = [*parts_of(last.message), *parts_of(entry.message)]
        fields = {**last.message, "role": "model" if is_model_content(last.message) else "user"}
        merged[-1] = Indexed(last.index, {**fields, "parts": parts})
    return merged


def _fix_ends(entries: list[Indexed], log: Log, *, has_earlier: bool) -> list[Indexed]:
    """G1, G7: begin and end with the user."""
    if not entries:
        return entries
    first, last = entries[0], entries[-1]
    if not has_earlier and is_model_content(first.message):
        log.note("G1", f"contents.{first.index}.role", STARTS_WITH_MODEL, "user content added before")
        entries = [Indexed(first.index, {"role": "user", "parts": [{"text": CONVERSATION_NOT_SHOWN}]}), *entries]
    if is_model_content(last.message):
        log.note("G7", f"contents.{last.index}.role", ENDS_WITH_MODEL, "user content added")
        entries = [*entries, Indexed(last.index, {"role": "user", "parts": [{"text": GO_ON}]})]
    return entries
