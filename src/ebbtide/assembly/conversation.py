"""Builds the requests of an agent loop, so that each request extends the one before.

The same calls in the same order give the same bytes, and a message that was emitted never changes. A user message has
a fixed order: results of the last calls, then injected texts, each in its frame, then what the user wrote. An injected
text cannot end its frame or imitate another. Where each block came from, and how far it is trusted, is kept in
`Conversation.notes`: providers refuse fields that they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ebbtide.assembly.texts import NO_OUTPUT, NOT_EXECUTED, split_system
from ebbtide.core.errors import BadConfig, BadRequest
from ebbtide.core.text.framing import GENERIC_TAG, OUR_TAGS, TAG_BY_SOURCE, frame, neutral, tag_names
from ebbtide.core.types import HARNESS, QUOTED, SYSTEM, USER
from ebbtide.wire import DEFAULT_WIRE, WIRES
from ebbtide.wire.turns import Block, CallResult, Content, OpenCall, is_blank, text_block

_QUOTING_SOURCES = frozenset({"summary", "compactor"})
"""Sources that may quote tool output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Where a block came from, and how far it is trusted. Indexes refer to the emitted messages."""

    message: int
    block: int
    trust: int
    source: str
    call_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _UserText:
    text: str
    trust: int
    source: str


class Conversation:
    """The conversation of your own agent loop: report what happened, in any order, and get the next request.

    Each request begins with the same message objects as the one before. What you add while a call is running is sent
    with the next turn. A second user message follows the first only if a call was never answered.
    """

    def __init__(
        self,
        *,
        model: str,
        system: str | Sequence[str | Mapping[str, object]] = "",
        tools: Sequence[Mapping[str, object]] = (),
        max_tokens: int | None = None,
        wire: str = DEFAULT_WIRE,
        tags: Mapping[str, str] = TAG_BY_SOURCE,
    ) -> None:
        if wire not in WIRES:
            raise BadConfig(f"no wire {wire!r}; there are {', '.join(WIRES)}")
        self._list_key, self._format = WIRES[wire].list_key, WIRES[wire].turns
        self._tags, self._tag_names = dict(tags), tag_names([*OUR_TAGS, *tags.values()])
        self._system = _system_blocks(system)
        cap = self._format.default_max_tokens if max_tokens is None else max_tokens
        self._request_fields: Block = {self._format.model_field: model}
        if cap is not None:
            self._request_fields |= _nest(self._format.max_tokens_field, cap)
        self._tools = [dict(tool) for tool in tools]
        self._messages: list[Block] = []
        self._notes: list[Note] = []
        self._injections: list[_UserText] = []
        self._user_texts: list[_UserText] = []
        self._open_calls: Sequence[OpenCall] = ()
        self._results: dict[str, CallResult] = {}
        self._is_paused = self._only_results = False
        self._awaits_reply = False
        """The newest message is the user's: the model has it, or is about to get it."""
        if self._system and (messages := self._format.system_messages(self._system)):
            self._messages += messages
            self._notes.append(Note(message=0, block=0, trust=SYSTEM, source="system"))

    def user(self, text: str) -> None:
        """Add what the user wrote. It comes last in the message, unchanged."""
        if text.strip():
            self._user_texts.append(_UserText(text=_replace_surrogates(text), trust=USER, source="user"))

    def inject(self, source: str, text: str) -> None:
        """Add a text of the harness, in its source's tag; `attachment:todo` has the tag of `attachment`."""
        family = source.partition(":")[0]
        trust = HARNESS if family in self._tags and family not in _QUOTING_SOURCES else QUOTED
        if text.strip():
            framed = frame(self._tags.get(family, GENERIC_TAG), _replace_surrogates(text), tags=self._tag_names)
            self._injections.append(_UserText(text=framed, trust=trust, source=source))

    def tool_result(self, id: str, content: Content, is_error: bool = False) -> None:
        """Add the result of a call in the newest reply. A second result for a call replaces the first."""
        call = next((call for call in self._open_calls if call.id == id), None)
        if call is None:
            raise BadRequest(f"the newest reply has no open call {id!r}", path="tool_result.id")
        self._results[id] = CallResult(call=call, content=self._clean_output(content), is_error=is_error)

    def assistant(self, response: object) -> None:
        """Add a reply: the provider's response or its message, as a dict or as the SDK's object."""
        reply = self._format.read_reply(response)
        if not self._awaits_reply:
            self._emit_turn()  # A recorded turn, whose request was never asked for.
        if not self._awaits_reply and not self._is_paused:
            raise BadRequest("a reply to nothing: the user's side of the turn comes first", path="response")
        self._messages.extend(reply.messages)
        self._open_calls, self._is_paused, self._awaits_reply = reply.calls, reply.is_paused, False
        self._only_results = reply.is_paused or any(call.by_program for call in reply.calls)

    def request(self) -> Block:
        """Build the request for the next call. Without changes it is the same again."""
        self._emit_turn()
        if not self._awaits_reply and not self._is_paused:
            raise BadRequest("nothing to answer: add the user's words, an injection or a result", path="messages")
        return self.frame | {self._list_key: list(self._messages)}

    @property
    def frame(self) -> Block:
        """What every request has besides its messages: model, tools, and the system prompt if it is no message."""
        system = self._format.system_fields(self._system) if self._system else {}
        return {
            **self._request_fields,
            **system,
            **(_nest(self._format.tools_field, list(self._tools)) if self._tools else {}),
        }

    @property
    def notes(self) -> tuple[Note, ...]:
        """One for every block that is not the model's."""
        return tuple(self._notes)

    def tier(self, message: int, block: int = 0) -> int:
        """Return how far a block is trusted. The model's own text is trusted no more than what it read."""
        levels = (note.trust for note in self._notes if (note.message, note.block) == (message, block))
        return next(levels, QUOTED)

    def _emit_turn(self) -> None:
        """Emit the user message of a turn. A call without a result gets one here, so that the request is valid."""
        results = [
            self._results.get(call.id, CallResult(call=call, content=NOT_EXECUTED, is_error=True))
            for call in self._open_calls
        ]
        texts = [] if self._only_results else [*self._injections, *self._user_texts]
        self._open_calls, self._results = (), {}
        if not results and not texts:
            return
        self._add_notes(results, texts)
        self._messages.extend(self._format.write_turn(results, [text.text for text in texts]))
        self._awaits_reply = True
        if texts:
            self._injections, self._user_texts = [], []

    def _add_notes(self, results: Sequence[CallResult], texts: Sequence[_UserText]) -> None:
        base, is_merged = len(self._messages), self._format.joins_results
        for n, result in enumerate(results):
            message, block = (base, n) if is_merged else (base + n, 0)
            self._notes.append(Note(message=message, block=block, trust=QUOTED, source="tool", call_id=result.call.id))
        message, first = (base, len(results)) if is_merged else (base + len(results), 0)
        for n, text in enumerate(texts, first):
            self._notes.append(Note(message=message, block=n, trust=text.trust, source=text.source))

    def _clean_output(self, content: Content) -> Content:
        """Neutralize tags in tool output: it could imitate a reminder even outside a frame."""
        if isinstance(content, str):
            text = neutral([_replace_surrogates(content)], self._tag_names)[0]
            return text if text.strip() else NO_OUTPUT
        texts = neutral([_replace_surrogates(str(part.get("text", ""))) for part in content], self._tag_names)
        parts = [{**part, "text": text} if "text" in part else part for part, text in zip(content, texts, strict=True)]
        return [part for part in parts if not is_blank(part)] or NO_OUTPUT


def _nest(field: str, value: object) -> Block:
    """Return the fields of a request that hold a value: `a.b` is a field of the field `a`."""
    name, _, inner = field.partition(".")
    return {name: _nest(inner, value) if inner else value}


def _system_blocks(system: str | Sequence[str | Mapping[str, object]]) -> tuple[Block, ...]:
    if isinstance(system, str):
        return split_system(system)
    blocks = [text_block(part) if isinstance(part, str) else dict(part) for part in system]
    return tuple(block for block in blocks if not is_blank(block))


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates: a provider refuses them, and one in the history would end the session."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
