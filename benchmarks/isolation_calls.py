"""The calls of `isolation.py` and what is counted: two tenants with conversations that begin alike.

Every text has unique canaries (`tests/laws/canaries.py`), which show if it appears in the wrong place.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from laws.canaries import SLOTS, SYSTEM, Body, ExchangeWriter, NumberedTexts, body_of, flat, marks
from laws.interleaving import Side, operate
from upstream.check import refusals
from upstream.prefix import tokens, units

WIRE = "anthropic"
WINDOW = 8_000
"""Tokens. Conversations grow to about three times as much."""
PAIRS = 4
"""Pairs of simultaneous conversations, one of each tenant."""
CHANGES = ("correct", "correct", "remove", "insert", "rewind", "fork")
CHANGED, CHANGED_FROM = 0.05, 12
"""Share of calls before which a client changes its history, and lines that the history has by then."""
SAMPLED = 40
"""At every Nth call, samples check what can be read again and what the other tenant's handles open."""


class Outputs(NumberedTexts):
    """Realistic tool results: rows of JSON, lines of a log, or prose."""

    def text(self, label: str, lines: int = 1) -> str:
        plain = super().text(label, lines)
        if lines < 10 or self.count % 3 == 0:
            return plain
        number, middle = f"{label}{self.count:05}", lines // 2
        names = {0: f"topic{number} reef{number}", middle: f"here is deep{number}"}
        if self.count % 3 == 1:
            rows = [{"id": n, "state": "ok", "name": names.get(n, "a step that took its lock")} for n in range(lines)]
            return json.dumps(rows)
        return "\n".join(f"{names.get(n, '')} 12:00:{n % 60:02} INFO worker {n % 7} took a job" for n in range(lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request of one client, as it reaches the gateway."""

    number: int
    pair: int
    side: Side
    other: Side
    """The other tenant's conversation that begins alike."""
    body: Body

    @property
    def thread(self) -> str:
        return f"{self.pair}-{self.side.label}"

    @property
    def other_thread(self) -> str:
        return f"{self.pair}-{self.other.label}"


def calls(count: int, seed: int) -> Iterator[Call]:
    """Yield the same calls for every subject: they do not depend on what is sent."""
    chance = random.Random(seed)
    scribe = ExchangeWriter(chance, most_lines=100)
    scribe.pen = Outputs()
    live: list[tuple[int, list[Side]]] = []
    opened = 0
    number = 0
    while number < count:
        while len(live) < PAIRS:
            live.append((opened, _sides(scribe, opened)))
            opened += 1
        pair, sides = chance.choice(live)
        which = chance.randrange(2)
        side = sides[which]
        if side.sent > CHANGED_FROM and chance.random() < CHANGED:
            operate(None, side, chance.choice(CHANGES), scribe)  # type: ignore[arg-type]
        elif not side.advance():
            live.remove((pair, sides))
            continue
        body = body_of(WIRE, side.now, side.system)
        side.ever |= marks(body)
        yield Call(number=number, pair=pair, side=side, other=sides[1 - which], body=body)
        number += 1


def _sides(scribe: ExchangeWriter, pair: int) -> list[Side]:
    chance = scribe.chance
    slots = [chance.choice(list(SLOTS)) for _ in range(chance.randint(9, 14))]
    first, second = scribe.pair(slots, is_shuffled=chance.random() < 0.2)
    ends = chance.choice((("", ""), ("It is 04:30.", "It is 11:59."), ("You work for Ann.", "You work for Bob.")))
    prompts = [f"{SYSTEM}Case {pair}. {end}" for end in ends]
    return [Side("a", flat(first), prompts[0]), Side("b", flat(second), prompts[1])]


@dataclass(kw_only=True)
class Row:
    """The results of one subject."""

    setup: str
    calls: int = 0
    refused: int = 0
    """Calls for which the subject raised, or answered with its own error."""
    leaks: int = 0
    """Canaries in a request of a tenant that never had them."""
    leaking: int = 0
    """Requests with such."""
    stale: int = 0
    """Canaries of texts that were sent although the client had changed or removed them."""
    crossed: int = 0
    """Answers that were made for another conversation."""
    unsent: int = 0
    """Calls that the subject answered without the provider."""
    invalid: int = 0
    over: int = 0
    sought: int = 0
    """Sampled texts of the same conversation that the request did not show."""
    recalled: int = 0
    handles: int | None = 0
    """Handles of the other tenant that were tried; None if requests name none that a model could use."""
    opened: int = 0
    """Those of them that gave a text that the tenant never had."""
    largest: int = 0
    """Tokens of the largest request that was sent."""
    seconds: float = 0.0
    examples: list[str] = field(default_factory=list)

    def count(self, call: Call, out: Body) -> None:
        own, sent = marks(call.body), marks(out)
        foreign = sent - call.side.ever
        self.leaks += len(foreign)
        self.leaking += bool(foreign)
        self.stale += len((sent & call.side.ever) - own)
        broken = refusals(WIRE, out)
        self.invalid += bool(broken)
        size = tokens(units(WIRE, out))
        self.over += size > WINDOW
        self.largest = max(self.largest, size)
        if foreign:
            self.note(f"call {call.number} of {call.thread}: {sorted(foreign)[:3]}")
        if broken:
            self.note(f"call {call.number} of {call.thread}: {broken[0]}")

    def note(self, text: str) -> None:
        if len(self.examples) < 5:
            self.examples.append(text[:200])

    def as_json(self) -> dict[str, Any]:
        found = {name: value for name, value in asdict(self).items() if name != "examples" or value}
        return {**found, "seconds": round(self.seconds, 1), "lost": self.sought - self.recalled}


class Clock:
    """Print the progress of a subject to stderr. Return whether its time is over."""

    def __init__(self, name: str, count: int, minutes: float) -> None:
        self._name, self._count, self._start, self._limit = name, count, time.monotonic(), 60 * minutes

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    def line(self, done: int, row: Row) -> str:
        told = f"{row.leaks} leaks, {row.invalid} invalid, {row.over} over, {row.refused} refused"
        return f"{self._name}: {done} of {self._count} calls in {self.seconds:.0f} s, {told}"

    @property
    def is_over(self) -> bool:
        return self.seconds > self._limit
