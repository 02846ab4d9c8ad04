"""A session that folds: nothing of it is lost, and what went out goes out again."""

from __future__ import annotations

import json
import os
from functools import partial
from typing import Any

import pytest

from compaction.compaction_sessions import (
    SUMMARY,
    WINDOW,
    Body,
    EventLog,
    RecordingSummarizer,
    body,
    context,
    folded,
    posted,
    replanned,
    request_of,
    sent,
    talk,
    text_of,
    turn,
    until,
    walk,
)
from ebbtide.core.errors import BadRequest
from ebbtide.core.stub import parse
from ebbtide.runtime import Context, Ready
from ebbtide.store import MemoryStore, open_store
from runtime.sessions import Clock, unmarked
from upstream.check import refusals
from upstream.script import Part, Say, Think, Use
from upstream.server import Upstream

LONG = talk(45)


def unread(ctx: Context, ready: Ready, messages: list[Body]) -> list[str]:
    """The user's messages that are neither in the request nor behind a handle in it."""
    contents = [one["content"] for one in messages if one["role"] == "user" and isinstance(one["content"], str)]
    texts = [block["text"] for one in ready.body["messages"] for block in _blocks(one) if block.get("type") == "text"]
    stubs = [parse(line) for text in texts for line in text.split("\n")]
    kept = "".join(_whole(ctx, os.path.basename(stub.path)) for stub in stubs if stub and stub.path)
    return [one for one in contents if one not in texts and not any(one in text for text in texts) and one not in kept]


def _blocks(message: Body) -> list[Any]:
    content = message["content"]
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def _whole(ctx: Context, handle: str) -> str:
    page = ctx.read(handle)
    text = page.text
    while page.next is not None:
        page = ctx.read(handle, page.next)
        text += page.text
    return text


class TestNothingIsLost:
    @pytest.mark.parametrize("summarizer", [None, RecordingSummarizer()], ids=["offline", "model"])
    def test_after_many_compactions_every_user_message_is_present_or_one_read_away(self, summarizer):
        ctx = context(store=MemoryStore(), summarizer=summarizer)
        folds = 0
        for ready in walk(ctx, LONG):
            if folded(ready):
                folds += 1
                assert unread(ctx, ready, LONG[:1]) == []

        assert folds >= 3
        assert unread(ctx, ready, LONG) == []
        assert ready.report.tokens_after <= WINDOW

    def test_user_text_beyond_half_the_window_shrinks_to_a_handle_and_stays_readable(self):
        messages = [
            {"role": "user" if n % 2 == 0 else "assistant", "content": f"No. {n:02}: " + "it is off by a hand. " * 40}
            for n in range(61)
        ]
        ctx = context(store=MemoryStore())

        *_, ready = walk(ctx, messages)

        assert "[ebb: messages (1 to" in text_of(ready)
        assert messages[0]["content"] not in text_of(ready)
        assert unread(ctx, ready, messages) == []

    def test_the_newest_request_is_last_and_complete(self):
        for n, ready in enumerate(walk(context(), LONG)):
            if folded(ready) and isinstance(LONG[2 * n]["content"], str):
                assert _blocks(ready.body["messages"][-1])[-1]["text"] == LONG[2 * n]["content"]

    def test_a_result_that_the_model_has_not_seen_survives_the_compaction(self):
        for n, ready in enumerate(walk(context(), LONG)):
            newest = LONG[2 * n]["content"]
            if isinstance(newest, list):
                assert newest[0]["content"] in text_of_results(ready)

    def test_what_a_person_restored_stays_through_every_compaction(self):
        """Results that were cleared and taken back are pinned: the fold is made all the same, and shows them."""
        ctx, long = context(window=12_000), talk(40, lines=16)
        at, _ = until(ctx, long, lambda ready: any(edit.by == "clear_results" for edit in ready.report.edits))
        pinned = {edit.replacement[0].call_id for edit in ctx.undo()}
        originals = {block["tool_use_id"]: block["content"] for one in long for block in results(one)}

        folds = [ready for ready in walk(ctx, long, start=at + 2) if folded(ready)]

        assert folds, "a pinned item must not keep the session from folding"
        shown = {block["tool_use_id"]: block["content"] for one in folds[-1].body["messages"] for block in results(one)}
        assert pinned
        assert {id: shown.get(id) == originals[id] for id in pinned} == dict.fromkeys(pinned, True)


