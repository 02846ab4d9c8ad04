"""What folds, when, and what stands for it (R053, R157, R159, R175)."""

from dataclasses import replace
from functools import partial

import pytest

from ebbtide.core.edit_rules import NEWEST_NOTES, rejection_reason
from ebbtide.core.planner import CompactionInput, make_plan
from ebbtide.core.stub import BlobNames
from ebbtide.core.types import HARNESS, OURS, QUOTED, USER, Answer, Edit, Question
from ebbtide.core.view import View
from ebbtide.passes import clear_results, fold_regions, offload_input, summarize
from ebbtide.summary.layout import read_summary_text
from talk import budget, let, situation, talk

SHELF = BlobNames(directory="/kept")
NAMES = [a + b for a in "abcdefghij" for b in "abcdefghij"]
READ = ("call:Read src/a.py", "result:900", "say:300")
TURNS = tuple(line for n in range(8) for line in (f"user:request {n}", *READ))
LATER = tuple(line.replace("request", "later") for line in TURNS)
EAGER = partial(summarize, keep_turns=2, keep_tokens=4_000, min_savings=1)
OVER = budget(10_000, soft=1, auto=2, hard=100_000, low=5_000)


def at(view, *, within=OVER, trigger="auto", compaction=None, **changes):
    return situation(
        view, within=within, blob_names=SHELF, trigger=trigger, compaction=compaction or CompactionInput(), **changes
    )


def steps(view, propose=EAGER, **changes):
    return list(propose(view, at(view, **changes)))


def fold(view, propose=EAGER, **changes):
    (edit,) = steps(view, propose, **changes)
    assert isinstance(edit, Edit)
    assert rejection_reason(view, edit) == ""
    return edit


def covered(view, edit):
    return view.originals[view.index[edit.first] : view.index[edit.last] + 1]


def answered(ask, text="", failed=""):
    return {
        ask.key: Answer(
            key=ask.key, first=ask.first, last=ask.last, answer_mode=ask.answer_mode, text=text, failed=failed
        )
    }


class TestWhenItCompacts:
    view = View.of(talk(*TURNS, "user:next"))

    def test_below_the_soft_level_never(self):
        assert steps(self.view, within=budget(1_000_000)) == []

    def test_too_few_messages_are_left_alone(self):
        short = View.of(talk("user:a", "say:9000", "user:b"))

        assert steps(short) == []
        assert steps(short, partial(EAGER, min_messages=3))

    @pytest.mark.parametrize(("after", "folds"), [(None, True), (8_000, False), (7_700, True)])
    def test_no_second_compaction_until_a_fifth_of_the_window_is_refilled(self, after, folds):
        now = at(self.view, compaction=CompactionInput(after=after))
        now = now._replace(tokens=9_800)

        assert bool(list(EAGER(self.view, now))) is folds

    @pytest.mark.parametrize("held", [{"after": 9_700}, {"stalled": True}, {"waiting": True}])
    def test_but_the_hard_level_an_overflow_and_a_person_are_not_kept_waiting(self, held):
        folding = CompactionInput(**held)
        hard = budget(10_000, soft=1, auto=2, hard=9_000, low=5_000)

        assert list(EAGER(self.view, at(self.view, compaction=folding)._replace(tokens=9_800))) == []
        assert list(EAGER(self.view, at(self.view, compaction=folding, within=hard)._replace(tokens=9_800)))
        assert steps(self.view, compaction=folding, trigger="overflow")
        assert steps(self.view, compaction=folding, trigger="manual")

    def test_a_forbidden_compaction_is_not_made(self):
        for trigger in ("auto", "overflow", "manual"):
            assert steps(self.view, compaction=CompactionInput(forbidden=True), trigger=trigger) == []

    def test_a_saving_too_small_is_none_unless_a_person_asks(self):
        greedy = partial(EAGER, min_savings=50_000)
        within = replace(OVER, window=1_000_000)

        assert steps(self.view, greedy, within=within) == []
        assert steps(self.view, greedy, within=within, trigger="manual")

    def test_between_soft_and_high_only_when_the_cache_is_cold(self):
        soft = budget(10_000, soft=1, auto=50_000, hard=100_000, low=5_000)

        assert steps(self.view, within=soft, idle=5.0, cached_entries=9) == []
        assert steps(self.view, within=soft, idle=900.0, cached_entries=0)


