"""What a provider's wire must provide. To add a provider, write one module per facet below and list it in `WIRES`.

A wire is pure: plain data in, plain data out. Nothing it returns shares a changed object with what it was given, and
a message that needs no change is returned as the same object, so that its bytes can be sent unchanged.

A new wire is a package `wire/<provider>/` with seven modules:

    messages.py   MessageFormat      messages to blocks and back, and what the request says beside its messages
    cache.py      CacheBreakpoints   where the cache is marked; `IMPLICIT_CACHE` if the provider has no marks
    replies.py    ReplyFormat        usage, streams, several responses merged into one, errors
    requests.py   SideRequests       routes, summary requests, tool definitions
    turns.py      TurnFormat         turns of a conversation that a program builds (`ebbtide.Conversation`)
    rules/        ValidityRules      what the provider refuses, and the repairs; `rules.py` if one module is enough
    history.py    ClientHistory      a recorded client's history, repaired so that it can be replayed

and a line in `WIRES` of `wire/__init__.py`. Its bodies and responses are recognized by `list_key` and `response_key`;
only wires that share a `list_key` must be told apart in `recognize` there.
`docs/how-to/write-a-wire.md` says in which order to write them, and which tests then run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ebbtide.core.cache.breakpoints import BreakpointSlot
from ebbtide.core.types import Item, Usage
from ebbtide.wire.blocks import Block
from ebbtide.wire.client_history import ClientHistory
from ebbtide.wire.turns import Block as TurnBlock
from ebbtide.wire.turns import CallResult, Reply

Json = Mapping[str, Any]


class MessageFormat(Protocol):
    """Messages as blocks, and the request around them."""

    def split(self, message: Any, path: str) -> list[Block]:
        """Split one message into at least one block. Raise `BadRequest` with `path` for what is no message."""

    def join(self, original: Any, entries: Sequence[Item]) -> list[Any]:
        """Write entries of one message. `original` is the message they came from, or None if there is none."""

    def must_join(self, before: Sequence[Item], after: Sequence[Item]) -> bool:
        """Tell whether two groups of entries on one side, neighbours after an edit, must become one message."""

    def replacement_forms(self, item: Item) -> Sequence[Item]:
        """All forms in which a replacement may have been sent; a client may send back any of them."""

    def system_and_tools(self, body: Json) -> tuple[Any, Any]:
        """Return system prompt and tools as they are in the body, None for what is elsewhere or missing."""

    def max_output(self, body: Json) -> int:
        """Return the limit on output tokens that the body sets, or 0."""

    def partial_history_reason(self, body: Json) -> str:
        """Return why the body lacks earlier messages (the server keeps them), or ''."""

    def thinking_bound_to_prefix(self, body: Json) -> bool:
        """Tell whether signed thinking is valid only after the exact prefix it was written for (A63)."""

    def count_breakpoints(self, message: Any) -> int:
        """Count the cache breakpoints of one message; 0 if the provider has none."""

    def for_log(self, message: Any) -> Any:
        """Return the message in the log's format, which is Anthropic's; the same object if that is this wire's own.

        For any other wire, role and user text are enough: the log keeps the original beside it.
        """


class CacheBreakpoints(Protocol):
    """Marks in a request that tell the provider where a cached prefix ends."""

    is_explicit: bool
    """Whether nothing is cached without a mark."""

    def slots(
        self,
        body: Json,
        tokens: Sequence[int],
        overhead: tuple[int, int],
        edit_ends: Sequence[int],
        *,
        is_edited: bool = True,
    ) -> list[BreakpointSlot]:
        """List where breakpoints may be: on tools, on the system prompt, near the end, and where edits end.

        `tokens` are the sums up to and with each message, `overhead` those of tools and system prompt. A request that
        is not edited extends the last one, and needs only few places near its end.
        """

    def present(self, body: Json, edit_ends: Sequence[int]) -> tuple[tuple[int, ...], float]:
        """Return which of these messages carry a breakpoint, and the shortest lifetime among them in seconds."""

    def add(self, body: Json, slots: Sequence[BreakpointSlot]) -> Json:
        """Return a copy of the body with breakpoints at `slots`."""

    def client_fields(self, model: str, ttl: float) -> Json:
        """Return the fields with which clients mark the system prompt and the request; {} if they mark nothing."""

    def lifetimes(self, message: Any) -> Sequence[float]:
        """Return for how many seconds each block of a message asks to be cached; 0 for one without a breakpoint."""

    def outer_lifetimes(self, body: Json) -> tuple[float, float]:
        """Return the same for what comes before the messages, and for a breakpoint set at the end of the request."""

    def raise_front(self, body: Json, marked_messages: Sequence[int]) -> Json:
        """Return a copy whose own breakpoints on tools and system prompt ask for an hour; the body itself if it has
        none, or if any of its breakpoints says how long. `marked_messages` are the messages that have some."""

    def session_fields(self, body: Json, *, key: str, retention: str = "") -> Json:
        """Return the fields that the body lacks and with which the provider keeps a session's cache together."""