def results(message: Body) -> list[Body]:
    content = message["content"]
    return [block for block in content if block.get("type") == "tool_result"] if isinstance(content, list) else []


def text_of_results(ready: Ready) -> list[str]:
    return [block["content"] for message in ready.body["messages"] for block in results(message)]


class TestBytes:
    def test_between_compactions_each_request_extends_the_last(self):
        before: list[str] = []
        kept = 0
        for ready in walk(context(), LONG):
            now = unmarked(ready.body["messages"])
            if not ready.report.edits:
                assert now[: len(before)] == before
                kept += bool(ready.report.held)
            before = now

        assert kept > 15, "there was hardly anything after a fold"

    @pytest.mark.parametrize("summarizer", [None, RecordingSummarizer()], ids=["offline", "model"])
    def test_undone_and_redone_it_sends_what_it_sent(self, summarizer):
        store = MemoryStore()
        ctx = context(store=store, summarizer=summarizer)
        at, after = until(ctx, LONG, folded)
        request = body(LONG[:at])

        assert ctx.undo()
        without = context(store=store, window=100_000).prepare(request)
        assert without.body["messages"] == LONG[:at]

        assert ctx.redo()
        assert sent(ctx.prepare(request)) == sent(after)
        assert sent(context(store=store).prepare(request)) == sent(after)

    def test_an_undone_compaction_is_not_repeated_at_once(self):
        ctx = context()
        at, _ = until(ctx, LONG, folded)
        ctx.undo()

        again = ctx.prepare(body(LONG[:at]))

        assert again.report.edits == ()
        assert again.body["messages"] == LONG[:at]

    def test_a_rewound_conversation_sends_what_it_sent_before_the_compaction(self):
        ctx = context()
        early = [sent(ready) for ready in walk(ctx, LONG[:21])]
        until(ctx, LONG, folded)

        assert sent(ctx.prepare(body(LONG[:21]))) == early[-1]

    def test_a_fork_keeps_the_compaction_of_its_trunk(self):
        ctx = context()
        at, ready = until(ctx, LONG, folded)
        fork = [*LONG[:at], {"role": "assistant", "content": "Another way."}, {"role": "user", "content": "Go on."}]

        out = unmarked(ctx.prepare(body(fork)).body["messages"])

        trunk = unmarked(ready.body["messages"])
        assert out[: len(trunk)] == trunk
        assert ctx.prepare(body(LONG[: at + 2])).report.held

    def test_a_resumed_session_sends_the_same_bytes_and_asks_no_model_again(self, tmp_path):
        clock, first, second = Clock(), RecordingSummarizer(), RecordingSummarizer()
        ctx = context(store=tmp_path, clock=clock, summarizer=first)
        at, ready = until(ctx, LONG, folded)

        again = context(store=tmp_path, clock=clock, summarizer=second).prepare(body(LONG[:at]))

        assert sent(again) == sent(ready)
        assert (len(first.requests), len(second.requests)) == (1, 0)

    def test_two_processes_on_one_session_send_the_same_after_one_compacted(self, tmp_path):
        clock = Clock()
        one = context(store=tmp_path, clock=clock, summarizer=RecordingSummarizer())
        two = context(store=tmp_path, clock=clock, summarizer=RecordingSummarizer())
        two.prepare(body(LONG[:11]))
        at, ready = until(one, LONG, folded)

        other = two.prepare(body(LONG[:at]))
        assert sent(other) == sent(ready)
        assert other.report.edits == ()
        assert sent(one.prepare(body(LONG[: at + 2]))) == sent(two.prepare(body(LONG[: at + 2])))

    def test_both_processes_compact_and_the_log_can_still_be_replanned(self, tmp_path):
        clock = Clock()
        both = [context(store=tmp_path, clock=clock), context(store=tmp_path, clock=clock)]
        for n in range(1, len(LONG) + 1, 2):
            both[n % 4 // 2].prepare(body(LONG[:n]))

        plan_count, differences = replanned(open_store(tmp_path).peek("default"))
        assert plan_count >= 3
        assert differences == []

    def test_our_output_fed_back_is_a_no_op_and_the_summary_is_handed_on(self):
        said = "The harbour master wants centimetres."
        ctx = context(summarizer=RecordingSummarizer(f"<summary>\n## Intent\n{said}\n</summary>"))
        long = [{"role": "user", "content": said}, *LONG[1:]]
        _, ready = until(ctx, long, folded)
        history = ready.body["messages"]

        again = ctx.prepare(body(history))
        assert again.report.edits == ()
        assert sent(again) == sent(ready)

        ctx = context(store=MemoryStore(), summarizer=RecordingSummarizer(f"<summary>\n## Intent\n{said}\n</summary>"))
        _, ready = until(ctx, long, folded)
        history = [*ready.body["messages"], *(message for n in range(60, 90) for message in turn(n))]
        ctx._session.compaction.can_summarize = False
        last = ctx.prepare(body([*history, {"role": "user", "content": "And now?"}]))
        assert folded(last)
        assert said in text_of(last)


class TestReplan:
    def test_after_compactions_by_a_model(self):
        store = MemoryStore()
        list(walk(context(store=store, summarizer=RecordingSummarizer()), LONG))

        plan_count, differences = replanned(store.peek("default"))
        assert plan_count >= 3
        assert differences == []

    def test_after_a_compaction_that_a_person_asked_for_and_one_they_wrote(self):
        store = MemoryStore()
        ctx = context(store=store, window=100_000, summarizer=RecordingSummarizer())
        ctx.prepare(body(LONG[:41]))
        assert ctx.compact(focus="the datum").applied
        ctx.prepare(body(LONG[:61]))
        assert ctx.compact(summary="All gauges were mended.").applied
        ctx.prepare(body(LONG[:81]))

        plan_count, differences = replanned(store.peek("default"))
        assert plan_count == 2
        assert differences == []

    def test_after_an_overflow(self):
        store = MemoryStore()
        ctx = context(store=store, window=100_000, summarizer=RecordingSummarizer())
        ctx.prepare(body(LONG[:61]))
        ctx.overflowed(ValueError("prompt is too long: 12000 tokens > 7000 maximum"))

        plan_count, differences = replanned(store.peek("default"))
        assert plan_count == 1
        assert differences == []

    @pytest.mark.parametrize("policy", ["region", "claude-code", "mini-claude", "learn-v5", "sage", "opencode"])
    def test_after_the_compactions_of_a_preset(self, policy):
        store = MemoryStore()
        ctx = context(
            store=store, window=30_000, policy=policy, summarizer=RecordingSummarizer("<summary>\nDone.\n</summary>")
        )
        long = talk(45, lines=50)
        for n in range(1, len(long) + 1, 2):
            ready = ctx.prepare(body(long[:n]))
            assert [str(refusal) for refusal in refusals("anthropic", ready.body)] == []

        plan_count, differences = replanned(store.peek("default"))
        assert plan_count
        assert differences == []


class TestManual:
    """`compact`: looked at, written anew, from here, up to here, taken back."""

    def test_a_preview_changes_nothing_and_is_applied_without_asking_again(self):
        store, summarizer = MemoryStore(), RecordingSummarizer()
        ctx = context(store=store, window=100_000, summarizer=summarizer)
        ctx.prepare(body(LONG))

        compaction = ctx.compact(apply=False)
        assert not compaction.applied
        assert "is to be mended" in compaction.summary
        assert compaction.tokens_after < compaction.tokens_before
        assert ctx.edits() == ()

        applied = compaction.apply()
        assert applied.applied
        assert applied.text == compaction.text
        assert len(summarizer.requests) == 1
        assert (
            compaction.summary
            in json.loads(json.dumps(ctx.prepare(body(LONG)).body))["messages"][0]["content"][0]["text"]
        )

    def test_a_person_may_write_the_summary(self):
        ctx = context(window=100_000, summarizer=RecordingSummarizer())
        ctx.prepare(body(LONG))

        ctx.compact(apply=False).apply("Only the datum matters.")

        out = text_of(ctx.prepare(body(LONG)))
        assert "Only the datum matters." in out
        assert "is to be mended" not in out

    def test_the_manual_form_does_not_ask_to_continue(self):
        by_hand, by_itself = context(window=100_000), context()
        by_hand.prepare(body(LONG))
        by_hand.compact()

        assert "Continue with the user's latest request" not in text_of(by_hand.prepare(body(LONG)))
        assert "Continue with the user's latest request" in text_of(until(by_itself, LONG, folded)[1])

    def test_the_focus_and_the_projects_instructions_reach_the_model(self):
        summarizer = RecordingSummarizer()
        system = "You mend gauges.\n\n# Compact instructions\nAlways keep the datum.\n\n# Other\nBe brief."
        ctx = context(window=100_000, summarizer=summarizer)
        ctx.prepare(body(LONG, system=system))
        ctx.compact(focus="What the harbour master said.")

        told = json.dumps(summarizer.requests[0]["messages"][-1])
        assert "What the harbour master said." in told
        assert "Always keep the datum." in told

    def test_up_to_here_leaves_the_rest_unchanged(self):
        ctx = context(window=100_000)
        ctx.prepare(body(LONG))
        here = next(item for item in ctx._session.view.originals if item.text == request_of(20))

        assert ctx.compact(last=here.id).applied
        out = unmarked(ctx.prepare(body(LONG)).body["messages"])

        after = unmarked(LONG[4 * 20 :])
        assert out[-len(after) :] == after
        assert len(out) <= len(after) + 3

    def test_from_here_leaves_what_is_before_unchanged(self):
        ctx = context(window=100_000)
        ctx.prepare(body(LONG))
        here = next(item for item in ctx._session.view.originals if item.text == request_of(20))

        assert ctx.compact(first=here.id).applied
        out = unmarked(ctx.prepare(body(LONG)).body["messages"])

        before = unmarked(LONG[: 4 * 20])
        assert out[: len(before)] == before
        assert len(out) < len(before) + 10

    def test_there_is_nothing_to_compact_before_the_first_request(self):
        with pytest.raises(BadRequest):
            context().compact()

    def test_a_request_that_is_given_is_compacted_before_it_was_ever_sent(self):
        ctx = context(window=100_000)

        assert ctx.compact(body(LONG)).applied
        ready = ctx.prepare(body(LONG))
        assert ready.report.held
        assert unread(ctx, ready, LONG) == []


class TestInsideALoop:
    """Turns of many calls, with thinking: a fold finds a safe cut, and no thinking is torn from what it led to."""

    @pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-sonnet-5", "claude-sonnet-4-5"])
    def test_a_provider_that_binds_thinking_accepts_every_request(self, model):
        counted, events, clock = iter(range(10_000)), EventLog(), Clock()

        def script(asked: Body) -> list[Part]:
            n = next(counted)
            if wants_summary(asked):
                return [Say(SUMMARY)]
            thought, words = Think(f"thought {n}"), Say(f"Step {n}: the gauge reads its datum twice. " * 6)
            return [thought, words] if n % 7 == 6 else [thought, words, Use("Read", {"file_path": f"src/f{n}.py"})]

        with Upstream(script, window=WINDOW + 4_000, clock=clock) as upstream:
            post = partial(posted, upstream)
            ctx = Context(model=model, window=WINDOW, clock=clock, summarizer=post, on_event=events, marks=True)
            messages: list[Body] = [{"role": "user", "content": "Mend every gauge, one after the other."}]
            inside = 0
            for _ in range(70):
                ready = ctx.prepare(thoughtful(model, messages))
                inside += folded(ready) and bool(results(messages[-1]))
                answer = post(ready.body)
                ready.record(answer)
                uses = [block for block in answer["content"] if block["type"] == "tool_use"]
                messages = [*messages, {"role": "assistant", "content": answer["content"]}, answered(uses)]
                clock.tick(20.0)

        assert [str(one) for exchange in upstream.requests for one in exchange.refused] == []
        assert inside, "no fold was made while a loop was open"
        assert [failed["reason"] for failed in events.told("fold_failed")] == []
        assert "Mend every gauge" in text_of(ready)


def wants_summary(asked: Body) -> bool:
    return "<summary>" in json.dumps(asked["messages"][-1])


def thoughtful(model: str, messages: list[Body]) -> Body:
    manual = {"type": "enabled", "budget_tokens": 1_024}
    thinking = manual if model == "claude-sonnet-4-5" else {"type": "adaptive"}
    tools = [{"name": "Read", "input_schema": {"type": "object"}}]
    return {"model": model, "max_tokens": 2_000, "thinking": thinking, "tools": tools, "messages": messages}


def answered(uses: list[Body]) -> Body:
    blocks = [{"type": "tool_result", "tool_use_id": use["id"], "content": "reading = level\n" * 20} for use in uses]
    return {"role": "user", "content": blocks or "Go on."}
