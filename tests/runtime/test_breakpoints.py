"""Cache breakpoints of requests that carry edits: where they stand, and what the provider can read from there."""

from __future__ import annotations

from itertools import pairwise

from ebbtide.wire import WIRES
from ebbtide.wire.anthropic.messages import count_breakpoints
from ebbtide.wire.validity import violations
from runtime.sessions import Clock, body, context, loop
from upstream.check import refusals

AUTOMATIC = {"cache_control": {"type": "ephemeral"}, "system": [{"type": "text", "text": "Keep the log. " * 2_000}]}
"""The provider sets a mark on the newest block itself. The system prompt is longer than the least that is cached."""


def marked(request) -> list[int]:
    return [n for n, message in enumerate(request["messages"]) if count_breakpoints(message)]


def walked(ctx, messages, **more):
    """Every request of the conversation that was edited anew, with the request before it."""
    last = None
    for n in range(1, len(messages) + 1, 2):
        ready = ctx.prepare(body(messages[:n], **more))
        ctx.record({"role": "assistant", "content": "ok", "usage": bill(ready.report.tokens_after)})
        yield last, ready
        last = ready


def bill(tokens: int) -> dict[str, int]:
    return {"input_tokens": 10, "cache_read_input_tokens": tokens, "output_tokens": 5}


def test_the_automatic_breakpoint_is_one_of_the_four():
    for _, ready in walked(context(window=30_000), loop(40), **AUTOMATIC):
        assert not violations(WIRES["anthropic"], ready.body)
        assert not refusals("anthropic", ready.body)


def test_a_breakpoint_stays_at_the_end_of_the_edits_until_the_next_batch():
    """It is kept alive by every request, however far the conversation has gone on since."""
    ctx, ends = context(window=60_000), []
    for _, ready in walked(ctx, loop(60), **AUTOMATIC):
        if ready.report.edits:
            ends.append(ctx._session.outgoing.edit_end)
        elif ends:
            stand = marked(ready.body)
            assert ends[-1] in stand

    assert len(ends) > 1
    assert ends[0] < ends[1]


def test_the_next_batch_can_read_what_the_last_one_left():
    """Both marks stand in its request: the old one is read, the new one written."""
    batches = []
    ctx = context(window=60_000)
    for _, ready in walked(ctx, loop(60), **AUTOMATIC):
        if ready.report.edits:
            batches.append((ctx._session.outgoing.edit_ends, marked(ready.body)))

    before, (ends, marks) = batches[0], batches[1]
    assert ends[0] == before[0][1] >= 0
    assert set(ends) <= set(marks)


def test_a_message_that_an_edit_emptied_leaves_no_seam():
    """Thinking that was a message of its own goes: its neighbours are one message, and nothing has to be repaired."""
    clock = Clock()
    ctx = context(window=30_000, clock=clock)
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm " * 300, "signature": "s" * 40}]}
    messages = [*loop(3), thought, {"role": "user", "content": "go on"}]
    told = [*messages, *loop(30, first=10)[1:]]
    for n in range(len(messages), len(told) + 1, 2):
        ready = ctx.prepare(body(told[:n]))
        clock.tick()
        sides = [message["role"] for message in ready.body["messages"]]
        assert all(one != other for one, other in pairwise(sides))
        assert ready.report.repairs == () or not ready.report.held
