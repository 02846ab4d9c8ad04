"""A session's log is all there is to know: from its records the conversation is told again, message for message.

Beside the engine's records the agent writes its own, of kind `chat`: what it began with, each tool's result as soon as
it is there, each lasting permission. A call whose result nobody recorded was cut off, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import cast

from ebbtide.assembly import Block, Conversation
from ebbtide.fronts.chat.tools import Need, Outcome
from ebbtide.fronts.chat.tools.desk import Kind
from ebbtide.state.session_state import SessionState, apply_records, ebb_record
from ebbtide.store import Log, Record

INTERRUPTED = "[Interrupted: the program ended while this call was under way. What it did until then is not known.]"
KIND = "chat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What stays the same in every request of a session."""

    model: str
    wire: str
    system: Sequence[Mapping[str, object]]
    url: str = ""
    """Of the server, where it was named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notebook:
    """What the records of a session tell the agent."""

    begun: Begun | None
    messages: Sequence[Mapping[str, object]]
    results: Mapping[str, Outcome]
    """Of calls, by their ids."""
    seen: Mapping[str, int | None]
    """Files that the model knows, and when each had last changed."""
    allowed: Sequence[Need]
    todos: Sequence[Mapping[str, str]]


def read_notebook(records: Sequence[Record]) -> Notebook:
    own = [record for record in records if record.get("kind") == KIND]
    begun = [one for one in own if one.get("what") == "begun"]
    done = [one for one in own if one.get("what") == "result"]
    seen: dict[str, int | None] = {}
    for one in done:
        seen |= cast("dict[str, int | None]", one.get("seen") or {})
    lists = [one["todos"] for one in done if isinstance(one.get("todos"), list)]
    return Notebook(
        begun=_begun(begun[-1]) if begun else None,
        messages=list(_messages(records)),
        results={str(one["call"]): Outcome(text=str(one["text"]), failed=one.get("failed") is True) for one in done},
        seen=seen,
        allowed=[_need(one) for one in own if one.get("what") == "allowed"],
        todos=cast("list[dict[str, str]]", lists[-1]) if lists else [],
    )


def _begun(record: Record) -> Begun:
    system = cast("list[dict[str, object]]", record["system"])
    return Begun(model=str(record["model"]), wire=str(record["wire"]), system=system, url=str(record.get("url") or ""))


def _need(record: Record) -> Need:
    path = record.get("path")
    return Need(
        tool=str(record["tool"]),
        kind=cast(Kind, record["needs"]),
        command=str(record.get("command") or ""),
        path=Path(str(path)) if path else None,
    )


def _messages(records: Sequence[Record]) -> Iterator[Mapping[str, object]]:
    """The last request's messages and the reply to it, as the provider's wire has them."""
    state = apply_records(SessionState(), records)
    path = list(state.messages)
    by_uuid = {str(one["uuid"]): one for one in records if one.get("uuid")}
    for record in records:
        if path and record.get("uuid") and record.get("parentUuid") == path[-1]:
            path.append(str(record["uuid"]))
    for uuid in path:
        yield cast("Mapping[str, object]", by_uuid[uuid].get("wire") or by_uuid[uuid]["message"])


@dataclass(frozen=True, slots=True)
class Scribe:
    """Writes the agent's own records."""

    log: Log
    clock: Callable[[], float]

    def begun(self, begun: Begun) -> None:
        self._write("begun", model=begun.model, wire=begun.wire, url=begun.url, system=list(begun.system))

    def result(
        self, call: str, outcome: Outcome, seen: Mapping[str, int | None], todos: Sequence[Mapping[str, str]] | None
    ) -> None:
        more: Record = {"seen": dict(seen)} if seen else {}
        more |= {"todos": list(todos)} if todos is not None else {}
        self._write("result", call=call, text=outcome.text, failed=outcome.failed, **more)

    def allowed(self, need: Need) -> None:
        path = str(need.path) if need.path is not None else ""
        self._write("allowed", tool=need.tool, needs=need.kind, command=need.command, path=path)

    def _write(self, what: str, **fields: object) -> None:
        now = self.clock()
        self.log.commit([ebb_record(KIND, what=what, **fields, at=now)], at=now)


# --- telling again -----------------------------------------------------------------------------------------------


def retell(talk: Conversation, notebook: Notebook) -> bool:
    """Fill a new conversation with what was said. Returns whether the model has something to answer."""
    open_calls: dict[str, None] = {}
    before = ""
    for side, group in groupby(notebook.messages, key=_side):
        messages = list(group)
        if side == "system":
            continue  # The conversation has it from the start.
        if side == "model":
            talk.request()  # What was said before it has been sent: it is closed.
            open_calls = _told_reply(talk, messages)
        else:
            _told_turns(talk, messages)
            open_calls = {}
        before = side
    for id in open_calls:
        outcome = notebook.results.get(id, Outcome(text=INTERRUPTED, failed=True))
        talk.tool_result(id, outcome.text, is_error=outcome.failed)
    return before == "person" or bool(open_calls)


def _side(message: Mapping[str, object]) -> str:
    role, kind = message.get("role"), message.get("type")
    if role in ("system", "developer"):
        return "system"
    if role == "assistant" or kind in ("reasoning", "function_call"):
        return "model"
    return "person"


def _told_reply(talk: Conversation, messages: Sequence[Mapping[str, object]]) -> dict[str, None]:
    """Replies as they came. Returns the ids of their calls, in order."""
    if any("type" in one for one in messages):  # The items of one response.
        talk.assistant({"output": messages})
        return {str(one["call_id"]): None for one in messages if one.get("type") == "function_call"}
    calls: dict[str, None] = {}
    for one in messages:
        talk.assistant(one)
        calls = {str(block["id"]): None for block in [*_blocks(one, "tool_calls"), *_uses(one)]}
    return calls


def _told_turns(talk: Conversation, messages: Sequence[Mapping[str, object]]) -> None:
    """What the model was told. Two messages in a row stay two: the second came after a failure."""
    words_before = False
    for one in messages:
        results, texts = list(_results(one)), list(_texts(one))
        if words_before:
            talk.request()
        for id, content, failed in results:
            talk.tool_result(id, content, is_error=failed)
        for text in texts:
            talk.user(text)
        words_before = bool(texts)


def _results(message: Mapping[str, object]) -> Iterator[tuple[str, str | list[Block], bool]]:
    if message.get("role") == "tool":
        yield str(message["tool_call_id"]), _content(message["content"]), False
    if message.get("type") == "function_call_output":
        yield str(message["call_id"]), _content(message["output"]), False
    for block in _blocks(message, "content"):
        if block.get("type") == "tool_result":
            yield str(block["tool_use_id"]), _content(block.get("content", "")), block.get("is_error") is True


def _content(value: object) -> str | list[Block]:
    return value if isinstance(value, list) else str(value)


def _texts(message: Mapping[str, object]) -> Iterator[str]:
    if message.get("role") != "user":
        return
    content = message.get("content")
    if isinstance(content, str):
        yield content
    yield from (str(block["text"]) for block in _blocks(message, "content") if "text" in block)


def _uses(message: Mapping[str, object]) -> Iterable[Block]:
    return (block for block in _blocks(message, "content") if block.get("type") == "tool_use")


def _blocks(message: Mapping[str, object], key: str) -> list[Block]:
    value = message.get(key)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
