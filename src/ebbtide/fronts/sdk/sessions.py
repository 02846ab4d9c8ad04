"""Find the session that a call belongs to. Each session has one `Context`.

`with session("id"):` decides. Otherwise a session is identified by the client's credential, every id in the request,
the system prompt without dates, times and counters, and the exact text of the first user message. Conversations that
are equal in all of these share a session as its branches: an edit applies only where the items it covers are present,
each call has its own reply, and each branch recalls only its own text.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field

from ebbtide.runtime import Context, Ready
from ebbtide.wire import WIRES
from ebbtide.wire.blocks import canonical_json, digest
from ebbtide.wire.caller import identify_caller
from ebbtide.wire.conversation_start import strip_changing_parts
from ebbtide.wire.protocol import Wire

Body = Mapping[str, object]

_SESSION_NAME: ContextVar[str] = ContextVar("ebbtide_session", default="")

MAX_PENDING = 16
"""Calls of one session whose plan a retry of the SDK finds again; an older one is prepared again."""
MAX_SESSIONS = 256
"""Sessions kept in memory. An older one is read from the store or, without a store, planned again."""
_KEYS = ("api_key", "auth_token")
_ACCOUNTS = ("organization", "project", "project_id", "workspace_id", "aws_access_key", "aws_profile")
_KEY_PROVIDERS = ("_api_key_provider", "_azure_ad_token_provider")
"""Attributes of clients that fetch their key by a function. Such keys are short-lived and identify nothing."""


@contextmanager
def session(name: str) -> Iterator[str]:
    """Calls inside belong to this session, in this thread or task and in tasks started from it."""
    if not isinstance(name, str) or not name:
        raise ValueError("session() needs a name that is not empty")
    token = _SESSION_NAME.set(name)
    try:
        yield name
    finally:
        _SESSION_NAME.reset(token)


def _conversation_start(wire: Wire, body: Body) -> tuple[str, str]:
    """Return the system prompt without its changing parts, and the first user message."""
    content = body.get(wire.list_key)
    messages = content if isinstance(content, list | tuple) else [wire.requests.user_message(content)]
    system = [_text(wire.messages.system_and_tools(body)[0] or "")]
    for message in messages:
        fields = message if isinstance(message, Mapping) else {}
        if fields.get("role") in ("system", "developer"):
            system.append(_text(fields.get("content")))
        if fields.get("role") == "user":
            return strip_changing_parts(system), _text(fields.get("content"))
    return strip_changing_parts(system), canonical_json(list(messages[:1]))


def _text(content: object) -> str:
    """Return a message's text. A string equals its text block: clients convert it to add a cache breakpoint."""
    parts = content if isinstance(content, list | tuple) else [content]
    values = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    texts = [text for text in values if isinstance(text, str)]
    return "\n".join(texts) if len(texts) == len(parts) else canonical_json(content)


def owner_hash(client: object, headers: Mapping[str, object], body: Body) -> str:
    """Hash the credential, the account and the ids of a call. The call's `headers` override the client's.

    Clients with different keys may share a store, and their conversations may begin alike.
    """
    all_headers: dict[str, object] = {}
    with suppress(Exception):  # a client of another version or class may do anything there
        all_headers |= dict(getattr(client, "default_headers", {}))
    all_headers |= headers
    texts = {name.lower(): value for name, value in all_headers.items() if isinstance(value, str)}
    has_fetched_key = any(callable(getattr(client, name, None)) for name in _KEY_PROVIDERS)
    if has_fetched_key:
        texts.pop("authorization", None)
    names = _ACCOUNTS if has_fetched_key else (*_KEYS, *_ACCOUNTS)
    attributes = [(name, value) for name in names if isinstance(value := getattr(client, name, None), str)]
    caller = identify_caller(texts, body)
    return digest([*map(list, (*caller.ids, *caller.credentials, *attributes))])


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One request to a model, as the SDK is about to send it."""

    wire: str
    url: str
    body: Body
    headers: Mapping[str, str]
    """Those that switch on features of the provider, such as betas. Questions about this session need them too."""
    owner: str = ""
    """See `owner_hash`."""
    is_retry: bool = False
    """Whether the SDK sends the same request again."""


@dataclass(slots=True)
class SdkSession:
    """One session. `lock` is held while its context prepares or records: a `Context` serves one call at a time."""

    name: str
    is_named: bool
    """By the caller. If not, several conversations may share it."""
    call: ModelCall
    """The call that is being prepared, or was last."""
    context: Context = field(init=False)
    last_ready: Ready | None = None
    """What the context prepared last: the only request that it can compact again."""
    pending: dict[int, tuple[Body, Ready]] = field(default_factory=dict)
    """Bodies that the provider has not accepted yet, each with its plan, in case the SDK retries."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ready_for(self, call: ModelCall) -> Ready | None:
        """Return the plan of the same call if the SDK retries it."""
        body, ready = self.pending.get(id(call.body), (None, None))
        return ready if call.is_retry and body is call.body else None

    def add_pending(self, call: ModelCall, ready: Ready) -> None:
        self.last_ready = ready
        self.pending[id(call.body)] = call.body, ready
        for oldest in list(self.pending)[:-MAX_PENDING]:
            self.pending.pop(oldest, None)

    def drop_pending(self, call: ModelCall) -> None:
        self.pending.pop(id(call.body), None)


class SdkSessions:
    """The sessions of one client and of all its copies. `fixed_name` names the session of all calls."""

    def __init__(self, open_session: Callable[[str, ModelCall, bool], SdkSession], fixed_name: str = "") -> None:
        self._open_session, self._fixed_name = open_session, fixed_name
        self._sessions: OrderedDict[tuple[str, str], SdkSession] = OrderedDict()
        self._lock = threading.Lock()

    def session_for(self, call: ModelCall) -> SdkSession:
        """Find or open the session of a call. One name on two wires is two sessions."""
        given_name = _SESSION_NAME.get() or self._fixed_name
        start = () if given_name else _conversation_start(WIRES[call.wire], call.body)
        name = given_name or f"lane-{digest([call.wire, call.owner, *start])}"
        key = (name, call.wire)
        with self._lock:
            if key not in self._sessions:
                self._sessions[key] = self._open_session(name, call, bool(given_name))
            session = self._sessions[key]
            self._sessions.move_to_end(key)
            while len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)
        return session
