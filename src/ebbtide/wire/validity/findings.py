"""One finding, told in two voices: what the provider would say of it, and what we did about it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
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
    def repaired(self) -> Repair:
        return Repair(rule=self.rule, path=self.path, what=self.repair)


Note = Callable[..., None]
"""Called as `note(rule, path, message, repair)` by rules that mend what they find."""


class Log(list[Finding]):
    """Findings in the order they were made."""

    def note(self, rule: str, path: str, message: str, repair: str = "") -> None:
        self.append(Finding(rule, path, message, repair))


def refuse(finding: Finding) -> NoReturn:
    raise BadRequest(f"{finding.message} [{finding.rule}]", path=finding.path)


def refuse_hopeless(log: Log) -> None:
    """A note without a repair is a refusal."""
    for finding in log:
        if not finding.repair:
            refuse(finding)


def invented(prefix: str, *inputs: object) -> str:
    """An id of at most 40 characters, the same for the same inputs in every process and for ever."""
    return prefix + uuid5(_OURS, "\0".join(str(part) for part in inputs))


def as_text(value: Json) -> str:
    """A JSON value as text, the same for the same value."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def safe_id(value: Json, prefix: str, allowed: re.Pattern[str]) -> str:
    """`value` where the provider takes it, else an id that stands for it: a call and its result map alike."""
    if isinstance(value, str) and allowed.fullmatch(value):
        return value
    return invented(prefix, "id", type(value).__name__, as_text(value))
