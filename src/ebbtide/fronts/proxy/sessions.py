"""Conversations in memory: the newest few hundred, each with its engine. The truth is in the store.

A conversation that was let go comes back from the store with its next request, as it would in another process.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ebbtide.compaction.answer_sources import TIMEOUT
from ebbtide.core.errors import StoreError
from ebbtide.core.types import Edit
from ebbtide.fronts.proxy.identity import Identity, IncomingRequest
from ebbtide.fronts.proxy.options import Options
from ebbtide.fronts.proxy.tally import Tally
from ebbtide.policy import Policy
from ebbtide.recall.handles import continues_conversation
from ebbtide.runtime import Context
from ebbtide.runtime.context import Ready
from ebbtide.runtime.report import Event
from ebbtide.state.binding_records import upgrade_log
from ebbtide.state.session_state import SessionState, apply_records
from ebbtide.store import Store, open_store
from ebbtide.store.tenants import PROJECT_PREFIX
from ebbtide.wire import WIRES
from ebbtide.wire.body import ParsedBody, read_body

OnEvent = Callable[[Event], None]
RecallMode = Literal["path", "tool", "off"]


class UpstreamRoute(NamedTuple):
    """Where a conversation's newest request went, for a question about it. The credential is in it: never stored."""

    url: str
    headers: Sequence[tuple[bytes, bytes]]
    """As they came."""
    wants_stream: bool
    loop: asyncio.AbstractEventLoop


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarySource:
    """Who makes summaries."""

    ask: Callable[[ProxySession, dict[str, object]], object]
    model: str
    """Empty: the conversation's own."""
    limit: float
    """Seconds."""


_MAX_REQUEST_BYTES = 64 << 20
"""Of the newest requests of all conversations in memory. An engine holds some five times its request."""
_MAX_CANDIDATES = 4
"""Sessions whose history is compared with that of a request under a new token, the newest first."""
_MAX_RENEWED = 4096
"""Renewed tokens that are remembered. One that was forgotten is looked up again."""
_MAX_BODIES = 64
"""Requests of which the text is kept to read the next one by what is new in it."""


@dataclass(slots=True)
class ProxySession:
    """One conversation."""

    identity: Identity
    wire: str
    opening: str
    ids: frozenset[str]
    policy: Policy
    window_for: Callable[[str], int]
    """From a model to its window."""
    store: Store | None
    """None in shadow: nothing is kept, and nothing outlives the conversation in memory."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the engine works on it, and by nobody who waits for the network."""
    context: Context | None = None
    window: int = 0
    """Of the model that was asked last."""
    model: str = ""
    edits: tuple[Edit, ...] | None = None
    """As last recorded; None before anybody looked."""
    recall_mode: str | None = None
    """How its model gets at what left, as recorded: empty for a new session, None before anybody looked."""
    request_bytes: int = 0
    """Of its newest request."""
    spare_tokens: int = 0
    """Tokens that its newest request left until the policy acts."""
    last_ready: Ready | None = None
    """What its engine prepared last: only that can be folded anew."""
    is_stuck: bool = False
    """A call of ours ran out of time and has not come back."""
    logged_failures: set[str] = field(default_factory=set)
    """Kinds of failure that were told: each is logged once."""
    summary_source: SummarySource | None = None
    """None: folds are made of facts alone."""
    route: UpstreamRoute | None = None
    on_event: OnEvent | None = None
    """Who listens to the engine during the call under way."""
    tally: Tally = field(default_factory=Tally)

    def open_context(self, model: str, recall_mode: RecallMode) -> Context:
        """Its engine, the same whichever model is asked: windows are the model's. Reads the disk."""
        if self.context is None:
            self.context = Context(
                model=model,
                window=self.window_for,
                policy=self.policy,
                store=self.store,
                session=self.identity.session,
                project=self.identity.project,
                wire=self.wire,
                recall=recall_mode,
                scope="conversation",
                summarizer=self._ask_summary if self.summary_source else None,
                summarizer_model=self.summary_source.model if self.summary_source else "",
                summarizer_timeout=self.summary_source.limit if self.summary_source else TIMEOUT,
                background=True,
                on_event=self._forward_event,
            )
        self.model, self.window = model, self.window_for(model)
        return self.context

    def read_edits(self) -> tuple[Edit, ...]:
        """Its edits as the log has them now, another process's too; as known here where the log cannot be read.

        Without the lock: somebody else may be holding it for ever. Changes nothing, since it may end long after the
        request that asked.
        """
        if self.store is None:
            return self.edits or ()
        try:
            return self._read_state(self.store).edits
        except StoreError:
            if self.edits is None:
                raise
            return self.edits

    def uses_recall_tools(self) -> bool:
        """Whether the recall tools belong to it: they come with a session's first request or never. Reads the disk."""
        if self.recall_mode is None and self.store is not None:
            self.recall_mode = self._read_state(self.store).recall
        return self.recall_mode in ("", "tool")

    def _read_state(self, store: Store) -> SessionState:
        reading = store.peek(self.identity.session, project=self.identity.project).read()
        return apply_records(SessionState(), upgrade_log(reading.records))

    def _ask_summary(self, request: dict[str, object]) -> object:
        assert self.summary_source is not None, "nobody is asked where there is nobody"
        return self.summary_source.ask(self, request)

    def _forward_event(self, event: Event) -> None:
        if self.on_event is not None:
            self.on_event(event)


