"""Whatever pauses an agent makes, its breakpoints are valid, are repeated, and ask for an hour only where nothing is cached.

An independent cache bills each request (`upstream/caching.py`), and an independent list of rules checks it (A45 to A51).
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import ebbtide
from runtime.sessions import Clock, body, loop
from upstream.caching import Cache
from upstream.check import refusals

SYSTEM = [{"type": "text", "text": "The harbour office keeps these rules. " * 600}]
MARKED = [{**SYSTEM[0], "cache_control": {"type": "ephemeral"}}]
TOOLS = [{"name": "Read", "input_schema": {"type": "object"}}]
PAUSES = st.lists(st.sampled_from((10, 10, 10, 250, 400, 900, 3_000, 5_000)), min_size=4, max_size=24)


def hours(request: Any) -> set[tuple[str, int]]:
    """The places that ask for an hour: system and tools, and messages by their index."""
    places = {(part, 0) for part in ("system", "tools") for block in request[part] if _is_hour(block)}
    for n, message in enumerate(request["messages"]):
        blocks = message["content"] if isinstance(message["content"], list) else ()
        places |= {("messages", n) for block in blocks if _is_hour(block)}
    return places


def _is_hour(block: Any) -> bool:
    return bool(block.get("cache_control", {}).get("ttl") == "1h")


@settings(deadline=None)
@given(pauses=PAUSES, is_marked=st.booleans(), window=st.sampled_from((24_000, 200_000)))
def test_lifetimes_are_valid_repeated_and_never_upgrade_what_is_cached(
    pauses: list[int], is_marked: bool, window: int
) -> None:
    clock = Clock()
    cache = Cache(clock)
    context = ebbtide.Context(window=window, clock=clock, cache=ebbtide.Cache(raise_lifetimes=True))
    system = MARKED if is_marked else SYSTEM
    last: set[tuple[str, int]] = set()
    for n, pause in enumerate(pauses, 1):
        clock.tick(pause)
        request = {**body(loop(n), system=system, tools=TOOLS)}
        request |= {"cache_control": {"type": "ephemeral"}} if is_marked else {}
        ready = context.prepare(request)
        asked = hours(ready.body)
        before = len(cache.entries)
        bill = cache.bill("anthropic", ready.body)

        assert not refusals("anthropic", ready.body)
        front = {place for place in asked if place[0] != "messages"}
        assert not is_marked or asked == front
        if pause < 300 and before:
            assert asked <= last
            assert bill.written_1h == 0 or ready.report.edits
        if pause < 3_600:
            assert front >= {place for place in last if place[0] != "messages"}
        ready.record({"content": [], "usage": _usage(bill)})
        last = asked


def _usage(bill: Any) -> dict[str, Any]:
    lifetimes = {"ephemeral_5m_input_tokens": bill.written_5m, "ephemeral_1h_input_tokens": bill.written_1h}
    return {
        "input_tokens": bill.fresh,
        "cache_read_input_tokens": bill.read,
        "cache_creation_input_tokens": bill.written,
        "cache_creation": lifetimes,
        "output_tokens": 5,
    }
