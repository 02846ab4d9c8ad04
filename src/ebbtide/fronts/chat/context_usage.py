"""Measures what fills the window of an open session, from its log and its active edits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ebbtide.core.tokens.size import SizeInputs
from ebbtide.core.types import Edit, Usage
from ebbtide.core.view import View
from ebbtide.display import WindowUsage, tokens_by_part
from ebbtide.fronts.chat.chat_records import read_chat_records, without_reply
from ebbtide.fronts.chat.session import Chat
from ebbtide.wire import WIRES
from ebbtide.wire.reader import Reader, Request


def measure_window(chat: Chat, usage: Usage | None, edits: Sequence[Edit]) -> WindowUsage:
    """`usage` is that of the newest request, None if there was none yet."""
    policy, model = chat.setup.settings.policy(), chat.setup.provider.model
    body = dict(chat.frame) | {WIRES[chat.setup.provider.wire].list_key: list(read_messages(chat))}
    request: Request = Reader(policy.estimator, wire=WIRES[chat.setup.provider.wire]).read(body)
    view = View.of(request.items, edits)
    system, tools = request.overhead
    total = view.tokens + system + tools
    estimate = policy.gauge(
        SizeInputs(
            estimator=policy.estimator,
            model=model,
            view=view.tokens,
            messages=len(request.messages),
            system=system,
            tools=tools,
        )
    )
    scale = estimate / total if total else 1.0
    window = chat.agent.context.window
    return WindowUsage(
        model=model,
        size=window,
        tokens=usage.total if usage is not None else estimate,
        is_billed=usage is not None,
        auto_at=policy.levels(window, request.max_output or policy.output_reserved, system + tools).auto,
        system=round(system * scale),
        tools=round(tools * scale),
        unrecorded=0,
        messages=tokens_by_part(view, scale),
    )


def read_messages(chat: Chat) -> Sequence[Mapping[str, object]]:
    """Return every message of the conversation that is in the log, with the newest reply."""
    log = chat.setup.store.peek(chat.session, project=chat.setup.project)
    return read_chat_records(log.read().records).messages


def last_request(chat: Chat) -> dict[str, object]:
    """Return the last request as it was before any edit. Compaction by hand works on it."""
    wire = chat.setup.provider.wire
    return dict(chat.frame) | {WIRES[wire].list_key: without_reply(read_messages(chat), wire)}
