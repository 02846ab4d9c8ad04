"""Calls as the record of what was sent has them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from ebbtide.core.types import SentRequest, Usage

CLAUDE, GPT = "claude-sonnet-4-5", "gpt-5"
TALK = [f"m{n}" for n in range(40)]


def chain(*messages: str) -> tuple[str, ...]:
    return tuple(accumulate(messages, lambda before, message: f"{before}/{message}"))


def call(
    messages: Sequence[str],
    *,
    at: float = 0,
    model: str = GPT,
    system: str = "s",
    tools: str = "t",
    usage: Usage | None = None,
    marks: tuple[int, ...] = (),
    ttl: float = 300,
    hour: tuple[int, ...] = (),
) -> SentRequest:
    return SentRequest(
        at=at,
        model=model,
        system=system,
        tools=tools,
        prefix=chain(*messages),
        tokens=100 * len(messages),
        usage=usage,
        breakpoints=marks,
        ttl=ttl,
        hour=hour,
    )


def cached(*, read: int = 0, write: int = 0, fresh: int = 10) -> Usage:
    return Usage(input=fresh, cache_read=read, cache_write=write, output=50)
