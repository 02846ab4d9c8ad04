"""A request as plain dicts and lists, and the way back: what was not changed is sent as the client wrote it.

Identity tells what was changed. An object that is still in the tree when it is emitted is sent verbatim, as the same
object or the same bytes; a new object is serialised. So code that works on a tree need not know whether the request
came as bytes, as a dict, or with SDK objects inside.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from operator import is_
from typing import Any

from ebbtide.core.cache.prefix import are_same_objects, count_same_objects
from ebbtide.core.errors import BadRequest
from ebbtide.wire import FRONT_FIELDS, LIST_KEYS
from ebbtide.wire.json_body import JsonBody, Tree, read_json_body

_NEAR = 4
"""How far from the end clients change messages as a habit: they move cache marks and reminders there."""


@dataclass(slots=True)
class ParsedBody:
    """A request as a tree, and the way back to what the client gave."""

    tree: dict[str, Any]
    list_key: str
    """`messages`, `input` or `contents`."""
    messages: list[Any]
    """The list under that key."""
    unchanged: int
    """How many leading messages are unchanged since the body read before."""
    emit: Callable[[Tree], Any]
    """Turns a tree made from this one into the form that the request came in."""
    client_messages: list[Any] = field(default_factory=list, repr=False)
    """The client's own messages, to recognise them next time."""


def read_body(
    request: Mapping[str, Any] | bytes | bytearray | str | ParsedBody, previous: ParsedBody | None = None
) -> ParsedBody:
    """Read a request. Messages that the previous one begins with too are recognised, and not read again."""
    if isinstance(request, ParsedBody):
        return _continue(request, previous)
    if isinstance(request, (dict, Mapping)):
        return _read_mapping(request, previous)
    if isinstance(request, (bytes, bytearray, str)):
        return _read_json(request, previous)
    kind = "a list; are these its messages alone?" if isinstance(request, list) else type(request).__name__
    raise BadRequest(f"a request is a dict, or JSON as bytes or str, not {kind}")


def _count_equal(before: Sequence[Any], now: Sequence[Any]) -> int:
    """Count the leading elements that are equal."""
    shorter = min(len(before), len(now))
    # A conversation mostly grows: then `before` need not be copied to be compared.
    if is_equal(before if shorter == len(before) else before[:shorter], now[:shorter]):
        return shorter
    return next((n for n in range(shorter) if before[n] is not now[n] and not is_equal(before[n], now[n])), shorter)


def _continue(body: ParsedBody, previous: ParsedBody | None) -> ParsedBody:
    """Take a body that was read already as what follows another.

    It may have been read after a body of another conversation that only begins alike. Unless nearly all messages are
    the same objects, it is read again after this one.
    """
    before = previous.messages if previous is not None and previous.list_key == body.list_key else []
    same = count_same_objects(before, body.messages)
    if before and (not same or same < min(len(before), len(body.messages)) - _NEAR):
        return read_body(body.emit(body.tree), previous)
    return replace(body, unchanged=same)


def _conversation_in(tree: Tree) -> tuple[str, Any]:
    """Return the key of the conversation, and its messages."""
    key = next((key for key in LIST_KEYS if key in tree), "")
    if not key:
        raise BadRequest(f"none of {', '.join(map('`{}`'.format, LIST_KEYS))} is there; is this a request to a model?")
    messages = tree[key]
    if isinstance(messages, str) and key == "input":
        # The Responses API takes a bare string for one user message.
        messages = [{"role": "user", "content": messages}]
    if not isinstance(messages, (list, tuple)):
        raise BadRequest("must be a list of messages", path=key)
    return key, messages


def _read_json(request: bytes | bytearray | str, previous: ParsedBody | None) -> ParsedBody:
    document = read_json_body(request, previous.emit if previous and isinstance(previous.emit, JsonBody) else None)
    key, messages = _conversation_in(document.fields)
    document.fields[key], document.messages = messages, list(messages)
    return ParsedBody(dict(document.fields), key, messages, document.same, document, messages)


