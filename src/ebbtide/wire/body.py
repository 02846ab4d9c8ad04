"""What was not touched leaves as it came: the same object, or the same bytes.

A body is read into plain dicts and lists. Identity does the bookkeeping: an object that is still in the tree when it is
emitted was not touched, and goes out verbatim; anything else is new and is serialised. So nothing that works on a tree
needs to know whether it came as bytes, as a dict, or with SDK objects inside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Any, NoReturn

from ebbtide.core.errors import BadRequest

Tree = Mapping[str, Any]
KEYS = ("messages", "input")
"""Where a provider keeps the conversation."""

_SPACE = " \t\n\r"


@dataclass(slots=True)
class Body:
    """A request as a tree, and the way back to what the client gave."""

    tree: dict[str, Any]
    key: str
    """`messages` or `input`."""
    messages: list[Any]
    """What stands under that key."""
    same: int
    """How many leading messages are unchanged since the body read before."""
    emit: Callable[[Tree], Any]
    """A tree made from this one, in the form the request came in."""
    given: list[Any] = field(default_factory=list, repr=False)
    """The client's own messages, to recognise them next time."""
    text: _Text | None = field(default=None, repr=False)


def read_body(request: Mapping[str, Any] | bytes | bytearray | str, previous: Body | None = None) -> Body:
    """Read a request. What the previous one already held is recognised, not read again."""
    if isinstance(request, (dict, Mapping)):
        return _read_mapping(request, previous)
    return _read_text(request, previous)


def _conversation(tree: Tree) -> str:
    for key in KEYS:
        if key in tree:
            return key
    raise BadRequest("neither `messages` nor `input` is there; is this a request to a model?")


# --- dicts, with or without SDK objects inside -----------------------------------------------------------------------


def _read_mapping(request: Mapping[str, Any], previous: Body | None) -> Body:
    key = _conversation(request)
    given = request[key]
    if isinstance(given, str) and key == "input":
        # The Responses API takes a bare string for one user message.
        given = [{"role": "user", "content": given}]
    if not isinstance(given, list | tuple):
        raise BadRequest("must be a list of messages", path=key)
    if previous is not None and previous.key == key and _begins(previous, given):
        return _grown(previous, request, given)
    given = list(given)
    known, before = 0, list[Any]()
    origin: dict[int, tuple[Any, Any]] = {}
    if previous is not None and previous.key == key and previous.text is None:
        known, before = _common(previous.given, given), previous.messages
        origin = previous.emit.origin if isinstance(previous.emit, _Restore) else {}
    new = given[known:] if known else given
    plain = _made_plain(new, origin)
    # Where nothing had to be made plain, the one copy of the client's list serves as both.
    messages = given if not origin and plain is new else [*before[:known], *plain]
    tree = {**request, key: messages}
    emit = _Restore(request, tree, key, messages, given, origin)
    return Body(tree, key, messages, known, emit, given)


def _begins(previous: Body, now: Any) -> bool:
    """Whether a list of messages begins with all that were there before, told without touching one of them.

    Of two lists of which one begins with the other the shorter is the smaller, and objects that are identical are not
    looked at. Where two differ Python refuses to order them, since the messages that we hold are plain dicts.
    """
    before = previous.messages
    if previous.given is not before or previous.text is not None or type(now) is not list:
        return False
    try:
        return before < now or before == now
    except TypeError:
        return False


def _grown(previous: Body, request: Mapping[str, Any], given: Sequence[Any]) -> Body:
    """The messages that we hold, with what is new added to them: the body before has them all from now on."""
    messages, key = previous.messages, previous.key
    known, origin = len(messages), dict[int, tuple[Any, Any]]()
    new = list(given[known:])
    plain = _made_plain(new, origin)
    if plain is new:
        messages += new
        theirs = messages
    else:
        theirs, messages = list(given), [*messages, *plain]
    tree = {**request, key: messages}
    emit = _Restore(request, tree, key, messages, theirs, origin)
    return Body(tree, key, messages, known, emit, theirs)


_NEAR = 4
"""How far from the end clients change messages as a habit: they move cache marks and reminders there."""


def _common(before: list[Any], now: list[Any]) -> int:
    """How many leading messages are equal. List equality looks at identity first, in C."""
    most = min(len(before), len(now))
    for n in range(most, max(0, most - _NEAR) - 1, -1):
        if (before if n == len(before) else before[:n]) == (now if n == len(now) else now[:n]):
            return n
    return next(i for i in range(most) if before[i] is not now[i] and before[i] != now[i])


_ATOMS = frozenset((str, int, float, bool, type(None)))


_DEEP = 100
"""Levels of nesting within which a message is known for plain; an endless one ends here."""


