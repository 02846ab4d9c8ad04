"""Find what a provider would refuse in a request, and repair it.

`repair` runs on every outgoing request and changes the request, never the store: one bad block in a history must not
block the session for good. What is sent is valid, or we refuse it with a path and a rule; there is no third outcome.

Fields and block types that we do not know pass untouched: providers add them faster than we learn them, and a proxy
must not strip them. Each wire's rules begin with a table of the rules by number; validity.md explains them.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from ebbtide.wire.findings import SHAPE, UNVERIFIED, Finding, Repair, Violation, refuse
from ebbtide.wire.protocol import Wire


def violations(wire: Wire, body: Mapping[str, Any], *, since: int = 0) -> list[Violation]:
    """List what the provider would refuse. Rules never confirmed against a live provider are not reported.

    With `since`, that many leading messages were checked before and have not changed.
    """
    if (finding := _unreadable(wire, body)) is not None:
        return [finding.violation]
    messages = body.get(wire.list_key)
    if not isinstance(messages, list):
        return []
    start = wire.rules.first_to_check(messages, min(since, len(messages)))
    breakpoints = _count_breakpoints(messages[:start]) if start else None
    findings = wire.rules.check(body, start, frozenset(), breakpoints)
    return [finding.violation for finding in findings if finding.rule not in UNVERIFIED]


def repair(
    wire: Wire,
    body: Mapping[str, Any],
    *,
    since: int = 0,
    call_ids: AbstractSet[str] = frozenset(),
    breakpoints: int | None = None,
) -> tuple[Mapping[str, Any], tuple[Repair, ...]]:
    """Return a valid body, and what was repaired; the same body object if nothing was.

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
    if not rules.check(body, start, call_ids, breakpoints):
        return body, ()
    repaired, findings = rules.repair(body, start, call_ids)
    unrepaired = rules.check(repaired, start, call_ids, None)
    if unrepaired:
        refuse(unrepaired[0])
    return repaired, tuple(finding.as_repair for finding in findings)


def _count_breakpoints(messages: list[Any]) -> int:
    contents = [message.get("content") for message in messages if isinstance(message, dict)]
    return sum("cache_control" in block for content in contents if isinstance(content, list) for block in content)


def _unreadable(wire: Wire, body: Mapping[str, Any]) -> Finding | None:
    """Find a body that is no object, or whose messages are no list."""
    if not isinstance(body, (dict, Mapping)):
        return Finding(SHAPE, "", "a request is a JSON object")
    messages = body.get(wire.list_key)
    rule = "" if isinstance(messages, list) else wire.rules.list_rule(messages)
    return Finding(rule, wire.list_key, "Input should be a valid list") if rule else None
