"""A request that is sent again before any bill for it came."""

from __future__ import annotations

import pytest

from ebbtide import Context
from ebbtide.store import MemoryStore

WINDOW = 8_192


def words(name: str, count: int) -> str:
    return " ".join(f"{name}{n}" for n in range(count))


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_compacted_request_counts_the_same_when_it_is_sent_again(is_restarted: bool) -> None:
    """The provider bills a third of the estimate, so an estimate of the whole is over the window. The plan counted
    from that bill, and what it came to was sent: it is no larger the second time."""
    store = MemoryStore()
    ctx = Context(window=WINDOW, wire="anthropic", store=store)
    messages: list[dict[str, object]] = [{"role": "user", "content": "go"}]
    for n in range(12):
        messages.append({"role": "assistant", "content": words(f"said{n}x", 60)})
        messages.append({"role": "user", "content": words(f"asked{n}x", 60)})
    body = {"model": "m", "max_tokens": 100, "messages": messages}
    first = ctx.prepare(body)
    text = [{"type": "text", "text": "Yes."}]
    bill = {"input_tokens": first.report.tokens_after // 3, "output_tokens": 5}
    first.record({"role": "assistant", "content": text, "usage": bill})
    call = {"type": "tool_use", "id": "t1", "name": "Write", "input": {"path": "a", "content": words("w7x", 2_100)}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "done"}
    messages = [*messages, {"role": "assistant", "content": text}, {"role": "user", "content": "Go on."}]
    messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    body = {**body, "messages": messages}
    compacted = ctx.prepare(body)
    assert "summarize" in {edit.by for edit in compacted.report.edits}

    again = (Context(window=WINDOW, wire="anthropic", store=store) if is_restarted else ctx).prepare(body)

    assert again.report.tokens_before == compacted.report.tokens_after
    assert again.report.edits == ()
    assert again.body == compacted.body


def test_growth_that_is_known_only_afterwards_makes_no_batch_when_a_request_is_sent_again() -> None:
    context = Context(window=200_000, wire="openai_chat", model="gpt-4.1", store=MemoryStore())
    messages: list[dict[str, object]] = [{"role": "user", "content": "go"}]
    for n in range(64):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": words(f"row{n}x", 300)})
    first = {"model": "gpt-4.1", "messages": messages}
    context.prepare(first)
    second = {**first, "messages": [*messages, {"role": "user", "content": words("more", 60)}]}
    prepared = context.prepare(second)

    again = context.prepare(second)

    assert prepared.report.edits == ()
    assert prepared.report.auto_at > again.report.auto_at, "the growth is known only now"
    assert again.report.tokens_before > again.report.auto_at
    assert again.body == prepared.body
