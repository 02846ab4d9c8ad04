"""What fills the window of an open session, from its log and the edits that hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ebbtide.core.tokens.size import SizeInputs
from ebbtide.core.types import USER, Edit, Usage
from ebbtide.core.view import View
from ebbtide.display import WindowUsage, tokens_by_part
from ebbtide.fronts.chat.notebook import read_notebook
from ebbtide.fronts.chat.session import Chat
from ebbtide.wire import WIRES
from ebbtide.wire.reader import Reader, Request


def weigh(chat: Chat, last: Usage | None, edits: Sequence[Edit]) -> WindowUsage:
    """As it stands. `last` is what the newest call was billed, where there was one."""
    policy, model = chat.setup.settings.policy(), chat.setup.provider.model
    body = dict(chat.frame) | {WIRES[chat.setup.provider.wire].list_key: list(recorded(chat))}
    request: Request = Reader(policy.estimator, wire=WIRES[chat.setup.provider.wire]).read(body)
    view = View.of(request.items, edits)
    system, tools = request.overhead
    whole = view.tokens + system + tools
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
    scale = estimate / whole if whole else 1.0
    window = chat.agent.context.window
    return WindowUsage(
        model=model,
        size=window,
        tokens=last.total if last is not None else estimate,
        is_billed=last is not None,
        auto_at=policy.levels(window, request.max_output or policy.output_reserved, system + tools).auto,
        system=round(system * scale),
        tools=round(tools * scale),
        unrecorded=0,
        messages=tokens_by_part(view, scale),
    )


def recorded(chat: Chat) -> Sequence[Mapping[str, object]]:
    """Every message that the log has of the conversation, the newest reply included."""
    log = chat.setup.store.peek(chat.session, project=chat.setup.project)
    return read_notebook(log.read().records).messages


def standing(chat: Chat) -> dict[str, object]:
    """The last request as it was before any edit: what a fold by hand is about, also where no request went out yet."""
    messages = list(recorded(chat))
    while messages and (messages[-1].get("role") == "assistant" or messages[-1].get("type") in _REPLIES):
        messages.pop()
    return dict(chat.frame) | {WIRES[chat.setup.provider.wire].list_key: messages}


def last_words(chat: Chat) -> tuple[str, str]:
    """What the person said last, and what the model did: where the conversation stood."""
    wire = WIRES[chat.setup.provider.wire]
    blocks = [block for message in chat.notebook.messages for block in wire.messages.split(message, wire.list_key)]
    texts = [block for block in blocks if block.kind == "text"]
    said = [block.text for block in texts if block.role == "user" and block.tier == USER]
    answered = [block.text for block in texts if block.role == "assistant"]
    return said[-1] if said else "", answered[-1] if answered else ""


_REPLIES = ("reasoning", "function_call", "message")
