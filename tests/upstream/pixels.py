"""Image sides are read from the file's own header: the declared media type is a claim, not a fact."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib

SOF = {0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF}
"""JPEG segments that hold the frame's sides."""


def decode(data: object) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True) if isinstance(data, str) else None
    except (binascii.Error, ValueError):
        return None


def sniff(raw: bytes) -> tuple[str, int, int] | None:
    """Media type, width and height; None where it is no image we know."""
    if raw[:8] == b"\x89PNG\r\n\x1a\n" and len(raw) >= 24:
        return ("image/png", *struct.unpack(">II", raw[16:24]))
    if raw[:6] in (b"GIF87a", b"GIF89a") and len(raw) >= 10:
        return ("image/gif", *struct.unpack("<HH", raw[6:10]))
    if raw[:2] == b"\xff\xd8":
        return _jpeg(raw)
    if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
        return _webp(raw)
    return None


def _jpeg(raw: bytes) -> tuple[str, int, int] | None:
    at = 2
    while at + 9 <= len(raw) and raw[at] == 0xFF:
        marker, length = raw[at + 1], int.from_bytes(raw[at + 2 : at + 4], "big")
        if marker in SOF:
            height, width = struct.unpack(">HH", raw[at + 5 : at + 9])
            return ("image/jpeg", width, height)
        at += 2 + length
    return None


def _webp(raw: bytes) -> tuple[str, int, int] | None:
    if raw[12:16] == b"VP8X" and len(raw) >= 30:
        sides = (int.from_bytes(raw[24:27], "little") + 1, int.from_bytes(raw[27:30], "little") + 1)
        return ("image/webp", *sides)
    if raw[12:16] == b"VP8 " and len(raw) >= 30:
        width, height = struct.unpack("<HH", raw[26:30])
        return ("image/webp", width & 0x3FFF, height & 0x3FFF)
    if raw[12:16] == b"VP8L" and len(raw) >= 25:
        bits = int.from_bytes(raw[21:25], "little")
        return ("image/webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    return None


def png(width: int, height: int) -> str:
    """A real, one-colour PNG in base64: an upstream that looks inside finds what the header says."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    rows = (b"\0" + b"\0" * ((width + 7) // 8)) * height
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()
