"""The same calls in the same order give the same bytes, and a message once emitted is never touched again.

A turn's user message has one order: results of the calls just made, then what the harness injects, each in its frame,
then the user's own words. What is not the user's own cannot end its frame or forge another's. Who said what, and how
far it is trusted, is kept beside the blocks: a provider refuses fields it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from ebbtide.core.errors import BadConfig, BadRequest
from ebbtide.core.framing import GENERIC_TAG, OUR_TAGS, TAG_BY_SOURCE, frame, frames, neutral, tag_names
from ebbtide.core.shelf import Shelf, digest
from ebbtide.core.types import HARNESS, QUOTED, SYSTEM, USER, Blob

__all__ = [
    "LARGE_INPUT_THRESHOLD",
    "NOT_EXECUTED",
    "NO_OUTPUT",
    "SYSTEM_PROMPT_DYNAMIC_BOUNDARY",
    "TAG_BY_SOURCE",
    "Block",
    "Conversation",
    "Facts",
    "Note",
    "build_switch",
    "choose_prompt",
    "environment_block",
    "frame",
    "frames",
    "mid_run",
    "mode_reminder",
    "offload_input",
    "plan_reminder",
    "split_system",
]

Wire = Literal["anthropic", "openai_chat", "openai_responses"]
Block = dict[str, object]
Content = str | Sequence[Mapping[str, object]]

# ------------------------------------------------------------------------------------------------ words of ours

SYSTEM_PROMPT_DYNAMIC_BOUNDARY = "SYSTEM_PROMPT_DYNAMIC_BOUNDARY"
"""On a line of its own in a system prompt: above it what every user shares, below it what is this session's."""

NOT_EXECUTED = "[Not executed: the call was interrupted before it ran. Call again if the result is still needed.]"
"""Stands for a result that never came. Constant, so that the prefix holds."""

NO_OUTPUT = "(no output)"  # Providers refuse an empty block.

LARGE_INPUT_THRESHOLD = 50_000  # characters: the cap a single tool result has, about 12k tokens

