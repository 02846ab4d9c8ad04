"""Read JSON with the place of each value, so that a value can be written back as the text it was read from.

`msgspec` was tried here. It reads a new body three times as fast, which is 4 % of what `fit` costs, but gives no
places, refuses lone surrogates (JavaScript clients send them) and does not say in which message an error is: all of
this file would stay, for those cases.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

from ebbtide.core.errors import BadRequest

Span = tuple[int, int]
ReadValue = Callable[[str, int, str], tuple[Any, int]]

_SPACE = " \t\n\r"
_SKIP = re.compile(rf"[{_SPACE}]*")
_COMMA = re.compile(rf"[{_SPACE}]*,[{_SPACE}]*")
_LARGEST_FLOAT = 1.7976931348623157e308


def _refuse_constant(name: str) -> NoReturn:
    raise BadRequest(f"{name} is not JSON")


def _parse_float(digits: str) -> float:
    """Clamp what is larger than a float: it is valid JSON, and is sent as it was written unless it is edited."""
    return max(-_LARGEST_FLOAT, min(_LARGEST_FLOAT, float(digits)))


def _parse_int(digits: str) -> int | float:
    # Python refuses integers of over 4,300 digits.
    return int(digits) if len(digits) <= 4000 else _parse_float(digits)


# A function for integers is called for each of them, so the first decoder has none and leaves long ones to the second.
_FAST: Any = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_float)
_SCAN: Callable[[str, int], tuple[Any, int]] = _FAST.scan_once
_LENIENT = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_parse_int, parse_float=_parse_float)


def decode_utf8(raw: bytes | bytearray) -> str:
    try:
        return raw.decode("utf-8-sig" if raw.startswith(b"\xef\xbb\xbf") else "utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"not valid UTF-8 at byte {error.start}") from None


def read_value(text: str, at: int, path: str) -> tuple[Any, int]:
    """Return the value that starts at `at`, and where it ends. `path` names it in errors."""
    try:
        return _SCAN(text, at)
    except (StopIteration, ValueError, RecursionError, BadRequest):
        pass  # read it again, for an odd number or for an error that names the place
    try:
        return _LENIENT.raw_decode(text, at)
    except json.JSONDecodeError as error:
        # Some messages of the json module end in "starting at", to be followed by a place.
        problem = error.msg.removesuffix(" at")
        raise BadRequest(f"not valid JSON: {problem} at line {error.lineno} column {error.colno}", path=path) from None
    except RecursionError:
        raise BadRequest("nested too deeply", path=path) from None
    except BadRequest as error:
        raise BadRequest(str(error), path=path) from None


def skip_space(text: str, at: int) -> int:
    match = _SKIP.match(text, at)
    return match.end() if match else at


def expect(text: str, at: int, allowed: str, path: str) -> str:
    """Return the character at `at`, which must be one of those allowed."""
    character = text[at : at + 1]
    if character and character in allowed:
        return character
    line = text.count("\n", 0, at) + 1
    problem = f"found {character!r}" if character else "the document ends"
    raise BadRequest(f"not valid JSON: expected {' or '.join(allowed)}, {problem} at line {line}", path=path)


def read_object(text: str, at: int, read_member: ReadValue = read_value) -> tuple[dict[str, Any], dict[str, Span], int]:
    """Return the members of an object, where each value stands, and where the object ends.

    If a key is there twice its last value counts, as it does for providers.
    """
    values, spans = dict[str, Any](), dict[str, Span]()
    expect(text, at, "{", "")
    at = skip_space(text, at + 1)
    while expect(text, at, '"' if values else '"}', "") == '"':
        key, at = read_value(text, at, "")
        at = skip_space(text, at)
        expect(text, at, ":", key)
        start = skip_space(text, at + 1)
        values[key], at = read_member(text, start, key)
        spans[key] = (start, at)
        at = skip_space(text, at)
        if expect(text, at, ",}", key) == "}":
            break
        at = skip_space(text, at + 1)
    return values, spans, at + 1


def read_array(text: str, at: int, path: str, values: list[Any], spans: list[Span]) -> int:
    """Append the elements of the array at `at`, and where each stands. Return where the array ends.

    What `values` and `spans` hold already is taken as the beginning of the array, and not read.
    """

    def read_element(start: int) -> int:
        value, end = read_value(text, start, f"{path}.{len(values)}")
        values.append(value)
        spans.append((start, end))
        return end

    first = skip_space(text, at + 1)
    if not spans and text.startswith("]", first):
        return first + 1
    end = spans[-1][1] if spans else read_element(first)
    while comma := _COMMA.match(text, end):
        end = read_element(comma.end())
    end = skip_space(text, end)
    expect(text, end, ",]", f"{path}.{len(values)}")
    return end + 1


def count_same_characters(left: str, right: str) -> int:
    """Count the leading characters that two texts share."""
    at, end, step = 0, min(len(left), len(right)), 1 << 16
    while step:
        while at < end and right.startswith(left[at : at + step], at):
            at += step
        step >>= 4
    return min(at, end)
