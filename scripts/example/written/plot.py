"""Draws a week as a PNG: `python tools/plot.py LOG PICTURE`. One bit a pixel, no library.

The picture is stored, not compressed, so that the same log gives the same bytes on every machine.
"""

import struct
import sys
import zlib

from tidegauge.extremes import extremes
from tidegauge.readings import load

WIDTH, HEIGHT, EDGE = 480, 240, 12


def draw(readings):
    rows = [bytearray(WIDTH) for _ in range(HEIGHT)]
    low, high = min(one.height for one in readings), max(one.height for one in readings)
    start, end = readings[0].time, readings[-1].time

    def place(when, height):
        x = EDGE + (WIDTH - 2 * EDGE - 1) * ((when - start) / (end - start))
        y = HEIGHT - EDGE - (HEIGHT - 2 * EDGE - 1) * (height - low) / (high - low)
        return int(x), int(y)

    for x in range(EDGE, WIDTH - EDGE):
        rows[HEIGHT - EDGE][x] = 1
    for y in range(EDGE, HEIGHT - EDGE):
        rows[y][EDGE] = 1
    for one in readings:
        x, y = place(one.time, one.height)
        rows[y][x] = 1
    return rows, place


def mark(rows, place, readings):
    """A small cross at each high and low water."""
    for one in extremes(readings):
        x, y = place(one.time, one.height)
        for step in range(-3, 4):
            rows[min(HEIGHT - 1, max(0, y + step))][x] = 1
            rows[y][min(WIDTH - 1, max(0, x + step))] = 1


def stored(data):
    """A zlib stream of stored blocks."""
    out = bytearray(b"\x78\x01")
    for at in range(0, len(data), 65535):
        part = data[at : at + 65535]
        out += struct.pack("<BHH", at + 65535 >= len(data), len(part), 65535 - len(part)) + part
    return bytes(out) + struct.pack(">I", zlib.adler32(data))


def png(rows):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    raw = bytearray()
    for row in rows:
        raw.append(0)
        for x in range(0, WIDTH, 8):
            raw.append(255 - int("".join(map(str, row[x : x + 8])), 2))
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", stored(bytes(raw))) + chunk(b"IEND", b"")


if __name__ == "__main__":
    week = load(sys.argv[1])
    pixels, where = draw(week)
    with open(sys.argv[2], "wb") as picture:
        picture.write(png(pixels))
    print(f"{sys.argv[2]}: {WIDTH} x {HEIGHT}, {len(week)} readings")
