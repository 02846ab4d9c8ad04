"""Sessions in memory: the newest few hundred, each with its engine. Their records are in the store.

A session that was dropped from memory is loaded from the store with its next request, as in another process.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from ebbtide.core.errors import StoreError
from ebbtide.core.types import Edit, Usage
from ebbtide.fronts.proxy.deadline import EngineGate
from ebbtide.fronts.proxy.identity import Identity, IncomingRequest
from ebbtide.fronts.proxy.meters import RequestRecord, Tally
from ebbtide.fronts.proxy.options import Options
from ebbtide.policy import Policy
from ebbtide.recall.handles import continues_conversation
from ebbtide.runtime import Cache, Context, Recall, Summarizer
from ebbtide.runtime.ready import Ready
from ebbtide.state.binding_records import upgrade_log
from ebbtide.state.session_state import SessionState, apply_records
from ebbtide.store import Store, is_database, open_store
from ebbtide.store.tenants import is_tenant_project, tenant_of
from ebbtide.wire import WIRES
from ebbtide.wire.body import ParsedBody, read_body

RecallMode = Literal["path", "tool", "off"]
SummarizerFor = Callable[["ProxySession"], Summarizer]
"""Makes the summarizer of a session."""


class UpstreamRoute(NamedTuple):
    """Where a session's newest request was sent, for questions about it. Never stored: it has the credential in it."""

    url: str
    headers: Sequence[tuple[bytes, bytes]]
    wants_stream: bool
    loop: asyncio.AbstractEventLoop


_MAX_REQUEST_BYTES = 64 << 20
"""Of the newest requests of all sessions in memory. An engine takes about five times its request."""
_MAX_CANDIDATES = 4
"""Sessions whose history is compared with a request under a new token, the newest first."""
_MAX_RENEWED = 4096
"""Renewed tokens that are remembered. Others are looked up again."""
_MAX_BODIES = 64
"""Requests that are kept, so that only what is new in the next one must be parsed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What all sessions share."""

    policy: Policy
    window_for: Callable[[str], int]
    """The window of a model."""
    store: Store | None
    """None in shadow mode, where nothing is stored."""
    summarizer_for: SummarizerFor | None = None
    """None if compaction uses facts alone."""
    raise_lifetimes: bool = False


@dataclass(slots=True, kw_only=True)
class ProxySession:
    """One session in memory: the newest state between two requests. What one request needs is in `OutgoingRequest`."""

    origin: IncomingRequest
    """The request that it began with, under the identity that it is stored with."""
    engine: EngineSettings
    gate: EngineGate = field(default_factory=EngineGate)
    context: Context | None = None
    model: str = ""
    """Of the newest request."""
    edits: tuple[Edit, ...] | None = None
    """As last recorded; None if the log was not read yet."""
    recall_mode: str | None = None
    """As recorded: empty for a new session, None if the log was not read yet."""
    request_bytes: int = 0
    """Of the newest request."""
    spare_tokens: int = 0
    """Tokens from the newest request up to the size at which the policy acts."""
    last_ready: Ready | None = None
    """What the engine prepared last: the only request that it can compact again."""
    logged_failures: set[str] = field(default_factory=set)
    """Each kind of failure is logged once."""
    route: UpstreamRoute | None = None
    tally: Tally = field(default_factory=Tally)

    @property
    def identity(self) -> Identity:
        return self.origin.identity

    @property
    def wire(self) -> str:
        return self.origin.wire

    @property
    def window(self) -> int:
        """Of the model used last."""
        return self.engine.window_for(self.model)

    def open_context(self, model: str, recall_mode: RecallMode) -> Context:
        """Return the engine, which serves all models of the session. Reads the disk."""
        if self.context is None:
            self.context = Context(
                model=model,
                window=self.engine.window_for,
                policy=self.engine.policy,
                store=self.engine.store,
                session=self.identity.session,
                project=self.identity.project,
                wire=self.wire,
                marks=False,
                cache=Cache(raise_lifetimes=self.engine.raise_lifetimes),
                recall=Recall(recall_mode, scope="conversation"),
                summarizer=self.engine.summarizer_for(self) if self.engine.summarizer_for else None,
                on_event=self.gate.forward,
            )
        self.model = model
        self.context.use_model(model)
        return self.context

    def read_edits(self) -> tuple[Edit, ...]:
        """Read the edits from the log, with those of other processes; if it cannot be read, return the ones known here.

        Takes no lock, which may be held for ever. Changes nothing, as it may end long after its request.
        """
        store = self.engine.store
        if store is None:
            return self.edits or ()
        try:
            return self._read_state(store).edits
        except StoreError:
            if self.edits is None:
                raise
            return self.edits

    def uses_recall_tools(self) -> bool:
        """Whether the session has the recall tools, since its first request or never. Reads the disk."""
        if self.recall_mode is None and self.engine.store is not None:
            self.recall_mode = self._read_state(self.engine.store).recall
        return self.recall_mode in ("", "tool")

    def _read_state(self, store: Store) -> SessionState:
        reading = store.peek(self.identity.session, project=self.identity.project).read()
        return apply_records(SessionState(), upgrade_log(reading.records))