def _read_mapping(request: Mapping[str, Any], previous: ParsedBody | None) -> ParsedBody:
    key, messages = _conversation_in(request)
    _check_fields(request, key, previous.tree if previous is not None else {})
    client_messages, same, before = list(messages), 0, list[Any]()
    origin: Origins = {}
    sent = _Sent()
    if previous is not None and previous.list_key == key and isinstance(previous.emit, _Restore):
        same, before = _count_equal(previous.client_messages, client_messages), previous.messages
        origin, sent = previous.emit.origin, previous.emit.sent
    new = client_messages[same:] if same else client_messages
    plain = to_plain_messages(new, origin, key, same)
    # If nothing had to be converted, one copy of the client's list serves as both.
    messages = client_messages if not origin and plain is new else [*before[:same], *plain]
    tree = {**request, key: messages}
    return ParsedBody(
        tree,
        key,
        messages,
        same,
        _Restore(request, tree, key, messages, client_messages, origin, sent),
        client_messages,
    )


def _check_fields(request: Mapping[str, Any], key: str, before: Tree) -> None:
    """Refuse fields that are no JSON. Those that the last request had too are not checked again.

    The reader checks system prompt and tools, because it compares them anyway.
    """
    for name, value in request.items():
        if not isinstance(name, str):
            raise BadRequest(f"a key must be a text, not a {type(name).__name__}")
        if name != key and name not in FRONT_FIELDS and value is not before.get(name, before):
            to_plain(value, name)


@dataclass(slots=True)
class _Sent:
    """The messages that were restored last, plain and restored. The requests of one conversation share it."""

    plain: list[Any] = field(default_factory=list)
    restored: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class _Restore:
    """Puts SDK objects back where their plain form was not changed."""

    request: Mapping[str, Any]
    tree: Tree
    key: str
    messages: list[Any]
    client_messages: list[Any]
    origin: Origins
    sent: _Sent

    def __call__(self, tree: Tree) -> Mapping[str, Any]:
        if tree is self.tree:
            return self.request
        messages = tree[self.key]
        is_same = messages is self.messages or are_same_objects(messages, self.messages)
        changed = {k: v for k, v in tree.items() if k != self.key and v is not self.request.get(k)}
        if is_same and not changed and len(tree) == len(self.request):
            return self.request
        out = {k: v for k, v in self.request.items() if k in tree} | changed
        if not is_same:
            out[self.key] = self._restore_messages(messages) if self.origin else list(messages)
        return out

    def _restore_messages(self, messages: Sequence[Any]) -> list[Any]:
        kept = count_same_objects(self.sent.plain, messages)
        originals = dict(zip(map(id, self.messages), self.client_messages, strict=True))
        new = [originals[id(one)] if id(one) in originals else self._restore(one) for one in messages[kept:]]
        self.sent.plain, self.sent.restored = list(messages), self.sent.restored[:kept] + new
        return self.sent.restored[:]

    def _restore(self, value: Any) -> Any:
        if id(value) in self.origin:
            return self.origin[id(value)][1]
        if isinstance(value, dict):
            return {k: self._restore(v) if isinstance(v, dict | list) else v for k, v in value.items()}
        if isinstance(value, list):
            return [self._restore(element) for element in value]
        return value


# --- plain JSON ------------------------------------------------------------------------------------------------------


Origins = dict[int, tuple[Any, Any]]
"""Maps the id of a plain copy to the copy and its original."""

_BINARY = frozenset(("bytes", "redactedContent"))
"""Fields in which boto3 has bytes and the API has base64."""
_ATOMS = frozenset((str, bool, type(None)))
_CONTAINERS = frozenset((dict, list))
_DEEP = 200
"""Levels of nesting. Functions that walk a message recurse, and Python stops at a thousand calls."""
_BITS = 13_000
"""Bits of an integer: Python refuses to write one of more than about 14,000."""


def to_plain_messages(messages: list[Any], origin: Origins, path: str, first: int = 0) -> list[Any]:
    """Convert messages to JSON types; return the same list if they are plain already.

    `path` and `first` name their place in the request, for the error message.
    """
    if is_plain(messages):
        return messages
    plain = [_plain(message, origin, f"{path}.{n}", _DEEP) for n, message in enumerate(messages, first)]
    return messages if all(map(is_, plain, messages)) else plain


