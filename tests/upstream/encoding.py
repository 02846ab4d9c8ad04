"""What is wrong with the bytes themselves, before anyone looks at the request they spell (A11, A12)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from upstream.finding import Json, Said

LARGEST_BODY = 32 * 1024 * 1024
"""Anthropic's documented limit; the other wires document none."""
INVALID = "The request body is not valid JSON: "
ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
SURROGATE = re.compile("[\ud800-\udfff]")


class NotJson(ValueError):
    """Says why, in the provider's words."""


def parse(raw: bytes) -> Json:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise NotJson(f"{INVALID}str is not valid UTF-8: surrogates not allowed: line 1 column 1 (char 0)") from None
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise NotJson(f"{INVALID}{error.msg}: {_place(text, error.pos)}") from None
    except RecursionError:
        raise NotJson(f"{INVALID}nested too deeply") from None
    lone = _lone_surrogate(text)
    if lone is not None:
        raise NotJson(f"{INVALID}no low surrogate in string: {_place(text, lone)}")
    return value


def too_large(raw: bytes) -> Iterator[Said]:
    if len(raw) > LARGEST_BODY:
        yield "", "Request exceeds the maximum size"


def unencodable(value: object, path: str) -> Iterator[Said]:
    """Lone surrogates and numbers that JSON does not have, which a lenient encoder lets through."""
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from unencodable(key, path)
            yield from unencodable(entry, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for at, entry in enumerate(value):
            yield from unencodable(entry, f"{path}.{at}")
    elif isinstance(value, str) and not value.isascii() and SURROGATE.search(value):
        yield path, f"{INVALID}str is not valid UTF-8: surrogates not allowed: line 1 column 1 (char 0)"
    elif isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        yield path, f"{INVALID}{value} is not a JSON number"


def _no_constant(name: str) -> Json:
    raise NotJson(f"{INVALID}{name} is not a JSON number")


def _lone_surrogate(text: str) -> int | None:
    """Where an escape opens or closes a pair alone. Backslashes are read in pairs, so an escaped one hides nothing."""
    high: int | None = None
    end = -1
    for found in ESCAPE.finditer(text):
        code = int(found[1], 16) if found[1] else 0
        if high is not None and (found.start() != end or not 0xDC00 <= code <= 0xDFFF):
            return high
        if 0xDC00 <= code <= 0xDFFF and high is None:
            return found.start()
        high = found.start() if 0xD800 <= code <= 0xDBFF else None
        end = found.end()
    return high


def _place(text: str, at: int) -> str:
    line = text.count("\n", 0, at) + 1
    return f"line {line} column {at - text.rfind(chr(10), 0, at)} (char {at})"
