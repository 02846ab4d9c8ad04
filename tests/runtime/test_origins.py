"""The kit for adapters at message level: blocks back to their origins, no marks, and usage without a response."""

import json

import pytest

import ebbtide
from ebbtide.wire import WIRES
from ebbtide.wire.reader import block_fingerprints
from runtime.sessions import body, call, context, loop, result
from upstream.talks import TALKS, grow

WINDOW = 30_000


def blocks_of(message):
    content = message["content"] if "content" in message else message["parts"]
    return content if isinstance(content, list) else [content]


def plain(block):
    return (
        {name: value for name, value in block.items() if name != "cache_control"} if isinstance(block, dict) else block
    )


def test_each_block_that_is_as_it_was_leads_back_to_its_origin_and_no_other_does():
    ctx, messages, changed = context(window=WINDOW, marks=None), list(loop(1)), 0
    for n in range(1, 40):
        request = json.loads(json.dumps(body(messages)))  # as from an adapter: new objects in each request
        ready = ctx.prepare(request)
        origins = ready.origins()
        assert len(origins) == len(ready.body["messages"])
        flat = [origin for message in origins for origin in message if origin]
        assert flat == sorted(set(flat))
        for message, found in zip(ready.body["messages"], origins, strict=True):
            assert len(found) == len(blocks_of(message))
            for block, origin in zip(blocks_of(message), found, strict=True):
                if origin is None:
                    changed += 1
                    assert "[ebb:" in json.dumps(block) or "was removed" in json.dumps(block)
                else:
                    original = blocks_of(request["messages"][origin.message])[origin.block]
                    assert plain(block) == plain(original)
        messages += [call(n), result(n)]

    assert changed > 20


@pytest.mark.parametrize("wire", TALKS)
def test_on_every_wire_the_origin_has_the_same_content(wire):
    """By the wire's own fingerprints: a message is not a list of blocks everywhere."""
    found = edited = 0
    ctx = ebbtide.Context(window=24_000, wire=wire, marks=None)
    for request in grow(wire, seed=7, turns=40):
        ready = ctx.prepare(json.loads(json.dumps(request)))
        key = WIRES[wire].list_key
        places = [block_fingerprints(WIRES[wire], [message]) for message in request[key]]
        for message, origins in zip(ready.body[key], ready.origins(), strict=True):
            for fingerprint, origin in zip(block_fingerprints(WIRES[wire], [message]), origins, strict=True):
                edited += origin is None
                if origin is not None:
                    found += 1
                    assert places[origin.message][origin.block] == fingerprint

    assert found > 100
    assert edited


def test_equal_blocks_lead_back_to_their_own_origins():
    """All calls are announced with the same words; most of them leave the window."""
    ctx, messages = context(window=12_000, policy="default", marks=None), list(loop(1))
    for n in range(1, 120):
        ready = ctx.prepare(body(messages))
        for origins in ready.origins():
            assert len({origin.message for origin in origins if origin}) <= 1, "words and call are of one message"
        announced = call(n)
        announced["content"][0]["text"] = "The next step."
        messages += [announced, result(n, 30)]

    assert any(edit.by == "summarize" for edit in ctx.edits())


@pytest.mark.parametrize("marks", [True, None])
def test_without_marks_none_are_placed_even_with_edits(marks):
    ctx, messages, has_edits, has_marks = context(window=WINDOW, marks=marks), list(loop(1)), False, False
    for n in range(1, 30):
        ready = ctx.prepare(body(messages))
        has_edits = has_edits or bool(ready.report.held)
        has_marks = has_marks or "cache_control" in json.dumps(ready.body)
        messages += [call(n), result(n)]

    assert has_edits
    assert has_marks == (marks is True)


def test_usage_alone_makes_the_next_count_exact():
    ctx = context(window=200_000)
    with pytest.raises(ebbtide.BadRequest, match="a response, or its usage"):
        ctx.prepare(body(loop(1))).record()
    with pytest.raises(ebbtide.BadRequest, match=r"ebbtide\.Usage"):
        ctx.prepare(body(loop(1))).record(usage={"input_tokens": 5})
    ctx.prepare(body(loop(2))).record(usage=ebbtide.Usage(input=43_210, output=5))
    report = ctx.prepare(body(loop(2))).report

    assert report.tokens_before == 43_215, "the reply counts too"
    ctx.record(usage=ebbtide.Usage(input=43_000, cache_read=210))
    assert ctx.counters()["total_cache_read"] == 210


def test_a_request_in_bytes_has_no_objects_to_lead_back_to():
    ready = context().prepare(json.dumps(body(loop(1))).encode())
    with pytest.raises(ebbtide.BadRequest, match="as a dict"):
        ready.origins()
