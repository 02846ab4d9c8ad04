"""Amazon's `application/vnd.amazon.eventstream`, written from its documentation: framed messages with checksums."""

from __future__ import annotations

import json
import zlib

from upstream.finding import Body

CONTENT_TYPE = "application/vnd.amazon.eventstream"
STRING = 7
"""The type of a header's value that is a string."""


def frame(event: Body) -> bytes:
    """Write an event such as `{"messageStart": {...}}`; one whose kind ends in `Exception` is an error."""
    ((kind, payload),) = event.items()
    is_error = kind.endswith("Exception")
    headers = [
        (":exception-type" if is_error else ":event-type", kind),
        (":content-type", "application/json"),
        (":message-type", "exception" if is_error else "event"),
    ]
    head = b"".join(_header(name, value) for name, value in headers)
    body = json.dumps(payload).encode()
    length = 12 + len(head) + len(body) + 4
    prelude = length.to_bytes(4, "big") + len(head).to_bytes(4, "big")
    prelude += zlib.crc32(prelude).to_bytes(4, "big")
    message = prelude + head + body
    return message + zlib.crc32(message).to_bytes(4, "big")


def _header(name: str, value: str) -> bytes:
    spelled = value.encode()
    return bytes([len(name)]) + name.encode() + bytes([STRING]) + len(spelled).to_bytes(2, "big") + spelled