class TestWhatItCovers:
    def test_the_newest_turns_stay_complete(self):
        view = View.of(talk(*TURNS, "user:next"))
        edit = fold(view)

        left = view.originals[view.index[edit.last] + 1 :]
        assert [item.text for item in left if item.role == "user"] == ["request 6", "request 7", "next"]
        assert sum(item.tokens for item in left) <= 4_000
        assert left[-1].text == "next"

    def test_results_the_model_has_not_seen_stay(self):
        view = View.of(talk(*TURNS, "user:next", "call:Read b.py", "result:9000", "user:wait"))
        edit = fold(view, partial(EAGER, keep_turns=0, keep_tokens=0))

        assert view.index[edit.last] < view.index[view.originals[-3].id]
        assert [item.kind for item in view.originals[-3:]] == ["call", "result", "text"]

    def test_inside_an_open_loop_only_between_calls_and_results(self):
        view = View.of(talk("user:go", *READ[:2] * 30))
        edit = fold(view, partial(EAGER, min_messages=2))
        kinds = [item.kind for item in covered(view, edit)]

        assert kinds.count("call") == kinds.count("result")
        assert covered(view, edit)[-1].kind == "result"

    @pytest.mark.parametrize("thought", [(), ("think:hm",)])
    def test_a_note_of_the_operator_after_each_result_is_no_obstacle(self, thought):
        """Claude Code tells the tokens left. The newest such note stays, and what was said only once."""
        notes = [f"locked system:{90_000 - n} tokens left" for n in range(30)]
        steps = [line for note in notes for line in (*READ[:2], note)]
        view = View.of(talk("user:go", "locked system:# Environment", *thought, *steps))
        after = view.apply([fold(view, partial(EAGER, min_messages=2))])

        assert after.tokens < view.tokens // 2
        texts = [entry.text for entry in after.entries if entry.role == "system"]
        assert (texts[0], texts[-1]) == ("# Environment", "89971 tokens left")
        assert len(texts) < 10

    @pytest.mark.parametrize("thought", [(), ("think:hm",)])
    def test_notes_of_the_operator_that_differ_are_no_obstacle_and_stay_the_operators(self, thought):
        """The one behind the run stays where it is, the others with the fold, as they were."""
        notes = [f"open is {word}.py" for word in NAMES[:30]]
        loop = [line for note in notes for line in (*thought, *READ[:2], f"locked system:{note}")]
        view = View.of(talk("user:go", "locked system:# Environment", *loop))
        edit = fold(view, partial(EAGER, min_messages=2))
        after = view.apply([edit])

        assert after.tokens < view.tokens // 2
        assert [entry.text for entry in after.entries if entry.role == "system"] == ["# Environment", *notes]
        assert view.originals[view.index[edit.last]].kind == "result"
        assert view.originals[view.index[edit.last] + 1].role == "system"

    def test_older_notes_that_do_not_fit_are_listed_and_saved_in_a_file(self):
        notes = [f"open is {word}.py, and {'so on, ' * 9}" for word in NAMES]
        loop = [line for note in notes for line in (*READ[:2], f"locked system:{note}")]
        view = View.of(talk("user:go", *loop))
        edit = fold(view, partial(EAGER, min_messages=2))
        after = view.apply([edit])

        stay = [entry.text for entry in after.entries if entry.role == "system"]
        assert stay == notes[-len(stay) :]
        assert NEWEST_NOTES < len(stay) < len(notes) // 2
        (listed,) = (item for item in edit.replacement if "[ebb: notes (1 to" in item.text)
        assert (listed.role, listed.trust) == ("user", HARNESS)
        assert f"[ebb: notes (1 to {len(notes) - len(stay)})" in listed.text
        assert notes[len(notes) - len(stay) - 1][:60] in listed.text
        (text,) = (blob.text for blob in edit.blobs if "operator-notes" in blob.name)
        assert all(note in text for note in notes[: -len(stay)])

    def test_the_line_for_an_old_note_shows_its_request(self):
        """One order among many reports of the state of things: it must not be in the file alone."""
        state = [f"The file {word}.py is open in the editor now. {'It has some lines. ' * 12}" for word in NAMES]
        order = f"<note>The folder was looked at. {'All is well there. ' * 9}Never change what is under vendor/. Good.</note>"
        notes = [*state[:2], order, *state[2:]]
        view = View.of(talk("user:go", *(one for note in notes for one in (*READ[:2], f"locked system:{note}"))))
        edit = fold(view, partial(EAGER, min_messages=2))

        (listed,) = (item.text for item in edit.replacement if "[ebb: notes (1 to" in item.text)
        head, hint, first, *lines = listed.splitlines()
        (kept,) = (blob for blob in edit.blobs if "operator-notes" in blob.name)
        assert kept.name in head
        assert "The file has them in full, by number" in hint
        assert first.startswith("3 ")
        assert first.endswith(": … Never change what is under vendor/. …")
        assert lines
        assert all("is open in the editor now." in line for line in lines)
        assert [int(line.split()[0]) for line in lines] == sorted(int(line.split()[0]) for line in lines)

    def test_the_rest_of_an_open_loop_begins_with_thinking(self):
        view = View.of(talk(*TURNS, "user:go", *("think:hm", *READ[:2], *READ[:2]) * 12))
        edit = fold(view)

        assert view.originals[view.index[edit.last] + 1].kind == "thinking"

    def test_it_ends_with_something_that_leaves(self):
        """Both ends still there, a client that feeds our output back would get a second note."""
        view = View.of(talk(*TURNS, "user:go", "call:Read b.py", "result:900"))
        edit = fold(view, partial(EAGER, keep_turns=0, keep_tokens=0))

        assert edit.last not in {item.id for item in edit.replacement}

    def test_without_new_content_nothing_is_compacted(self):
        view = View.of(talk(*TURNS, "user:next"))
        for trigger in ("overflow", "manual"):
            after = view.apply([replace(fold(view, trigger=trigger), branch_tip=view.branch_tip)])
            assert steps(after, trigger=trigger) == []

    @pytest.mark.parametrize("item", ["pinned user:never lose this", "pinned call:Read p.py", "locked user:fixed"])
    def test_pinned_or_locked_items_are_carried(self, item):
        lines = (*TURNS[:8], item, *(("result:50",) if "call" in item else ()), "say:ok", *TURNS[8:], "user:next")
        view = View.of(talk(*lines))
        edit = fold(view)
        after = view.apply([edit])

        held = next(one for one in view.originals if one.pinned or one.locked)
        assert held in covered(view, edit)
        assert held.id in {entry.id for entry in after.entries}
        halves = [entry.kind for entry in after.entries if entry.call_id and entry.call_id == held.call_id]
        assert halves == (["call", "result"] if "call" in item else [])

    @pytest.mark.parametrize("newest", [("pinned user:go on",), ("pinned image:400", "+user:go on")])
    def test_the_newest_message_is_there_once_if_it_is_pinned(self, newest):
        """Inside an open loop: the message before it is compacted too, and carried over."""
        view = View.of(talk(*TURNS, *newest, *("call:Read p.py", "result:3000") * 6))
        edit = fold(view, partial(EAGER, keep_tokens=10))

        pinned = next(item.id for item in view.originals if item.pinned)
        assert pinned in {item.id for item in covered(view, edit)}
        assert [entry.id for entry in view.apply([edit]).entries].count(pinned) == 1


