"""What each session of this process came to, by its log: the figures of `ebb report`, for whoever started the proxy.

They are worked out when asked for, not while requests are served: a session's log is read from its beginning.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence

from ebbtide.core.errors import EbbtideError
from ebbtide.fronts.proxy.guarded_engine import GuardedEngine
from ebbtide.fronts.proxy.sessions import ProxySession, Sessions
from ebbtide.money import session_cost
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
        "removed_tokens": cost.tokens.removed_tokens,
        "read_back": _count_read_back(records, identity.session),
        "saved_tokens": round(cost.tokens.claimed),
        "saved_share": round(cost.tokens.saved_share, 4),
        "saved_dollars": round(cost.dollars.claimed, 4) if cost.dollars else None,
        "is_billed": bool(cost.tokens.billed_calls),
    }


def _count_read_back(records: Sequence[Mapping[str, object]], session: str) -> int:
    """Count the calls that opened a saved file."""
    return sum(_calls_for_saved(record, f"{session}/tool-results/") for record in records)


def _calls_for_saved(record: Mapping[str, object], folder: str) -> int:
    if record.get("type") != "assistant":
        return 0
    message = record.get("message")
    content = message.get("content") if isinstance(message, Mapping) else None
    blocks = content if isinstance(content, list) else [message]
    calls = [block for block in blocks if isinstance(block, Mapping) and block.get("type") != "text"]
    return sum(folder in json.dumps(call, default=str) for call in calls)
