"""Recorded sessions ready to replay: each call with the request it would have had if the client had never compacted.

A recording lacks two things. The system prompt and the tools: their size follows from the first bill, and filler text
of that length takes their place. And the tokens of each message: two bills in a row differ by the messages added
between them; only messages that no bill covers are estimated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias

from ebbtide.core.tokens.estimator import DEFAULT, Estimator
from ebbtide.core.types import FIVE_MINUTES, HOUR, Usage
from ebbtide.formats import Recording
from ebbtide.formats.steps import RecordedCall
from ebbtide.replay.message_index import MessageIndex
from ebbtide.replay.touched_files import TouchedFiles, find_touched_files
from ebbtide.wire import WIRES
from ebbtide.wire.protocol import Wire
from ebbtide.wire.reader import Reader
from ebbtide.wire.turns import text_block

Body: TypeAlias = dict[str, object]

_STEP_SECONDS = 15.0
"""Seconds between two calls if no time was recorded: about one agent step, far below any TTL."""

_MAX_RATIO = 4.0
"""A bill further than this factor from the estimate covers more than the added messages, and is not used."""

_SWITCHES_THINKING = re.compile(r"claude-(opus|sonnet|haiku)-4-5(?!\d)")
"""Models whose thinking a client switches. Newer ones decide themselves whether they think."""

_FILLER = "The rules of this place are kept as they were. "


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayCall:
    """One recorded model call."""

    raw: Body
    """The request with nothing removed, and with the client's cache breakpoints."""
    unmarked: Body
    """The same without breakpoints, as a program sends it that leaves them to us."""
    recorded: Body
    """The request that the client sent."""
    response: Mapping[str, object] | None
    at: float
    model: str
    usage: Usage | None
    """What the provider billed for the recorded request."""
    is_compacted: bool
    thinks: bool = False
    """Whether the request thinks, where the recording says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySession:
    """One recorded conversation, with the measured tokens of its messages."""

    name: str
    format: str
    wire: Wire
    calls: tuple[ReplayCall, ...]
    messages: MessageIndex
    touched_files: TouchedFiles = field(default_factory=TouchedFiles)


def sessions_in(
    recording: Recording, name: str, *, model: str = "", ttl: float = FIVE_MINUTES
) -> Iterator[ReplaySession]:
    """Yield the conversations of a recording that have a call.

    `model` overrides the recorded one. `ttl` is the lifetime of the client's breakpoints in requests that were not
    compacted; the recorded ones have their own.
    """
    wire = WIRES[recording.wire]
    compacted = {(call.episode, call.row): call for call in recording.requests()}
    episodes: dict[str, list[RecordedCall]] = {}
    for call in recording.uncompacted():
        episodes.setdefault(call.episode, []).append(call)
    for episode, calls in episodes.items():
        pairs = _pair_calls(calls, compacted)
        if not pairs:
            continue
        title = f"{name}#{episode}" if episode else name
        yield _build_session(title, recording.format, wire, pairs, model, ttl)


def _pair_calls(
    calls: Sequence[RecordedCall], compacted: Mapping[tuple[str, int], RecordedCall]
) -> list[tuple[RecordedCall, RecordedCall]]:
    """Pair each call that was sent, as it would have been without compactions, with the call that the client made."""
    pairs = []
    is_compacted = False
    for call in calls:
        own = compacted.get((call.episode, call.row), call)
        is_compacted |= own.compacted
        if is_sent(call):
            pairs.append((call, replace(own, compacted=is_compacted)))
            is_compacted = False
    return pairs


def _build_session(
    name: str, format: str, wire: Wire, pairs: Sequence[tuple[RecordedCall, RecordedCall]], model: str, ttl: float
) -> ReplaySession:
    recorded = [call for _, call in pairs]
    messages = measure_messages(wire, recorded)
    filler = _make_filler(messages.overhead)
    calls: list[ReplayCall] = []
    call_model, recorded_ttl = wire.typical_model, FIVE_MINUTES
    for (raw_call, client_call), at in zip(pairs, _times(recorded), strict=True):
        call_model = model or raw_call.model or call_model
        # A call that only reads from the cache does not say how long the prefix lasts.
        recorded_ttl = _recorded_ttl(client_call.response) or recorded_ttl
        marks, recorded_marks = (wire.cache.client_fields(call_model, seconds) for seconds in (ttl, recorded_ttl))
        calls.append(
            ReplayCall(
                raw=_complete_request(raw_call.request, wire, call_model, filler, marks),
                unmarked=_complete_request(raw_call.request, wire, call_model, filler, {}),
                recorded=_complete_request(client_call.request, wire, call_model, filler, recorded_marks),
                response=raw_call.response,
                at=at,
                model=call_model,
                usage=client_call.usage,
                is_compacted=client_call.compacted,
                thinks=thinks(raw_call, format),
            )
        )
    last = Reader(DEFAULT, wire=wire).read(calls[-1].raw).items
    return ReplaySession(
        name=name,
        format=format,
        wire=wire,
        calls=tuple(calls),
        messages=messages,
        touched_files=find_touched_files(last),
    )


def is_sent(call: RecordedCall) -> bool:
    """Whether a model was called. Claude Code writes its own replies into its log, and names their model so."""
    return not call.model.startswith("<")


def thinks(call: RecordedCall, format: str) -> bool:
    """Whether a request of Claude Code thinks: on these models a reply begins with thinking if and only if it does.

    (The bills show it too: such a request ends with seven tokens or more that are not cached, others with up to three.)
    It switches thinking off and on in the middle of a session, and Claude then writes all messages again.
    """
    content = (call.response or {}).get("content")
    blocks = content if isinstance(content, list) else []
    return (
        format == "claude-code"
        and bool(_SWITCHES_THINKING.search(call.model))
        and any(isinstance(block, Mapping) and block.get("type") == "thinking" for block in blocks)
    )


def _recorded_ttl(response: Mapping[str, object] | None) -> float | None:
    usage = (response or {}).get("usage")
    written = usage.get("cache_creation") if isinstance(usage, Mapping) else None
    if not isinstance(written, Mapping):
        return None
    return HOUR if written.get("ephemeral_1h_input_tokens") else FIVE_MINUTES


def measure_messages(
    wire: Wire, calls: Sequence[RecordedCall], make_index: Callable[[Wire, Estimator], MessageIndex] = MessageIndex
) -> MessageIndex:
    """Measure messages by the difference of two bills; scale the estimates of all others to match."""
    messages = make_index(wire, DEFAULT)
    billed: dict[bytes, float] = {}
    billed_total = estimated_total = 0
    for previous, call in pairwise(calls):
        if call.compacted or not previous.usage or not call.usage:
            continue
        added = [messages.facts(message) for message in _added_messages(wire, previous, call)]
        tokens, estimate = call.usage.prompt - previous.usage.prompt, sum(facts.estimate for facts in added)
        if estimate and tokens > 0 and 1 / _MAX_RATIO < tokens / estimate < _MAX_RATIO:
            billed |= {facts.key: facts.estimate * tokens / estimate for facts in added}
            billed_total, estimated_total = billed_total + tokens, estimated_total + estimate
    ratio = billed_total / estimated_total if estimated_total else 1.0
    measured = replace(messages, billed_tokens=billed, ratio=ratio)
    return replace(measured, overhead=_overhead(measured, calls))


def _added_messages(wire: Wire, previous: RecordedCall, call: RecordedCall) -> Sequence[object]:
    """Messages that a request adds to the one before; none if it does not begin with it."""
    before, now = previous.request[wire.list_key], call.request[wire.list_key]
    if len(now) <= len(before) or any(old is not new for old, new in zip(before, now, strict=False)):
        return ()
    added: Sequence[object] = now[len(before) :]
    return added


def _overhead(messages: MessageIndex, calls: Sequence[RecordedCall]) -> int:
    """Tokens of a request besides its messages, from the first bill and each bill after a compaction.

    Use the smallest: a session that continues another file begins with messages which this file does not have.
    """
    overheads = [
        call.usage.prompt - sum(messages.tokens(message) for message in call.request[messages.wire.list_key])
        for n, call in enumerate(calls)
        if (call.compacted or not n) and call.usage and call.usage.prompt
    ]
    return max(0, min(overheads, default=0))


def _make_filler(tokens: int) -> str:
    tokens_per_sentence = DEFAULT.text(_FILLER * 100) / 100
    return _FILLER * round(tokens / tokens_per_sentence)


def _complete_request(
    request: Mapping[str, object], wire: Wire, model: str, filler: str, marks: Mapping[str, object]
) -> Body:
    """Add the model, filler for the system prompt, and cache breakpoints there and at the end."""
    system = wire.turns.system_fields([{**text_block(filler), **marks}]) if filler else {}
    return {**request, "model": model, **system, **marks}


def _times(calls: Sequence[RecordedCall]) -> Iterator[float]:
    """The time of each call. Time never runs backwards."""
    now = 0.0
    for n, call in enumerate(calls):
        now = max(now + (_STEP_SECONDS if n and call.at is None else 0.0), call.at or 0.0)
        yield now