class TestSummaryContent:
    view = View.of(talk("memory:Use tabs.", *TURNS[1:], "user:next"))

    def test_the_summary_is_one_quoted_item_and_the_users_messages_are_unchanged(self):
        view = View.of(talk(*TURNS, "user:next"))
        edit = fold(view)
        note, *words, _ = edit.replacement

        assert (note.role, note.trust) == ("user", QUOTED)
        assert read_summary_text(note.text) is not None
        assert [item.id for item in words] == [item.id for item in covered(view, edit) if item.role == "user"]

    def test_the_assistant_answers_before_the_user_speaks_again(self):
        view = View.of(talk(*TURNS, "user:next"))
        edit = fold(view, partial(EAGER, keep_tokens=10))

        assert edit.replacement[-1].role == "assistant"
        assert [entry.role for entry in view.apply([edit]).entries][-2:] == ["assistant", "user"]

    def test_the_projects_instructions_stay_in_front(self):
        edit = fold(self.view)

        assert edit.replacement[0].text == "Use tabs."
        assert edit.replacement[0].id

    def test_the_facts_are_the_summary_when_no_model_can_be_asked(self):
        text = next(item.text for item in fold(self.view).replacement if not item.id)

        assert "Files read:\nsrc/: a.py" in text
        assert fold(self.view).reason == "old turns replaced by collected facts"

    def test_all_removed_content_is_in_its_blob(self):
        edit = fold(self.view)
        kept = "".join(blob.text for blob in edit.blobs)

        gone = [item for item in covered(self.view, edit) if item.id not in {one.id for one in edit.replacement}]
        assert [item.id for item in gone if item.text not in kept] == []
        assert edit.blobs[0].name in "".join(item.text for item in edit.replacement)

    def test_a_later_compaction_covers_everything_and_saves_only_what_is_new(self):
        edit = self.view.bind(fold(self.view))
        recorded = replace(edit, blobs=tuple(replace(blob, text="") for blob in edit.blobs))
        more = View.of(talk("memory:Use tabs.", *TURNS[1:], "user:next", *READ, *LATER, "user:last"), [recorded])
        again = fold(more)

        assert more.index[again.first] == 0
        assert more.index[again.last] > self.view.index[edit.last]
        assert "request 1" not in again.blobs[0].text
        assert "later 1" in again.blobs[0].text

    def test_user_text_beyond_its_share_becomes_a_list_with_handles(self):
        lines = [line for n in range(30) for line in (f"user:{n} " + "word " * 400, "say:400")]
        view = View.of(talk(*lines, "user:next"))
        edit = fold(view)
        listing = next(item for item in edit.replacement if not item.id and item.trust == USER)
        said = [item for item in covered(view, edit) if item.role == "user"]

        assert "[ebb: messages (1 to" in listing.text
        kept = "".join(blob.text for blob in edit.blobs)
        assert [
            one.id for one in said if one.text not in kept and one.id not in {item.id for item in edit.replacement}
        ] == []
        assert sum(item.tokens for item in edit.replacement) < OVER.window

    def test_a_paste_offloaded_in_the_same_plan_is_kept_though_its_edit_is_hidden(self):
        """The fold shows the stub, so what the stub names must be durable with the fold."""
        view = View.of(talk("user:" + "line of a log\n" * 900, *TURNS[1:], "user:next"))
        plan = make_plan(view, [EAGER], OVER, at(view), arrival=[partial(offload_input, limit=900)])

        (edit,) = plan.edits
        assert edit.by == "summarize"
        assert any(view.originals[0].text == blob.text for blob in edit.blobs)

    def test_a_region_summarized_in_the_same_plan_is_saved_by_the_compaction_that_hides_it(self):
        view = View.of(talk(*TURNS, "user:next"))
        regions = partial(fold_regions, keep_turns=1, keep_tokens=0)
        plan = make_plan(view, [regions, EAGER], OVER, at(view, trigger="manual"))

        edit = next(edit for edit in plan.edits if edit.by == "summarize")
        assert "fold_regions" not in {one.by for one in plan.edits if view.index[one.last] <= view.index[edit.last]}
        kept = "".join(blob.text for blob in edit.blobs)
        assert [item.id for item in covered(view, edit) if item.role != "user" and item.text not in kept] == []

    def test_cleared_results_are_summarized_from_their_originals(self):
        view = View.of(talk(*TURNS, "user:next"))
        cleared = let(partial(clear_results, keep_results=1, min_tokens=10), view, at(view))
        edit = fold(cleared)

        assert view.originals[2].text in edit.blobs[0].text


