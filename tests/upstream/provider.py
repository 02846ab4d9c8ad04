"""The scripted provider without its socket: bytes in, a reply out, and a memory of everything it was sent.

A request is checked, then measured, then billed, then answered. One that is refused leaves no trace in the cache.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from urllib.parse import unquote

from upstream import check, events, render, signing
from upstream.anthropic_request import THINKING
from upstream.caching import Cache, CacheBill
from upstream.encoding import NotJson, parse
from upstream.finding import Body, Refusal
from upstream.models import model
from upstream.prefix import tokens, units
from upstream.script import AFTER_THE_END, Cut, Failure, Script, Turn, parts_of

ROUTES: dict[str, check.Wire] = {
    "/v1/messages": "anthropic",
    "/v1/messages/count_tokens": "anthropic",
    "/v1/chat/completions": "openai_chat",
    "/v1/responses": "openai_responses",
}
COUNT = "/v1/messages/count_tokens"
GEMINI = re.compile(r"/(?:v1|v1beta1?|projects/.+)/models/(?P<model>[^/:]+):(?P<method>\w+)")
"""Of the Gemini API and of Vertex AI."""
CONVERSE = re.compile(r"/model/(?P<model>[^/]+)/converse(?P<stream>-stream)?\Z")
GEMINI_METHODS = ("generateContent", "streamGenerateContent", "countTokens")
TOO_LONG = {
    "anthropic": ("A59", "prompt is too long: {tokens} tokens > {window} maximum"),
    "openai_chat": (
        "C11",
        "This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens. "
        "Please reduce the length of the messages.",
    ),
    "gemini": ("G10", "The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window})."),
    "bedrock_converse": ("K0", "Input is too long for requested model."),
    "openai_responses": (
        "R14",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ),
}
NO_ROOM = (
    "input length and `max_tokens` exceed context limit: {tokens} + {most} > {window}, "
    "decrease input length or `max_tokens` and try again"
)
KINDS = {
    400: "invalid_request_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
CODES = {"C11": "context_length_exceeded", "R14": "context_length_exceeded", "R6": "invalid_encrypted_content"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and what became of it."""

    path: str
    headers: Mapping[str, str]
    raw: bytes
    parsed: Body
    """Empty where the bytes spell no object."""
    status: int
    refused: tuple[Refusal, ...] = ()
    warned: tuple[Refusal, ...] = ()
    usage: CacheBill | None = None
    """What the input was billed; None where it was refused or only counted."""
    response: Body = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int
    body: Body
    stream: list[bytes] | None = None
    """Server-sent events, in place of the body."""


