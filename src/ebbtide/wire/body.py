"""A request as plain dicts and lists, and the way back: what was not changed is sent as the client wrote it.

Identity tells what was changed. An object that is still in the tree when it is emitted is sent verbatim, as the same
object or the same bytes; a new object is serialised. So code that works on a tree need not know whether the request
came as bytes, as a dict, or with SDK objects inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ebbtide.core.errors import BadRequest
from ebbtide.wire.json_body import KEYS, JsonBody, Tree, are_same_objects, count_same_objects, read_json_body
from ebbtide.wire.plain_json import Origins, is_equal, to_plain, to_plain_messages

SYSTEM_AND_TOOLS = frozenset(("system", "instructions", "tools", "functions"))
"""Where a provider keeps prompt and tools."""
_NEAR = 4
"""How far from the end clients change messages as a habit: they move cache marks and reminders there."""


@dataclass(slots=True)
class ParsedBody:
    """A request as a tree, and the way back to what the client gave."""

    tree: dict[str, Any]
    list_key: str
    """`messages` or `input`."""
    messages: list[Any]
    """What stands under that key."""
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
    if is_equal(before[:shorter], now[:shorter]):
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
    key = next((key for key in KEYS if key in tree), "")
    if not key:
        raise BadRequest("neither `messages` nor `input` is there; is this a request to a model?")
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
    if previous is not None and previous.list_key == key and isinstance(previous.emit, _Restore):
        same, before, origin = (
            _count_equal(previous.client_messages, client_messages),
            previous.messages,
            previous.emit.origin,
        )
    new = client_messages[same:] if same else client_messages
    plain = to_plain_messages(new, origin, key, same)
    # Where nothing had to be made plain, the one copy of the client's list serves as both.
    messages = client_messages if not origin and plain is new else [*before[:same], *plain]
    tree = {**request, key: messages}
    return ParsedBody(
        tree, key, messages, same, _Restore(request, tree, key, messages, client_messages, origin), client_messages
    )


def _check_fields(request: Mapping[str, Any], key: str, before: Tree) -> None:
    """Refuse what is no JSON beside the messages. What the last request had too is not checked again.

    The reader checks prompt and tools, since it compares them in any case.
    """
    for name, value in request.items():
        if not isinstance(name, str):
            raise BadRequest(f"a key must be a text, not a {type(name).__name__}")
        if name != key and name not in SYSTEM_AND_TOOLS and value is not before.get(name, before):
            to_plain(value, name)


@dataclass(slots=True)
class _Restore:
    """Puts SDK objects back where their plain form was not changed."""

    request: Mapping[str, Any]
    tree: Tree
    key: str
    messages: list[Any]
    client_messages: list[Any]
    origin: Origins

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
        originals = dict(zip(map(id, self.messages), self.client_messages, strict=True))
        return [originals[id(message)] if id(message) in originals else self._restore(message) for message in messages]

    def _restore(self, value: Any) -> Any:
        if id(value) in self.origin:
            return self.origin[id(value)][1]
        if isinstance(value, dict):
            return {k: self._restore(v) if isinstance(v, dict | list) else v for k, v in value.items()}
        if isinstance(value, list):
            return [self._restore(element) for element in value]
        return value
