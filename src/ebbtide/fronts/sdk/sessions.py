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

from ebbtide.core.errors import BadConfig
from ebbtide.runtime import Context, Ready
from ebbtide.wire import WIRES
from ebbtide.wire.blocks import canonical_json, digest
from ebbtide.wire.caller import identify_caller
from ebbtide.wire.conversation_start import strip_changing_parts
from ebbtide.wire.protocol import Wire

Body = Mapping[str, object]
SessionName = str | Callable[[], str]
"""The session of all calls, or a function that is asked for it on each call."""

_SESSION: ContextVar[tuple[str, str]] = ContextVar("ebbtide_session", default=("", ""))
"""The names of the session and of its parent."""

MAX_PENDING = 16
"""Calls of one session whose plan a retry of the SDK finds again; an older one is prepared again."""
MAX_SESSIONS = 256
"""Sessions kept in memory. An older one is read from the store or, without a store, planned again."""
_UNNAMED = "lane-"
"""How our names for unnamed sessions begin."""
_KEYS = ("api_key", "auth_token", "access_token", "_azure_ad_token")
_ACCOUNTS = ("organization", "project", "project_id", "workspace_id", "aws_access_key", "aws_profile")
_CREDENTIAL_OBJECTS = ("credentials", "_credentials")
"""Attributes with Google's credentials: their token changes every hour, but the account stays."""
_KEY_PROVIDERS = ("_api_key_provider", "_azure_ad_token_provider")
"""Attributes of clients that fetch their key by a function. Such keys are short-lived and identify nothing."""


@contextmanager
def session(name: str, *, parent: str = "") -> Iterator[str]:
    """Calls inside belong to this session, in this thread or task and in tasks started from it.

    `parent` names the session of the agent that this one works for. `client.ebbtide.finish(result)` records its result
    there.
    """
    if not isinstance(name, str) or not name:
        raise ValueError("session() needs a name that is not empty")
    if not isinstance(parent, str) or parent == name:
        raise ValueError("the parent of a session is the name of another session")
    token = _SESSION.set((name, parent))
    try:
        yield name
    finally:
        _SESSION.reset(token)


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


@dataclass(frozen=True, slots=True)
class Owner:
    """Who makes a call, as hashes."""

    credential: str = ""
    """Of the credentials and the account."""
    ids: str = ""
    """Of these and all ids in the call."""


def identify_owner(client: object, headers: Mapping[str, object], body: Body) -> Owner:
    """Identify who makes a call. The call's `headers` override the client's.

    Clients with different keys may share a store, and their conversations may begin alike.
    """
    all_headers: dict[str, object] = {}
    with suppress(Exception):  # a client of another version or class may do anything there
        all_headers |= dict(getattr(client, "default_headers", None) or client._http_options.headers)  # type: ignore[attr-defined]
    all_headers |= headers
    texts = {name.lower(): value for name, value in all_headers.items() if isinstance(value, str)}
    has_fetched_key = any(callable(getattr(client, name, None)) for name in _KEY_PROVIDERS)
    if has_fetched_key:
        texts.pop("authorization", None)
    names = _ACCOUNTS if has_fetched_key else (*_KEYS, *_ACCOUNTS)
    attributes = [(name, value) for name in names if isinstance(value := getattr(client, name, None), str)]
    for holder in (getattr(client, name, None) for name in _CREDENTIAL_OBJECTS):
        account = getattr(holder, "service_account_email", None) or getattr(holder, "client_id", None)
        attributes += [("account", account)] if isinstance(account, str) else []
    caller = identify_caller(texts, body)
    credentials = (*caller.credentials, *attributes)
    return Owner(digest([*map(list, credentials)]), digest([*map(list, (*caller.ids, *credentials))]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One request to a model, as the SDK is about to send it."""

    wire: str
    url: str
    body: Body
    headers: Mapping[str, str]
    """Those that switch on features of the provider, such as betas. Questions about this session need them too."""
    owner: Owner = Owner()
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
    parent: SdkSession | None = None
    """The session of the agent that this one works for."""
    has_recall_tools: bool | None = None
    """Whether its requests have the recall tools; None if the log was not read yet."""
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


OpenSession = Callable[[str, ModelCall, bool], SdkSession]
"""Opens a session by its name, its first call, and whether the caller named it."""


class SdkSessions:
    """The sessions of one client and of all its copies."""

    def __init__(self, open_session: OpenSession, fixed_name: SessionName = "", fixed_parent: SessionName = "") -> None:
        self._open_session, self._fixed_name, self._fixed_parent = open_session, fixed_name, fixed_parent
        self._sessions: OrderedDict[tuple[str, str], SdkSession] = OrderedDict()
        self._lock = threading.Lock()

    def current_name(self) -> str:
        """Return the name that the caller gives to the session of a call made now, or ''."""
        return self.current_names()[0]

    def current_names(self) -> tuple[str, str]:
        """Return the names that the caller gives to the session of a call made now and to its parent; '' for none."""
        name, parent = _SESSION.get()
        if name:
            return name, parent
        name = _ask_name("session", self._fixed_name)
        if not name and callable(self._fixed_name):
            raise BadConfig("the function passed as session= must return a name that is not empty, not ''")
        parent = _ask_name("parent", self._fixed_parent)
        return name, "" if parent == name else parent

    def session_for(self, call: ModelCall, given_name: str = "", parent: str = "") -> SdkSession:
        """Find or open the session of a call. One name on two wires is two sessions."""
        start = () if given_name else _conversation_start(WIRES[call.wire], call.body)
        name = given_name or f"{_UNNAMED}{digest([call.wire, call.owner.ids, *start])}"
        with self._lock:
            parent_session = self._find_or_open(parent, call, is_named=True) if parent else None
            session = self._find_or_open(name, call, is_named=bool(given_name))
            session.parent = parent_session or session.parent
            while len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)
        return session

    def _find_or_open(self, name: str, call: ModelCall, *, is_named: bool) -> SdkSession:
        key = (name, call.wire)
        if key not in self._sessions:
            self._sessions[key] = self._open_session(name, call, is_named)
        self._sessions.move_to_end(key)
        return self._sessions[key]

    def visible_to(self, credential: str) -> list[SdkSession]:
        """Return the sessions that a client with this credential may look at, the one used last at the end.

        A session without a name belongs to the credential that began it.
        """
        with self._lock:
            sessions = list(self._sessions.values())
        return [one for one in sessions if one.is_named or one.call.owner.credential == credential]


def _ask_name(option: str, name: SessionName) -> str:
    value: object = name() if callable(name) else name
    if not isinstance(value, str):
        raise BadConfig(f"the function passed as {option}= must return a name, not {type(value).__name__}")
    return value