class TestQuestions:
    view = View.of(talk(*TURNS, "user:next"))
    asks = CompactionInput(asks=True)

    def test_it_asks_once_and_compacts_with_the_answer(self):
        (ask,) = steps(self.view, compaction=self.asks)
        assert isinstance(ask, Question)

        edit = fold(self.view, compaction=self.asks._replace(answers=answered(ask, "## Intent\nMend it.")))

        assert read_summary_text(edit.replacement[0].text)[0] == "## Intent\nMend it."
        assert edit.reason == "old turns replaced by a model's summary"
        assert (edit.first, edit.last) == (ask.first, ask.last)

    def test_the_question_stays_the_same_while_the_tail_grows(self):
        (ask,) = steps(self.view, compaction=self.asks)
        grown = View.of(talk(*TURNS, "user:next", "say:200", "user:and"))

        edit = fold(grown, compaction=self.asks._replace(answers=answered(ask, "All is well.")))

        assert "All is well." in edit.replacement[0].text

    def test_also_when_an_operator_note_follows_the_run(self):
        lines = [line for name in NAMES[:20] for line in (*READ[:2], f"locked system:open is {name}")]
        propose = partial(EAGER, min_messages=2)
        (ask,) = steps(View.of(talk("user:go", *lines)), propose, compaction=self.asks)
        grown = View.of(talk("user:go", *lines, *READ[:2]))

        edit = fold(grown, propose, compaction=self.asks._replace(answers=answered(ask, "All is well.")))

        assert "All is well." in edit.replacement[0].text

    def test_an_answer_that_was_overtaken_is_not_used(self):
        (ask,) = steps(self.view, compaction=self.asks)
        far = View.of(talk(*TURNS, "user:next", *READ, *TURNS, *TURNS, "user:and"))

        (again,) = steps(far, compaction=self.asks._replace(answers=answered(ask, "All is well.")))

        assert isinstance(again, Question)
        assert again.last != ask.last

    @pytest.mark.parametrize("why", ["overflow", "cut", "too long"])
    def test_a_question_that_is_too_large_is_asked_in_parts(self, why):
        (ask,) = steps(self.view, compaction=self.asks)
        answers = answered(ask, failed=why)
        parts = steps(self.view, compaction=self.asks._replace(answers=answers))
        assert len(parts) > 1
        assert {part.answer_mode for part in parts} == {"transcript"}

        for n, part in enumerate(parts):
            answers |= answered(part, f"## Intent\nPart {n} is done.")
        edit = fold(self.view, compaction=self.asks._replace(answers=answers))

        assert all(f"Part {n} is done." in edit.replacement[0].text for n in range(len(parts)))

    @pytest.mark.parametrize("why", ["empty", "refused", "time-out", "RuntimeError: down"])
    def test_any_other_failure_falls_back_to_the_facts(self, why):
        (ask,) = steps(self.view, compaction=self.asks)

        edit = fold(self.view, compaction=self.asks._replace(answers=answered(ask, failed=why)))

        assert edit.reason == "old turns replaced by collected facts"

    def test_parts_that_fail_too_fall_back_to_the_facts(self):
        (ask,) = steps(self.view, compaction=self.asks)
        answers = answered(ask, failed="overflow")
        for part in steps(self.view, compaction=self.asks._replace(answers=answers)):
            answers |= answered(part, failed="overflow")

        assert "collected facts" in fold(self.view, compaction=self.asks._replace(answers=answers)).reason

    def test_a_summary_written_by_the_user_needs_no_model(self):
        edit = fold(self.view, compaction=self.asks._replace(summary="I mended it myself."), trigger="manual")

        assert read_summary_text(edit.replacement[0].text)[0] == "I mended it myself."

    def test_an_earlier_summary_is_passed_on_and_not_quoted_again(self):
        (ask,) = steps(self.view, compaction=self.asks)
        edit = fold(self.view, compaction=self.asks._replace(answers=answered(ask, "## Intent\nThe harbour first.")))
        recorded = replace(self.view.bind(edit), blobs=())
        more = View.of(talk(*TURNS, "user:next", *READ, *TURNS, "user:last"), [recorded])

        (second,) = steps(more, compaction=self.asks)
        offline = fold(more)
        model = fold(more, compaction=self.asks._replace(answers=answered(second, "## Pending\nThe quay.")))

        assert "The harbour first." in read_summary_text(offline.replacement[0].text)[0]
        summary = read_summary_text(model.replacement[0].text)[0]
        assert "The harbour first." in summary
        assert "The quay." in summary

    def test_from_here_and_up_to_here(self):
        here = next(item for item in self.view.originals if item.text == "request 3")
        upto = fold(self.view, compaction=CompactionInput(last=here.id), trigger="manual")
        since = fold(self.view, compaction=CompactionInput(first=here.id), trigger="manual")

        assert self.view.index[upto.last] < self.view.index[here.id]
        assert self.view.index[since.first] >= self.view.index[here.id]
        assert upto.first == self.view.originals[0].id


def test_a_summary_that_a_client_sends_back_is_recognized():
    """Its item is ours by content: it is no news, and its summary goes on."""
    view = View.of(talk(*TURNS, "user:next"))
    (ask,) = steps(view, compaction=CompactionInput(asks=True))
    after = view.apply([fold(view, compaction=CompactionInput(asks=True, answers=answered(ask, "The harbour first.")))])
    back = [replace(e, id=f"e1-{n:012}-1", raw=None) for n, e in enumerate(after.entries)]
    quiet = View.of(back)
    assert any(item.source == OURS for item in back)
    assert steps(quiet, trigger="overflow") == []

    grown = View.of([*back, *talk("say:30", *TURNS, *TURNS, "user:last")])
    edit = fold(grown)
    assert "The harbour first." in read_summary_text(next(item.text for item in edit.replacement if not item.id))[0]
