"""What the user pastes: the output of a logger, and a plot. Made by a rule, so that they need not be stored."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import reduce
from operator import xor

LINES = 160
START = datetime(2026, 2, 23)
STUCK = range(90, 96)
CHATTER = (
    "radio: link up, queue empty, waiting for the next reading",
    "power: solar panel charging, battery good, heater off because the cabinet is warm enough",
    "float: moving freely in the stilling well, no sign of weed or ice on the guide wire",
    "radio: link lost in the middle of a frame, three frames queued, trying again in thirty seconds",
    "clock: compared with the satellites, within a tenth of a second, nothing to correct",
    "memory: yesterday's readings written to the card, card two per cent full, no errors",
    "door: closed and locked since the last visit of the technician in January",
)


def _dice() -> Iterator[int]:
    state = 20260223
    while True:
        state = (state * 1103515245 + 12345) % 2**31
        yield state >> 8


def telemetry() -> str:
    """Readings with what a radio link does to them: lost, repeated and damaged lines, and the logger's own chatter."""
    dice = _dice()
    out = ["# TG-2 logger, station 0412 (Quarry Point)"]
    for place in range(LINES):
        when, hours = START + timedelta(minutes=6 * place), place / 10
        height = 2390 + 1550 * math.cos(math.radians(28.9841042 * hours - 60)) + next(dice) % 9
        told = -9999 if place in STUCK else round(height)
        body = f"TG,0412,{when:%Y-%m-%dT%H:%M:%S}Z,{told:04},{20 + next(dice) % 9:04},{1259 - place // 40:04}"
        line = f"${body}*{reduce(xor, body.encode(), 0):02X}"
        chance = next(dice) % 20
        if chance == 0:
            line = line[: 12 + next(dice) % 20]
        elif chance == 1:
            line = line.replace("2", "3", 1)
        out += [line, line] if chance == 2 else [line]
        out += [f"# {CHATTER[next(dice) % len(CHATTER)]}" for _ in range(2)]
    return "\n".join(out)


def old_plot(week: int) -> bytes:
    """A PNG of 320 x 160, one bit a pixel. Stored, not compressed: the same bytes whatever zlib there is."""
    rows = [bytearray(b"\xff" * 40) for _ in range(160)]
    for x in range(320):
        y = 80 - round(60 * math.cos(x / 12 - week))
        rows[y][x // 8] &= ~(0x80 >> x % 8)
    raw = b"".join(b"\0" + bytes(row) for row in rows)
    stream = (
        b"\x78\x01" + struct.pack("<BHH", 1, len(raw), 65535 - len(raw)) + raw + struct.pack(">I", zlib.adler32(raw))
    )
    head = struct.pack(">IIBBBBB", 320, 160, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", stream) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
