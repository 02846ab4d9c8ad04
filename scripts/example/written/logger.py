"""What the new logger prints. It talks about itself between the readings; only lines that begin with `$TG` are data.

    $TG,0412,2026-02-23T00:06:00Z,2384,0021,1259*5C

Station, time, height and spread in millimetres, battery in hundredths of a volt, and the XOR of all bytes between `$`
and `*`. A height of -9999 means that the float was stuck. Unlike a CSV log, a line that is wrong is counted and left
out: the radio link loses some every day, and a week without a report helps nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from operator import xor

from tidegauge.readings import Reading

STUCK = -9999
"""The height that is logged when the float does not move."""


@dataclass(frozen=True)
class Log:
    """Readings, oldest first, and why others were left out."""

    readings: list[Reading]
    left_out: Counter[str] = field(default_factory=Counter)


def checksum(text: str) -> int:
    """XOR of the bytes, as printed after the star."""
    return reduce(xor, text.encode("ascii", "replace"), 0)


def read(lines: Iterable[str], station: str) -> Log:
    """The readings of one station. The same time twice counts once: the logger repeats itself after a lost link."""
    found: dict[datetime, Reading] = {}
    left_out: Counter[str] = Counter()
    for line in lines:
        if not line.startswith("$TG,"):
            continue
        try:
            who, reading = _reading(line.strip())
        except ValueError as wrong:
            left_out[str(wrong)] += 1
            continue
        if who != station:
            left_out["another station"] += 1
        elif reading.time in found:
            left_out["repeated"] += 1
        else:
            found[reading.time] = reading
    return Log([found[when] for when in sorted(found)], left_out)


def _reading(line: str) -> tuple[str, Reading]:
    body, star, told = line[1:].partition("*")
    if not star:
        raise ValueError("cut short")
    try:
        if int(told, 16) != checksum(body):
            raise ValueError("wrong checksum")
    except ValueError:
        raise ValueError("wrong checksum") from None
    fields = body.split(",")
    if len(fields) != 6:
        raise ValueError("wrong number of fields")
    _, station, time, height, sigma, battery = fields
    if int(height) == STUCK:
        raise ValueError("float stuck")
    when = datetime.fromisoformat(time.removesuffix("Z"))
    return station, Reading(when, int(height) / 1000, int(sigma) / 1000, int(battery) / 100)
