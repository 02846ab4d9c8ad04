"""Findings of the validity rules, and the check that a value survives JSON and UTF-8 (A11).

A finding says what a provider would refuse and, if there is a repair, what was done about it. Clients cut strings
inside a surrogate pair, and the half that remains makes every later request fail: a half becomes U+FFFD, two halves
that meet again become their character, and a number that JSON cannot write becomes null.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from ebbtide.core.errors import BadRequest
from ebbtide.core.ids import uuid5

Json = Any
"""A JSON value as it came: nothing about it is certain."""

SHAPE = "shape"
"""The rule's name where a value has the wrong type altogether; the providers' lists have no number for that."""

UNVERIFIED = frozenset({"A56", "C5", "C6", "R15"})
"""Rules not confirmed against a live provider: repaired, for the repair is harmless, but not reported as violations."""

_OURS = bytes.fromhex("6f9d3c583f0e5b579c5e6d6f2c1b8a44")
"""Namespace of the ids we invent. Changing it moves every prompt cache that holds one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """What a provider would refuse."""

    rule: str
    """As in validity.md: `A16`."""
    path: str
    """As in `messages.3.content.0`."""
    message: str
    """The provider's own wording where it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What the hardener changed in the request, never in the store."""

    rule: str
    path: str
    """Where it stood in the client's body."""
    what: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule together with its repair. A rule that only refuses has no repair."""

    rule: str
    path: str
    message: str
    repair: str = ""

    @property
    def violation(self) -> Violation:
        return Violation(rule=self.rule, path=self.path, message=self.message)

    @property
    def as_repair(self) -> Repair:
        return Repair(rule=self.rule, path=self.path, what=self.repair)


@dataclass(frozen=True, slots=True)
class Indexed:
    """A message under repair, and its index in the client's body."""

    index: int
    message: Mapping[str, Json]


Note = Callable[..., None]
"""Called as `note(rule, path, message, repair)` by rules that mend what they find."""


class Log(list[Finding]):
    """Findings in the order they were made."""

    def note(self, rule: str, path: str, message: str, repair: str = "") -> None:
        self.append(Finding(rule, path, message, repair))


def refuse(finding: Finding) -> NoReturn:
    raise BadRequest(f"{finding.message} [{finding.rule}]", path=finding.path)


def refuse_unrepairable(log: Log) -> None:
    """A note without a repair is a refusal."""
    for finding in log:
        if not finding.repair:
            refuse(finding)


def make_id(prefix: str, *inputs: object) -> str:
    """An id of at most 40 characters, the same for the same inputs in every process and for ever."""
    return prefix + uuid5(_OURS, "\0".join(str(part) for part in inputs))


def as_text(value: Json) -> str:
    """A JSON value as text, the same for the same value."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def safe_id(value: Json, prefix: str, allowed: re.Pattern[str]) -> str:
    """`value` where the provider takes it, else an id that stands for it: a call and its result map alike."""
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


def find_unencodable_parts(body: Mapping[str, Json], key: str, since: int) -> list[Finding]:
    """What is unsound in the list under `key` from `since` on, and in what was not accepted with the part before it."""
    accepted = (key, "system", "instructions", "tools") if since else (key,)
    fields = {name: value for name, value in body.items() if name not in accepted}
    new = body[key][since:]
    if is_encodable(fields) and all(is_encodable(part) for part in new):
        return []
    inside = (finding for at, part in enumerate(new, since) for finding in find_unencodable(part, f"{key}.{at}"))
    return [*find_unencodable(fields, ""), *inside]


def make_parts_encodable(body: Mapping[str, Json], key: str, since: int) -> Mapping[str, Json]:
    fields = make_encodable({name: value for name, value in body.items() if name != key})
    return {**fields, key: [*body[key][:since], *map(make_encodable, body[key][since:])]}


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _printable(key: Json) -> str:
    return str(key).encode("ascii", "backslashreplace").decode()
