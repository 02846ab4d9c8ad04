"""The same calls in the same order give the same bytes, and a message once emitted is never touched again.

A turn's user message has one order: results of the calls just made, then what the harness injects, each in its frame,
then the user's own words. What is not the user's own cannot end its frame or forge another's. Who said what, and how
far it is trusted, is kept beside the blocks: a provider refuses fields it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ebbtide.assembly.texts import NO_OUTPUT, NOT_EXECUTED, split_system
from ebbtide.assembly.turn_formats import TURN_FORMATS, Block, CallResult, Content, OpenCall, Wire, is_blank, text_block
from ebbtide.core.errors import BadConfig, BadRequest
from ebbtide.core.text.framing import GENERIC_TAG, OUR_TAGS, TAG_BY_SOURCE, frame, neutral, tag_names
from ebbtide.core.types import HARNESS, QUOTED, SYSTEM, USER

_DERIVED = frozenset({"summary", "compactor"})
"""Sources that carry tool output in other words."""

_LEAST_CAP = 4096  # Anthropic wants a cap on every request; this one no model of theirs refuses.


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Who put a block where it stands, and how far it is trusted. Indexes are those of the emitted messages."""

    message: int
    block: int
    tier: int
    source: str
    call_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    text: str
    tier: int
    source: str


class Conversation:
    """The turns of a loop of your own: say what happened, in any order, and ask for the request.

    Each request extends the one before, message object for message object. What is said while a call is under way
    waits for the next turn. A second user message follows the first only where a call was given up unanswered.
    """

    def __init__(
        self,
        *,
        model: str,
        system: str | Sequence[str | Mapping[str, object]] = "",
        tools: Sequence[Mapping[str, object]] = (),
        max_tokens: int | None = None,
        wire: Wire = "anthropic",
        tags: Mapping[str, str] = TAG_BY_SOURCE,
    ) -> None:
        if wire not in TURN_FORMATS:
            raise BadConfig(f"no wire {wire!r}; there are {', '.join(TURN_FORMATS)}")
        self._shape, self._wire = TURN_FORMATS[wire], wire
        self._tags, self._names = dict(tags), tag_names([*OUR_TAGS, *tags.values()])
        self._system = _system_blocks(system)
        cap = _LEAST_CAP if max_tokens is None and wire == "anthropic" else max_tokens
        self._head: Block = {"model": model} | ({self._shape.limit: cap} if cap is not None else {})
        self._tools = [dict(tool) for tool in tools]
        self._messages: list[Block] = []
        self._notes: list[Note] = []
        self._injections: list[_Said] = []
        self._words: list[_Said] = []
        self._calls: Sequence[OpenCall] = ()
        self._results: dict[str, CallResult] = {}
        self._paused = self._quiet = False
        self._asked = False
        """The newest message is ours: a model has it, or is about to."""
        if self._system and wire == "openai_chat":
            self._messages.append({"role": "system", "content": _joined(self._system)})
            self._notes.append(Note(message=0, block=0, tier=SYSTEM, source="system"))

    def user(self, text: str) -> None:
        """The user's own words: they come last, and as they are."""
        if text.strip():
            self._words.append(_Said(text=_sound(text), tier=USER, source="user"))

    def inject(self, source: str, text: str) -> None:
        """Words of the harness, framed by their source's tag; `attachment:todo` has the tag of `attachment`."""
        family = source.partition(":")[0]
        tier = HARNESS if family in self._tags and family not in _DERIVED else QUOTED
        if text.strip():
            framed = frame(self._tags.get(family, GENERIC_TAG), _sound(text), tags=self._names)
            self._injections.append(_Said(text=framed, tier=tier, source=source))

    def tool_result(self, id: str, content: Content, is_error: bool = False) -> None:
        """The result of a call in the newest reply; a second one for the same call takes the first one's place."""
        call = next((call for call in self._calls if call.id == id), None)
        if call is None:
            raise BadRequest(f"the newest reply has no open call {id!r}", path="tool_result.id")
        self._results[id] = CallResult(call=call, content=self._tidy(content), is_error=is_error)

    def assistant(self, response: object) -> None:
        """A reply, verbatim: the provider's response or its message, as a dict or as the SDK's object."""
        reply = self._shape.read(response)
        if not self._asked:
            self._emit()  # A recorded turn, told without asking for its request.
        if not self._asked and not self._paused:
            raise BadRequest("a reply to nothing: the user's side of the turn comes first", path="response")
        self._messages.extend(reply.messages)
        self._calls, self._paused, self._asked = reply.calls, reply.paused, False
        self._quiet = reply.paused or any(call.quiet for call in reply.calls)

    def request(self) -> Block:
        """The request for the next call; the same one again until something is said."""
        self._emit()
        if not self._asked and not self._paused:
            raise BadRequest("nothing to answer: add the user's words, an injection or a result", path="messages")
        body = dict(self._head)
        if self._system and self._wire == "anthropic":
            body["system"] = list(self._system)
        if self._system and self._wire == "openai_responses":
            body["instructions"] = _joined(self._system)
        if self._tools:
            body["tools"] = list(self._tools)
        return body | {self._shape.messages: list(self._messages)}

    @property
    def notes(self) -> tuple[Note, ...]:
        """For every block that is not the model's."""
        return tuple(self._notes)

    def tier(self, message: int, block: int = 0) -> int:
        """How far a block is trusted; the model's own words no further than what it read."""
        found = (note.tier for note in self._notes if (note.message, note.block) == (message, block))
        return next(found, QUOTED)

    def _emit(self) -> None:
        """One turn's user side. Calls nobody answered are answered here, so that the request is always valid."""
        results = [
            self._results.get(call.id, CallResult(call=call, content=NOT_EXECUTED, is_error=True))
            for call in self._calls
        ]
        said = [] if self._quiet else [*self._injections, *self._words]
        self._calls, self._results = (), {}
        if not results and not said:
            return
        self._note(results, said)
        self._messages.extend(self._shape.turn(results, [one.text for one in said]))
        self._asked = True
        if said:
            self._injections, self._words = [], []

    def _note(self, results: Sequence[CallResult], said: Sequence[_Said]) -> None:
        base, merged = len(self._messages), self._wire == "anthropic"
        for n, result in enumerate(results):
            message, block = (base, n) if merged else (base + n, 0)
            self._notes.append(Note(message=message, block=block, tier=QUOTED, source="tool", call_id=result.call.id))
        message, first = (base, len(results)) if merged else (base + len(results), 0)
        for n, one in enumerate(said, first):
            self._notes.append(Note(message=message, block=n, tier=one.tier, source=one.source))

    def _tidy(self, content: Content) -> Content:
        """Tool output can forge a reminder even where there is no frame to escape from."""
        if isinstance(content, str):
            text = neutral([_sound(content)], self._names)[0]
            return text if text.strip() else NO_OUTPUT
        texts = neutral([_sound(str(part.get("text", ""))) for part in content], self._names)
        parts = [{**part, "text": text} if "text" in part else part for part, text in zip(content, texts, strict=True)]
        return [part for part in parts if not is_blank(part)] or NO_OUTPUT


def _system_blocks(system: str | Sequence[str | Mapping[str, object]]) -> tuple[Block, ...]:
    if isinstance(system, str):
        return split_system(system)
    blocks = [text_block(part) if isinstance(part, str) else dict(part) for part in system]
    return tuple(block for block in blocks if not is_blank(block))


def _joined(system: Sequence[Block]) -> str:
    return "\n\n".join(str(block.get("text", "")) for block in system)


def _sound(text: str) -> str:
    """Half a surrogate pair is no text to a provider, and one of them in the history ends the session."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