class StreamAssembler(Protocol):
    """Puts one streamed response together, event by event."""

    is_complete: bool
    """Whether the stream ended properly and all of it was understood."""

    def add(self, event: dict[str, Any]) -> str:
        """Add an event. Return the text of the answer that it brings, or ''."""

    def response(self) -> dict[str, Any]:
        """Return the response as it would be without a stream. If it is not complete, trust only `usage`."""


class RecallCall(NamedTuple):
    """A call of one of our recall tools."""

    id: str
    name: str
    arguments: str
    """As JSON."""
    raw: Json


class RecallBatch(NamedTuple):
    """Recall calls that stand together in a response."""

    calls: list[RecallCall]
    visible: list[Any]
    """What the client sees of the same response before them, as messages."""


class ReadResponse(NamedTuple):
    """One response, searched for recall calls."""

    recalls: list[RecallBatch]
    """Empty if the response ended in a way that leaves them without an answer."""
    has_client_calls: bool
    """Whether it also calls the client's own tools, whose results come with the next request."""
    hidden_text: str
    """Text before the recall call that cannot be shown apart from what follows (OpenAI Chat)."""


class ResponseMerger(Protocol):
    """Shows the client several responses as one, without the recall calls in between.

    Feed each response's events to `convert`, or pass whole responses to `merge`. Blocks are numbered on, one response
    begins and one ends, and the usage is the last response's input with the output of all.
    """

    is_hiding: bool
    """Whether a recall call has begun in the current response."""

    def start_next(self) -> None:
        """The events that follow belong to the next response."""

    def convert(self, event: Json) -> Json | None:
        """Return the event for the client, the same object if unchanged; None to hide it."""

    def is_end(self, event: Json) -> bool:
        """Tell whether the event is part of a response's end, which the client sees only of the last one."""

    def read(self, response: Json) -> ReadResponse: ...

    def visible(self, responses: Sequence[Json]) -> list[Any]:
        """Return what the client sees of these responses, as messages of its next request."""

    def merge(self, responses: Sequence[Json]) -> Json:
        """Merge whole responses into one."""


class ReplyFormat(Protocol):
    """What the provider sends back."""

    def usage(self, response: Json) -> Usage | None: ...

    def as_messages(self, response: Json) -> list[Any]:
        """Return the response as messages of the next request."""

    def from_recording(self, reply: Json, usage: Usage | None) -> dict[str, Any]:
        """Return a recorded reply (see `RecordedCall.response`) as a whole response with this usage."""

    def stream_assembler(self) -> StreamAssembler: ...

    def response_merger(self) -> ResponseMerger: ...

    def read_answer(self, response: Json) -> AnswerParts:
        """Take the parts of an answer in words from a response."""

    def error_body(self, reason: str, *, is_overloaded: bool) -> dict[str, Any]:
        """Build the provider's error for a request over the window, or for an overloaded server."""

    def error_event(self, error: Json) -> tuple[str, dict[str, Any]]:
        """Build an error in the middle of a stream: the event's name, perhaps empty, and its data."""


class AnswerParts(NamedTuple):
    """A response as the answer to a question of ours."""

    texts: list[str]
    stop_reason: str
    """In the provider's own word."""
    has_calls: bool
    is_refusal: bool


