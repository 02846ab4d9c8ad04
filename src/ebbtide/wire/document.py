"""A JSON document, read with the place where each value stands.

One that begins as the last one did is read from there on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ebbtide.core.errors import BadRequest

KEYS = ("messages", "input")
"""Where a provider keeps the conversation."""
NEAR = 4
"""How far from the end clients change messages as a habit: they move cache marks and reminders there."""
Tree = Mapping[str, Any]
Span = tuple[int, int]

_SPACE = " \t\n\r"


def _refuse_constant(name: str) -> NoReturn:
    raise BadRequest(f"{name} is not JSON")


_MOST = 1.7976931348623157e308
"""The largest number there is here. What is larger is JSON all the same, and leaves as it came if not touched."""


def _lenient_int(digits: str) -> int | float:
    # Python refuses integers of over 4,300 digits.
    return int(digits) if len(digits) <= 4000 else _lenient_float(digits)


def _lenient_float(digits: str) -> float:
    return max(-_MOST, min(_MOST, float(digits)))


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_lenient_int, parse_float=_lenient_float)

_ORDINARY: Any = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_lenient_float)
_SCAN: Callable[[str, int], tuple[Any, int]] = _ORDINARY.scan_once
"""For what is ordinary, with Python's own integers. What it refuses `_value` reads, or says why not."""
_BETWEEN = re.compile(rf"[{_SPACE}]*,[{_SPACE}]*")


@dataclass(slots=True)
class Document:
    """A JSON document and where its parts stand in it."""

    text: str
    fields: dict[str, Span] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    """Of the messages."""


def decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig" if raw.startswith(b"\xef\xbb\xbf") else "utf-8")
    except UnicodeDecodeError as bad:
        raise BadRequest(f"not valid UTF-8 at byte {bad.start}") from None


def _value(text: str, at: int, path: str) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as bad:
        # Some of its messages end in "starting at", for a place that is to follow.
        what = bad.msg.removesuffix(" at")
        raise BadRequest(f"not valid JSON: {what} at line {bad.lineno} column {bad.colno}", path=path) from None
    except RecursionError:
        raise BadRequest("nested too deeply", path=path) from None
    except BadRequest as bad:
        raise BadRequest(str(bad), path=path) from None


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _expect(text: str, at: int, one_of: str, path: str) -> str:
    found = text[at] if at < len(text) else ""
    if not found or found not in one_of:
        line = text.count("\n", 0, at) + 1
        what = f"found {found!r}" if found else "the document ends"
        raise BadRequest(f"not valid JSON: expected {' or '.join(one_of)}, {what} at line {line}", path=path)
    return found


def read_document(doc: Document, tree: dict[str, Any], known: list[Any], before: Document | None) -> int:
    """Read the top level, noting where each value stands. Returns how many messages were known already.

    Of a key that stands there twice the last one counts, as for those who read it after us.
    """
    text, arrays = doc.text, dict[str, tuple[list[Span], int]]()
    at = _skip(text, 0)
    _expect(text, at, "{", "")
    at = _skip(text, at + 1)
    while _expect(text, at, '"}', "") == '"':
        key, at = _value(text, at, "")
        at = _skip(text, at)
        _expect(text, at, ":", key)
        start = _skip(text, at + 1)
        if key in KEYS and text[start : start + 1] == "[":
            tree[key], at, arrays[key] = _walk_array(text, start, key, known, before)
        else:
            tree[key], at = _value(text, start, key)
            arrays.pop(key, None)
        doc.fields[key] = (start, at)
        at = _skip(text, at)
        if _expect(text, at, ",}", key) == "}":
            break
        at = _skip(text, at + 1)
        _expect(text, at, '"', "")
    if rest := text[at + 1 :].strip(_SPACE):
        raise BadRequest(f"not valid JSON: extra data after the end: {rest[:20]!r}")
    # Both keys may be there, and the messages are those of the first.
    doc.spans, same = arrays.get(next((key for key in KEYS if key in tree), ""), ([], 0))
    return same


def _walk_array(
    text: str, start: int, key: str, known: list[Any], before: Document | None
) -> tuple[list[Any], int, tuple[list[Span], int]]:
    """The values, where the array ends, where each value stands, and how many of them were known."""
    values, spans = list[Any](), list[Span]()
    at = _skip(text, start + 1)
    if same := _known(text, start, before):
        # The last body, byte for byte, up to the end of one of its last messages: only what follows is read.
        assert before is not None
        values, spans = known[:same], before.spans[:same]
        at = _skip(text, before.spans[same - 1][1])
        if _expect(text, at, ",]", key) == "]":
            return values, at + 1, (spans, same)
        at = _skip(text, at + 1)
    elif text[at : at + 1] == "]":
        return values, at + 1, (spans, same)
    between = _BETWEEN.match
    while True:
        try:
            value, end = _SCAN(text, at)
        except (StopIteration, ValueError, BadRequest, RecursionError):
            value, end = _value(text, at, f"{key}.{len(values)}")
        values.append(value)
        spans.append((at, end))
        if text.startswith((", {", ",{"), end):
            at = text.index("{", end)
            continue
        comma = between(text, end)
        if comma is None:
            at = _skip(text, end)
            _expect(text, at, ",]", f"{key}.{len(values)}")
            return values, at + 1, (spans, same)
        at = comma.end()


def _known(text: str, start: int, before: Document | None) -> int:
    """How many messages of the last body the array at `start` begins with, looking only near its end."""
    at_same_place = before is not None and before.spans and _skip(text, start + 1) == before.spans[0][0]
    count = len(before.spans) if before and at_same_place else 0
    for n in range(count, max(0, count - NEAR), -1):
        assert before is not None
        if text.startswith(before.text[: before.spans[n - 1][1]]):
            return n
    return 0


def parts_of(text: str, start: int, message: Any) -> Iterator[tuple[Any, Span]]:
    """Where the containers inside a message stand: its fields, and the elements of its lists."""
    if not isinstance(message, dict):
        return
    places = dict[str, Span]()
    at = _skip(text, start + 1)
    while text[at] == '"':
        key, at = _value(text, at, "")
        begin = _skip(text, _skip(text, at) + 1)
        _, at = _value(text, begin, "")
        places[key] = (begin, at)
        at = _skip(text, at)
        if text[at] != ",":
            break
        at = _skip(text, at + 1)
    for key, place in places.items():
        inner = message.get(key)
        yield inner, place
        if isinstance(inner, list):
            yield from _elements(text, place[0], inner)


def _elements(text: str, start: int, values: list[Any]) -> Iterator[tuple[Any, Span]]:
    at = _skip(text, start + 1)
    for value in values:
        _, end = _value(text, at, "")
        yield value, (at, end)
        at = _skip(text, _skip(text, end) + 1)


def encoder(settings: json.JSONEncoder) -> Callable[[Any], str]:
    """`settings.encode`, where Python has a C encoder without making a new one for each call.

    The price is that an endless value ends in a RecursionError and not in a ValueError.
    """
    make: Callable[..., Any] | None = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return settings.encode
    strings = json.encoder.encode_basestring_ascii if settings.ensure_ascii else json.encoder.encode_basestring
    colon, comma = settings.key_separator, settings.item_separator
    encode = make(None, settings.default, strings, None, colon, comma, settings.sort_keys, False, settings.allow_nan)
    return lambda value: "".join(encode(value, 0))


dumps = encoder(json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False))
"""Compact JSON, as provider SDKs write it."""
