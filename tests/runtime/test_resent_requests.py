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
