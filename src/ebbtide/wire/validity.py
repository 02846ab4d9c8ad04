"""Find what a provider would refuse in a request, and repair it.

`repair` runs on every outgoing request and changes the request, never the store: one bad block in a history must not
block the session for good. What is sent is valid, or we refuse it with a path and a rule; there is no third outcome.

Fields and block types that we do not know pass untouched: providers add them faster than we learn them, and a proxy
must not strip them. Each wire's rules begin with a table of the rules by number; validity.md explains them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, NoReturn

from ebbtide.core.errors import BadRequest
from ebbtide.core.records import uuid5
from ebbtide.wire.protocol import Finding, Log, Repair, Wire

Json = Any
"""A JSON value from a client: nothing about it is certain."""

SHAPE = "shape"
"""The rule that a value of the wrong type breaks; it has no number in validity.md."""

UNVERIFIED = frozenset({"A56", "C5", "C6", "R15"})
"""Rules not confirmed against a live provider: repaired, because the repair is harmless, but not reported."""

_ID_NAMESPACE = bytes.fromhex("6f9d3c583f0e5b579c5e6d6f2c1b8a44")
"""Namespace of the ids we make. Changing it would miss every prompt cache that holds one."""


def violations(wire: Wire, body: Mapping[str, Any], *, since: int = 0) -> list[Finding]:
    """List what the provider would refuse. Rules never confirmed against a live provider are not reported.

    With `since`, that many leading messages were checked before and have not changed.
    """
    if (finding := _unreadable(wire, body)) is not None:
        return [finding]
    messages = body.get(wire.list_key)
    if not isinstance(messages, list):
        return []
    start = wire.rules.first_to_check(messages, min(since, len(messages)))
    breakpoints = sum(map(wire.messages.count_breakpoints, messages[:start])) if start else None
    findings = check(wire, body, start, frozenset(), breakpoints)
    return [finding for finding in findings if finding.rule not in UNVERIFIED]


def check(
    wire: Wire, body: Mapping[str, Any], since: int, call_ids: AbstractSet[str], breakpoints: int | None
) -> list[Finding]:
    """Find all that is wrong from `since` on: what the repair would note."""
    is_ordinary = wire.rules.is_ordinary(body, since, call_ids, breakpoints)
    return [] if is_ordinary else apply_rules(wire, body, since, call_ids, breakpoints)[1]


def apply_rules(
    wire: Wire, body: Mapping[str, Any], since: int, call_ids: AbstractSet[str], breakpoints: int | None
) -> tuple[Mapping[str, Any], Log]:
    """Repair what is wrong from `since` on, and note it. If a note has no repair, the body is not valid.

    For a body that JSON cannot hold nothing else is reported.
    """
    log = Log(_find_unencodable_parts(wire, body, since))
    if log.is_hopeless:
        return body, log
    if log:
        body = _make_parts_encodable(wire, body, since)
    return wire.rules.repair(body, since, call_ids, breakpoints, log), log


def repair(
    wire: Wire,
    body: Mapping[str, Any],
    *,
    since: int = 0,
    call_ids: AbstractSet[str] = frozenset(),
    breakpoints: int | None = None,
    model: str = "",
) -> tuple[Mapping[str, Any], tuple[Repair, ...]]:
    """Return a valid body, and what was repaired; the same body object if nothing was. `model` is for a body that
    names none.

    The first `since` messages were sent exactly so, with the same system prompt, tools and model, and were accepted.
    They are not changed, and read only if a rule links old and new messages. Two rules still reach back, because new
    messages can make old ones invalid: too many cache breakpoints (A45), and large images once there are more than
    twenty (A54). If the first new message has the role of the last accepted one, the two are joined (A5). `call_ids`
    are those of the accepted messages, `breakpoints` their number if the caller knows it. Messages and tools that
    need no repair are the same objects as in `body`.
    """
    if (finding := _unreadable(wire, body)) is not None:
        refuse(finding)
    messages = body.get(wire.list_key)
    if not isinstance(messages, list):
        return body, ()
    rules = wire.rules
    accepted = max(0, min(since, len(messages)))
    start = rules.first_to_check(messages, accepted)
    if start < accepted:
        rechecked = {id for message in messages[start:accepted] for id in rules.call_ids(message)}
        call_ids, breakpoints = call_ids - rechecked if rechecked else call_ids, None
    names_model = not model or "model" in body
    known = body if names_model else {**body, "model": model}
    if rules.is_ordinary(known, start, call_ids, breakpoints):
        return body, ()
    repaired, findings = apply_rules(wire, known, start, call_ids, breakpoints)
    if not findings:
        return body, ()
    for finding in findings:
        if not finding.repair:
            refuse(finding)
    for finding in check(wire, repaired, start, call_ids, None):
        refuse(finding)
    if not names_model:
        repaired = {name: value for name, value in repaired.items() if name != "model"}
    return repaired, tuple(finding.as_repair for finding in findings)


def _find_unencodable_parts(wire: Wire, body: Mapping[str, Json], since: int) -> list[Finding]:
    """What is unsound in the messages from `since` on, and in the fields that were not accepted with those before."""
    key, accepted = wire.list_key, wire.front_fields if since else ()
    fields = {name: value for name, value in body.items() if name != key and name not in accepted}
    new = body[key][since:]
    if is_encodable(fields) and all(is_encodable(part) for part in new):
        return []
    inside = (finding for at, part in enumerate(new, since) for finding in find_unencodable(part, f"{key}.{at}"))
    return [*find_unencodable(fields, ""), *inside]


def _make_parts_encodable(wire: Wire, body: Mapping[str, Json], since: int) -> Mapping[str, Json]:
    key, drop_broken_thinking = wire.list_key, wire.rules.drop_broken_thinking
    fields = make_encodable({name: value for name, value in body.items() if name != key})
    new = [part if is_encodable(part) else make_encodable(drop_broken_thinking(part)) for part in body[key][since:]]
    return {**fields, key: [*body[key][:since], *new]}


def _unreadable(wire: Wire, body: Mapping[str, Any]) -> Finding | None:
    """Find a body that is no object, or whose messages are no list."""
    if not isinstance(body, (dict, Mapping)):
        return Finding(SHAPE, "", "a request is a JSON object")
    messages = body.get(wire.list_key)
    rule = "" if isinstance(messages, list) else wire.rules.list_rule(messages)
    return Finding(rule, wire.list_key, "Input should be a valid list") if rule else None


# --- tools of the rules ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Indexed:
    """A message under repair, and its index in the client's body."""

    index: int
    message: Mapping[str, Json]


