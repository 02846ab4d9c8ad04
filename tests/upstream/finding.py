"""A refusal carries what the provider would say, so that a test can compare texts and not only verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

Json = Any
"""Whatever a client put there: the whole point is that nobody promised its type."""
Body = dict[str, Any]
Said = tuple[str, str]
"""Path and message, as a rule yields them; the table of rules adds the rule's name."""

STATUS = {"A12": 413, "R5": 404}
"""Rules that do not answer 400."""


@dataclass(frozen=True, slots=True)
class Refusal:
    rule: str
    """The rule's name in the list of what providers accept, as in `A16`."""
    path: str
    """Where in the body, in the provider's own spelling."""
    message: str
    """The provider's text where it is known, else ours in its manner."""

    @property
    def status(self) -> int:
        return STATUS.get(self.rule, 400)


Request = TypeVar("Request")
Rules = Mapping[str, Callable[[Request], Iterator[Said]]]


def run(rules: Rules[Request], request: Request) -> list[Refusal]:
    return [Refusal(name, path, text) for name, rule in rules.items() for path, text in rule(request)]


def dicts(value: Json) -> list[Body]:
    """The objects of a list; anything else is some other rule's business."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def text_of(value: Json) -> str:
    return value if isinstance(value, str) else ""
