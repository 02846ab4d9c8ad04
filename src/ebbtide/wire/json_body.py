"""A request that came as JSON text, and how a changed tree is written into it.

An object that is still in the tree is written as the text it was read from, and a message that was sent before as it
was sent then. So unchanged messages keep their bytes, and a request costs what is new in it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from ebbtide.core.cache.prefix import are_same_objects, count_same_objects
from ebbtide.core.errors import BadRequest
from ebbtide.wire import LIST_KEYS
from ebbtide.wire.blocks import dumps
from ebbtide.wire.json_text import (
    Span,
    count_same_characters,
    decode_utf8,
    read_array,
    read_object,
    read_value,
    skip_space,
)

Tree = Mapping[str, Any]
Written = dict[str, tuple[list[Any], list[bytes]]]
"""Messages as they were last sent, and their bytes, by how lone surrogates are written."""


@dataclass(slots=True)
class _Places:
    """Which message each object was read in, by the object's id. The requests of one conversation share it.

    It is only a hint: an object may be gone and its id used again, so a place is checked before it is believed.
    """

    messages: dict[int, int] = field(default_factory=dict)
    end: int = 0
    """How many leading messages of the newest request are in it."""


@dataclass(slots=True)
class JsonBody:
    """A JSON document, its values as they were read, and where they stand. Call it to write a tree into it."""

    request: bytes | bytearray | str
    text: str
    fields: dict[str, Any] = field(default_factory=dict)
    field_spans: dict[str, Span] = field(default_factory=dict)
    key: str = ""
    messages: list[Any] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    """Of the messages."""
    same: int = 0
    """How many leading messages were taken from the document before."""
    written: Written = field(default_factory=dict)
    """Shared by the requests of one conversation."""
    places: _Places = field(default_factory=_Places)

    def __call__(self, tree: Tree) -> bytes | str:
        changed = {key for key, value in tree.items() if value is not self.fields.get(key)}
        if self.key in changed and are_same_objects(tree[self.key], self.messages):
            changed.remove(self.key)
        if not changed and not self.fields.keys() - tree.keys():
            return bytes(self.request) if isinstance(self.request, bytearray) else self.request
        is_text = isinstance(self.request, str)
        out = self._write(tree, changed, "surrogatepass" if is_text else "replace")
        return out.decode("utf-8", "surrogatepass") if is_text else out

    def _write(self, tree: Tree, changed: set[str], errors: str) -> bytes:
        parts = list[bytes]()
        for key, value in tree.items():
            parts.append(f"{',' if parts else '{'}{dumps(key)}:".encode("utf-8", errors))
            if key not in changed and key in self.field_spans:
                parts.append(self._slice(self.field_spans[key]).encode("utf-8", errors))
            elif key == self.key:
                parts += [b"[", b",".join(self._write_messages(value, errors)), b"]"]
            else:
                parts.append(dumps(value).encode("utf-8", errors))
        return b"".join([*parts, b"}"])

    def _write_messages(self, messages: Sequence[Any], errors: str) -> list[bytes]:
        sent, pieces = self.written.get(errors, ([], []))
        kept = count_same_objects(sent, messages)
        spans = self._find_spans(messages[kept:])
        new = [self._encode(message, spans).encode("utf-8", errors) for message in messages[kept:]]
        pieces = pieces[:kept] + new
        self.written[errors] = list(messages), pieces
        return pieces

    def _find_spans(self, new: Sequence[Any]) -> dict[int, Span]:
        """Find where messages stand that are sent whole, and the unchanged parts of changed ones, by id."""
        newest = self.messages[-len(new) :] if new else []
        if are_same_objects(newest, new) and len(self.spans) == len(self.messages):
            return dict(zip(map(id, new), self.spans[-len(new) :], strict=False))
        self._add_places()
        spans = dict[int, Span]()
        for message in new:
            at = self.places.messages.get(id(message), -1)
            if 0 <= at < len(self.spans) and self.messages[at] is message:
                spans[id(message)] = self.spans[at]
                continue
            for at in {self.places.messages.get(id(part), -1) for part in _parts(message)}:
                if 0 <= at < len(self.spans) and isinstance(self.messages[at], dict):
                    spans |= _part_spans(self.text, self.spans[at][0], self.messages[at])
        return spans

    def _add_places(self) -> None:
        places = self.places
        for at in range(places.end, len(self.messages)):
            message = self.messages[at]
            places.messages[id(message)] = at
            for part in _parts(message):
                places.messages[id(part)] = at
        places.end = len(self.messages)

    def _encode(self, value: Any, spans: Mapping[int, Span]) -> str:
        if isinstance(value, dict | list) and id(value) in spans:
            return self._slice(spans[id(value)])
        if isinstance(value, dict):
            return "{" + ",".join(f"{dumps(k)}:{self._encode(v, spans)}" for k, v in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ",".join(self._encode(element, spans) for element in value) + "]"
        return dumps(value)

    def _slice(self, span: Span) -> str:
        return self.text[span[0] : span[1]]


def read_json_body(request: bytes | bytearray | str, previous: JsonBody | None) -> JsonBody:
    """Read a document. Messages that the previous one begins with too are taken from it, and not read again."""
    text = request if isinstance(request, str) else decode_utf8(request)
    body = JsonBody(request, text)
    if previous:
        body.written, body.places = previous.written, previous.places
    arrays = dict[str, tuple[list[Span], int]]()

    def read_member(text: str, at: int, key: str) -> tuple[Any, int]:
        arrays.pop(key, None)
        if key not in LIST_KEYS or not text.startswith("[", at):
            return read_value(text, at, key)
        same = 0
        if previous and previous.spans and previous.spans[0][0] == skip_space(text, at + 1):
            same = bisect_right(previous.spans, count_same_characters(previous.text, text), key=itemgetter(1))
        values, spans = (previous.messages[:same], previous.spans[:same]) if previous else ([], [])
        end = read_array(text, at, key, values, spans)
        arrays[key] = spans, same
        return values, end

    body.fields, body.field_spans, end = read_object(text, skip_space(text, 0), read_member)
    if rest := text[skip_space(text, end) :]:
        raise BadRequest(f"not valid JSON: extra data after the end: {rest[:20]!r}")
    body.key = next((key for key in LIST_KEYS if key in body.fields), "")
    body.spans, body.same = arrays.get(body.key, ([], 0))
    body.places.end = min(body.places.end, body.same)
    return body


def _parts(message: Any) -> Iterator[Any]:
    """Yield the containers in a message: those that it has as values, and as elements of a list."""
    for value in message.values() if isinstance(message, dict) else ():
        if isinstance(value, dict | list):
            yield value
        if isinstance(value, list):
            yield from (element for element in value if isinstance(element, dict | list))


def _part_spans(text: str, at: int, message: dict[str, Any]) -> Iterator[tuple[int, Span]]:
    """Yield the id of each part of a message, and where it stands."""
    _, spans, _ = read_object(text, at)
    for key, span in spans.items():
        value = message[key]
        yield id(value), span
        if isinstance(value, list):
            elements = list[Span]()
            read_array(text, span[0], key, [], elements)
            yield from zip(map(id, value), elements, strict=True)