Note = Callable[..., None]
"""Called as `note(rule, path, message, repair)` by rules that repair what they find."""


def refuse(finding: Finding) -> NoReturn:
    raise BadRequest(f"{finding.message} [{finding.rule}]", path=finding.path)


def make_id(prefix: str, *inputs: object) -> str:
    """Make an id of at most 40 characters. The same inputs always give the same id, in every process."""
    return prefix + uuid5(_ID_NAMESPACE, "\0".join(str(part) for part in inputs))


def as_text(value: Json) -> str:
    """Return a string unchanged, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def safe_id(value: Json, prefix: str, allowed: re.Pattern[str]) -> str:
    """Return `value` if the provider accepts it, else an id made from it, the same for a call and its result."""
    if isinstance(value, str) and allowed.fullmatch(value):
        return value
    return make_id(prefix, "id", type(value).__name__, as_text(value))


DEPTH = 256
"""Deeper nesting is an attack or a bug: Python's own JSON gives up near 1,000 levels."""


def is_encodable(value: Json, depth: int = DEPTH) -> bool:
    """True for what is plainly fine: called on every request, so it builds nothing, and calls itself for the rare."""
    if isinstance(value, str):
        return value.isascii() or _encodes(value)
    if isinstance(value, dict):
        if depth <= 0:
            return False
        for key, part in value.items():
            if not (type(key) is str and key.isascii()) and not is_encodable(key):
                return False
            if not (type(part) is str and part.isascii()) and not is_encodable(part, depth - 1):
                return False
        return True
    if isinstance(value, (list, tuple)):
        return depth > 0 and all(is_encodable(part, depth - 1) for part in value)
    return not isinstance(value, float) or math.isfinite(value)


def find_unencodable(value: Json, path: str) -> Iterator[Finding]:
    """Every place under `path` that JSON or UTF-8 refuses. Nesting too deep has no repair, and ends the search."""
    stack = [(value, path, 0)]
    while stack:
        part, part_path, depth = stack.pop()
        if isinstance(part, dict | list | tuple) and depth >= DEPTH:
            yield Finding("A11", path, "The request body is not valid JSON: nested too deep")
            return
        if isinstance(part, dict):
            stack += [(child, f"{part_path}.{_printable(key)}".lstrip("."), depth + 1) for key, child in part.items()]
            if not all(is_encodable(key) for key in part):
                yield Finding("A11", part_path, "The request body is not valid JSON: surrogates not allowed", "U+FFFD")
        elif isinstance(part, list | tuple):
            stack += [(child, f"{part_path}.{index}", depth + 1) for index, child in enumerate(part)]
        elif isinstance(part, str) and not is_encodable(part):
            yield Finding("A11", part_path, "The request body is not valid JSON: no low surrogate in string", "U+FFFD")
        elif isinstance(part, float) and not math.isfinite(part):
            yield Finding("A11", part_path, "The request body is not valid JSON: NaN or Infinity", "null")


def make_encodable(value: Json) -> Json:
    """The same object where nothing is wrong with it, so that untouched parts stay byte-equal."""
    if is_encodable(value):
        return value
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {make_encodable(key): make_encodable(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [make_encodable(part) for part in value]
    return None


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _printable(key: Json) -> str:
    return str(key).encode("ascii", "backslashreplace").decode()
