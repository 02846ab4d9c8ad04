"""What providers refuse, and how a request is made to pass: every rule of validity.md lives under here.

`violations` names what would be refused. `harden` runs on every outgoing request and repairs the request, never the
store: one bad block in a history must not wedge the session for ever. Whatever comes in, what goes out is valid or is
refused by us with a path and a rule; there is no third outcome.

Fields and block types that we do not know pass untouched: providers add them faster than we learn them, and a proxy
must not strip them. Find a rule by its number: each wire's module opens with a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Literal

from ebbtide.core.errors import BadRequest
from ebbtide.wire.anthropic import rules as anthropic
from ebbtide.wire.openai_chat import rules as openai_chat
from ebbtide.wire.openai_responses import rules as openai_responses
from ebbtide.wire.validity.findings import SHAPE, UNVERIFIED, Finding, Repair, Violation, refuse

__all__ = ["Repair", "Violation", "WireName", "harden", "violations"]

WireName = Literal["anthropic", "openai_chat", "openai_responses"]

_WIRES = {"anthropic": anthropic, "openai_chat": openai_chat, "openai_responses": openai_responses}
_LISTS = {"anthropic": "messages", "openai_chat": "messages", "openai_responses": "input"}


def violations(wire: WireName, body: Mapping[str, Any], *, since: int = 0) -> list[Violation]:
    """What the provider would refuse. Rules never confirmed against a live provider are not reported.

    With `since`, so many leading messages were looked at before and stand as they stood then.
    """
    if (finding := _unreadable(wire, body)) is not None:
        return [finding.violation]
    items = body.get(_LISTS[wire])
    if not isinstance(items, list):
        return []
    rules = _WIRES[wire]
    start = rules.seam(items, min(since, len(items)))
    found = rules.check(body, start, frozenset(), _breakpoints(items[:start]) if start else None)
    return [finding.violation for finding in found if finding.rule not in UNVERIFIED]


def harden(
    wire: WireName,
    body: Mapping[str, Any],
    *,
    since: int = 0,
    taken: AbstractSet[str] = frozenset(),
    marked: int | None = None,
) -> tuple[Mapping[str, Any], tuple[Repair, ...]]:
    """A body that passes, and what was repaired; the very same body if nothing had to be.

    The first `since` messages went out exactly as they stand here, with the same system prompt, tools and model, and
    were accepted: all these are left alone and only read where a rule links across the seam. Two rules reach back all
    the same, because what is new can make the old invalid: too many cache breakpoints (A45), and large pictures once
    there are more than twenty (A54). A first new message of the same role as the last accepted one joins it (A5).
    `taken` are the call ids used in the accepted part, `marked` the number of breakpoints there, where the caller knows
    it. Untouched messages and tools are the same objects as in `body`, which is never changed.
    """
    if (finding := _unreadable(wire, body)) is not None:
        refuse(finding)
    items = body.get(_LISTS[wire])
    if not isinstance(items, list):
        return body, ()
    rules = _WIRES[wire]
    accepted = max(0, min(since, len(items)))
    start = rules.seam(items, accepted)
    used, known = taken, marked
    if start < accepted:
        again = {id for item in items[start:accepted] for id in rules.call_ids(item)}
        used, known = taken - again if again else taken, None
    if not rules.check(body, start, used, known):
        return body, ()
    fixed, done = rules.repair(body, start, used)
    left = rules.check(fixed, start, used, None)
    if left:
        refuse(left[0])
    return fixed, tuple(finding.repaired for finding in done)


def _breakpoints(items: list[Any]) -> int:
    """Cache marks in messages that were looked at before."""
    contents = [item.get("content") for item in items if isinstance(item, dict)]
    return sum("cache_control" in block for one in contents if isinstance(one, list) for block in one)


def _unreadable(wire: WireName, body: Mapping[str, Any]) -> Finding | None:
    """The list of messages must be one. Responses also takes a bare string, or nothing beside a stored prompt."""
    if wire not in _WIRES:
        raise BadRequest(f"unknown wire {wire!r}")
    if not isinstance(body, (dict, Mapping)):
        return Finding(SHAPE, "", "a request is a JSON object")
    value = body.get(_LISTS[wire])
    if isinstance(value, list) or (wire == "openai_responses" and (value is None or isinstance(value, str))):
        return None
    return Finding("A1" if wire == "anthropic" else SHAPE, _LISTS[wire], "Input should be a valid list")