def _is_plain(messages: Sequence[Any]) -> bool:
    """Whether `_plain` would find nothing to do, told by exact types; most messages are dicts, lists and strings."""
    level: list[Any] = [messages]
    for _ in range(_DEEP):
        below = list[Any]()
        for whole in level:
            for part in whole.values() if type(whole) is dict else whole:
                kind = type(part)
                if kind is dict or kind is list:
                    below.append(part)
                elif kind not in _ATOMS:
                    return False
        if not below:
            return True
        level = below
    return False


def _made_plain(messages: list[Any], origin: dict[int, tuple[Any, Any]]) -> list[Any]:
    """The messages as JSON types; the very same list where they are plain already."""
    if _is_plain(messages):
        return messages
    plain = [_plain(message, origin) for message in messages]
    return messages if all(map(is_, plain, messages)) else plain


def _plain(value: Any, origin: dict[int, tuple[Any, Any]]) -> Any:
    """The value as JSON types. A value that is plain already stays the same object."""
    if isinstance(value, dict):
        made = {
            k: _plain(v, origin) if isinstance(v, list | tuple) or _dumps_itself(v) else v for k, v in value.items()
        }
        if all(made[k] is value[k] for k in value):
            return value
        origin[id(made)] = (made, value)
        return made
    if isinstance(value, list):
        listed = [_plain(one, origin) for one in value]
        if all(new is old for new, old in zip(listed, value, strict=True)):
            return value
        origin[id(listed)] = (listed, value)
        return listed
    if isinstance(value, tuple):
        return [_plain(one, origin) for one in value]
    if _dumps_itself(value):
        dumped = _dump(value)
        origin[id(dumped)] = (dumped, value)
        return dumped
    return value


def _dumps_itself(value: Any) -> bool:
    return hasattr(value, "model_dump")


def _dump(value: Any) -> Any:
    """As the SDKs themselves send it: only what was set."""
    return value.model_dump(mode="json", exclude_unset=True, by_alias=True)


@dataclass(slots=True)
class _Restore:
    """Puts SDK objects back where their plain form was not touched."""

    request: Mapping[str, Any]
    tree: Tree
    key: str
    messages: list[Any]
    given: list[Any]
    origin: dict[int, tuple[Any, Any]]

    def __call__(self, tree: Tree) -> Mapping[str, Any]:
        if tree is self.tree:
            return self.request
        messages = tree[self.key]
        unchanged = messages is self.messages or (
            len(messages) == len(self.messages) and all(map(is_, messages, self.messages))
        )
        changed = {k: v for k, v in tree.items() if k != self.key and v is not self.request.get(k)}
        if unchanged and not changed and len(tree) == len(self.request):
            return self.request
        out = {k: v for k, v in self.request.items() if k in tree} | changed
        if not unchanged:
            out[self.key] = [self._message(i, one) for i, one in enumerate(messages)] if self.origin else list(messages)
        return out

    def _message(self, i: int, message: Any) -> Any:
        untouched = i < len(self.messages) and message is self.messages[i]
        return self.given[i] if untouched else self._back(message)

    def _back(self, value: Any) -> Any:
        if id(value) in self.origin:
            return self.origin[id(value)][1]
        if isinstance(value, dict):
            return {k: self._back(v) if isinstance(v, dict | list) else v for k, v in value.items()}
        if isinstance(value, list):
            return [self._back(one) for one in value]
        return value


# --- bytes -----------------------------------------------------------------------------------------------------------


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

Span = tuple[int, int]


@dataclass(slots=True)
class _Text:
    """A JSON document and where its parts stand in it."""

    text: str
    fields: dict[str, Span] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    """Of the messages."""


def _read_text(request: bytes | bytearray | str, previous: Body | None) -> Body:
    text = request if isinstance(request, str) else _decode(bytes(request))
    tree: dict[str, Any] = {}
    doc = _Text(text)
    before = previous.text if previous is not None else None
    same = _walk_object(doc, tree, previous.messages if previous and before else [], before)
    key = _conversation(tree)
    raw = request
    given = tree[key]
    if isinstance(given, str) and key == "input":
        tree[key] = given = [{"role": "user", "content": given}]
    if not isinstance(given, list):
        raise BadRequest("must be a list of messages", path=key)
    emit = _Splice(doc, tree, dict(tree), key, list(given), raw)
    return Body(tree, key, given, same, emit, given, doc)


