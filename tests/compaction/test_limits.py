"""A fold is made where it helps: not twice for the same growth, not in vain, and once more where a provider refused."""

from __future__ import annotations

import pytest

from compaction.compaction_sessions import (
    HARD,
    LONG,
    WINDOW,
    Body,
    EventLog,
    RecordingSummarizer,
    body,
    context,
    folded,
    posted,
    text_of,
    turn,
    until,
    walk,
)
from ebbtide.core.errors import WontFit
from ebbtide.core.types import Edit
from ebbtide.runtime.decision import MAX_STALLED
from ebbtide.state.session_state import SessionState, apply_records, ebb_record, edit_to_record
from upstream.script import Say
from upstream.server import Upstream


class TestRestraint:
    def test_at_most_one_automatic_compaction_until_the_context_has_regrown(self):
        after = None
        for ready in walk(context(), LONG):
            if folded(ready):
                before = ready.report.tokens_before
                assert after is None or before - after >= 0.2 * WINDOW or before > HARD
                after = ready.report.tokens_after

    def test_two_compactions_that_freed_nothing_are_the_last_below_the_hard_level(self):
        """Nothing but the user's words: a fold of what little else there is frees almost nothing."""
        words = [
            {"role": "user" if n % 2 == 0 else "assistant", "content": ("level " * 90 if n % 2 == 0 else f"Yes, {n}.")}
            for n in range(161)
        ]
        events = EventLog()
        for ready in walk(context(on_event=events), words):
            assert ready.report.tokens_after <= WINDOW

        small = [
            one
            for one in events.told("folded")
            if one["tokens_before"] - one["tokens_after"] < one["tokens_before"] // 20
        ]
        assert len(small) <= 2 + sum(one["tokens_before"] > HARD for one in small)

    def test_two_useless_compactions_in_a_row_are_remembered_and_a_useful_one_clears_them(self):
        def made(before: int, after: int) -> Body:
            edit = edit_to_record(Edit(by="summarize", first="a", last="b", reason="", saved=1))
            return ebb_record("plan", id="p", edits=[edit], tokens_before=before, tokens_after=after)

        def stalled(*records: Body) -> bool:
            return apply_records(SessionState(), records).stalled >= MAX_STALLED

        assert not stalled(made(1_000, 960))
        assert stalled(made(1_000, 960), made(1_000, 960))
        assert not stalled(made(1_000, 960), made(1_000, 500), made(1_000, 960))

    def test_a_single_giant_message_that_no_model_has_seen_ends_the_ladder(self):
        ctx = context(summarizer=RecordingSummarizer())
        giant = {
            "role": "user",
            "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 40}}]
            * 90,
        }

        with pytest.raises(WontFit):
            ctx.prepare(body([*LONG[:-1], giant]))

        assert ctx.prepare(body(LONG)).report.tokens_after <= WINDOW


class TestOverflow:
    def test_the_window_is_learned_and_the_request_is_compacted_once(self):
        ctx = context(window=100_000, summarizer=RecordingSummarizer())
        ctx.prepare(body(LONG))

        ready = ctx.overflowed(ValueError("prompt is too long: 9100 tokens > 6000 maximum"))

        assert folded(ready)
        assert ready.report.tokens_after <= 6_000
        assert LONG[-1]["content"] in text_of(ready)
        with pytest.raises(WontFit):
            ctx.overflowed(ValueError("prompt is too long: 7000 tokens > 6000 maximum"))

    def test_the_window_is_known_after_a_restart(self, tmp_path):
        ctx = context(window=100_000, store=tmp_path)
        ctx.prepare(body(LONG))
        ctx.overflowed(ValueError("prompt is too long: 9100 tokens > 6000 maximum"))

        long = [*LONG, *turn(40)[1:], *(message for n in range(41, 60) for message in turn(n))]
        ready = context(window=100_000, store=tmp_path).prepare(body([*long, {"role": "user", "content": "Next."}]))

        assert ready.report.tokens_after <= 6_000

    def test_an_overflow_compacts_even_right_after_a_compaction(self):
        ctx = context(summarizer=RecordingSummarizer())
        until(ctx, LONG, folded)

        again = ctx.overflowed(ValueError(f"prompt is too long: {WINDOW} tokens > 2400 maximum"))

        assert again.report.tokens_after <= 2_400

    def test_when_no_number_is_given_a_tenth_less_is_tried(self):
        ctx = context(window=100_000)
        before = ctx.prepare(body(LONG)).report.tokens_after

        ready = ctx.overflowed(ValueError("Your input exceeds the context window of this model."))

        assert ready.report.tokens_after < before * 0.9

    def test_any_other_error_is_raised_again(self):
        ctx = context()
        ctx.prepare(body(LONG[:5]))
        error = ConnectionError("reset by peer")

        with pytest.raises(ConnectionError) as raised:
            ctx.overflowed(error)

        assert raised.value is error

    def test_a_real_provider_with_a_smaller_window_than_assumed(self):
        with Upstream(lambda _: [Say("Done.")], window=5_000) as upstream:
            ctx = context(window=100_000)
            ready = ctx.prepare(body(LONG))
            with pytest.raises(RuntimeError) as refused:
                posted(upstream, ready.body)
            answer = posted(upstream, ctx.overflowed(refused.value).body)

        assert answer["content"][0]["text"] == "Done."
