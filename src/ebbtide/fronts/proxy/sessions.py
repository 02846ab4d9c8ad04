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
from ebbtide.fronts.proxy.identity import Asked, Identity
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

Heard = Callable[[Event], None]
Way = Literal["path", "tool", "off"]


class Line(NamedTuple):
    """Where a conversation's newest request went, for a question about it. The credential is in it: never stored."""

    url: str
    headers: Sequence[tuple[bytes, bytes]]
    """As they came."""
    streams: bool
    loop: asyncio.AbstractEventLoop


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Who makes summaries."""

    ask: Callable[[Slot, dict[str, object]], object]
    model: str
    """Empty: the conversation's own."""
    limit: float
    """Seconds."""


_BYTES = 64 << 20
"""Of the newest requests of all conversations in memory. An engine holds some five times its request."""
_CANDIDATES = 4
"""Sessions whose history is compared with that of a request under a new token, the newest first."""
_RENEWED = 4096
"""Renewed tokens that are remembered. One that was forgotten is looked up again."""
_BODIES = 64
"""Requests of which the text is kept to read the next one by what is new in it."""


@dataclass(slots=True)
class Slot:
    """One conversation."""

    identity: Identity
    wire: str
    opening: str
    ids: frozenset[str]
    policy: Policy
    windows: Callable[[str], int]
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
    way: str | None = None
    """How its model gets at what left, as recorded: empty for a new session, None before anybody looked."""
    bytes: int = 0
    """Of its newest request."""
    room: int = 0
    """Tokens that its newest request left until the policy acts."""
    newest: Ready | None = None
    """What its engine prepared last: only that can be folded anew."""
    stuck: bool = False
    """A call of ours ran out of time and has not come back."""
    complained: set[str] = field(default_factory=set)
    """Kinds of failure that were told: each is logged once."""
    advice: Advice | None = None
    """None: folds are made of facts alone."""
    line: Line | None = None
    hear: Heard | None = None
    """Who listens to the engine during the call under way."""
    tally: Tally = field(default_factory=Tally)

    def opened(self, model: str, way: Way) -> Context:
        """Its engine, the same whichever model is asked: windows are the model's. Reads the disk."""
        if self.context is None:
            self.context = Context(
                model=model,
                window=self.windows,
                policy=self.policy,
                store=self.store,
                session=self.identity.session,
                project=self.identity.project,
                wire=self.wire,
                recall=way,
                scope="conversation",
                summarizer=self._summary if self.advice else None,
                summarizer_model=self.advice.model if self.advice else "",
                summarizer_timeout=self.advice.limit if self.advice else TIMEOUT,
                background=True,
                on_event=self._told,
            )
        self.model, self.window = model, self.windows(model)
        return self.context

    def recorded(self) -> tuple[Edit, ...]:
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

    def takes_tools(self) -> bool:
        """Whether the recall tools belong to it: they come with a session's first request or never. Reads the disk."""
        if self.way is None and self.store is not None:
            self.way = self._read_state(self.store).recall
        return self.way in ("", "tool")

    def _read_state(self, store: Store) -> SessionState:
        reading = store.peek(self.identity.session, project=self.identity.project).read()
        return apply_records(SessionState(), upgrade_log(reading.records))

    def _summary(self, request: dict[str, object]) -> object:
        assert self.advice is not None, "nobody is asked where there is nobody"
        return self.advice.ask(self, request)

    def _told(self, event: Event) -> None:
        if self.hear is not None:
            self.hear(event)


class Sessions:
    def __init__(self, options: Options, store: Store | None = None, advice: Advice | None = None) -> None:
        settings, self._advice = options.settings, advice
        self._most = options.most_sessions
        self._policy, self._windows = settings.policy(), settings.window_for
        # What a turn records can be read from the client's next request again: it need not survive a power cut.
        self.durable = settings.durable and "durable" in settings.origins
        self._store = store or (None if options.shadow else open_store(settings.store or None, durable=self.durable))
        self._slots: OrderedDict[Identity, Slot] = OrderedDict()
        self._renewed: OrderedDict[Identity, Identity] = OrderedDict()
        """From who sends a request under a renewed token to the session that it goes on with."""
        self._bodies: OrderedDict[str, ParsedBody] = OrderedDict()
        self.begun = 0

    def read(self, client: str, plain: bytes) -> ParsedBody:
        """A request as a tree. What this client's last one had already is recognised, not read again."""
        body = read_body(plain, self._bodies.get(client))
        self._bodies[client] = body
        self._bodies.move_to_end(client)
        if len(self._bodies) > _BODIES:
            self._bodies.popitem(last=False)
        return body

    def may_continue(self, asked: Asked) -> bool:
        """Whether `continue_earlier` has to be asked before `slot`: a token that is new here may be a renewed one."""
        if not asked.is_renewable or asked.is_first or asked.only_replayed or self._store is None:
            return False
        return asked.identity not in self._slots and asked.identity not in self._renewed

    def continue_earlier(self, asked: Asked, tree: Mapping[str, object]) -> None:
        """Find the session that this request goes on with under a renewed token. Reads the disk.

        It must have the same name, which is made of everything but the token, and its history must be in the request.
        """
        assert self._store is not None, "asked only where there is one"
        identity, store = asked.identity, self._store
        named = [info for info in store.list_sessions() if info.session == identity.session]
        if any(info.project == identity.project for info in named):
            return
        for info in [one for one in named if one.project.startswith(PROJECT_PREFIX)][:_CANDIDATES]:
            records = store.peek(info.session, project=info.project).read().records
            if continues_conversation(records, tree, WIRES[asked.wire]):
                self._renewed[identity] = identity._replace(tenant=info.project.removeprefix(PROJECT_PREFIX))
                break
        while len(self._renewed) > _RENEWED:
            self._renewed.popitem(last=False)

    def slot(self, asked: Asked) -> Slot:
        """The conversation of a request. A client's own compaction is about the newest lane that tells its story."""
        identity = self._renewed.get(asked.identity, asked.identity)
        if asked.only_replayed and identity not in self._slots:
            identity = self._telling_the_same(asked) or identity
        slot = self._slots.get(identity) or Slot(
            identity=identity, wire=asked.wire, opening=asked.opening, ids=asked.ids, policy=self._policy,
            windows=self._windows, store=self._store, advice=self._advice,
        )  # fmt: skip
        if asked.only_replayed:
            return slot  # no turn of any conversation: it begins none
        if identity not in self._slots:
            self._slots[identity] = slot
            self.begun += 1
            self._forget()
        self._slots.move_to_end(identity)
        return slot

    def __iter__(self) -> Iterator[Slot]:
        return iter(list(self._slots.values()))

    def _telling_the_same(self, asked: Asked) -> Identity | None:
        """The newest conversation that begins with the same words of the same caller, under whichever of its tokens.

        Such requests leave ids out, as a count has no `metadata`; what they have must be the same.
        """
        tenant = asked.identity.tenant
        tenants = {tenant} | {one.tenant for new, one in self._renewed.items() if new.tenant == tenant}
        for identity, slot in reversed(self._slots.items()):
            same = (slot.opening, slot.wire) == (asked.opening, asked.wire) and asked.ids <= slot.ids
            if same and identity.tenant in tenants:
                return identity
        return None

    def _forget(self) -> None:
        """The oldest go first; one that is being worked on stays."""
        size = sum(slot.bytes for slot in self._slots.values())
        for identity, slot in list(self._slots.items())[:-1]:
            if len(self._slots) <= self._most and size <= _BYTES:
                return
            if not slot.lock.locked():
                size -= slot.bytes
                del self._slots[identity]