def _decode(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig" if raw.startswith(b"\xef\xbb\xbf") else "utf-8")
    except UnicodeDecodeError as bad:
        raise BadRequest(f"not valid UTF-8 at byte {bad.start}") from None


def _value(text: str, at: int, path: str) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as bad:
        raise BadRequest(f"not valid JSON: {bad.msg} at line {bad.lineno} column {bad.colno}", path=path) from None
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


def _walk_object(doc: _Text, tree: dict[str, Any], known: list[Any], before: _Text | None) -> int:
    """Read the top level, noting where each value stands. Returns how many messages were known already."""
    text, same = doc.text, 0
    at = _skip(text, 0)
    _expect(text, at, "{", "")
    at = _skip(text, at + 1)
    while _expect(text, at, '"}', "") == '"':
        key, at = _value(text, at, "")
        at = _skip(text, at)
        _expect(text, at, ":", key)
        start = _skip(text, at + 1)
        if key in KEYS and text[start : start + 1] == "[":
            tree[key], at, same = _walk_array(doc, start, key, known, before)
        else:
            tree[key], at = _value(text, start, key)
        doc.fields[key] = (start, at)
        at = _skip(text, at)
        if _expect(text, at, ",}", key) == "}":
            break
        at = _skip(text, at + 1)
        _expect(text, at, '"', "")
    if rest := text[at + 1 :].strip(_SPACE):
        raise BadRequest(f"not valid JSON: extra data after the end: {rest[:20]!r}")
    return same


def _walk_array(doc: _Text, start: int, key: str, known: list[Any], before: _Text | None) -> tuple[list[Any], int, int]:
    text, values = doc.text, []
    at = _skip(text, start + 1)
    if same := _known(text, before):
        # The last body, byte for byte, up to the end of one of its last messages: only what follows is read.
        assert before is not None
        values, doc.spans = known[:same], before.spans[:same]
        at = _skip(text, before.spans[same - 1][1])
        if _expect(text, at, ",]", key) == "]":
            return values, at + 1, same
        at = _skip(text, at + 1)
    elif text[at : at + 1] == "]":
        return values, at + 1, same
    spans, between = doc.spans, _BETWEEN.match
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
            return values, at + 1, same
        at = comma.end()


def _known(text: str, before: _Text | None) -> int:
    """How many messages of the last body this one begins with, looking only near its end."""
    count = len(before.spans) if before else 0
    for n in range(count, max(0, count - _NEAR), -1):
        assert before is not None
        if text.startswith(before.text[: before.spans[n - 1][1]]):
            return n
    return 0


@dataclass(slots=True)
class _Splice:
    """Writes a tree into the document it came from, touching only what differs."""

    doc: _Text
    tree: dict[str, Any]
    fields: dict[str, Any]
    """The values as they were read."""
    key: str
    messages: list[Any]
    raw: bytes | bytearray | str

    def __call__(self, tree: Tree) -> bytes | str:
        out = self._emit(tree)
        if out is None:
            return bytes(self.raw) if isinstance(self.raw, bytearray) else self.raw
        return out if isinstance(self.raw, str) else out.encode("utf-8", "replace")

    def _emit(self, tree: Tree) -> str | None:
        changed = {k: v for k, v in tree.items() if v is not self.fields.get(k)}
        if self.key in changed and _same_objects(changed[self.key], self.messages):
            del changed[self.key]
        gone = self.fields.keys() - tree.keys()
        if not changed and not gone:
            return None
        parts = []
        for key, value in tree.items():
            if key not in changed and key in self.doc.fields:
                start, end = self.doc.fields[key]
                encoded = self.doc.text[start:end]
            else:
                encoded = self._array(value) if key == self.key else dumps(value)
            parts.append(f"{dumps(key)}:{encoded}")
        return "{" + ",".join(parts) + "}"

    def _array(self, messages: Sequence[Any]) -> str:
        spans = {id(value): span for value, span in zip(self.messages, self.doc.spans, strict=False)}
        kept = {id(message) for message in messages}
        for value, (start, _) in zip(self.messages, self.doc.spans, strict=False):
            if id(value) not in kept:
                spans |= {id(part): span for part, span in _parts(self.doc.text, start, value)}
        return "[" + ",".join(self._encode(one, spans) for one in messages) + "]"

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


def _parts(text: str, start: int, message: Any) -> Iterator[tuple[Any, Span]]:
    """Where the containers inside a message stand: its fields, and the elements of its lists."""
    if not isinstance(message, dict):
        return
    at = _skip(text, start + 1)
    while text[at] == '"':
        key, at = _value(text, at, "")
        begin = _skip(text, _skip(text, at) + 1)
        _, at = _value(text, begin, "")
        inner = message.get(key)
        yield inner, (begin, at)
        if isinstance(inner, list):
            yield from _elements(text, begin, inner)
        at = _skip(text, at)
        if text[at] != ",":
            return
        at = _skip(text, at + 1)


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
