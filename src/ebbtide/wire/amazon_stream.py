"""Read and write Amazon's event streams, in which Bedrock sends what other providers send as server-sent events."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Mapping
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


def split_messages(raw: bytes) -> tuple[list[bytes], bytes]:
    """Return the whole messages at the beginning of a stream, and the bytes that follow them."""
    messages, start = list[bytes](), 0
    while start + _PRELUDE < len(raw):
        end = start + int.from_bytes(raw[start : start + 4], "big")
        if not start + _PRELUDE + _CHECKSUM <= end <= len(raw):
            break
        messages.append(raw[start:end])
        start = end
    return messages, raw[start:]


def write_event(event: Mapping[str, object]) -> bytes:
    """Write an event of the Converse API as a message of a stream."""
    ((kind, fields),) = event.items()
    what = "exception" if kind.endswith("Exception") else "event"
    names = {f":{what}-type": kind, ":content-type": "application/json", ":message-type": what}
    headers = b"".join(map(_write_header, names.items()))
    payload = json.dumps(fields).encode()
    length = _PRELUDE + len(headers) + len(payload) + _CHECKSUM
    prelude = length.to_bytes(4, "big") + len(headers).to_bytes(4, "big")
    message = prelude + _checksum(prelude) + headers + payload
    return message + _checksum(message)


def _write_header(header: tuple[str, str]) -> bytes:
    name, value = (text.encode() for text in header)
    return bytes([len(name)]) + name + bytes([_STRING]) + len(value).to_bytes(2, "big") + value


def _checksum(raw: bytes) -> bytes:
    return zlib.crc32(raw).to_bytes(_CHECKSUM, "big")


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