def to_plain(value: Any, path: str) -> Any:
    """Convert a field of a request to JSON types."""
    return value if is_plain([value]) else _plain(value, {}, path, _DEEP)


def is_plain(values: Sequence[Any]) -> bool:
    """Tell by exact types whether there is nothing to convert: most messages are dicts, lists and strings."""
    level: list[Any] = [values]
    for _ in range(_DEEP):
        above, level = level, []
        for container in above:
            if type(container) is dict:
                for key, part in container.items():
                    if type(key) is not str:
                        return False
                    if type(part) not in _ATOMS:
                        level.append(part)
            else:
                level += [part for part in container if type(part) not in _ATOMS]
        if not level:
            return True
        numbers = [part for part in level if type(part) not in _CONTAINERS]
        if numbers:
            if not all(map(_is_number, numbers)):
                return False
            level = [part for part in level if type(part) in _CONTAINERS]
    return False


def _is_number(value: Any) -> bool:
    """Tell whether JSON has this number and Python can write it: no infinity, no NaN, not too long."""
    if type(value) is int:
        return value.bit_length() < _BITS
    return type(value) is float and isfinite(value)


def is_equal(left: Any, right: Any) -> bool:
    """Compare two values. Objects that refuse to be compared are not equal."""
    try:
        return bool(left == right)
    except Exception:  # noqa: BLE001 - whatever a foreign object raises; it is refused when it is read
        return False


def _plain(value: Any, origin: Origins, path: str, deep: int) -> Any:
    if deep < 0:
        raise BadRequest(f"nested more than {_DEEP} levels deep, or in a circle", path=_brief(path))
    if isinstance(value, dict):
        return _plain_dict(value, origin, path, deep)
    if isinstance(value, list):
        plain_list = [_plain(element, origin, f"{path}.{n}", deep - 1) for n, element in enumerate(value)]
        if all(map(is_, plain_list, value)):
            return value
        origin[id(plain_list)] = (plain_list, value)
        return plain_list
    if isinstance(value, tuple):
        return [_plain(one, origin, f"{path}.{n}", deep - 1) for n, one in enumerate(value)]
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int | float):
        return _number(value, path)
    if hasattr(type(value), "model_dump"):
        dumped = _plain(_dump(value, path), {}, path, deep - 1)
        origin[id(dumped)] = (dumped, value)
        return dumped
    raise BadRequest(f"{type(value).__name__} is not JSON: make it a text, a number, a list or a dict", path=path)


def _plain_dict(value: dict[Any, Any], origin: Origins, path: str, deep: int) -> Mapping[str, Any]:
    plain: dict[str, Any] = {}
    for key, part in value.items():
        if not isinstance(key, str):
            raise BadRequest(f"a key must be a text, not a {type(key).__name__}", path=path)
        is_binary = type(part) is bytes and key in _BINARY
        plain[key] = b64encode(part).decode() if is_binary else _plain(part, origin, f"{path}.{key}", deep - 1)
    if all(plain[key] is part for key, part in value.items()):
        return value
    origin[id(plain)] = (plain, value)
    return plain


def _number(value: int | float, path: str) -> int | float:
    if isinstance(value, int):
        if value.bit_length() < _BITS:
            return value
        raise BadRequest(f"a whole number of {value.bit_length():,} bits is too long", path=path)
    if isfinite(value):
        return value
    raise BadRequest(f"{value!r} is not JSON", path=path)


def _dump(value: Any, path: str) -> Any:
    """Dump an SDK object as its SDK sends it: only the fields that were set."""
    try:
        return value.model_dump(mode="json", exclude_unset=True, by_alias=True)
    except Exception as failed:
        problem = f"a {type(value).__name__} could not be written as JSON: {type(failed).__name__}"
        raise BadRequest(problem, path=path) from failed


def _brief(path: str) -> str:
    return path if len(path) <= 120 else f"{path[:120]}..."