class Refusal(NamedTuple):
    """The answer to a request that is not sent."""

    status: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingRequest:
    incoming: IncomingRequest
    session: ProxySession
    original: bytes
    """The client's body, decompressed, with the recall tools if they were added."""
    body: bytes
    """What is sent."""
    is_edited: bool = False
    """Whether `body` differs from what the client sent."""
    has_recall_tools: bool = False
    """Whether the recall tools were added, so that the answer may call them."""
    ready: Ready | None = None
    """The plan; None if nothing was planned. Then the answer's usage says nothing about the last plan."""
    fallback: str = ""
    """Why planning failed, if it did."""
    refusal: Refusal | None = None
    """Set if the request must not be sent."""
    started: float = field(default_factory=time.time)

    def record(self, status: int, usage: Usage | None = None) -> RequestRecord:
        name, tally, seconds = self.session.identity.session, self.session.tally, time.time() - self.started
        return RequestRecord(
            self.incoming.wire, self.incoming.model, name, status, self.started, seconds,
            tally.last_before, tally.last_after, self.is_edited, usage,
        )  # fmt: skip


class Sessions:
    def __init__(
        self, options: Options, store: Store | None = None, summarizer_for: SummarizerFor | None = None
    ) -> None:
        settings = options.settings
        self._max_sessions = options.max_sessions
        # A turn need not survive a power cut by default: the client's next request has it again.
        self.is_durable = settings.durable and "durable" in settings.origins
        if store is None and not options.shadow:
            # A database commits what was sent already while nobody waits.
            is_durable = self.is_durable or is_database(settings.store)
            store = open_store(settings.store or None, durable=is_durable)
        self.engine = EngineSettings(
            policy=settings.policy(),
            window_for=settings.window_for,
            store=store,
            summarizer_for=summarizer_for,
            raise_lifetimes=options.raise_lifetimes and not options.shadow,
        )
        self._sessions: OrderedDict[Identity, ProxySession] = OrderedDict()
        self._renewed: OrderedDict[Identity, Identity] = OrderedDict()
        """From an identity under a renewed token to that of the session it continues."""
        self._bodies: OrderedDict[str, ParsedBody] = OrderedDict()
        self.store = store
        self.started = 0

    def read_request(self, client: str, plain: bytes) -> ParsedBody:
        """Parse a request. What it shares with the client's last one is not parsed again."""
        body = read_body(plain, self._bodies.get(client))
        self._bodies[client] = body
        self._bodies.move_to_end(client)
        if len(self._bodies) > _MAX_BODIES:
            self._bodies.popitem(last=False)
        return body

    def may_have_renewed_token(self, incoming: IncomingRequest) -> bool:
        """Whether to call `find_renewed_session` before `session_for`: a new token may be a renewed one."""
        if not incoming.is_renewable or incoming.is_first or incoming.side_request or self.engine.store is None:
            return False
        return incoming.identity not in self._sessions and incoming.identity not in self._renewed

    def find_renewed_session(self, incoming: IncomingRequest, tree: Mapping[str, object]) -> None:
        """Find the session that this request continues under a renewed token. Reads the disk.

        It must have the same name, which depends on everything but the token, and the request must have its history.
        """
        identity, store = incoming.identity, self.engine.store
        assert store is not None, "without a store no token is looked up"
        projects = store.projects_of(identity.session)
        if identity.project in projects:
            return
        for project in [project for project in projects if is_tenant_project(project)][:_MAX_CANDIDATES]:
            records = store.peek(identity.session, project=project).read().records
            if continues_conversation(records, tree, WIRES[incoming.wire]):
                self._renewed[identity] = identity._replace(tenant=tenant_of(project))
                break
        while len(self._renewed) > _MAX_RENEWED:
            self._renewed.popitem(last=False)

    def session_for(self, incoming: IncomingRequest) -> ProxySession:
        """Find or start the session of a request. A side request is about the newest session with the same opening."""
        identity = self._renewed.get(incoming.identity, incoming.identity)
        if incoming.side_request and identity not in self._sessions:
            identity = self._find_same_opening(incoming) or identity
        session = self._sessions.get(identity) or ProxySession(
            origin=replace(incoming, identity=identity), engine=self.engine
        )
        if incoming.side_request:
            return session  # a side request starts no session
        if identity not in self._sessions:
            self._sessions[identity] = session
            self.started += 1
            self._evict()
        self._sessions.move_to_end(identity)
        return session

    def __iter__(self) -> Iterator[ProxySession]:
        return iter(list(self._sessions.values()))

    def _find_same_opening(self, incoming: IncomingRequest) -> Identity | None:
        """Find the newest session of the same caller, under any of its tokens, that begins with the same text.

        Side requests have fewer ids (a count has no `metadata`), but those that they have must match.
        """
        tenant = incoming.identity.tenant
        tenants = {tenant} | {old.tenant for new, old in self._renewed.items() if new.tenant == tenant}
        for identity, session in reversed(self._sessions.items()):
            origin = session.origin
            is_same_start = (origin.opening, origin.wire) == (incoming.opening, incoming.wire)
            if is_same_start and incoming.ids <= origin.ids and identity.tenant in tenants:
                return identity
        return None

    def _evict(self) -> None:
        """Drop the oldest sessions from memory, but none that the engine works on."""
        size = sum(session.request_bytes for session in self._sessions.values())
        for identity, session in list(self._sessions.items())[:-1]:
            if len(self._sessions) <= self._max_sessions and size <= _MAX_REQUEST_BYTES:
                return
            if not session.gate.lock.locked():
                size -= session.request_bytes
                del self._sessions[identity]
