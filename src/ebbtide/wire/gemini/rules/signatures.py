"""Signed calls (G5). Gemini 3 refuses a current turn in which the first call of a step is not signed.

A call that was made elsewhere, or whose signed neighbour has gone, gets the placeholder that Google documents for it.
Signatures are never checked or moved: only Google can read them. They are removed if Google refused them (G6).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from ebbtide.wire.gemini.fields import (
    call_of,
    is_model_content,
    is_thought,
    parts_of,
    remove_fields,
    response_of,
    sign,
    signature_of,
)
from ebbtide.wire.protocol import Log
from ebbtide.wire.validity import Indexed, Json

NEEDS_SIGNATURES = re.compile(r"gemini-(?:[3-9]|\d\d|(?:pro|flash|flash-lite)-latest)")
NO_WORDS = "(Nothing was said here.)"
"""Stands for a content of thoughts alone: a content must not be empty (G7)."""
NOT_SIGNED = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
    "correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call "
    "`{name}` , position {position}."
)


def sign_calls(body: Mapping[str, Json], since: int, entries: list[Indexed], log: Log) -> list[Indexed]:
    """G5: sign the first call of each step of the current turn, if the model wants it."""
    turn = _start_of_turn(entries)
    unsigned = [n for n in range(turn, len(entries)) if _unsigned_call(entries[n].message) is not None]
    if not unsigned or not _needs_signatures(body, since, entries):
        return entries
    signed = list(entries)
    for n in unsigned:
        entry = entries[n]
        at = _unsigned_call(entry.message)
        assert at is not None
        parts = parts_of(entry.message)
        call = call_of(parts[at]) or {}
        problem = NOT_SIGNED.format(name=call.get("name"), position=entry.index + 1)
        log.note("G5", f"contents.{entry.index}.parts.{at}", problem, "placeholder signature added")
        signed[n] = Indexed(entry.index, {**entry.message, "parts": [*parts[:at], sign(parts[at]), *parts[at + 1 :]]})
    return signed


def _start_of_turn(entries: Sequence[Indexed]) -> int:
    """Return where the current turn begins: behind the last content that is the user's own words."""
    for n in range(len(entries) - 1, -1, -1):
        content = entries[n].message
        if not is_model_content(content) and all(response_of(part) is None for part in parts_of(content)):
            return n
    return 0


def _unsigned_call(content: Json) -> int | None:
    """Return the index of the first call, if it has no signature."""
    if not is_model_content(content):
        return None
    parts = parts_of(content)
    first = next((n for n, part in enumerate(parts) if call_of(part) is not None), None)
    return None if first is None or signature_of(parts[first]) else first


def _needs_signatures(body: Mapping[str, Json], since: int, entries: Sequence[Indexed]) -> bool:
    """Tell by the model. If the request names none, tell by whether a step of this conversation is signed."""
    model = body.get("model")
    if isinstance(model, str) and model:
        return wants_signatures(model)
    if any(_has_signed_call(entry.message) for entry in entries):
        return True
    earlier = (body["contents"][n] for n in range(since - 1, -1, -1))
    step = next((content for content in earlier if is_model_content(content) and _has_call(content)), None)
    return _has_signed_call(step)


def remove_signatures(content: Json) -> Json:
    """Return a content of the model without its thoughts, and with the placeholder on calls that were signed (G6)."""
    parts = parts_of(content)
    if not is_model_content(content) or not any(map(signature_of, parts)):
        return content
    kept = [_unsigned(part) for part in parts if call_of(part) is not None or not is_thought(part)]
    # A stream may send a signature with an empty text.
    kept = [part for part in kept if part != {"text": ""}] or [{"text": NO_WORDS}]
    return {**content, "parts": kept}


def _unsigned(part: Json) -> Json:
    if not signature_of(part):
        return part
    bare = remove_fields(part, "thoughtSignature")
    return sign(bare) if call_of(part) is not None else bare


@lru_cache(maxsize=64)
def wants_signatures(model: str) -> bool:
    return NEEDS_SIGNATURES.search(model.lower()) is not None


def _has_call(content: Json) -> bool:
    return any(call_of(part) is not None for part in parts_of(content))


def _has_signed_call(content: Json) -> bool:
    return any(call_of(part) is not None and bool(signature_of(part)) for part in parts_of(content))