@dataclass(slots=True)
class Provider:
    script: Script
    window: int | None
    """Tokens; None accepts any length."""
    clock: Callable[[], float]
    issuer: Callable[[str, Body], list[Refusal]] = signing.refusals
    """Verifies signatures and seals; `signing.trusting` for sessions that were recorded elsewhere."""
    requests: list[Exchange] = field(default_factory=list)
    cache: Cache = field(init=False)
    _issued: dict[str, list[Body]] = field(default_factory=dict)
    """Thinking issued with a call, by the call's id."""
    _stored: dict[str, list[Body]] = field(default_factory=dict)
    """Input and output of each stored response."""
    _numbers: count[int] = field(default_factory=count)
    _turns: count[int] = field(default_factory=count)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.cache = Cache(self.clock)

    def answer(self, path: str, headers: Mapping[str, str], raw: bytes) -> Reply:
        """One at a time: a request sees the cache that the one before it left."""
        with self._lock:
            reply, exchange = self._exchange(path, headers, raw)
            self.requests.append(exchange)
            return reply

    def _exchange(self, path: str, headers: Mapping[str, str], raw: bytes) -> tuple[Reply, Exchange]:
        wire = wire_of(path)
        body = _called(path, _body(raw))
        seen: Body = {"path": path, "headers": dict(headers), "raw": raw, "parsed": body}
        refused = self._refused(path, headers, raw, body)
        if refused:
            reply = Reply(status=refused[0].status, body=refusal_envelope(wire, refused[0]))
            return reply, Exchange(**seen, status=reply.status, refused=tuple(refused), response=reply.body)
        reply, usage = self._play(path, wire, body)
        warned = tuple(check.warnings(wire, body))
        return reply, Exchange(**seen, status=reply.status, warned=warned, usage=usage, response=reply.body)

    def _refused(self, path: str, headers: Mapping[str, str], raw: bytes, body: Body) -> list[Refusal]:
        wire = wire_of(path)
        betas = {beta.strip() for beta in headers.get("anthropic-beta", "").split(",")} - {""}
        unknown = self._unknown_previous(wire, body)
        if unknown or not body:
            return unknown or check.refusals_bytes(wire, raw, betas)
        whole = self._whole(wire, body)
        found = (
            check.refusals_bytes(wire, raw, betas)
            if whole is body and wire not in ("gemini", "bedrock_converse")
            else check.refusals(wire, whole)
        )
        found = found or self.issuer(wire, whole)
        if wire == "anthropic" and not found:
            found = signing.removed(body, self._issued)
        return found or ([] if _counts_only(path) else self._too_long(wire, whole))

    def _unknown_previous(self, wire: str, body: Body) -> list[Refusal]:
        previous = body.get("previous_response_id") if wire == "openai_responses" else None
        if not previous or previous in self._stored:
            return []
        return [Refusal("R7", "previous_response_id", f"Previous response with id '{previous}' not found.")]

    def _whole(self, wire: str, body: Body) -> Body:
        """The body with what the provider kept for it."""
        if wire != "openai_responses" or not body.get("previous_response_id"):
            return body
        kept = self._stored[body["previous_response_id"]]
        return {**body, "previous_response_id": None, "input": kept + _input(body)}

    def _too_long(self, wire: str, body: Body) -> list[Refusal]:
        used, most = tokens(units(wire, body)), body.get("max_tokens")
        if self.window is None:
            return []
        if used > self.window:
            rule, text = TOO_LONG[wire]
            return [Refusal(rule, "", text.format(tokens=used, window=self.window))]
        older = wire == "anthropic" and model(body.get("model")).family and model(body.get("model")).prefill
        if older and isinstance(most, int) and used + most > self.window:
            return [Refusal("A60", "max_tokens", NO_ROOM.format(tokens=used, most=most, window=self.window))]
        return []

    def _play(self, path: str, wire: check.Wire, body: Body) -> tuple[Reply, CacheBill | None]:
        whole = self._whole(wire, body)
        if _counts_only(path):
            field = "totalTokens" if wire == "gemini" else "input_tokens"
            return Reply(status=200, body={field: tokens(units(wire, whole))}), None
        streams = body.get("stream") or ":stream" in path or path.endswith("/converse-stream")
        turn, number = self._next(body), next(self._numbers)
        if isinstance(turn, Failure) and not (turn.in_stream and streams):
            return Reply(status=turn.status, body=envelope(wire, turn.status, turn.message, turn.code)), None
        billed = self.cache.bill(wire, whole)
        parts = [] if isinstance(turn, Failure) else parts_of(turn.parts if isinstance(turn, Cut) else turn)
        response = render.answer(wire, whole, parts, billed, number)
        if not streams:
            self._remember(wire, whole, response)
            return Reply(status=200, body=response), billed
        if isinstance(turn, Failure):
            error = envelope(wire, turn.status, turn.message, turn.code)
            return Reply(status=200, body=error, stream=events.failed(wire, response, error)), billed
        self._remember(wire, whole, response)
        spelled = events.stream(wire, body, response)
        if wire == "gemini" and "alt=sse" not in path:
            spelled = events.array(events.gemini_chunks(response))
        return Reply(
            status=200, body=response, stream=spelled[: turn.events] if isinstance(turn, Cut) else spelled
        ), billed

    def _next(self, body: Body) -> Turn:
        if callable(self.script):
            return self.script(body)
        at = next(self._turns)
        return self.script[at] if at < len(self.script) else AFTER_THE_END

    def _remember(self, wire: str, body: Body, response: Body) -> None:
        if wire == "openai_responses" and body.get("store") is not False:
            self._stored[response["id"]] = _input(body) + response["output"]
        if wire != "anthropic":
            return
        thinking = [block for block in response["content"] if block["type"] in THINKING]
        for block in response["content"]:
            if block["type"] == "tool_use":
                self._issued[block["id"]] = thinking


def wire_of(path: str) -> check.Wire | None:
    """The wire that a path is served on; None if it is not. Only Gemini's paths have a query that matters."""
    bare = path.partition("?")[0]
    gemini = GEMINI.search(bare)
    if gemini and gemini["method"] in GEMINI_METHODS:
        return "gemini"
    return "bedrock_converse" if CONVERSE.search(bare) else ROUTES.get(bare)


def _counts_only(path: str) -> bool:
    return path.partition("?")[0].endswith((COUNT, ":countTokens"))


def _called(path: str, body: Body) -> Body:
    """The body with the model that the path names."""
    gemini, converse = GEMINI.search(path), CONVERSE.search(path.partition("?")[0])
    if converse and body:
        return {**body, "modelId": unquote(converse["model"])}
    return {**body, "model": gemini["model"]} if gemini and body else body


def _body(raw: bytes) -> Body:
    try:
        body = parse(raw)
    except NotJson:
        return {}
    return body if isinstance(body, dict) else {}


def _input(body: Body) -> list[Body]:
    given = body.get("input")
    return [{"role": "user", "content": given}] if isinstance(given, str) else list(given or [])


def refusal_envelope(wire: str, refusal: Refusal) -> Body:
    code = CODES.get(refusal.rule)
    for text, name in (("empty array", "empty_array"), ("string too long", "string_above_max_length")):
        code = name if text in refusal.message else code
    return envelope(wire, refusal.status, refusal.message, code, refusal.path)


def envelope(wire: str, status: int, message: str, code: str | None = None, path: str = "") -> Body:
    kind = KINDS.get(status, "api_error")
    if wire == "gemini":
        name = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}.get(status, "UNAVAILABLE")
        return {"error": {"code": status, "message": message, "status": name}}
    if wire == "bedrock_converse":
        return {"message": message}
    if wire == "anthropic":
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_ebb"}
    return {"error": {"message": message, "type": kind, "param": path or None, "code": code}}
