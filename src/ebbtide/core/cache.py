"""What the provider keeps, what it costs to change it, and why it was lost: all from the record of what was sent.

Providers keep prefixes. Messages are chained hashes here, equal up to a point and never after it: the point is found by
bisection, and no function on the way of a request loops over messages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from ebbtide.core.chain import shared
from ebbtide.core.marks import LOOK_BACK, minimum
from ebbtide.core.types import Sent, Usage

LOOK = 128
"""Newest records looked at, one comparison each. A branch left longer ago than that is cold in practice."""

DROP, LOST = 0.05, 2000
"""A break is a loss of more than 5 % and of more than 2000 tokens (R223): less is reminders that moved."""

MISSES = 3
"""Calls in a row that read nothing, before we speak up (R224)."""

Cause = Literal["expired", "model", "tools", "system", "message", "minimum", "unmarked", "look-back", "provider"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Of a token, where an uncached input token costs 1."""

    read: float
    write: float


_READ: tuple[tuple[str, float], ...] = (
    (r"fable-5[-.]1(?!\d)", 0.025),
    (r"(opus|sonnet)-5[-.]5|gpt-6[-.]1(?!\d)", 0.05),
    (r"gpt-4o|gpt-4-turbo|gpt-4\.5|\bo1|o3-mini", 0.5),
    (r"gpt-4\.1|\bo3|\bo4", 0.25),
    # The newest of every vendor. For a model we do not know it is also the careful guess: where reading is cheap, an
    # edit has to save more before it is worth breaking the cache.
    (r"", 0.1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmth:
    """How much of a request the provider still keeps."""

    messages: int
    """Leading messages. Not warm means 0, also where tools and system prompt alone would be read."""
    tokens: int
    """System prompt and tools included."""
    reason: str
    """Why no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A call that paid again for what had been kept."""

    at: int
    """Index of the call among those given."""
    lost: int
    """Tokens it could have read and did not."""
    cause: Cause
    detail: str
    """The cause in words, with the message, the seconds or the tokens it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    calls: int
    """Those whose usage is known."""
    usage: Usage
    """Their sum."""
    breaks: tuple[Break, ...] = ()
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


_CHARGED = re.compile(r"gpt-5[-.]6|gpt-6")
"""OpenAI's that charge for writing, as Claude does. A test holds all of these against the price table."""


@lru_cache(maxsize=64)
def prices_for(model: str, ttl: float) -> Prices:
    """Claude charges for writing, more for an hour than for five minutes; most others write at the price of input."""
    name = model.lower()
    read = next(read for pattern, read in _READ if re.search(pattern, name))
    if _explicit(model):
        return Prices(read=read, write=1.25 if ttl <= 300 else 2.0)
    return Prices(read=read, write=1.25 if _CHARGED.search(name) else 1.0)


def warmth(sent: Sequence[Sent], *, now: float, model: str, system: str, tools: str, prefix: Sequence[str]) -> Warmth:
    """The longest prefix that any request within its TTL left behind.

    A read refreshes: the request that read is itself a record, with its own time. On Claude only what lies before a
    mark is kept.
    """
    key = (model, system, tools)
    reach, source = _reached(sent, now, key, prefix)
    if source is None:
        return Warmth(messages=0, tokens=0, reason=_cold(sent, now, key, prefix))
    tokens = _tokens(sent, source, prefix[:reach])
    return Warmth(messages=reach, tokens=tokens, reason=_limit(source, prefix, reach))


def warm_messages(
    sent: Sequence[Sent], *, now: float, model: str, system: str, tools: str, prefix: Sequence[str]
) -> int:
    """How many leading messages are warm: all that a plan asks, every turn."""
    return _reached(sent, now, (model, system, tools), prefix)[0]


def is_warm(sent: Sequence[Sent], *, now: float, model: str, system: str, tools: str, prefix: Sequence[str]) -> bool:
    """Whether any message is warm: the newest call nearly always tells."""
    key = (model, system, tools)
    return any(_keeps(call, now, key, prefix, 0) for call in reversed(sent[-LOOK:]))


def _reached(
    sent: Sequence[Sent], now: float, key: tuple[str, str, str], prefix: Sequence[str]
) -> tuple[int, Sent | None]:
    reach, source = 0, None
    for call in reversed(sent[-LOOK:]):
        # The newest is nearly always the longest, and nothing more need be asked about the others.
        if len(call.prefix) > reach and (kept := _keeps(call, now, key, prefix, reach)) > reach:
            reach, source = kept, call
    return reach, source


def _keeps(call: Sent, now: float, key: tuple[str, str, str], prefix: Sequence[str], beyond: int) -> int:
    """How many leading messages are kept for this call; 0 where they are surely no more than `beyond`."""
    if (call.model, call.system, call.tools) != key or now - call.at >= call.ttl:
        return 0
    longer = min(len(call.prefix), len(prefix)) > beyond
    return _kept(call, prefix) if longer and call.prefix[beyond] == prefix[beyond] else 0


def anchor(
    sent: Sequence[Sent], *, model: str, system: str, tools: str, prefix: Sequence[str]
) -> tuple[int, Usage | None]:
    """The longest request that this one extends and whose usage is known: its messages, and what they really took.

    After an edit it is an older one, so that a gauge built on it never counts what has left (R043).
    """
    key, reach, most = (model, system, tools), 0, len(prefix)
    usage: Usage | None = None
    for call in reversed(sent[-LOOK:]):
        if call.usage is None or not reach < (length := len(call.prefix)) <= most:
            continue
        if (call.model, call.system, call.tools) == key and call.prefix[length - 1] == prefix[length - 1]:
            reach, usage = length, call.usage
    return reach, usage


def break_even(*, removed: int, put: int, after: int, prices: Prices, ask_cost: float = 0.0, unsent: int = 0) -> float:
    """After how many calls, the first counted, an edit has paid for itself; infinite when it saves nothing.

    `after` are kept warm tokens behind the first changed one: they are written again. `unsent` of the removed tokens
    were not warm, so the first call saves writing them. `ask_cost` in uncached input tokens.
    """
    if removed <= put:
        return float("inf")
    paid = (prices.write - prices.read) * (after + put - unsent) + ask_cost
    saved = prices.read * (removed - put)
    if paid <= 0:
        return 0.0
    return paid / saved if saved else float("inf")


def pays(
    *, removed: int, put: int, after: int, prices: Prices, horizon: float, ask_cost: float = 0.0, unsent: int = 0
) -> bool:
    """Whether the edit is paid back within the horizon.

    On a cold prefix nothing is warm: `after=0, unsent=removed`, and this is the rule C < w(S - s), because the call at
    hand is made in any case. Never-sent tokens are free to change: it is then true whenever something is saved.
    """
    needed = break_even(
        removed=removed, put=put, after=after, prices=prices, ask_cost=ask_cost, unsent=min(unsent, removed)
    )
    return needed < max(1.0, horizon)


def horizon(*, tokens: int, high: int, growth: float, calls: float) -> float:
    """Calls that will profit: until high water forces a rewrite anyway, or the cache is expected to go cold.

    `growth` in tokens per call; `calls` is how many more are expected before a pause longer than the TTL.
    """
    if growth <= 0:
        return max(0.0, calls)
    return max(0.0, min((high - tokens) / growth, calls))


def health(sent: Sequence[Sent]) -> Health:
    """Hit rate, what broke and why, and a diagnosis while the cache does nothing."""
    known = [(at, call, call.usage) for at, call in enumerate(sent) if call.usage is not None]
    used = [usage for _, _, usage in known]
    total = Usage(
        input=sum(usage.input for usage in used),
        cache_read=sum(usage.cache_read for usage in used),
        cache_write=sum(usage.cache_write for usage in used),
        output=sum(usage.output for usage in used),
    )
    breaks = tuple(_breaks(known))
    return Health(calls=len(known), usage=total, breaks=breaks, diagnosis=_diagnosis([call for _, call, _ in known]))


def _explicit(model: str) -> bool:
    """Whether the provider keeps only what is marked."""
    return "claude" in model.lower()


def _kept(call: Sent, prefix: Sequence[str]) -> int:
    """How many of the messages shared with a call its provider wrote to the cache."""
    if not _explicit(call.model):
        return shared(call.prefix, prefix)
    if _kept_nothing(call):
        return 0
    if call.marks:
        end = min(len(call.prefix), len(prefix))
        return max((mark + 1 for mark in call.marks if mark < end and call.prefix[mark] == prefix[mark]), default=0)
    # No message was marked: tools or system alone, or the automatic mark, which stands at the very end and leaves
    # next to nothing uncached.
    usage = call.usage
    return shared(call.prefix, prefix) if usage is None or usage.input < minimum(call.model) else 0


def _kept_nothing(call: Sent) -> bool:
    usage = call.usage
    return usage is not None and not usage.cache_read + usage.cache_write


def _tokens(sent: Sequence[Sent], source: Sent, kept: Sequence[str]) -> int:
    """What the kept messages take, measured where a request ended there, else between the nearest two that did."""
    whole = source.usage.prompt if source.usage else source.tokens
    below, usage = anchor(sent, model=source.model, system=source.system, tools=source.tools, prefix=kept)
    least = usage.prompt if usage else 0
    if below == len(kept) and usage:
        return least
    return least + (whole - least) * (len(kept) - below) // (len(source.prefix) - below)


def _cold(sent: Sequence[Sent], now: float, key: tuple[str, str, str], prefix: Sequence[str]) -> str:
    if not sent:
        return "nothing was sent yet"
    last = sent[-1]
    names = ("model", "system prompt", "tool list")
    other = [
        name for name, was, is_ in zip(names, (last.model, last.system, last.tools), key, strict=True) if was != is_
    ]
    if other:
        return f"another {' and '.join(other)}"
    if now - last.at >= last.ttl:
        return f"expired: the last call was {now - last.at:.0f} s ago, and is kept for {last.ttl:.0f} s"
    if not _kept(last, last.prefix):
        return "the last call left no message in the cache"
    alike = shared(last.prefix, prefix)
    return f"message {alike} changed" + (", and no mark stood before it" if alike else "")


def _limit(source: Sent, prefix: Sequence[str], reach: int) -> str:
    alike = shared(source.prefix, prefix)
    if reach < alike:
        return f"no mark after message {reach - 1}"
    if reach == len(prefix):
        return "all of it is warm"
    return f"message {reach} is new" if reach == len(source.prefix) else f"message {reach} changed"


def _breaks(known: Sequence[tuple[int, Sent, Usage]]) -> Iterator[Break]:
    calls = [call for _, call, _ in known]
    for nth, (at, call, usage) in enumerate(known):
        before = _continued(calls, nth)
        if before is None or before.usage is None:
            continue
        # What has left the request since is no loss.
        kept = min(before.usage.cache_read + before.usage.cache_write, usage.prompt)
        lost = kept - usage.cache_read
        if lost > LOST and lost > DROP * kept:
            cause, detail = _cause(before, call)
            yield Break(at=at, lost=lost, cause=cause, detail=detail)


def _continued(calls: Sequence[Sent], nth: int) -> Sent | None:
    """The call that this one goes on from: most messages in common, else the same system prompt and tools.

    Not simply the one before: titles, subagents and other side calls stand in between.
    """
    call, best, most = calls[nth], None, 0
    window = calls[max(0, nth - LOOK) : nth]
    for earlier in reversed(window):
        alike = shared(earlier.prefix, call.prefix)
        if alike > most:
            best, most = earlier, alike
    if best is not None:
        return best
    return next((e for e in reversed(window) if (e.system, e.tools) == (call.system, call.tools)), None)


def _cause(before: Sent, call: Sent) -> tuple[Cause, str]:
    """Expiry first: on a cold cache a change costs nothing, and we make ours then (R133)."""
    paused = call.at - before.at
    if paused >= before.ttl:
        return "expired", f"{paused:.0f} s since the last call, and the cache is kept for {before.ttl:.0f} s"
    if call.model != before.model:
        return "model", f"the model changed from {before.model} to {call.model}"
    if call.tools != before.tools:
        return "tools", "the tool list changed"
    if call.system != before.system:
        return "system", "the system prompt changed"
    alike = shared(before.prefix, call.prefix)
    if alike < min(len(before.prefix), len(call.prefix)):
        return "message", f"message {alike} changed"
    prompt = call.usage.prompt if call.usage else call.tokens
    if prompt < minimum(call.model):
        return "minimum", f"{prompt} tokens are below the {minimum(call.model)} from which {call.model} caches"
    if not _explicit(call.model):
        return "provider", "the request extends the last one: the provider dropped it"
    return _placed(before, call)


def _placed(before: Sent, call: Sent) -> tuple[Cause, str]:
    """Nothing changed and nothing expired: the marks, or the provider."""
    usage = call.usage
    if not call.marks and usage and not usage.cache_read + usage.cache_write:
        return "unmarked", "no block carried a cache mark"
    near = any(0 <= mark - old < LOOK_BACK for mark in call.marks for old in before.marks)
    if call.marks and before.marks and not near:
        # Marks are known by message, and a message has at least one block.
        return "look-back", f"no mark within {LOOK_BACK} blocks of the last request's"
    return "provider", f"the provider dropped it, or one message grew by more than {LOOK_BACK} blocks"


_ADVICE: dict[Cause, str] = {
    "expired": "calls come further apart than the cache lives; ask for a longer TTL, or edit freely",
    "model": "each model has a cache of its own",
    "tools": "tools come first in the prefix: send the same ones, in the same order, from the first request",
    "system": "look for a field that differs each time, such as a timestamp, and move it into the newest message",
    "message": "history must be sent as it was; only append",
    "minimum": "nothing to do until the conversation is longer",
    "unmarked": "this provider keeps only what is marked with cache_control",
    "look-back": "put a mark in between, or on the block that the last request marked",
    "provider": "each request extends the last, so what we send is not the cause",
}


def _diagnosis(calls: Sequence[Sent]) -> str | None:
    """The commonest cause among the newest calls, if they all read nothing. A first call has none: it is only cold."""
    row = 0
    while row < len(calls) and _missed(calls[-1 - row]):
        row += 1
    if row < MISSES:
        return None
    pairs = [(_continued(calls, nth), calls[nth]) for nth in range(len(calls) - row, len(calls))]
    causes = [_cause(before, call) for before, call in pairs if before is not None]
    if not causes:
        return None
    common = Counter(cause for cause, _ in causes).most_common(1)[0][0]
    detail = next(words for cause, words in reversed(causes) if cause == common)
    return f"Cache thrashing detected: {row} calls in a row read nothing from the cache. {detail}: {_ADVICE[common]}."


def _missed(call: Sent) -> bool:
    return call.usage is not None and call.usage.cache_read == 0
