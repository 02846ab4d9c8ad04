"""One answer for the client out of several: calls of the recall tools are taken out of each, the rest is one.

Blocks are numbered through, one answer begins and one ends, and the usage is the last call's input with all the output.
An event that needs no change is the same object, so that its bytes can go on as they came.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ebbtide.core.recall_limits import RECALL_TOOLS
from ebbtide.wire.json_text import dumps
from ebbtide.wire.protocol import as_mapping, as_text

Json = Mapping[str, Any]


class Call(NamedTuple):
    id: str
    name: str
    arguments: str
    """As JSON."""
    raw: Json
    """As it came."""


class Batch(NamedTuple):
    """Calls of ours that stand together."""

    calls: list[Call]
    shown: list[Any]
    """What the client has of the same answer before them, as messages."""


class Answered(NamedTuple):
    """One answer, read."""

    ours: list[Batch]
    """Calls of the recall tools, if the answer ended so that they can be answered."""
    theirs: bool
    """Whether it has calls of the client's own, whose results come with the next request."""
    said: str
    """Words that stand before our call and cannot be shown apart from what follows: see `openai_chat`."""


class Weaving(Protocol):
    """Several answers, told as one. Give each its events, or read each whole."""

    hiding: bool
    """A call of ours has begun in this answer."""

    def begin(self) -> None:
        """The next answer goes on from here."""

    def event(self, event: Json) -> Json | None:
        """As the client sees it; None where it does not."""

    def ends(self, event: Json) -> bool:
        """Whether this belongs to the end of an answer, which the client sees only of the last one."""

    def read(self, answer: Json) -> Answered: ...
    def shown(self, answers: Sequence[Json]) -> list[Any]:
        """As messages of the next request, what the client has of these answers."""

    def merged(self, answers: Sequence[Json]) -> Json:
        """One answer, where there is no stream."""


class _Anthropic:
    def __init__(self) -> None:
        self.hiding = False
        self._begun = 0
        self._hidden, self._shown = set[int](), dict[int, int]()
        self._offset = self._summed = self._output = 0
        self._input: Json = {}
        self._theirs = False

    def begin(self) -> None:
        self._begun, self.hiding, self._theirs = self._begun + 1, False, False
        self._offset += len(self._shown)
        self._summed, self._output = self._summed + self._output, 0
        self._hidden, self._shown = set(), {}

    def event(self, event: Json) -> Json | None:
        kind = event.get("type")
        if kind == "message_start":
            self._input = as_mapping(as_mapping(event.get("message")).get("usage"))
            return None if self._begun else event
        if kind == "message_delta":
            return self._ending(event)
        index = event.get("index")
        if not isinstance(index, int):
            return event
        if kind == "content_block_start":
            self._start(index, as_mapping(event.get("content_block")))
        if index in self._hidden:
            return None
        place = self._shown.get(index, index)
        return event if place == index else {**event, "index": place}

    def _start(self, index: int, block: Json) -> None:
        if _is_ours(block):
            self._hidden.add(index)
            self.hiding = True
            return
        self._theirs = self._theirs or block.get("type") == "tool_use"
        self._shown[index] = self._offset + len(self._shown)

    def _ending(self, event: Json) -> Json:
        usage, delta = as_mapping(event.get("usage")), as_mapping(event.get("delta"))
        self._output = _number(usage.get("output_tokens"))
        if self._begun:
            known = {name: value for name, value in usage.items() if value is not None}
            event = {**event, "usage": {**self._input, **known, "output_tokens": self._summed + self._output}}
        if self.hiding and not self._theirs and delta.get("stop_reason") == "tool_use":
            event = {**event, "delta": {**delta, "stop_reason": "end_turn"}}
        return event

    def ends(self, event: Json) -> bool:
        return event.get("type") in ("message_delta", "message_stop")

    def read(self, answer: Json) -> Answered:
        content = _dicts(answer.get("content"))
        ours = [_anthropic_call(one) for one in filter(_is_ours, content)]
        theirs = any(one.get("type") == "tool_use" and not _is_ours(one) for one in content)
        ended = bool(ours) and answer.get("stop_reason") == "tool_use"
        return Answered([Batch(ours, self.shown([answer]))] if ended else [], theirs, "")

    def shown(self, answers: Sequence[Json]) -> list[Any]:
        # Clients drop empty texts, and providers refuse them.
        content = [one for one in self._visible(answers) if one.get("type") != "text" or one.get("text")]
        return [{"role": "assistant", "content": content}] if content else []

    def _visible(self, answers: Sequence[Json]) -> list[Any]:
        return [one for answer in answers for one in _dicts(answer.get("content")) if not _is_ours(one)]

    def merged(self, answers: Sequence[Json]) -> Json:
        last = answers[-1]
        made = {**last, "content": self._visible(answers), "usage": _summed(answers, "output_tokens")}
        if last.get("stop_reason") == "tool_use" and not self.read(last).theirs:
            made["stop_reason"] = "end_turn"
        return made


