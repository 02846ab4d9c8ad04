"""A recorded conversation, ready to be played again: each call as it would have been had the client never compacted.

Two things are not in a recording and have to be put back. The system prompt and the tools, which every request carried:
their tokens follow from the first bill, and a filler of that length stands for them. And what each message took: two
bills in a row differ by what came between, so the bill itself says it, and only what was never billed is estimated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ebbtide.core.tokens import DEFAULT
from ebbtide.core.types import FIVE_MINUTES, HOUR
from ebbtide.formats import Recording
from ebbtide.formats.steps import RecordedCall
from ebbtide.replay.message_index import Sheet
from ebbtide.replay.touched_files import Touched, touched
from ebbtide.wire import WIRES
from ebbtide.wire.protocol import Wire
from ebbtide.wire.reader import Reader

Body: TypeAlias = dict[str, object]

_PAUSE = 15.0
"""Seconds between two calls where no time was recorded: what an agent's step takes, far below any TTL."""

_STRANGE = 4.0
"""A step billed at more than so many times its estimate, or less than that part of it, had something else in it."""

_UNNAMED = {"anthropic": "claude-sonnet-4-5", "openai_chat": "gpt-4o", "openai_responses": "gpt-5"}
"""For prices and cache rules, where no model was recorded."""

_FILLER = "The rules of this place are kept as they were. "


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """One recorded call."""

    raw: Body
    """The request had nothing ever been taken out."""
    recorded: Body
    """The request as the client had it."""
    response: Mapping[str, object] | None
    at: float
    model: str
    billed: tuple[int, int, int] | None
    """What the provider charged for the recorded request: read, written, neither."""
    kept: float | None
    """Seconds for which what was written was to be kept, where the bill tells."""
    compacted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tape:
    """One conversation, with what its tokens were billed at."""

    name: str
    format: str
    wire: Wire
    takes: tuple[Take, ...]
    sheet: Sheet
    files: Touched = field(default_factory=Touched)
    """Up to the last call."""


def tapes(recording: Recording, name: str, *, model: str = "") -> Iterator[Tape]:
    """The conversations of a recording, those with at least one call. `model` instead of the recorded one."""
    wire = WIRES[recording.wire]
    compacted = {(call.episode, call.row): call for call in recording.requests()}
    episodes: dict[str, list[RecordedCall]] = {}
    for call in recording.uncompacted():
        episodes.setdefault(call.episode, []).append(call)
    for episode, calls in episodes.items():
        pairs = [(call, compacted.get((call.episode, call.row), call)) for call in calls]
        title = f"{name}#{episode}" if episode else name
        yield _tape(title, recording.format, wire, pairs, model)


def _tape(name: str, format: str, wire: Wire, pairs: Sequence[tuple[RecordedCall, RecordedCall]], model: str) -> Tape:
    recorded = [call for _, call in pairs]
    sheet = _weighed(wire, recorded)
    filler = _filler(sheet.overhead)
    takes: list[Take] = []
    named = _UNNAMED[wire.name]
    for (raw, had), at in zip(pairs, _times(recorded), strict=True):
        # `<synthetic>` is what Claude Code calls its own words: no model of that name was asked.
        named = model or (raw.model if not raw.model.startswith("<") else "") or named
        usage = had.usage
        takes.append(
            Take(
                raw=_dressed(raw.request, wire, named, filler),
                recorded=_dressed(had.request, wire, named, filler),
                response=raw.response,
                at=at,
                model=named,
                billed=(usage.cache_read, usage.cache_write, usage.input) if usage else None,
                kept=_kept(had.response),
                compacted=had.compacted,
            )
        )
    last = Reader(DEFAULT, wire=wire).read(takes[-1].raw).items
    return Tape(name=name, format=format, wire=wire, takes=tuple(takes), sheet=sheet, files=touched(last))


def _kept(response: Mapping[str, object] | None) -> float | None:
    usage = (response or {}).get("usage")
    written = usage.get("cache_creation") if isinstance(usage, Mapping) else None
    if not isinstance(written, Mapping):
        return None
    return HOUR if written.get("ephemeral_1h_input_tokens") else FIVE_MINUTES


def _weighed(wire: Wire, calls: Sequence[RecordedCall]) -> Sheet:
    """What messages took, by the difference of two bills; the ratio of bill to estimate for all others."""
    sheet = Sheet(wire=wire, estimator=DEFAULT)
    billed: dict[bytes, float] = {}
    paid = guessed = 0
    last: RecordedCall | None = None
    for call in calls:
        if last is not None and not call.compacted and last.usage and call.usage:
            new = _added(wire, last, call)
            more, estimate = call.usage.prompt - last.usage.prompt, sum(sheet.of(one).estimate for one in new)
            if estimate and more > 0 and 1 / _STRANGE < more / estimate < _STRANGE:
                billed |= {sheet.of(one).key: sheet.of(one).estimate * more / estimate for one in new}
                paid, guessed = paid + more, guessed + estimate
        last = call
    ratio = paid / guessed if guessed else 1.0
    weighed = replace(sheet, billed=billed, ratio=ratio)
    return replace(weighed, overhead=_overhead(weighed, calls))


def _added(wire: Wire, last: RecordedCall, call: RecordedCall) -> Sequence[object]:
    """Messages that this request has behind those of the last one; none where it does not go on from there."""
    before, now = last.request[wire.key], call.request[wire.key]
    if len(now) <= len(before) or any(one is not other for one, other in zip(before, now, strict=False)):
        return ()
    added: Sequence[object] = now[len(before) :]
    return added


def _overhead(sheet: Sheet, calls: Sequence[RecordedCall]) -> int:
    """What a request takes besides its messages: the first bill tells, and each that follows a compaction.

    The least of them: a session that goes on from another file begins with words that this one does not have.
    """
    starts = [call for n, call in enumerate(calls) if (call.compacted or not n) and call.usage and call.usage.prompt]
    left = [call.usage.prompt - _messages(sheet, call) for call in starts if call.usage]
    return max(0, min(left, default=0))


def _messages(sheet: Sheet, call: RecordedCall) -> int:
    return sum(sheet.tokens(one) for one in call.request[sheet.wire.key])


def _filler(tokens: int) -> str:
    each = DEFAULT.text(_FILLER * 100) / 100
    return _FILLER * round(tokens / each)


def _dressed(request: Mapping[str, object], wire: Wire, model: str, filler: str) -> Body:
    """With its model, a filler for the system prompt, and the marks that clients of Claude set: there, and last."""
    body = {**request, "model": model}
    if wire.name == "anthropic":
        mark = {"cache_control": {"type": "ephemeral"}} if "claude" in model else {}
        system = [{"type": "text", "text": filler, **mark}] if filler else []
        return {**body, **({"system": system} if system else {}), **mark}
    if wire.name == "openai_responses" and filler:
        body["instructions"] = filler
    return body


def _times(calls: Sequence[RecordedCall]) -> Iterator[float]:
    """When each call was made; time never runs backwards."""
    now = 0.0
    for n, call in enumerate(calls):
        now = max(now + (_PAUSE if n and call.at is None else 0.0), call.at or 0.0)
        yield now
