"""What was not touched leaves as it came: the same object, or the same bytes.

A body is read into plain dicts and lists. Identity does the bookkeeping: an object that is still in the tree when it is
emitted was not touched, and goes out verbatim; anything else is new and is serialised. So nothing that works on a tree
needs to know whether it came as bytes, as a dict, or with SDK objects inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any

from ebbtide.core.errors import BadRequest
from ebbtide.wire.document import KEYS, NEAR, Document, Tree, decoded, read_document
from ebbtide.wire.plain import Origins, equal, plain_messages, plain_value
from ebbtide.wire.splicing import Memory, Splice, alike

AROUND = frozenset(("system", "instructions", "tools", "functions"))
"""Where a provider keeps prompt and tools."""


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
    text: Document | None = field(default=None, repr=False)


def read_body(request: Mapping[str, Any] | bytes | bytearray | str | Body, previous: Body | None = None) -> Body:
    """Read a request. What the previous one already held is recognised, not read again."""
    if isinstance(request, Body):
        return _continued(request, previous)
    if isinstance(request, (dict, Mapping)):
        return _read_mapping(request, previous)
    if isinstance(request, (bytes, bytearray, str)):
        return _read_text(request, previous)
    what = "a list; are these its messages alone?" if isinstance(request, list) else type(request).__name__
    raise BadRequest(f"a request is a dict, or JSON as bytes or str, not {what}")


def _conversation(tree: Tree) -> str:
    for key in KEYS:
        if key in tree:
            return key
    raise BadRequest("neither `messages` nor `input` is there; is this a request to a model?")


def _continued(body: Body, previous: Body | None) -> Body:
    """One that was read already, as what follows another; read again only if they share no messages."""
    before = previous.messages if previous is not None and previous.key == body.key else []
    most = min(len(before), len(body.messages))
    for n in range(most, max(0, most - NEAR), -1):
        if all(map(is_, before[:n], body.messages)):
            return replace(body, same=n)
    return read_body(body.emit(body.tree), previous) if before else replace(body, same=0)


# --- dicts, with or without SDK objects inside -----------------------------------------------------------------------


def _read_mapping(request: Mapping[str, Any], previous: Body | None) -> Body:
    key = _conversation(request)
    _check_beside(request, key, previous.tree if previous is not None else {})
    given = request[key]
    if isinstance(given, str) and key == "input":
        # The Responses API takes a bare string for one user message.
        given = [{"role": "user", "content": given}]
    if not isinstance(given, (list, tuple)):
        raise BadRequest("must be a list of messages", path=key)
    if previous is not None and previous.key == key and _begins(previous, given):
        return _grown(previous, request, given)
    given = list(given)
    known, before = 0, list[Any]()
    origin: Origins = {}
    if previous is not None and previous.key == key and previous.text is None:
        known, before = _common(previous.given, given), previous.messages
        origin = previous.emit.origin if isinstance(previous.emit, _Restore) else {}
    new = given[known:] if known else given
    plain = plain_messages(new, origin, key, known)
    # Where nothing had to be made plain, the one copy of the client's list serves as both.
    messages = given if not origin and plain is new else [*before[:known], *plain]
    tree = {**request, key: messages}
    emit = _Restore(request, tree, key, messages, given, origin, _before(previous))
    return Body(tree, key, messages, known, emit, given)


def _check_beside(request: Mapping[str, Any], key: str, before: Tree) -> None:
    """Refuse what is no JSON beside the messages. What the last request had too is not looked at again.

    Prompt and tools are the reader's to look at: it compares them in any case.
    """
    for name, value in request.items():
        if not isinstance(name, str):
            raise BadRequest(f"a key must be a text, not a {type(name).__name__}")
        if name != key and name not in AROUND and value is not before.get(name, before):
            plain_value(value, name)


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
    except Exception:  # noqa: BLE001 - besides a TypeError, whatever a foreign object raises when it is compared
        return False


def _grown(previous: Body, request: Mapping[str, Any], given: Sequence[Any]) -> Body:
    """The messages that we hold, with what is new added to them: the body before has them all from now on."""
    messages, key = previous.messages, previous.key
    known, origin = len(messages), Origins()
    new = list(given[known:])
    plain = plain_messages(new, origin, key, known)
    if plain is new:
        messages += new
        theirs = messages
    else:
        theirs, messages = list(given), [*messages, *plain]
    tree = {**request, key: messages}
    emit = _Restore(request, tree, key, messages, theirs, origin, _before(previous))
    return Body(tree, key, messages, known, emit, theirs)


def _common(before: list[Any], now: list[Any]) -> int:
    """How many leading messages are equal. List equality looks at identity first, in C."""
    most = min(len(before), len(now))
    for n in range(most, max(0, most - NEAR) - 1, -1):
        if equal(before if n == len(before) else before[:n], now if n == len(now) else now[:n]):
            return n
    return next(i for i in range(most) if before[i] is not now[i] and not equal(before[i], now[i]))


@dataclass(slots=True)
class _Restore:
    """Puts SDK objects back where their plain form was not touched."""

    request: Mapping[str, Any]
    tree: Tree
    key: str
    messages: list[Any]
    given: list[Any]
    origin: Origins
    before: list[tuple[list[Any], list[Any]]]
    """At most one pair: the messages of the last tree that was changed, and what went out for them. Bodies share it."""

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
            out[self.key] = self._restored(messages) if self.origin else list(messages)
        return out

    def _restored(self, messages: Sequence[Any]) -> list[Any]:
        """Only what is new is looked at: what went out before goes out as it did then."""
        known, made = self.before[0] if self.before else ([], [])
        kept = alike(known, messages)
        out = [*made[:kept], *(self._message(n, messages[n]) for n in range(kept, len(messages)))]
        self.before[:] = [(list(messages), list(out))]
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


def _before(previous: Body | None) -> list[tuple[list[Any], list[Any]]]:
    return previous.emit.before if previous is not None and isinstance(previous.emit, _Restore) else []


# --- bytes -----------------------------------------------------------------------------------------------------------


def _read_text(request: bytes | bytearray | str, previous: Body | None) -> Body:
    text = request if isinstance(request, str) else decoded(bytes(request))
    tree: dict[str, Any] = {}
    doc = Document(text)
    before = previous.text if previous is not None else None
    same = read_document(doc, tree, previous.messages if previous and before else [], before)
    key = _conversation(tree)
    given = tree[key]
    if isinstance(given, str) and key == "input":
        tree[key] = given = [{"role": "user", "content": given}]
    if not isinstance(given, list):
        raise BadRequest("must be a list of messages", path=key)
    memory = previous.emit.memory if previous is not None and isinstance(previous.emit, Splice) else Memory()
    emit = Splice(doc, dict(tree), key, list(given), request, memory)
    return Body(tree, key, given, same, emit, given, doc)