class Sessions:
    def __init__(
        self, options: Options, store: Store | None = None, summary_source: SummarySource | None = None
    ) -> None:
        settings, self._summary_source = options.settings, summary_source
        self._max_sessions = options.max_sessions
        self._policy, self._window_for = settings.policy(), settings.window_for
        # What a turn records can be read from the client's next request again: it need not survive a power cut.
        self.is_durable = settings.durable and "durable" in settings.origins
        self._store = store or (None if options.shadow else open_store(settings.store or None, durable=self.is_durable))
        self._sessions: OrderedDict[Identity, ProxySession] = OrderedDict()
        self._renewed: OrderedDict[Identity, Identity] = OrderedDict()
        """From who sends a request under a renewed token to the session that it goes on with."""
        self._bodies: OrderedDict[str, ParsedBody] = OrderedDict()
        self.started = 0

    def read_request(self, client: str, plain: bytes) -> ParsedBody:
        """A request as a tree. What this client's last one had already is recognised, not read again."""
        body = read_body(plain, self._bodies.get(client))
        self._bodies[client] = body
        self._bodies.move_to_end(client)
        if len(self._bodies) > _MAX_BODIES:
            self._bodies.popitem(last=False)
        return body

    def may_have_renewed_token(self, incoming: IncomingRequest) -> bool:
        """Whether `continue_earlier` has to be asked before `slot`: a token that is new here may be a renewed one."""
        if not incoming.is_renewable or incoming.is_first or incoming.side_request or self._store is None:
            return False
        return incoming.identity not in self._sessions and incoming.identity not in self._renewed

    def find_renewed_session(self, incoming: IncomingRequest, tree: Mapping[str, object]) -> None:
        """Find the session that this request goes on with under a renewed token. Reads the disk.

        It must have the same name, which is made of everything but the token, and its history must be in the request.
        """
        assert self._store is not None, "asked only where there is one"
        identity, store = incoming.identity, self._store
        same_name = [info for info in store.list_sessions() if info.session == identity.session]
        if any(info.project == identity.project for info in same_name):
            return
        for info in [one for one in same_name if one.project.startswith(PROJECT_PREFIX)][:_MAX_CANDIDATES]:
            records = store.peek(info.session, project=info.project).read().records
            if continues_conversation(records, tree, WIRES[incoming.wire]):
                self._renewed[identity] = identity._replace(tenant=info.project.removeprefix(PROJECT_PREFIX))
                break
        while len(self._renewed) > _MAX_RENEWED:
            self._renewed.popitem(last=False)

    def session_for(self, incoming: IncomingRequest) -> ProxySession:
        """The conversation of a request. A client's own compaction is about the newest lane that tells its story."""
        identity = self._renewed.get(incoming.identity, incoming.identity)
        if incoming.side_request and identity not in self._sessions:
            identity = self._find_same_opening(incoming) or identity
        session = self._sessions.get(identity) or ProxySession(
            identity=identity, wire=incoming.wire, opening=incoming.opening, ids=incoming.ids, policy=self._policy,
            window_for=self._window_for, store=self._store, summary_source=self._summary_source,
        )  # fmt: skip
        if incoming.side_request:
            return session  # no turn of any conversation: it begins none
        if identity not in self._sessions:
            self._sessions[identity] = session
            self.started += 1
            self._evict()
        self._sessions.move_to_end(identity)
        return session

    def __iter__(self) -> Iterator[ProxySession]:
        return iter(list(self._sessions.values()))

    def _find_same_opening(self, incoming: IncomingRequest) -> Identity | None:
        """The newest conversation that begins with the same words of the same caller, under whichever of its tokens.

        Such requests leave ids out, as a count has no `metadata`; what they have must be the same.
        """
        tenant = incoming.identity.tenant
        tenants = {tenant} | {one.tenant for new, one in self._renewed.items() if new.tenant == tenant}
        for identity, session in reversed(self._sessions.items()):
            is_same = (session.opening, session.wire) == (
                incoming.opening,
                incoming.wire,
            ) and incoming.ids <= session.ids
            if is_same and identity.tenant in tenants:
                return identity
        return None

    def _evict(self) -> None:
        """The oldest go first; one that is being worked on stays."""
        size = sum(session.request_bytes for session in self._sessions.values())
        for identity, slot in list(self._sessions.items())[:-1]:
            if len(self._sessions) <= self._max_sessions and size <= _MAX_REQUEST_BYTES:
                return
            if not slot.lock.locked():
                size -= slot.request_bytes
                del self._sessions[identity]
