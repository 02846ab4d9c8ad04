"""Which conversation a call belongs to. One conversation, one lane, one `Context`.

Whoever says `with session("id"):` decides. Else all that tells one conversation from another does, together: the
client's credential, every id in the request, the system prompt without dates, times and counters, and the first user
message to the letter. Two conversations that are alike in all of these share a lane, as branches of one: an edit holds
only where what it covers is there, each call has its own reply, and each branch recalls only what is its own.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from ebbtide.runtime import Context, Ready
from ebbtide.wire.blocks import canonical_json, digest
from ebbtide.wire.conversation_start import strip_changing_parts

Body = Mapping[str, object]

_NAMED: ContextVar[str] = ContextVar("ebbtide_session", default="")

MOST_WAITING = 16
"""Calls of one lane that a retry finds as they went out; one that was pushed out is prepared anew."""
MOST_LANES = 256
"""Conversations kept at hand. Each holds its history in memory; one that returns after so many others is read from the
store, or, without a store, is planned anew."""


@contextmanager
def session(name: str) -> Iterator[str]:
    """Calls inside belong to this conversation, in this thread or task and in tasks started from it."""
    if not isinstance(name, str) or not name:
        raise ValueError("a session needs a name")
    token = _NAMED.set(name)
    try:
        yield name
    finally:
        _NAMED.reset(token)


def _beginning(body: Body) -> tuple[str, str]:
    """System prompt and first user message, as far as they tell conversations apart."""
    given = body.get("messages", body.get("input"))
    messages = given if isinstance(given, list | tuple) else [{"role": "user", "content": given}]
    system = [_words(body.get("system") or body.get("instructions") or "")]
    for message in messages:
        told = message if isinstance(message, Mapping) else {}
        if told.get("role") in ("system", "developer"):
            system.append(_words(told.get("content")))
        if told.get("role") == "user":
            return strip_changing_parts(system), _words(told.get("content"))
    return strip_changing_parts(system), canonical_json(list(messages[:1]))


def _words(content: object) -> str:
    """A bare string equals its text block: clients make the one of the other to hang a cache mark on it."""
    parts = content if isinstance(content, list | tuple) else [content]
    told = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    texts = [text for text in told if isinstance(text, str)]
    return "\n".join(texts) if len(texts) == len(parts) else canonical_json(content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to a model, as the SDK is about to send it."""

    wire: str
    url: str
    body: Body
    headers: Mapping[str, str]
    """Those that the provider's features hang on, as betas; a question about this conversation needs them too."""
    owner: str = ""
    """A hash of whose call it is."""
    again: bool = False
    """The SDK tries the same request once more."""


@dataclass(slots=True)
class Lane:
    """One conversation. Whoever prepares or records holds `lock`: a `Context` is for one at a time."""

    session: str
    is_named: bool
    """By the caller. If not, several conversations may share it."""
    call: Call
    """The one that is being prepared, or was last."""
    context: Context = field(init=False)
    newest: Ready | None = None
    """What the context prepared last: only that can be folded anew."""
    waiting: dict[int, tuple[Body, Ready]] = field(default_factory=dict)
    """Bodies that the provider has not taken yet, and what was made of each: the SDK may try one again."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def known(self, call: Call) -> Ready | None:
        """What was made of the same call before the SDK tried it again."""
        body, ready = self.waiting.get(id(call.body), (None, None))
        return ready if call.again and body is call.body else None

    def expect(self, call: Call, ready: Ready) -> None:
        """It goes out, and may be tried again."""
        self.newest = ready
        self.waiting[id(call.body)] = call.body, ready
        for oldest in list(self.waiting)[:-MOST_WAITING]:
            self.waiting.pop(oldest, None)

    def forget(self, call: Call) -> None:
        """The provider took it."""
        self.waiting.pop(id(call.body), None)


class Lanes:
    """The lanes of one client and of all its copies. `make` opens one; `only` names the session of all calls."""

    def __init__(self, make: Callable[[str, Call, bool], Lane], only: str = "") -> None:
        self._make, self._only = make, only
        self._known: OrderedDict[tuple[str, str], Lane] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, call: Call) -> Lane:
        """Kept apart by wire too: one name for two clients is two conversations."""
        given = _NAMED.get() or self._only
        name = given or f"lane-{digest([call.wire, call.owner, *_beginning(call.body)])}"
        key = (name, call.wire)
        with self._lock:
            lane = self._known.get(key)
            if lane is None:
                lane = self._known[key] = self._make(name, call, bool(given))
            self._known.move_to_end(key)
            while len(self._known) > MOST_LANES:
                self._known.popitem(last=False)
        return lane
