"""Converts messages for peers and back. A message that a peer left alone is sent as the same object.

So a peer whose limits are never reached gives the raw request, and any difference is the peer's doing. A message is cut
into the smallest pieces that a peer may treat separately: a result, a call, a text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal

from ebbtide.core.types import Usage
from ebbtide.replay.contenders import SideCall, canned_summary
from ebbtide.replay.session import Body, ReplayCall, ReplaySession

Message = dict[str, Any]
Kind = Literal["text", "thinking", "call", "result", "other"]

_ROLES = {"developer": "system", "tool": "user"}
"""Roles in all three API formats; a result comes from the user's side."""
_OPERATORS = ("system", "developer")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """A part of one message that a peer may treat separately."""

    source: Message
    at: int
    """Its place among the source's blocks."""
    of: int
    """How many blocks the source has."""
    role: str
    kind: Kind
    block: Any
    """In the API format."""
    text: str = ""
    name: str = ""
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Changed:
    """A result whose content a peer replaced."""

    piece: Piece
    content: str


@dataclass(frozen=True, slots=True)
class Written:
    """A text that the peer adds as the user."""

    text: str


Out = Piece | Changed | Written


# --- in ---------------------------------------------------------------------------------------------------------------


def pieces(wire: str, message: Message) -> list[Piece]:
    """Cut a message of the API format into pieces."""
    if wire == "openai_responses":
        return [_item(message)]
    if wire == "openai_chat":
        return _chat(message)
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    return [_block(message, n, len(blocks), block) for n, block in enumerate(blocks)]


def _block(source: Message, at: int, of: int, block: Message) -> Piece:
    given: dict[str, Any] = {"source": source, "at": at, "of": of, "role": str(source.get("role")), "block": block}
    match block.get("type"):
        case "text":
            return Piece(**given, kind="text", text=str(block.get("text") or ""))
        case "thinking":
            return Piece(**given, kind="thinking", text=str(block.get("thinking") or ""))
        case "tool_use":
            arguments = json.dumps(block.get("input"))
            return Piece(**given, kind="call", text=arguments, name=str(block.get("name")), call_id=str(block["id"]))
        case "tool_result":
            text = _plain(block.get("content"))
            return Piece(**given, kind="result", text=text, call_id=str(block.get("tool_use_id")))
        case _:
            return Piece(**given, kind="other")


def _chat(source: Message) -> list[Piece]:
    """Each call of an answer is one piece and its text another; any other message is one piece."""
    role = _ROLES.get(str(source.get("role")), str(source.get("role")))
    text = _plain(source.get("content"))
    if source.get("role") == "tool":
        call = str(source.get("tool_call_id"))
        return [
            Piece(source=source, at=0, of=1, role=role, kind="result", block=source["content"], text=text, call_id=call)
        ]
    calls = source.get("tool_calls") or []
    words = Piece(
        source=source, at=0, of=1 + len(calls), role=role, kind="text", block=source.get("content"), text=text
    )
    return [words, *(_chat_call(source, n, 1 + len(calls), call) for n, call in enumerate(calls, 1))]


def _chat_call(source: Message, at: int, of: int, call: Message) -> Piece:
    function = call.get("function") or {}
    return Piece(
        source=source,
        at=at,
        of=of,
        role="assistant",
        kind="call",
        block=call,
        text=str(function.get("arguments") or ""),
        name=str(function.get("name")),
        call_id=str(call.get("id")),
    )


def _item(source: Message) -> Piece:
    kind, call = str(source.get("type") or "message"), str(source.get("call_id") or "")
    given: dict[str, Any] = {"source": source, "at": 0, "of": 1, "block": source, "call_id": call}
    if kind == "message":
        role = _ROLES.get(str(source.get("role")), str(source.get("role")))
        return Piece(**given, role=role, kind="text", text=_plain(source.get("content")))
    if kind.endswith("_output"):
        return Piece(**given, role="user", kind="result", text=_plain(source.get("output")))
    if kind == "reasoning":
        return Piece(**given, role="assistant", kind="thinking", text=_plain(source.get("summary")))
    # Calls of the provider's own tools have no call id and contain their result.
    arguments = source.get("arguments") or source.get("input") or source.get("action")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    name = str(source.get("name") or kind)
    return Piece(**given, role="assistant", kind="call" if call else "other", text=text, name=name)


def _plain(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))


