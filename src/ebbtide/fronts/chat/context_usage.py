"""Measures what fills the window of an open session, from its log and its active edits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ebbtide import window_usage
from ebbtide.core.types import Edit, Usage
from ebbtide.core.view import View
from ebbtide.fronts.chat.chat_records import read_chat_records, without_reply
from ebbtide.fronts.chat.session import Chat
from ebbtide.window_usage import WindowUsage
from ebbtide.wire import WIRES
from ebbtide.wire.reader import Reader, Request


def measure_window(chat: Chat, usage: Usage | None, edits: Sequence[Edit]) -> WindowUsage:
    """`usage` is that of the newest request, None if there was none yet."""
    policy = chat.setup.settings.policy()
    body = dict(chat.frame) | {WIRES[chat.setup.provider.wire].list_key: list(read_messages(chat))}
    request: Request = Reader(policy.estimator, wire=WIRES[chat.setup.provider.wire]).read(body)
    return window_usage.measure_window(
        policy,
        request._replace(model=chat.setup.provider.model),
        View.of(request.items, edits),
        size=chat.agent.context.window,
        billed=usage.total if usage is not None else None,
    )


def read_messages(chat: Chat) -> Sequence[Mapping[str, object]]:
    """Return every message of the conversation that is in the log, with the newest reply."""
    log = chat.setup.store.peek(chat.session, project=chat.setup.project)
    return read_chat_records(log.read().records).messages


def last_request(chat: Chat) -> dict[str, object]:
    """Return the last request as it was before any edit. Compaction by hand works on it."""
    wire = chat.setup.provider.wire
    return dict(chat.frame) | {WIRES[wire].list_key: without_reply(read_messages(chat), wire)}
