"""Read Amazon's event streams, in which Bedrock sends what other providers send as server-sent events."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

CONTENT_TYPE = "application/vnd.amazon.eventstream"
_PRELUDE = 12
"""Bytes before a message's headers: its length, the length of the headers, and a checksum."""
_CHECKSUM = 4
"""Bytes after a message's payload."""
_STRING = 7
"""The type of a header's value that is a text."""


def to_server_sent_events(raw: bytes) -> bytes:
    """Return the same events as a stream of server-sent events, as far as the messages are whole."""
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in read_events(raw))


def read_events(raw: bytes) -> Iterator[dict[str, Any]]:
    """Yield the events of a stream, as far as its messages are whole.

    Of the Converse API an event is an object with one field, its kind. Of a model that is invoked directly it is the
    model's own event.
    """
    start = 0
    while start + _PRELUDE < len(raw):
        length = int.from_bytes(raw[start : start + 4], "big")
        payload = start + _PRELUDE + int.from_bytes(raw[start + 4 : start + 8], "big")
        end = start + length - _CHECKSUM
        if not payload <= end <= len(raw) - _CHECKSUM:
            return
        event = _read_message(raw[start + _PRELUDE : payload], raw[payload:end])
        if event:
            yield event
        start += length


def _read_message(headers: bytes, payload: bytes) -> dict[str, Any]:
    """Return the event in a message; empty for a message that has none."""
    try:
        fields = json.loads(payload)
        if "bytes" in fields:
            event = json.loads(base64.b64decode(fields["bytes"]))
            return event if isinstance(event, dict) else {}
        names = dict(_read_headers(headers))
        kind = names.get(":event-type") or names.get(":exception-type", "")
        # `p` is padding, so that the length of an event tells nothing.
        return {kind: {name: value for name, value in fields.items() if name != "p"}} if kind else {}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _read_headers(headers: bytes) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(headers):
        name_end = at + 1 + headers[at]
        if headers[name_end : name_end + 1] != bytes([_STRING]):
            return  # a length that we do not know
        start = name_end + 3
        end = start + int.from_bytes(headers[name_end + 1 : start], "big")
        yield headers[at + 1 : name_end].decode("utf-8", "replace"), headers[start:end].decode("utf-8", "replace")
        at = end
