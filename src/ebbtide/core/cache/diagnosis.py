"""Why a cache was lost, from the record of what was sent and billed: what changed, what expired, or the provider."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal

from ebbtide.core.cache.breakpoints import LOOK_BACK
from ebbtide.core.cache.prefix import RECENT_REQUESTS, common_prefix_length, min_prefix_tokens, needs_breakpoints
from ebbtide.core.text.preview import format_duration
from ebbtide.core.types import SentRequest, Usage

DROP, LOST = 0.05, 2000
"""A break is a loss of more than 5 % and of more than 2000 tokens (R223): less is reminders that moved."""

MISSES = 3
"""Calls in a row that read nothing, before we speak up (R224)."""

Cause = Literal["expired", "model", "tools", "system", "message", "minimum", "unmarked", "look-back", "provider"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheBreak:
    """A call that paid again for what had been kept."""

    at: int
    """Index of the call among those given."""
    lost: int
    """Tokens it could have read and did not."""
    cause: Cause
    detail: str
    """The cause in words, with the message, the seconds or the tokens it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheHealth:
    calls: int
    """Those whose usage is known."""
    usage: Usage
    """Their sum."""
    breaks: tuple[CacheBreak, ...] = ()
    diagnosis: str | None = None
    """Set while the newest calls read nothing at all: what to look at."""

    @property
    def hit_rate(self) -> float:
        """Share of all prompt tokens that were read from the cache."""
        return self.usage.cache_read / self.usage.prompt if self.usage.prompt else 0.0

    def as_dict(self, *, compact_count: int) -> dict[str, object]:
        """What every log line must contain (R247)."""
        used = self.usage
        return {
            "cache_hit_rate": round(self.hit_rate, 4),
            "compact_count": compact_count,
            "token_usage": {
                "input": used.input,
                "cache_read": used.cache_read,
                "cache_write": used.cache_write,
                "output": used.output,
            },
        }


def diagnose_cache(sent: Sequence[SentRequest], *, found: Sequence[CacheBreak] = (), looked: int = 0) -> CacheHealth:
    """Hit rate, what broke and why, and a diagnosis while the cache does nothing.

    `found` is what broke in the first `looked` calls, where that is known: those are not looked at again.
    """
    billed = [(at, call, call.usage) for at, call in enumerate(sent) if call.usage is not None]
    used = [usage for _, _, usage in billed]
    total = Usage(
        input=sum(usage.input for usage in used),
        cache_read=sum(usage.cache_read for usage in used),
        cache_write=sum(usage.cache_write for usage in used),
        output=sum(usage.output for usage in used),
        cache_write_1h=sum(usage.cache_write_1h for usage in used),
    )
    breaks = (*found, *_breaks(billed, looked))
    return CacheHealth(
        calls=len(billed), usage=total, breaks=breaks, diagnosis=_diagnosis([call for _, call, _ in billed])
    )


def _breaks(billed: Sequence[tuple[int, SentRequest, Usage]], looked: int) -> Iterator[CacheBreak]:
    calls = [call for _, call, _ in billed]
    first = bisect_left(billed, looked, key=itemgetter(0))
    for nth, (at, call, usage) in enumerate(billed[first:], first):
        before = _find_previous(calls, nth)
        if before is None or before.usage is None:
            continue
        # What has left the request since is no loss.
        readable = min(before.usage.cache_read + before.usage.cache_write, usage.prompt)
        lost = readable - usage.cache_read
        if lost > LOST and lost > DROP * readable:
            cause, detail = _cause(before, call)
            yield CacheBreak(at=at, lost=lost, cause=cause, detail=detail)


def _find_previous(calls: Sequence[SentRequest], nth: int) -> SentRequest | None:
    """The call that this one goes on from: most messages in common, else the same system prompt and tools.

    Not simply the one before: titles, subagents and other side calls stand in between.
    """
    call, best, longest = calls[nth], None, 0
    window = calls[max(0, nth - RECENT_REQUESTS) : nth]
    for earlier in reversed(window):
        # The newest is nearly always the longest: of the others no more is asked.
        if len(earlier.prefix) > longest and (length := common_prefix_length(earlier.prefix, call.prefix)) > longest:
            best, longest = earlier, length
    if best is not None:
        return best
    return next((e for e in reversed(window) if (e.system, e.tools) == (call.system, call.tools)), None)


def _cause(before: SentRequest, call: SentRequest) -> tuple[Cause, str]:
    """Expiry first: on a cold cache a change costs nothing, and we make ours then (R133)."""
    paused = call.at - before.at
    if paused >= before.ttl:
        return (
            "expired",
            f"{format_duration(paused)} since the last call, and the cache is kept for {format_duration(before.ttl)}",
        )
    if call.model != before.model:
        return "model", f"the model changed from {before.model} to {call.model}"
    if call.tools != before.tools:
        return "tools", "the tool list changed"
    if call.system != before.system:
        return "system", "the system prompt changed"
    alike = common_prefix_length(before.prefix, call.prefix)
    if alike < min(len(before.prefix), len(call.prefix)):
        return "message", f"message {alike} changed"
    prompt = call.usage.prompt if call.usage else call.tokens
    if prompt < min_prefix_tokens(call.model):
        return (
            "minimum",
            f"{prompt} tokens are below the {min_prefix_tokens(call.model)} from which {call.model} caches",
        )
    if not needs_breakpoints(call.model):
        return "provider", "the request extends the last one: the provider dropped it"
    return _placed(before, call)


def _placed(before: SentRequest, call: SentRequest) -> tuple[Cause, str]:
    """Nothing changed and nothing expired: the marks, or the provider."""
    usage = call.usage
    if not call.breakpoints and usage and not usage.cache_read + usage.cache_write:
        return "unmarked", "no block carried a cache mark"
    near = any(0 <= mark - old < LOOK_BACK for mark in call.breakpoints for old in before.breakpoints)
    if call.breakpoints and before.breakpoints and not near:
        # Marks are known by message, and a message has at least one block.
        return "look-back", f"no mark within {LOOK_BACK} blocks of the last request's"
    return "provider", f"the provider dropped it, or one message grew by more than {LOOK_BACK} blocks"


_ADVICE: dict[Cause, str] = {
    "expired": "calls come further apart than the cache lives; ask for a longer TTL, or edit freely",
    "model": "each model has its own cache",
    "tools": "tools come first in the prefix: send the same ones, in the same order, from the first request",
    "system": "look for a field that differs each time, such as a timestamp, and move it into the newest message",
    "message": "history must be sent as it was; only append",
    "minimum": "nothing to do until the conversation is longer",
    "unmarked": "this provider keeps only what is marked with cache_control",
    "look-back": "put a mark in between, or on the block that the last request marked",
    "provider": "each request extends the last, so what we send is not the cause",
}


def _diagnosis(calls: Sequence[SentRequest]) -> str | None:
    """The commonest cause among the newest calls, if they all read nothing. A first call has none: it is only cold."""
    row = 0
    while row < len(calls) and _missed(calls[-1 - row]):
        row += 1
    if row < MISSES:
        return None
    pairs = [(_find_previous(calls, nth), calls[nth]) for nth in range(len(calls) - row, len(calls))]
    causes = [_cause(before, call) for before, call in pairs if before is not None]
    if not causes:
        return None
    common = Counter(cause for cause, _ in causes).most_common(1)[0][0]
    detail = next(words for cause, words in reversed(causes) if cause == common)
    return f"Cache thrashing detected: {row} calls in a row read nothing from the cache. {detail}: {_ADVICE[common]}."


def _missed(call: SentRequest) -> bool:
    return call.usage is not None and call.usage.cache_read == 0
