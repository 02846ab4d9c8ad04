"""What each session of this process came to, by its log: the figures of `ebb report`, for whoever started the proxy.

They are worked out when asked for, not while requests are served: a session's log is read from its beginning.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence

from ebbtide.core.errors import EbbtideError
from ebbtide.core.tool_calls import READ_TOOL
from ebbtide.fronts.proxy.guarded_engine import GuardedEngine
from ebbtide.fronts.proxy.sessions import ProxySession, Sessions
from ebbtide.money import session_cost, session_figures
from ebbtide.state.binding_records import upgrade_log

_SETTLE_SECONDS = 3.0
"""Time for answers that are being recorded."""


async def build_receipts(engine: GuardedEngine, sessions: Sessions) -> list[dict[str, object]]:
    """Return a receipt for each session, the one with the most requests first. Sessions without a log are left out."""
    end = asyncio.get_running_loop().time() + _SETTLE_SECONDS
    while engine.threads.is_busy and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(0.02)
    ordered = sorted(sessions, key=lambda session: -session.tally.requests)
    receipts = [await asyncio.to_thread(_receipt, session) for session in ordered]
    return [receipt for receipt in receipts if receipt is not None]


def _receipt(session: ProxySession) -> dict[str, object] | None:
    store, identity = session.engine.store, session.identity
    if store is None:
        return None
    try:
        records = upgrade_log(store.peek(identity.session, project=identity.project).read().records)
        cost = session_cost(records)
    except (EbbtideError, OSError, ValueError):
        return None
    return {
        "session": identity.session,
        "model": session.model,
        "window": session.context.window if session.context else session.window,
        "requests": session.tally.requests,
        "calls": len(cost.tokens.calls),
        "largest_request": session_figures(cost).peak,
        "removed_tokens": cost.tokens.removed_tokens,
        "read_back": _count_read_back(records, identity.session),
        "saved_tokens": round(cost.tokens.claimed),
        "saved_share": round(cost.tokens.saved_share, 4),
        "saved_dollars": round(cost.dollars.claimed, 4) if cost.dollars else None,
        "is_billed": bool(cost.tokens.billed_calls),
    }


def _count_read_back(records: Sequence[Mapping[str, object]], session: str) -> int:
    """Count the calls that opened a saved file, by a command or by our tool."""
    names = (f"{session}/tool-results/", f'"{READ_TOOL}"')
    return sum(any(name in text for name in names) for record in records for text in _calls_in(record))


def _calls_in(record: Mapping[str, object]) -> Iterator[str]:
    """Yield the calls of an assistant's message as JSON, on any API format."""
    if record.get("type") != "assistant":
        return
    message = record.get("wire") or record.get("message")
    if not isinstance(message, Mapping):
        return
    lists = (message.get(key) for key in ("content", "parts", "tool_calls"))
    blocks = [block for blocks in lists if isinstance(blocks, list) for block in blocks]
    for block in (message, *blocks):
        is_call = isinstance(block, Mapping) and (
            block.get("type") in ("tool_use", "function_call", "custom_tool_call", "function")
            or "functionCall" in block
        )
        if is_call:
            yield json.dumps(block, default=str)
