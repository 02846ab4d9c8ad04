"""A tree is written into the document it came from, and nothing is written again that was not touched.

What is the same object goes out as the text that it was read from; and what went out before goes out as it did then, so
that a request costs what is new of it, however much of what came earlier was changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from operator import is_
from typing import Any

from ebbtide.wire.document import Document, Span, Tree, dumps, parts_of


def alike(before: Sequence[Any], now: Sequence[Any]) -> int:
    """How many leading objects are the same ones."""
    same = list(map(is_, before, now))
    return same.index(False) if False in same else len(same)


@dataclass(slots=True)
class _Written:
    """Messages as they last went out."""

    errors: str
    """What becomes of lone surrogates."""
    messages: list[Any] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """Where each ends in `data`."""
    data: bytearray = field(default_factory=bytearray)
    """All of them, with commas between."""
    ids: set[int] = field(default_factory=set)
    """Of the messages, as objects."""

    def cut(self, messages: Sequence[Any]) -> int:
        """Keep what these begin with; how many messages that are."""
        kept = alike(self.messages, messages)
        self.ids.difference_update(map(id, self.messages[kept:]))
        del self.data[self.ends[kept - 1] if kept else 0 :], self.messages[kept:], self.ends[kept:]
        return kept

    def add(self, message: Any, text: str) -> None:
        if self.ends:
            self.data += b","
        self.data += text.encode("utf-8", self.errors)
        self.messages.append(message)
        self.ids.add(id(message))
        self.ends.append(len(self.data))


class Memory:
    """What one conversation's requests last wrote. Whoever writes has it alone meanwhile: threads may meet here."""

    __slots__ = ("_free",)

    def __init__(self) -> None:
        self._free: list[_Written] = []

    def taken(self, errors: str) -> _Written:
        try:
            found = self._free.pop()
        except IndexError:
            return _Written(errors)
        return found if found.errors == errors else _Written(errors)

    def given_back(self, written: _Written) -> None:
        self._free[:] = [written]


@dataclass(slots=True)
class Splice:
    """Writes a tree into its document, touching only what differs."""

    doc: Document
    fields: dict[str, Any]
    """The values as they were read."""
    key: str
    messages: list[Any]
    raw: bytes | bytearray | str
    memory: Memory

    def __call__(self, tree: Tree) -> bytes | str:
        text = isinstance(self.raw, str)
        out = self._emit(tree, "surrogatepass" if text else "replace")
        if out is None:
            return bytes(self.raw) if isinstance(self.raw, bytearray) else self.raw
        return out.decode("utf-8", "surrogatepass") if text else out

    def _emit(self, tree: Tree, errors: str) -> bytes | None:
        changed = {k: v for k, v in tree.items() if v is not self.fields.get(k)}
        if self.key in changed and _same_objects(changed[self.key], self.messages):
            del changed[self.key]
        gone = self.fields.keys() - tree.keys()
        if not changed and not gone:
            return None
        parts = list[bytes | bytearray]()
        written = self.memory.taken(errors)
        for key, value in tree.items():
            parts.append(f"{',' if parts else '{'}{dumps(key)}:".encode("utf-8", errors))
            if key not in changed and key in self.doc.fields:
                start, end = self.doc.fields[key]
                parts.append(self.doc.text[start:end].encode("utf-8", errors))
            elif key == self.key:
                self._array(value, written)
                parts += [b"[", written.data, b"]"]
            else:
                parts.append(dumps(value).encode("utf-8", errors))
        out = b"".join([*parts, b"}"])
        self.memory.given_back(written)
        return out

    def _array(self, messages: Sequence[Any], written: _Written) -> None:
        kept = written.cut(messages)
        if kept == len(messages):
            return
        spans = self._spans(self._passed(written.ids), {id(message) for message in messages[kept:]})
        for message in messages[kept:]:
            written.add(message, self._encode(message, spans))

    def _passed(self, written: Set[int]) -> int:
        """Messages of the document up to the last that is written already. What comes after has no part in those."""
        for n in range(len(self.messages), 0, -1):
            if id(self.messages[n - 1]) in written:
                return n
        return 0

    def _spans(self, passed: int, whole: set[int]) -> Mapping[int, Span]:
        """Where messages stand that go out whole, and the parts of those that do not."""
        spans: dict[int, Span] = {}
        for value, span in zip(self.messages[passed:], self.doc.spans[passed:], strict=False):
            if id(value) in whole:
                spans[id(value)] = span
            else:
                spans |= {id(part): at for part, at in parts_of(self.doc.text, span[0], value)}
        return spans

    def _encode(self, value: Any, spans: Mapping[int, Span]) -> str:
        if isinstance(value, dict | list) and id(value) in spans:
            start, end = spans[id(value)]
            return self.doc.text[start:end]
        if isinstance(value, dict):
            return "{" + ",".join(f"{dumps(k)}:{self._encode(v, spans)}" for k, v in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ",".join(self._encode(one, spans) for one in value) + "]"
        return dumps(value)


def _same_objects(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return len(left) == len(right) and all(map(is_, left, right))