def _anthropic_call(block: Json) -> Call:
    return Call(as_text(block.get("id")), block["name"], dumps(block.get("input") or {}), block)


def _is_ours(call: Json) -> bool:
    return call.get("type") in ("tool_use", "function_call") and call.get("name") in RECALL_TOOLS


class _Chat:
    """Text has one place in a message here: what was said before our call cannot be parted from what follows it.

    So the hidden message says it too, and the client's own says all of it.
    """

    def __init__(self) -> None:
        self.hiding = False
        self._begun, self._id = 0, ""
        self._hidden, self._shown = set[int](), dict[int, int]()
        self._summed = self._output = 0

    def begin(self) -> None:
        self._begun, self.hiding = self._begun + 1, False
        self._summed, self._output = self._summed + self._output, 0
        self._hidden, self._shown = set(), {}

    def event(self, event: Json) -> Json | None:
        made = event
        self._id = self._id or as_text(event.get("id"))
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._output = _number(usage.get("completion_tokens"))
            made = {**made, "usage": self._usage(usage)} if self._begun else made
        choices = _dicts(event.get("choices"))
        if choices:
            choice = self._choice(choices[0])
            if choice is None and not isinstance(usage, dict):
                return None
            if choice is not choices[0]:
                made = {**made, "choices": [choice] if choice else []}
        return {**made, "id": self._id} if self._begun and "id" in made else made

    def _usage(self, usage: Json) -> Json:
        output = self._summed + self._output
        return {**usage, "completion_tokens": output, "total_tokens": _number(usage.get("prompt_tokens")) + output}

    def _choice(self, choice: Json) -> Json | None:
        delta = as_mapping(choice.get("delta"))
        made = {key: value for key, value in delta.items() if not (self._begun and key == "role")}
        calls = _dicts(delta.get("tool_calls"))
        if calls:
            left = [one for one in map(self._call, calls) if one is not None]
            made = {
                **{key: value for key, value in made.items() if key != "tool_calls"},
                **({"tool_calls": left} if left else {}),
            }
        finish = choice.get("finish_reason")
        if self.hiding and not self._shown and finish == "tool_calls":
            choice, finish = {**choice, "finish_reason": "stop"}, "stop"
        if made == delta:
            return choice
        return {**choice, "delta": made} if made or finish else None

    def _call(self, call: Json) -> Json | None:
        index = _number(call.get("index"))
        if as_mapping(call.get("function")).get("name") in RECALL_TOOLS:
            self._hidden.add(index)
            self.hiding = True
        if index in self._hidden:
            return None
        place = self._shown.setdefault(index, len(self._shown))
        return call if place == index else {**call, "index": place}

    def ends(self, event: Json) -> bool:
        choices = _dicts(event.get("choices"))
        finished = bool(choices) and bool(choices[0].get("finish_reason"))
        return not event or finished or (not choices and isinstance(event.get("usage"), dict))

    def read(self, answer: Json) -> Answered:
        choice = as_mapping(next(iter(_dicts(answer.get("choices"))), {}))
        message = as_mapping(choice.get("message"))
        calls = _dicts(message.get("tool_calls"))
        ours = [_chat_call(one) for one in calls if _is_ours_in_chat(one)]
        theirs = len(ours) < len(calls)
        ended = bool(ours) and choice.get("finish_reason") in ("tool_calls", "stop")
        said = message.get("content") if ended and not theirs else ""
        return Answered([Batch(ours, self.shown([answer]))] if ended else [], theirs, as_text(said))

    def shown(self, answers: Sequence[Json]) -> list[Any]:
        """Only where the client has calls of its own to answer: else all stands in the hidden messages."""
        message = self._message(answers)
        return [message] if message.get("tool_calls") else []

    def _message(self, answers: Sequence[Json]) -> dict[str, Any]:
        messages = [as_mapping(_dicts(answer.get("choices"))[0].get("message")) for answer in answers]
        texts = [one["content"] for one in messages if isinstance(one.get("content"), str)]
        calls = [one for one in _dicts(messages[-1].get("tool_calls")) if not _is_ours_in_chat(one)]
        kept = {key: value for key, value in messages[-1].items() if key != "tool_calls"}
        return {**kept, "content": "".join(texts) if texts else None, **({"tool_calls": calls} if calls else {})}

    def merged(self, answers: Sequence[Json]) -> Json:
        last = answers[-1]
        choice = {**_dicts(last.get("choices"))[0], "message": self._message(answers)}
        if choice.get("finish_reason") == "tool_calls" and not choice["message"].get("tool_calls"):
            choice["finish_reason"] = "stop"
        usage = _summed(answers, "completion_tokens")
        total = _number(usage.get("prompt_tokens")) + _number(usage.get("completion_tokens"))
        return {**last, "choices": [choice], "usage": {**usage, "total_tokens": total} if usage else None}