_PROMPTS = (
    (("gpt-5",), "codex"),
    (("gpt-", "o1", "o3"), "beast"),
    (("gemini-",), "gemini"),
    (("claude",), "anthropic"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Where a session runs, as the edge found it."""

    cwd: str
    git: bool
    platform: str
    date: str


def mid_run(text: str) -> str:
    """The user's words that arrived while the agent worked. Hand it to `Conversation.user` as it is."""
    told = f"The user sent the following message:\n{text}\n\nPlease address this message and continue with your tasks."
    return frame("system-reminder", told)


def mode_reminder(previous: str, current: str) -> str:
    """What the model must hear about its mode this turn, for `inject("mode", ...)`; empty where nothing changed."""
    if current == "plan":
        return plan_reminder()
    return build_switch() if previous == "plan" and current == "build" else ""


def plan_reminder() -> str:
    return (
        "Plan mode is on. Look, read and ask, but change nothing: no edits, no commands with effects, no commits. "
        "This holds even where a later message seems to ask for a change. End with a plan the user can accept."
    )


def build_switch() -> str:
    return "Plan mode is off: you may now edit files and run commands. Carry out the plan as it was agreed."


def environment_block(model: str, facts: Facts) -> str:
    lines = (
        f"  Working directory: {_one_line(facts.cwd)}",
        f"  Is directory a git repo: {'yes' if facts.git else 'no'}",
        f"  Platform: {_one_line(facts.platform)}",
        f"  Today's date: {_one_line(facts.date)}",
    )
    return f"You are powered by the model named {_one_line(model)}.\n" + frame("env", "\n".join(lines))


def _one_line(text: str) -> str:
    """A directory's name may hold line breaks, and would then add facts of its own."""
    return " ".join(text.splitlines())


def split_system(static: str, dynamic: str = "") -> tuple[Block, ...]:
    """Two system blocks, the shared half first, so that what differs between users leaves its cache alone."""
    above, _, below = _lines_around(static, SYSTEM_PROMPT_DYNAMIC_BOUNDARY)
    halves = (above.strip(), "\n\n".join(part.strip() for part in (below, dynamic) if part.strip()))
    return tuple(_text(half) for half in halves if half)


def _lines_around(text: str, boundary: str) -> tuple[str, str, str]:
    found = re.search(rf"^[ \t]*{re.escape(boundary)}[ \t]*$", text, re.MULTILINE)
    return (text[: found.start()], found.group(), text[found.end() :]) if found else (text, "", "")


def choose_prompt(model_id: str) -> str:
    """The name of the system prompt that suits a model family."""
    matches = (name for marks, name in _PROMPTS if any(mark in model_id for mark in marks))
    return next(matches, "anthropic-without-todo")


def offload_input(text: str, shelf: Shelf, *, limit: int = LARGE_INPUT_THRESHOLD) -> tuple[str, Blob | None]:
    """What to say in place of a huge paste, and what must be on disk before it is said."""
    if len(text) <= limit:
        return text, None
    blob = Blob(name=shelf.name(f"input-{digest(text)}", text), text=text)
    said = f"[Large input saved to {shelf.path(blob.name)}, {len(text)} chars. Use Read tool to access.]"
    return said, blob


# ------------------------------------------------------------------------------------------- shapes of the wires


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A call that waits for its result."""

    id: str
    kind: str
    quiet: bool = False
    """Made by the provider's own code: nothing but results may stand in the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    call: _Call
    content: Content
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    messages: Sequence[Block]
    calls: Sequence[_Call] = ()
    paused: bool = False
    """The provider stopped half-way and wants its own words back, and nothing else."""


@runtime_checkable
class _Dumps(Protocol):
    """What the SDKs return: pydantic models, of whichever version."""

    def model_dump(self, *, mode: str, exclude_unset: bool) -> dict[str, object]: ...


def _plain(value: object, path: str) -> Block:
    if isinstance(value, _Dumps):
        # As the SDKs themselves do when their objects are sent back: what the provider did not say is not said.
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, Mapping):
        return dict(value)
    raise BadRequest(f"{type(value).__name__} is not a reply", path=path)


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else []


def _blank(block: Mapping[str, object]) -> bool:
    return "text" in block and not str(block["text"]).strip()


def _read_anthropic(response: object) -> _Reply:
    reply = _plain(response, "response")
    content = reply.get("content")
    if isinstance(content, str):
        return _Reply(messages=[{"role": "assistant", "content": content}] if content.strip() else [])
    if not isinstance(content, Sequence):
        raise BadRequest("a reply has content", path="response.content")
    blocks = [_plain(block, f"response.content.{n}") for n, block in enumerate(content)]
    blocks = [block for block in blocks if block.get("type") != "text" or not _blank(block)]
    calls = [
        _Call(id=str(block["id"]), kind="tool_use", quiet=_by_program(block.get("caller")))
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    messages: list[Block] = [{"role": "assistant", "content": blocks}] if blocks else []
    return _Reply(messages=messages, calls=calls, paused=reply.get("stop_reason") == "pause_turn")


def _by_program(caller: object) -> bool:
    return isinstance(caller, Mapping) and caller.get("type", "direct") != "direct"


def _turn_anthropic(results: Sequence[_Result], texts: Sequence[str]) -> Iterator[Block]:
    answered: list[Block] = []
    for result in results:
        block: Block = {"type": "tool_result", "tool_use_id": result.call.id, "content": result.content}
        answered.append({**block, "is_error": True} if result.is_error else block)
    yield {"role": "user", "content": [*answered, *map(_text, texts)]}


def _read_chat(response: object) -> _Reply:
    reply = _plain(response, "response")
    choices = _list(reply.get("choices"))
    if choices:
        reply = _plain(_plain(choices[0], "response.choices.0").get("message"), "response.choices.0.message")
    if reply.get("role", "assistant") != "assistant":
        raise BadRequest("a reply has the role assistant", path="response.role")
    calls = [_plain(call, "response.tool_calls") for call in _list(reply.get("tool_calls"))]
    message: Block = {"role": "assistant", "content": None}
    message |= {key: value for key, value in reply.items() if value is not None and value != []}
    if calls:
        message["tool_calls"] = calls
    said = any(message.get(key) for key in ("content", "tool_calls", "refusal", "function_call", "audio"))
    opened = [_Call(id=str(call["id"]), kind="tool_call") for call in calls]
    return _Reply(messages=[message] if said else [], calls=opened)


def _turn_chat(results: Sequence[_Result], texts: Sequence[str]) -> Iterator[Block]:
    for result in results:
        yield {"role": "tool", "tool_call_id": result.call.id, "content": _marked(result)}
    if texts:
        yield {"role": "user", "content": [_text(text) for text in texts]}


_OUTPUTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "function_call_output",
}


def _read_responses(response: object) -> _Reply:
    reply = _plain(response, "response")
    if "output" not in reply:
        raise BadRequest("a reply has output", path="response.output")
    items = [_plain(item, f"response.output.{n}") for n, item in enumerate(_list(reply["output"]))]
    calls = [_Call(id=str(item["call_id"]), kind=str(item["type"])) for item in items if item.get("type") in _OUTPUTS]
    return _Reply(messages=items, calls=calls)


def _turn_responses(results: Sequence[_Result], texts: Sequence[str]) -> Iterator[Block]:
    for result in results:
        yield {"type": _OUTPUTS[result.call.kind], "call_id": result.call.id, "output": _marked(result)}
    if texts:
        yield {"role": "user", "content": [{"type": "input_text", "text": text} for text in texts]}


def _marked(result: _Result) -> Content:
    """These wires have no field for failure, so the text says it."""
    if not result.is_error:
        return result.content
    if isinstance(result.content, str):
        return f"Error: {result.content}"
    return [
        {**part, "text": f"Error: {part['text']}"} if n == 0 and "text" in part else part
        for n, part in enumerate(result.content)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    read: Callable[[object], _Reply]
    turn: Callable[[Sequence[_Result], Sequence[str]], Iterator[Block]]
    messages: str
    limit: str


_SHAPES: Mapping[str, _Shape] = {
    "anthropic": _Shape(read=_read_anthropic, turn=_turn_anthropic, messages="messages", limit="max_tokens"),
    "openai_chat": _Shape(read=_read_chat, turn=_turn_chat, messages="messages", limit="max_completion_tokens"),
    "openai_responses": _Shape(read=_read_responses, turn=_turn_responses, messages="input", limit="max_output_tokens"),
}

# ------------------------------------------------------------------------------------------------- conversation

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
        if wire not in _SHAPES:
            raise BadConfig(f"no wire {wire!r}; there are {', '.join(_SHAPES)}")
        self._shape, self._wire = _SHAPES[wire], wire
        self._tags, self._names = dict(tags), tag_names([*OUR_TAGS, *tags.values()])
        self._system = _system_blocks(system)
        cap = _LEAST_CAP if max_tokens is None and wire == "anthropic" else max_tokens
        self._head: Block = {"model": model} | ({self._shape.limit: cap} if cap is not None else {})
        self._tools = [dict(tool) for tool in tools]
        self._messages: list[Block] = []
        self._notes: list[Note] = []
        self._injections: list[_Said] = []
        self._words: list[_Said] = []
        self._calls: Sequence[_Call] = ()
        self._results: dict[str, _Result] = {}
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
        self._results[id] = _Result(call=call, content=self._tidy(content), is_error=is_error)

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
            self._results.get(call.id, _Result(call=call, content=NOT_EXECUTED, is_error=True)) for call in self._calls
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

    def _note(self, results: Sequence[_Result], said: Sequence[_Said]) -> None:
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
        return [part for part in parts if not _blank(part)] or NO_OUTPUT


def _system_blocks(system: str | Sequence[str | Mapping[str, object]]) -> tuple[Block, ...]:
    if isinstance(system, str):
        return split_system(system)
    blocks = [_text(part) if isinstance(part, str) else dict(part) for part in system]
    return tuple(block for block in blocks if not _blank(block))


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _joined(system: Sequence[Block]) -> str:
    return "\n\n".join(str(block.get("text", "")) for block in system)


def _sound(text: str) -> str:
    """Half a surrogate pair is no text to a provider, and one of them in the history ends the session."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
