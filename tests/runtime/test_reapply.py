"""Recorded edits without a plan: what goes out when nothing new may be decided."""

from __future__ import annotations

import json

import pytest

from ebbtide.policy import preset
from ebbtide.runtime.outgoing import reapply_edits
from ebbtide.store import MemoryStore
from runtime.sessions import body, context, loop, without_breakpoints


def worked(**options):
    ctx = context(**options)
    messages = loop(14)
    for n in range(1, len(messages) + 1, 2):
        ready = ctx.prepare(json.dumps(body(messages[:n])).encode())
    return ctx, messages, ready


def test_a_replay_sends_what_prepare_sent():
    ctx, messages, ready = worked()

    again = reapply_edits(json.dumps(body(messages)).encode(), ctx.standing, policy=preset("default"))

    assert ctx.standing
    assert again.edited
    assert again.body == ready.body
    assert again.tokens_untouched - again.tokens > 10_000


def test_a_replay_of_the_next_request_extends_the_last():
    ctx, messages, ready = worked()
    more = json.dumps(body([*messages, {"role": "assistant", "content": "done"}, {"role": "user", "content": "ok"}]))

    again = reapply_edits(more.encode(), ctx.standing, policy=preset("default"))

    sent, now = (json.loads(one)["messages"] for one in (ready.body, again.body))
    assert without_breakpoints(now[: len(sent) - 1]) == without_breakpoints(sent[:-1])


def test_without_edits_the_body_is_returned_as_the_same_object():
    raw = json.dumps(body(loop(3)), indent=1).encode()

    assert reapply_edits(raw, (), policy=preset("default")).body is raw


def test_a_replay_leaves_no_trace():
    store = MemoryStore()
    ctx, messages, _ = worked(store=store)
    before = store.peek("default").read().records

    reapply_edits(json.dumps(body(messages)).encode(), ctx.standing, policy=preset("default"))

    assert store.peek("default").read().records == before


def test_usage_alone_anchors_the_counter_and_adds_no_message():
    store = MemoryStore()
    ctx = context(store=store)
    ready = ctx.prepare(body(loop(2)))
    messages = [record for record in store.peek("default").read().records if record.get("type") != "ebb"]

    ready.record_usage({"usage": {"input_tokens": 777, "output_tokens": 3}})

    records = store.peek("default").read().records
    assert [one for one in records if one.get("type") != "ebb"] == messages
    assert [one["input"] for one in records if one.get("kind") == "usage"] == [777]


def test_the_report_shows_what_the_unedited_request_would_have_been():
    _, _, ready = worked()

    report = ready.report
    assert report.tokens_untouched > report.tokens_after
    assert report.tokens_untouched == pytest.approx(14 * 150 * 14, rel=0.6)