def _is_ours_in_chat(call: Json) -> bool:
    return as_mapping(call.get("function")).get("name") in RECALL_TOOLS


def _chat_call(call: Json) -> Call:
    function = as_mapping(call.get("function"))
    return Call(as_text(call.get("id")), function["name"], as_text(function.get("arguments")) or "{}", call)


class _Responses:
    def __init__(self) -> None:
        self.hiding = False
        self._begun = self._next = self._offset = 0
        self._hidden, self._shown = set[int](), dict[int, int]()
        self._answers: list[Json] = []

    def begin(self) -> None:
        self._begun, self.hiding = self._begun + 1, False
        self._offset += len(self._shown)
        self._hidden, self._shown = set(), {}

    def event(self, event: Json) -> Json | None:
        kind = as_text(event.get("type"))
        if self.ends(event):
            self._answers.append(as_mapping(event.get("response")))
            alone = not self._begun and not self.hiding
            return event if alone else {**self._numbered(event, 0), "response": self.merged(self._answers)}
        if self._begun and isinstance(event.get("response"), dict):
            return None
        index = event.get("output_index")
        if isinstance(index, int):
            if kind == "response.output_item.added":
                self._start(index, as_mapping(event.get("item")))
            if index in self._hidden:
                return None
            place = self._shown.get(index, index)
            event = event if place == index else {**event, "output_index": place}
        return self._numbered(event, 1)

    def _start(self, index: int, item: Json) -> None:
        if _is_ours(item):
            self._hidden.add(index)
            self.hiding = True
        else:
            self._shown[index] = self._offset + len(self._shown)

    def _numbered(self, event: Json, step: int) -> Json:
        number = event.get("sequence_number")
        if not isinstance(number, int):
            return event
        if not self._begun and not self.hiding:
            self._next = number + step
            return event
        place, self._next = self._next, self._next + step
        return event if place == number else {**event, "sequence_number": place}

    def ends(self, event: Json) -> bool:
        return event.get("type") in ("response.completed", "response.incomplete", "response.failed")

    def read(self, answer: Json) -> Answered:
        """Each call stays in its place: reasoning and what it led to must be whole and in order (R3, R4)."""
        ours, shown, theirs = list[Batch](), list[Any](), False
        for item in _dicts(answer.get("output")):
            if not _is_ours(item):
                shown = [*shown, item]
                theirs = theirs or (as_text(item.get("type")).endswith("_call") and "call_id" in item)
            elif ours and len(ours[-1].shown) == len(shown):
                ours[-1].calls.append(_responses_call(item))
            else:
                ours.append(Batch([_responses_call(item)], shown))
        return Answered(ours if answer.get("status") == "completed" else [], theirs, "")

    def shown(self, answers: Sequence[Json]) -> list[Any]:
        return [one for answer in answers for one in _dicts(answer.get("output")) if not _is_ours(one)]

    def merged(self, answers: Sequence[Json]) -> Json:
        usage = _summed(answers, "output_tokens")
        total = _number(usage.get("input_tokens")) + _number(usage.get("output_tokens"))
        told = {**usage, "total_tokens": total} if usage else None
        return {**answers[-1], "output": self.shown(answers), "usage": told}


def _responses_call(item: Json) -> Call:
    return Call(as_text(item.get("call_id")), item["name"], as_text(item.get("arguments")) or "{}", item)


def _summed(answers: Sequence[Json], name: str) -> dict[str, Any]:
    """The last one's usage, and the output of all; empty where the last tells none."""
    usages = [as_mapping(answer.get("usage")) for answer in answers]
    return {**usages[-1], name: sum(_number(one.get(name)) for one in usages)} if usages[-1] else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


_WEAVINGS: Mapping[str, Callable[[], Weaving]] = {
    "anthropic": _Anthropic,
    "openai_chat": _Chat,
    "openai_responses": _Responses,
}


def weaving(wire: str) -> Weaving:
    return _WEAVINGS[wire]()
