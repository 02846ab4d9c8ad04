"""Replies of the Gemini API: responses, streams, merged responses and errors.

Every chunk of a stream is a whole response with a few parts. The usage counts from the stream's beginning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_not
from typing import Any

from ebbtide.core.tool_calls import RECALL_TOOLS
from ebbtide.core.types import Usage
from ebbtide.wire.blocks import as_mapping, as_str, as_text, dumps
from ebbtide.wire.gemini.fields import (
    call_of,
    find,
    find_name,
    is_thought,
    parts_of,
    remove_fields,
    replace_field,
    sign,
    signature_of,
)
from ebbtide.wire.protocol import AnswerParts, Json, ReadResponse, RecallBatch, RecallCall
from ebbtide.wire.replies import MAX_REPLY, as_dicts, as_int

_REFUSALS = frozenset(
    {
        *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "JAILBREAK"),
        *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
    }
)
_OUTPUT = ("candidatesTokenCount", "thoughtsTokenCount")


def usage(response: Mapping[str, Any]) -> Usage | None:
    """Thoughts are billed as output, and what Google's own tools read as input."""
    counts = find(response, "usageMetadata")
    prompt = as_int(find(counts, "promptTokenCount"))
    if prompt <= 0:
        return None
    total = prompt + max(0, as_int(find(counts, "toolUsePromptTokenCount")))
    cached = min(max(0, as_int(find(counts, "cachedContentTokenCount"))), total)
    return Usage(input=total - cached, cache_read=cached, output=_output_tokens(counts))


def _output_tokens(counts: Any) -> int:
    return sum(max(0, as_int(find(counts, name))) for name in _OUTPUT)


def _candidate(response: Json) -> Json:
    return next(iter(as_dicts(response.get("candidates"))), {})


def as_messages(response: Mapping[str, Any]) -> list[Any]:
    content = _candidate(response).get("content")
    return [{"role": "model", **content}] if isinstance(content, dict) and parts_of(content) else []


def from_recording(reply: Mapping[str, Any], usage: Usage | None) -> dict[str, Any]:
    response: dict[str, Any] = {"candidates": [{"content": reply, "finishReason": "STOP"}]}
    if usage is None:
        return response
    counts = {
        "promptTokenCount": usage.prompt,
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output,
        "totalTokenCount": usage.total,
    }
    return {**response, "usageMetadata": counts}


def read_answer(response: Mapping[str, Any]) -> AnswerParts:
    parts = parts_of(_candidate(response).get("content"))
    texts = [as_text(part.get("text")) for part in as_dicts(parts) if not is_thought(part)]
    blocked = as_str(find(find(response, "promptFeedback"), "blockReason"))
    reason = blocked or as_str(find(_candidate(response), "finishReason"))
    is_refusal = bool(blocked) or reason in _REFUSALS
    has_calls = any(call_of(part) is not None for part in parts)
    return AnswerParts(texts, "SAFETY" if is_refusal else reason, has_calls, is_refusal)


def error_body(reason: str, *, is_overloaded: bool) -> dict[str, Any]:
    code, status = (503, "UNAVAILABLE") if is_overloaded else (400, "INVALID_ARGUMENT")
    return {"error": {"code": code, "message": reason, "status": status}}


