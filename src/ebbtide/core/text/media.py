"""What an image is, told from its first bytes. Nothing is decoded and nothing is trusted: None means "cannot tell".

Providers refuse images by side length, count and declared type. The header says all three at the cost of a few bytes.
"""

from __future__ import annotations

import binascii

HEAD = 64 * 1024
"""Enough to reach a JPEG's frame header past the usual EXIF block, which holds at most 64 KiB."""

_FOREIGN = bytes(set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"))
_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_SEGMENT_START = 0xFF
_FRAME_HEADERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""SOF0 to SOF15 without DHT, JPG and DAC, which lie in the same range and carry no size."""
_BARE_MARKERS = frozenset({0x01, *range(0xD0, 0xD9)})
"""Markers without a length: TEM, RST0 to RST7, SOI."""


def base64_head(text: str, n: int) -> bytes:
    """The first `n` bytes that `text` encodes, or fewer. Skips a data URL's prefix, white space and foreign characters.

    Reads only as much of the text as it needs, so that a 10 MB image costs what a small one does.
    """
    start = text.find(",", 0, 256) + 1 if text.startswith("data:") else 0
    wanted = -(-n // 3) * 4
    clean = bytearray()
    while len(clean) < wanted and start < len(text):
        part = text[start : start + wanted + 1024].encode("ascii", "ignore")
        data, padding, _ = part.partition(b"=")
        clean += data.translate(_URL_SAFE, _FOREIGN)
        if padding:
            break
        start += wanted + 1024
    usable = clean[:wanted]
    if len(usable) % 4 == 1:
        usable = usable[:-1]
    return binascii.a2b_base64(bytes(usable) + b"=" * (-len(usable) % 4))[:n]


def base64_pixels(text: str) -> tuple[int, int] | None:
    """Width and height of an image in base64 or in a data URL."""
    return image_pixels(base64_head(text, 4096))


def media_type(data: bytes) -> str | None:
    """The type these bytes begin as: one of the four image types providers take, or PDF."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data.startswith(b"%PDF-"):
        return "application/pdf"
    return None


def image_pixels(data: bytes) -> tuple[int, int] | None:
    """Width and height as the header claims them."""
    kind = media_type(data)
    if kind == "image/png":
        return _png(data)
    if kind == "image/jpeg":
        return _jpeg(data)
    if kind == "image/gif" and len(data) >= 10:
        return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    if kind == "image/webp":
        return _webp(data)
    return None


def _png(data: bytes) -> tuple[int, int] | None:
    if len(data) < 24 or data[12:16] != b"IHDR":
        return None
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def _jpeg(data: bytes) -> tuple[int, int] | None:
    """Walks segment to segment: a size inside an EXIF thumbnail must not be taken for the image's own."""
    at = 2
    while at + 4 <= len(data):
        if data[at] != _SEGMENT_START:
            return None
        marker = data[at + 1]
        if marker == _SEGMENT_START:  # fill byte
            at += 1
        elif marker in _BARE_MARKERS:
            at += 2
        elif marker in _FRAME_HEADERS:
            if at + 9 > len(data):
                return None
            return int.from_bytes(data[at + 7 : at + 9], "big"), int.from_bytes(data[at + 5 : at + 7], "big")
        else:
            at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
    return None


def _webp(data: bytes) -> tuple[int, int] | None:
    if len(data) < 30:
        return None
    chunk = data[12:16]
    if chunk == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if chunk == b"VP8L" and data[20] == 0x2F:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if chunk == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF
    return None