class SideRequests(Protocol):
    """Requests that we write ourselves, and the paths that requests are sent to."""

    routes: Sequence[str]
    """How the paths of requests to a model end."""
    side_routes: Mapping[str, str]
    """Paths that ask about a conversation and are no turn of it, each with what it asks: `count`, `compaction`."""

    def model(self, path: str, body: Json) -> str:
        """Return the model that a request is for, or ''."""

    def wants_stream(self, path: str, body: Json) -> bool: ...

    def address(self, url: str, body: Json, wants_stream: bool) -> tuple[str, Json]:
        """Address a request of ours: return its URL and its body. `url` is where a request of the client was sent."""

    def tool_definition(self, name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
        """Define a tool, for `tools` of a request."""

    def tool_names(self, tools: Any) -> list[str]:
        """Return the names of the tools of a request; of a tool without a name, its type."""

    def add_tools(self, body: Json, tools: Sequence[Json]) -> Json | None:
        """Add tools behind the client's own; None if we could not hold back the answers that call them."""

    def prepare_question(self, body: Json) -> dict[str, Any]:
        """Return a copy without what would keep the model from answering in words: streams, forced calls, formats."""

    def thinking_room(self, body: Json) -> int:
        """Return the tokens that thinking may take before the answer begins; 0 if the request does not think."""

    def limit_output(self, body: Json, tokens: int) -> dict[str, Any]:
        """Return a copy that limits the output."""

    def user_message(self, text: Any) -> Any:
        """Write one message of the user."""

    def count_before_user_text(self, messages: Sequence[Any]) -> int:
        """Count the leading messages after which user text is allowed; all of them if it is at the end."""

    def add_user_text(self, body: Json, text: str) -> list[Any]:
        """Return the body's messages with `text` as the last thing the user says."""


class TurnFormat(Protocol):
    """Turns of a conversation that a program builds with `ebbtide.Conversation`."""

    model_field: str
    """The field of a request that names its model. A body may also say `model`."""
    tools_field: str
    """The field of a request that holds its tools; nested like the next one."""
    max_tokens_field: str
    """The field of a request that limits its output; `a.b` is a field of the field `a`."""
    default_max_tokens: int | None
    """Set if the program sets none; None if the provider does not require a limit."""
    joins_results: bool
    """Whether results and texts of a turn are blocks of one message."""

    def read_reply(self, response: object) -> Reply:
        """Read a response, or its message alone, as a dict or an SDK object."""

    def write_turn(self, results: Sequence[CallResult], texts: Sequence[str]) -> Iterator[TurnBlock]:
        """Write the user's side of a turn as messages."""

    def system_fields(self, system: Sequence[TurnBlock]) -> TurnBlock:
        """Return the fields of a request that hold the system prompt."""

    def system_messages(self, system: Sequence[TurnBlock]) -> list[TurnBlock]:
        """Return the messages that hold the system prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What `repair` changed in the request. The store is never changed."""

    rule: str
    path: str
    """In the client's body."""
    what: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule and its repair. If there is no repair, the request is refused."""

    rule: str
    """As in validity.md: `A16`."""
    path: str
    """As in `messages.3.content.0`."""
    message: str
    """In the provider's words if they are known."""
    repair: str = ""

    @property
    def as_repair(self) -> Repair:
        return Repair(rule=self.rule, path=self.path, what=self.repair)


class Log(list[Finding]):
    """Findings in the order of the rules."""

    def note(self, rule: str, path: str, message: str, repair: str = "") -> None:
        self.append(Finding(rule, path, message, repair))

    @property
    def is_hopeless(self) -> bool:
        """Whether a finding has no repair."""
        return not all(finding.repair for finding in self)


class ValidityRules(Protocol):
    """What the provider refuses. `since` leading messages were accepted before and are not checked again.

    `call_ids` and `breakpoints` are those of the accepted messages; `breakpoints` is None if the number is not known.
    """

    def list_rule(self, value: Any) -> str:
        """Name the rule that this value breaks by not being a list of messages; '' if the provider accepts it."""

    def first_to_check(self, messages: list[Any], since: int) -> int:
        """Return where checking starts: before `since` if the new messages change what was accepted."""

    def call_ids(self, message: Any) -> frozenset[str]: ...

    def drop_broken_thinking(self, message: Any) -> Any:
        """Return the message without thinking that is not valid UTF-8: it is signed, so it cannot be repaired."""

    def is_ordinary(self, body: Json, since: int, call_ids: AbstractSet[str], breakpoints: int | None) -> bool:
        """Tell quickly that no rule is broken. After False all rules are applied, so False is never wrong."""

    def repair(self, body: Json, since: int, call_ids: AbstractSet[str], breakpoints: int | None, log: Log) -> Json:
        """Apply the rules from `since` on. Return a valid body, and note in `log` what was repaired or cannot be."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Wire:
    """One provider's request format. Each facet is a module."""

    name: str
    """Written to logs: it must never change."""
    list_key: str
    """The field of a body that holds the conversation."""
    front_fields: frozenset[str]
    """The fields that may hold the system prompt and the tools. They are checked only if they change."""
    response_key: str
    """The field of a response that holds the reply. Only this wire's responses have it."""
    provider: str
    """In telemetry."""
    typical_model: str
    """For prices and cache rules where no model was recorded."""
    messages: MessageFormat
    cache: CacheBreakpoints
    replies: ReplyFormat
    requests: SideRequests
    turns: TurnFormat
    rules: ValidityRules
    history: type[ClientHistory]
    remove_signatures: Callable[[Any], Any] | None = None
    """Return a message without signatures that the provider refused, if it works without them."""
