"""What goes on around a fold: hooks are asked and told, answers come in the background, children report."""

from __future__ import annotations

import json
import threading

import pytest

from compaction.compaction_sessions import (
    HARD,
    HIGH,
    LONG,
    MODEL,
    SOFT,
    SUMMARY,
    WINDOW,
    Body,
    EventLog,
    RecordingSummarizer,
    body,
    context,
    folded,
    talk,
    text_of,
    turn,
    until,
    walk,
)
from ebbtide import Summarizer
from ebbtide.runtime import Hooks
from runtime.sessions import Clock


class TestHooks:
    def test_before_may_forbid_a_compaction_and_the_request_is_still_sent(self):
        summarizer, events = RecordingSummarizer(), EventLog()
        ctx = context(summarizer=summarizer, hooks=Hooks(before=lambda _: False), on_event=events)

        outs = list(walk(ctx, LONG))

        assert [ready for ready in outs if folded(ready)] == []
        assert summarizer.requests == []
        assert outs[-1].report.tokens_after <= WINDOW

    def test_before_may_add_a_focus(self):
        summarizer = RecordingSummarizer()
        until(context(summarizer=summarizer, hooks=Hooks(before=lambda _: "Keep the datum of gauge 3.")), LONG, folded)

        assert "Keep the datum of gauge 3." in json.dumps(summarizer.requests[0]["messages"][-1])
        assert len(summarizer.requests) == 1

    def test_before_and_after_receive_the_numbers_once(self):
        before, after = [], []
        _, ready = until(
            context(summarizer=RecordingSummarizer(), hooks=Hooks(before=before.append, after=after.append)),
            LONG,
            folded,
        )

        assert [(one["trigger"], one["asks"]) for one in before] == [("auto", True)]
        assert [one["tokens_after"] for one in after] == [ready.report.tokens_after]

    def test_hooks_that_break_break_nothing(self):
        def bad(_: object) -> object:
            raise RuntimeError("a hook's bug")

        ctx = context(
            summarizer=RecordingSummarizer(RuntimeError("down")), hooks=Hooks(before=bad, after=bad, failed=bad)
        )

        assert folded(until(ctx, LONG, folded)[1])


class TestBackground:
    @pytest.mark.parametrize("pause", [10.0, 400.0], ids=["warm", "cold"])
    def test_asked_at_the_soft_level_and_spliced_when_ready(self, pause):
        """At once where the cache is cold anyway; else when the fold has to be made, and nobody waits for it then."""
        summarizer, events, clock, begun = RecordingSummarizer(), EventLog(), Clock(), 0
        ctx = context(summarizer=Summarizer(summarizer, background=True), on_event=events, clock=clock)
        for ready in walk(ctx, LONG):
            if folded(ready):
                break
            if ctx._background_questions is not None:
                begun = ready.report.tokens_after
                ctx._background_questions.wait(240)
                clock.tick(pause)

        assert SOFT < begun < HIGH
        assert (ready.report.tokens_before < HIGH) is (pause > 300)
        assert len(summarizer.requests) == 1
        assert "is to be mended" in text_of(ready)
        assert events.told("fold_asks") == []

    def test_the_conversation_continues_while_the_question_is_open(self):
        let_go = threading.Event()

        def slow(request: Body) -> str:
            let_go.wait(240)
            return SUMMARY

        ctx = context(summarizer=Summarizer(slow, background=True))
        waited = 0
        for ready in walk(ctx, LONG):
            if ctx._background_questions is not None:
                waited += 1
                assert not folded(ready) or ready.report.tokens_before > HARD
            if waited == 4:
                break
        let_go.set()
        assert waited == 4

    def test_an_answer_that_was_overtaken_is_discarded(self):
        """The conversation was rewound meanwhile: what was asked about is not there any more."""
        summarizer = RecordingSummarizer()
        ctx = context(summarizer=Summarizer(summarizer, background=True))
        until(ctx, LONG, lambda _: ctx._background_questions is not None)
        ctx._background_questions.wait(240)
        other = [message for n in range(100, 103) for message in turn(n)]

        out = ctx.prepare(body([*other, {"role": "user", "content": "Anew."}]))

        assert out.report.edits == ()
        assert "is to be mended" not in text_of(out)

    def test_a_failure_in_the_background_counts_and_the_session_continues(self):
        ctx = context(summarizer=Summarizer(RecordingSummarizer(RuntimeError("down")), background=True))
        folds = 0
        for ready in walk(ctx, LONG):
            if ctx._background_questions is not None:
                ctx._background_questions.wait(240)
            folds += folded(ready)

        assert folds
        assert ctx._session.log.state.failures >= 1


class TestChildren:
    def test_what_a_child_returns_is_added_once_and_survives_every_compaction(self, tmp_path):
        parent = context(store=tmp_path)
        child = parent.child("scout", model=MODEL, window=4_000)
        *_, last = walk(child, talk(12))
        child.finish("The datum stands in config/datum.toml, line 7.")
        child.finish("Something else, said later.")

        folds = [ready for ready in walk(parent, talk(60)) if folded(ready)]

        assert len(folds) >= 3
        assert all(text_of(ready).count("config/datum.toml, line 7") == 1 for ready in folds)
        assert "said later" not in text_of(folds[-1])
        assert last.report.tokens_after <= 4_000
        again = context(store=tmp_path)
        assert again.compact(body(talk(61))).applied
        assert "config/datum.toml, line 7" in text_of(again.prepare(body(talk(61))))
