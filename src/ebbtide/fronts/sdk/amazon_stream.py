"""Read Amazon's event streams, in which Bedrock sends what other providers send as server-sent events."""

from __future__ import annotations

import base64
import json

CONTENT_TYPE = "application/vnd.amazon.eventstream"
_PRELUDE = 12
"""Bytes before a message's headers: its length, the length of the headers, and a checksum."""
_CHECKSUM = 4
"""Bytes after a message's payload."""


def to_server_sent_events(raw: bytes) -> bytes:
    """Return the same events as a stream of the Anthropic API, as far as the messages are whole."""
    events, start = list[bytes](), 0
    while start + _PRELUDE < len(raw):
        length = int.from_bytes(raw[start : start + 4], "big")
        payload = start + _PRELUDE + int.from_bytes(raw[start + 4 : start + 8], "big")
        end = start + length - _CHECKSUM
        if not payload <= end <= len(raw) - _CHECKSUM:
            break
        events.append(_read_payload(raw[payload:end]))
        start += length
    return b"".join(events)


def _read_payload(payload: bytes) -> bytes:
    """Return the event in a message; empty for a message without one, such as an error."""
    try:
        return b"data: " + base64.b64decode(json.loads(payload)["bytes"]) + b"\n\n"
    except (ValueError, KeyError, TypeError):
        return b""