# --- out --------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Writer:
    """Converts pieces back to messages. A piece that was written before gives the same object again."""

    wire: str
    _known: dict[tuple[Any, ...], Message] = field(default_factory=dict)
    _sources: list[Message] = field(default_factory=list)
    """Kept, so that the identity of a known one is not reused."""

    def messages(self, run: Iterable[Out]) -> list[Message]:
        found: list[Message] = []
        for _, group in groupby(run, key=_source):
            found.append(self._message(list(group)))
        return found

    def _message(self, run: list[Out]) -> Message:
        if isinstance(run[0], Written):
            return self._known.setdefault(("written", run[0].text), said(self.wire, "user", run[0].text))
        source = _piece(run[0]).source
        if len(run) == _piece(run[0]).of and all(isinstance(one, Piece) for one in run):
            return source
        key = (id(source), *((_piece(one).at, one.content if isinstance(one, Changed) else None) for one in run))
        if key not in self._known:
            self._sources.append(source)
            self._known[key] = self._rewritten(source, run)
        return self._known[key]

    def _rewritten(self, source: Message, run: list[Out]) -> Message:
        if self.wire == "anthropic":
            return {**source, "content": [_anthropic(one) for one in run]}
        (only,) = run  # In the other formats a message is a result, or it is not changed.
        assert isinstance(only, Changed)
        return {**source, "content" if self.wire == "openai_chat" else "output": only.content}


def _anthropic(one: Out) -> Message:
    if isinstance(one, Changed):
        return {**one.piece.block, "content": one.content}
    return dict(_piece(one).block)


def _piece(one: Out) -> Piece:
    assert not isinstance(one, Written)
    return one.piece if isinstance(one, Changed) else one


def _source(one: Out) -> int:
    return id(one) if isinstance(one, Written) else id(_piece(one).source)


def said(wire: str, role: str, text: str) -> Message:
    """Return a message with this text in the API format."""
    if wire == "openai_responses":
        kind = "output_text" if role == "assistant" else "input_text"
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
    return {"role": role, "content": text}


# --- between calls ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Thread:
    """What a framework keeps between two calls: the peer's messages, by how many raw messages they represent.

    If the user goes back, the framework goes back to the state that it had at that point. LangGraph's checkpoints do
    this, and so must any program that keeps a message history for Pydantic AI.
    """

    key: str
    prompt: list[Message] = field(default_factory=list)
    """The system prompt, if it is among the messages: agents keep it apart from the conversation."""
    state: list[Any] = field(default_factory=list)
    usage: Usage | None = None
    """The bill for the last request."""
    _raw: list[Message] = field(default_factory=list)
    _states: list[tuple[int, list[Any]]] = field(default_factory=list)

    def new(self, take: ReplayCall) -> tuple[list[Message], Usage | None]:
        """Return the messages that the state does not have yet, and the bill of their first answer."""
        given: list[Any] = list(take.raw[self.key])  # type: ignore[call-overload]
        lead = next((n for n, one in enumerate(given) if one.get("role") not in _OPERATORS), len(given))
        self.prompt, raw = given[:lead], given[lead:]
        same = next((n for n, (a, b) in enumerate(zip(self._raw, raw, strict=False)) if a is not b), len(self._raw))
        went_on = same == len(self._raw) <= len(raw)
        same = min(same, len(raw))
        while self._states and self._states[-1][0] > same:
            self._states.pop()
        seen, state = self._states[-1] if self._states else (0, [])
        self.state = list(state)
        self._raw = raw
        return raw[seen:], self.usage if went_on else None

    def keep(self) -> None:
        """Save the state after the call."""
        self._states.append((len(self._raw), list(self.state)))


def answers(wire: str, new: Sequence[Message]) -> list[tuple[str, list[Piece]]]:
    """Cut new messages into pieces by role. In the Responses format the items of one answer belong together."""
    found: list[tuple[str, list[Piece]]] = []
    for run in (pieces(wire, message) for message in new):
        if not run:
            continue
        role = run[0].role
        if wire == "openai_responses" and role == "assistant" and found and found[-1][0] == role:
            found[-1][1].extend(run)
        else:
            found.append((role, run))
    return found


def summary(tape: ReplaySession, prompt: str, spoken: Sequence[str]) -> tuple[str, SideCall]:
    """Return the substitute summary, from the agent's text that the summarizer was shown, and the cost of the call."""
    name, key = tape.wire.name, tape.wire.list_key
    shown: Body = {key: [said(name, "assistant", text) for text in spoken]}
    told = canned_summary(shown, tape)
    # With the client's system prompt and cache breakpoints, so that the call reads what the agent's calls have written.
    body: Body = {**tape.calls[0].raw, key: [said(name, "user", prompt)]}
    return told, SideCall(body=body, output_tokens=tape.messages.estimator.text(told))