def error_event(error: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return "", {"error": error}


class _StreamAssembler:
    def __init__(self) -> None:
        self.is_complete = False
        self._response: dict[str, Any] = {}
        self._candidate: dict[str, Any] = {}
        self._content: dict[str, Any] = {}
        self._parts: list[dict[str, Any]] = []
        self._texts: list[list[str]] = []
        """Of each part, the pieces of its text."""
        self._size, self._is_broken = 0, False

    def add(self, event: dict[str, Any]) -> str:
        """Several answers at once are not understood: we cannot know which one the client keeps."""
        text = ""
        candidates = as_dicts(event.get("candidates"))
        others = [candidate for candidate in candidates if as_int(candidate.get("index")) != 0]
        self._is_broken = self._is_broken or bool(others) or bool(event.get("error"))
        self._response.update({name: value for name, value in event.items() if name != "candidates"})
        for candidate in candidates:
            content = as_mapping(candidate.get("content"))
            self._candidate.update({name: value for name, value in candidate.items() if name != "content"})
            self._content.update({name: value for name, value in content.items() if name != "parts"})
            for part in parts_of(content):
                self._add_part(part)
                text += "" if is_thought(part) else as_text(find(part, "text"))
        is_blocked = bool(find(find(event, "promptFeedback"), "blockReason"))
        has_ended = is_blocked or bool(find(self._candidate, "finishReason"))
        self.is_complete = has_ended and not self._is_broken
        return text

    def _add_part(self, part: Any) -> None:
        """Add a piece of text to the last part, if neither is signed (G6) and both are of one kind."""
        if not isinstance(part, dict):
            self._is_broken = True
            return
        self._size += len(as_text(part.get("text"))) + len(signature_of(part))
        # Arguments in pieces: only Vertex sends them, if asked.
        self._is_broken = self._is_broken or self._size > MAX_REPLY or bool(find(call_of(part), "willContinue"))
        if self._size > MAX_REPLY:
            return
        last = self._parts[-1] if self._parts else {}
        if _is_unsigned_text(part) and _is_unsigned_text(last) and is_thought(part) == is_thought(last):
            self._texts[-1].append(part["text"])
        else:
            self._parts.append(part)
            self._texts.append([as_text(part.get("text"))])

    def response(self) -> dict[str, Any]:
        parts = [
            {**part, "text": "".join(texts)} if len(texts) > 1 else part
            for part, texts in zip(self._parts, self._texts, strict=True)
        ]
        # The last chunk of many streams is an empty text.
        parts = [part for part in parts if not (_is_unsigned_text(part) and part["text"] == "")]
        if not self._candidate and not parts:
            return self._response
        content = {"role": "model", **self._content, "parts": parts}
        return {**self._response, "candidates": [{**self._candidate, "content": content}]}


def _is_unsigned_text(part: Json) -> bool:
    return isinstance(part.get("text"), str) and not (part.keys() - {"text", "thought"})


class _ResponseMerger:
    """Clients join the texts of a stream, so what the model says before a recall call is repeated with that call.

    Of calls beside each other only the first is signed (G5). If that is a recall call, the client's own gets the
    placeholder: the client sends it back, and the provider reads the same as before.
    """

    def __init__(self) -> None:
        self.is_hiding = False
        self._hides_signature = False
        self._responses, self._id = 0, ""
        self._earlier = dict.fromkeys(_OUTPUT, 0)
        self._current: Json = {}
        """Output of the responses before the current one, and the usage of the current one."""

    def start_next(self) -> None:
        self._responses, self.is_hiding, self._hides_signature = self._responses + 1, False, False
        self._earlier = {name: count + as_int(find(self._current, name)) for name, count in self._earlier.items()}
        self._current = {}

    def convert(self, event: Json) -> Json | None:
        self._id = self._id or as_str(find(event, "responseId"))
        converted = event
        candidate = _candidate(event)
        parts = parts_of(candidate.get("content"))
        visible, self._hides_signature = _visible_parts(parts, hides_signature=self._hides_signature)
        if len(visible) == len(parts) and any(map(is_not, visible, parts)):
            converted = {**converted, "candidates": [_with_parts(candidate, visible)]}
        if len(visible) < len(parts):
            self.is_hiding = True
            is_end = self.is_end(event)
            if not visible and not is_end:
                return None
            if visible and not is_end:
                # The next response ends the client's answer.
                candidate = remove_fields(candidate, "finishReason")
            converted = {**converted, "candidates": [_with_parts(candidate, visible)]}
        counts = find(event, "usageMetadata")
        if isinstance(counts, dict):
            self._current = counts
            if self._responses:
                converted = replace_field(converted, "usageMetadata", self._total(counts))
        if self._responses and self._id and find(converted, "responseId"):
            converted = replace_field(converted, "responseId", self._id)
        return converted

    def _total(self, counts: Json) -> Json:
        total = dict(counts)
        for name, earlier in self._earlier.items():
            if earlier or find(counts, name) is not None:
                total[find_name(counts, name)] = earlier + as_int(find(counts, name))
        whole = as_int(find(counts, "totalTokenCount")) + sum(self._earlier.values())
        return {**total, find_name(counts, "totalTokenCount"): whole}

    def is_end(self, event: Json) -> bool:
        """An end that comes with parts which the client sees is shown to it."""
        candidate = _candidate(event)
        parts = [part for part in parts_of(candidate.get("content")) if not _is_recall_part(part)]
        has_content = any(part != {"text": ""} for part in parts)
        return not event or (bool(find(candidate, "finishReason")) and not has_content)

    def read(self, response: Json) -> ReadResponse:
        candidate = _candidate(response)
        parts = parts_of(candidate.get("content"))
        calls = [_recall_call(part) for part in parts if _is_recall_part(part)]
        has_client_calls = any(call_of(part) is not None and not _is_recall_part(part) for part in parts)
        is_open = bool(calls) and find(candidate, "finishReason") in (None, "STOP")
        recalls = [RecallBatch(calls, self.visible([response]))] if is_open else []
        texts = [as_text(part["text"]) for part in parts if is_open and not has_client_calls and _is_said(part)]
        return ReadResponse(recalls, has_client_calls, hidden_text="".join(texts))

    def visible(self, responses: Sequence[Json]) -> list[Any]:
        """Only if the client must answer calls: otherwise the hidden contents hold everything.

        Clients drop empty texts and thoughts without a signature.
        """
        parts = [part for part in self._merge_parts(responses) if not _is_dropped_by_clients(part)]
        return [{"role": "model", "parts": parts}] if any(call_of(part) is not None for part in parts) else []

    def _merge_parts(self, responses: Sequence[Json]) -> list[Any]:
        """Return the visible parts, with neighbouring texts joined, as they are in a stream."""
        merged: list[Any] = []
        for response in responses:
            for part in _visible_parts(parts_of(_candidate(response).get("content")))[0]:
                if merged and _is_said(part) and _is_said(merged[-1]):
                    merged[-1] = {**part, "text": merged[-1]["text"] + part["text"]}
                else:
                    merged.append(part)
        return merged

    def merge(self, responses: Sequence[Json]) -> Json:
        last = responses[-1]
        self._earlier = dict.fromkeys(_OUTPUT, 0)
        for response in responses[:-1]:
            counts = find(response, "usageMetadata")
            self._earlier = {name: count + as_int(find(counts, name)) for name, count in self._earlier.items()}
        merged = {**last, "candidates": [_with_parts(_candidate(last), self._merge_parts(responses))]}
        counts = find(last, "usageMetadata")
        return replace_field(merged, "usageMetadata", self._total(counts)) if isinstance(counts, dict) else merged


def _with_parts(candidate: Json, parts: list[Any]) -> dict[str, Any]:
    return {**candidate, "content": {"role": "model", **as_mapping(candidate.get("content")), "parts": parts}}


def _visible_parts(parts: Sequence[Any], *, hides_signature: bool = False) -> tuple[list[Any], bool]:
    """Return the parts that the client may see, and whether its next call lacks the signature of a hidden one."""
    visible = []
    for part in parts:
        if _is_recall_part(part):
            hides_signature = hides_signature or bool(signature_of(part))
        elif call_of(part) is not None and hides_signature:
            visible.append(part if signature_of(part) else sign(part))
            hides_signature = False
        else:
            visible.append(part)
    return visible, hides_signature


def _is_said(part: Any) -> bool:
    """Whether it is text for the user, and without a signature."""
    return isinstance(part, dict) and _is_unsigned_text(part) and not is_thought(part)


def _is_dropped_by_clients(part: Any) -> bool:
    return not signature_of(part) and (is_thought(part) or (isinstance(part, dict) and part == {"text": ""}))


def _is_recall_part(part: Any) -> bool:
    call = call_of(part)
    return call is not None and call.get("name") in RECALL_TOOLS


def _recall_call(part: Json) -> RecallCall:
    """The raw call has the signature of its part: it is written back with it."""
    call, signature = call_of(part) or {}, signature_of(part)
    raw = {**call, "thoughtSignature": signature} if signature else call
    return RecallCall(as_str(call.get("id")), call["name"], dumps(call.get("args") or {}), raw)


stream_assembler, response_merger = _StreamAssembler, _ResponseMerger
