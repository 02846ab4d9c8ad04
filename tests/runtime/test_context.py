"""The front door: what goes out, what is remembered, and what happens when something fails."""

import asyncio
import json
import os
import stat
from contextlib import nullcontext

import pytest

import ebbtide
from ebbtide.audit.history import build_history
from ebbtide.audit.replan import check_message_ids, replan
from ebbtide.core.errors import BadRequest, StoreError, WontFit
from ebbtide.store import MemoryStore, open_store
from ebbtide.wire import WIRES
from ebbtide.wire.validity import violations
from runtime.sessions import EARLY, Clock, body, call, context, digest, loop, result, run, unmarked

LONG = loop(24)


def test_a_request_that_fits_is_sent_as_the_very_same_object():
    request = body(loop(2))

    same = context().prepare(request).body is request

    assert same


def test_a_body_of_bytes_that_fits_is_sent_byte_for_byte():
    raw = json.dumps(body(loop(2)), indent=3).encode()

    same = context().prepare(raw).body == raw

    assert same


def test_a_long_session_stays_inside_its_window_and_valid():
    for ready in run(context(), LONG):
        assert ready.report.tokens_after <= 30_000
        assert violations(WIRES["anthropic"], ready.body) == []


def test_between_edits_each_request_extends_the_last():
    """The cache is money."""
    before, kept = [], 0
    for ready in run(context(), LONG):
        now = unmarked(ready.body["messages"])
        if not ready.report.edits:
            assert digest(now[: len(before)]) == digest(before)
            kept += 1
        before = now

    assert kept > 10


def test_acting_is_rare():
    acted = [ready for ready in run(context(), LONG) if ready.report.edits]

    assert 1 <= len(acted) <= len(LONG) / 8


def test_the_newest_results_are_still_there_in_full():
    out = run(context(), LONG)[-1].body["messages"]

    assert out[-1]["content"][0]["content"] == LONG[-1]["content"][0]["content"]


def test_a_resumed_session_sends_the_same_bytes(tmp_path):
    clock = Clock()
    last = run(context(store=tmp_path, clock=clock), LONG)[-1]

    again = context(store=tmp_path, clock=clock).prepare(body(LONG))

    assert digest(unmarked(again.body["messages"])) == digest(unmarked(last.body["messages"]))
    assert again.report.edits == ()


def test_our_own_output_fed_back_as_history_is_a_no_op():
    ctx = context()
    out = run(ctx, LONG)[-1].body["messages"]

    again = ctx.prepare(body(out))

    assert digest(unmarked(again.body["messages"])) == digest(unmarked(out))
    assert again.report.edits == ()


class TestBranches:
    def test_a_rewound_conversation_sends_what_it_sent_then(self):
        ctx = context()
        sent = run(ctx, LONG)
        early = 3

        again = ctx.prepare(body(LONG[: 2 * early + 1]))

        assert sent[-1].report.held
        assert digest(unmarked(again.body["messages"])) == digest(unmarked(sent[early].body["messages"]))

    def test_a_fork_keeps_the_edits_of_its_trunk(self):
        ctx = context()
        sent = run(ctx, LONG)
        at = next(n for n, ready in enumerate(sent) if ready.report.edits) + 1
        fork = [*LONG[: 2 * at + 1], call(90), result(90, 2)]

        out = unmarked(ctx.prepare(body(fork)).body["messages"])

        trunk = unmarked(sent[at].body["messages"])
        assert sent[at].report.held
        assert digest(out[: len(trunk)]) == digest(trunk)

    def test_a_message_that_returns_changed_is_new_though_it_has_as_many_parts(self):
        ctx = context()
        ctx.prepare(body(loop(3)))

        ready = ctx.prepare(body([*loop(3)[:-1], result(2, 2_000)]))

        assert [edit.by for edit in ready.report.edits] == ["offload_results"]

    def test_the_same_content_removed_on_two_branches_is_one_file(self, tmp_path):
        ctx = context(store=tmp_path)
        run(ctx, LONG)
        names = {blob.name for blob in open_store(tmp_path).peek("default").list_blobs()}

        ctx.prepare(body([*LONG[:-2], call(90), result(90, 2)]))

        assert {blob.name for blob in open_store(tmp_path).peek("default").list_blobs()} == names

    def test_a_client_that_clears_one_result_itself_keeps_our_other_edits(self):
        ctx = context()
        held = run(ctx, LONG)[-1].report.held
        cleared = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t0", "content": "[cleared]"}]}

        out = ctx.prepare(body([LONG[0], LONG[1], cleared, *LONG[3:]]))

        assert out.report.held in (held, held - 1)
        assert violations(WIRES["anthropic"], out.body) == []

    def test_a_client_that_adds_a_reminder_to_an_old_message_loses_no_edit(self):
        ctx = context()
        held = run(ctx, LONG)[-1].report.held
        first = {
            "role": "user",
            "content": [
                {"type": "text", "text": "<system-reminder>\nnow\n</system-reminder>"},
                {"type": "text", "text": "fix the gauge"},
            ],
        }

        # Nothing is cached any more, so more may leave.
        assert ctx.prepare(body([first, *LONG[1:]])).report.held >= held


class TestUndo:
    def test_undo_restores_removed_content_and_redo_removes_it_again(self):
        ctx = context(window=60_000)
        out = run(ctx, loop(40))
        edits = ctx.edits()

        back = ctx.undo()

        assert back
        assert ctx.edits() == edits[: len(edits) - len(back)]
        assert ctx.redo() == back
        assert ctx.edits() == edits
        assert out[-1].report.held == len({edit.id for edit in edits})

    def test_restored_content_is_not_removed_again(self):
        ctx = context(window=60_000)
        run(ctx, loop(40))
        ids = {edit.first for edit in ctx.undo()}

        ctx.prepare(body(loop(41)))

        assert not ids & {edit.first for edit in ctx.edits()}

    def test_with_nothing_to_undo_nothing_is_restored(self):
        assert context().undo() == ()
        assert context().redo() == ()


class TestStore:
    def test_removed_content_can_be_read_back_byte_for_byte(self, tmp_path):
        ctx = context(store=tmp_path)
        big = [*loop(3), call(50), result(50, 3000), call(51), result(51, 2)]
        out = run(ctx, big)[-1]
        log = open_store(tmp_path).peek("default")
        names = [blob.name for blob in log.list_blobs()]

        assert all(log.blob_path(name) in json.dumps(out.body) for name in names)
        assert digest(big[-3]["content"][0]["content"]) in [digest(log.read_blob(name)) for name in names]

    def test_every_message_is_in_the_log_once_and_in_full(self, tmp_path):
        ctx = context(store=tmp_path)
        run(ctx, LONG)

        records = open_store(tmp_path).peek("default").read().records
        messages = [record["message"] for record in records if "message" in record]

        assert digest(messages) == digest(LONG)

    def test_every_recorded_plan_can_be_repeated(self, tmp_path):
        run(context(store=tmp_path), LONG)

        plan_count, differences = replan(open_store(tmp_path).peek("default").read().records, {"early": EARLY})

        assert plan_count >= 1
        assert differences == []

    def test_a_message_that_no_longer_matches_its_ids_is_found(self, tmp_path):
        run(context(store=tmp_path), loop(3))
        records = open_store(tmp_path).peek("default").read().records

        clean = check_message_ids(records)
        next(record for record in records if "message" in record)["message"]["content"] = "break the gauge"

        assert clean == []
        assert len(check_message_ids(records)) == 1

    def test_if_content_cannot_be_saved_nothing_is_cleared_and_the_session_continues(self):
        class Full(MemoryStore):
            def open(self, session, **options):
                log = super().open(session, **options)

                def refuse(name, text):
                    raise StoreError("no space left on device")

                log.save_blob = refuse
                return log

        told = []
        ctx = context(store=Full(), window=100_000, on_event=told.append)
        out = run(ctx, loop(30))

        assert all(ready.report.edits == () for ready in out)
        assert any("no space left" in note for ready in out for note in ready.report.notes)
        assert digest(out[-1].body["messages"]) == digest(loop(30))
        assert any(event.kind == "store" for event in told)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    def test_a_folder_that_may_not_be_written_leaves_the_session_usable(self, tmp_path):
        ctx = context(store=tmp_path)
        ctx.prepare(body(loop(1)))
        tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)

        ready = ctx.prepare(body(loop(2)))

        assert "not saved yet" in " ".join(ready.report.notes)

    def test_a_request_sent_without_the_lock_leaves_the_log_correct(self, tmp_path):
        """Turns say what they add to the one before: one that only this process knew would shift all that follow."""
        clock = Clock()
        ctx, busy = context(store=tmp_path, clock=clock), open_store(tmp_path).open("default", now=1.0)
        for n in range(1, len(LONG) + 1, 2):
            clock.tick()
            with busy.lock() if n in (9, 21) else nullcontext():
                ready = ctx.prepare(body(LONG[:n]))
            ctx.record({"content": [{"type": "text", "text": f"said {n}"}], "usage": {"input_tokens": 10 * n}})
        records = busy.read().records

        plan_count, differences = replan(records, {"early": EARLY})
        last = build_history(records, session="default").turns[-1]

        assert (plan_count > 0, differences) == (True, [])
        assert len(last.path) == len(LONG)
        assert ready.report.held

    def test_a_process_that_cannot_get_the_lock_reapplies_edits_and_makes_none(self, tmp_path):
        clock = Clock()
        first = context(store=tmp_path, clock=clock)
        run(first, LONG[:-2])
        sent = first.prepare(body(LONG[:-2])).body
        second = context(store=tmp_path, clock=clock)
        held = open_store(tmp_path).open("default", now=1.0)

        with held.lock() as taken:
            assert taken
            ready = second.prepare(body(LONG))

        assert ready.report.edits == ()
        assert "lock" in " ".join(ready.report.notes)
        # It has never seen the session, and sends what the other did.
        assert unmarked(ready.body["messages"])[: len(sent["messages"])] == unmarked(sent["messages"])
        assert first.edits()
        assert second.prepare(body(LONG)).report.held


class TestTokens:
    def test_the_next_size_starts_from_the_usage_of_the_last_request(self):
        ctx = context(window=200_000)
        ctx.prepare(body(loop(3)))
        ctx.record({"content": call(3)["content"], "usage": {"input_tokens": 77_000, "output_tokens": 60}})

        ready = ctx.prepare(body(loop(4)))

        assert 77_060 < ready.report.tokens_before < 85_000

    def test_usage_teaches_the_estimator(self):
        ctx = context(window=1_000_000)
        cold = ctx.prepare(body(loop(3))).report.tokens_before
        for steps in range(4, 12):
            ready = ctx.prepare(body(loop(steps)))
            ready.record(
                {"content": call(steps)["content"], "usage": {"input_tokens": cold * steps // 2, "output_tokens": 10}}
            )

        other = ctx.prepare(body([{"role": "user", "content": "start over"}, *loop(3)[1:]]))

        assert other.report.tokens_before > cold * 1.2

    def test_recording_before_preparing_is_refused(self):
        with pytest.raises(BadRequest):
            context().record({"content": []})


class TestFit:
    def test_fit_is_valid_and_under_the_window_by_its_upper_bound(self):
        ready = ebbtide.fit(body(loop(60)), window=40_000)

        assert ready.report.tokens_after <= 40_000
        assert violations(WIRES["anthropic"], ready.body) == []

    @pytest.mark.parametrize("more", ['"temperature":1e999', '"seed":' + "7" * 5000, '"top_p":1.10'])
    def test_a_body_that_fits_is_returned_byte_for_byte_whatever_its_numbers(self, more):
        huge = json.dumps(result(0, 20_000))
        raw = f'{{"model":"m","max_tokens":10,{more},"messages":[{{"role":"user","content":"go"}},{json.dumps(call(0))},{huge}]}}'.encode()

        same = ebbtide.fit(raw, window=1_000_000).body == raw

        assert same

    @pytest.mark.parametrize("broken", [{"tools": 7}, {"messages": [{"role": "assistant", "tool_calls": 7}]}])
    def test_a_wrong_shape_is_refused_and_never_a_crash(self, broken):
        with pytest.raises(BadRequest):
            ebbtide.fit({"model": "m", "messages": [{"role": "user", "content": "go"}], **broken})

    def test_fit_saves_nothing_and_says_so(self):
        text = json.dumps(ebbtide.fit(body(loop(60)), window=40_000).body)

        assert "not saved" in text
        assert "tool-results" not in text

    def test_a_request_that_cannot_fit_is_refused_with_its_parts(self):
        huge = {"role": "user", "content": "word " * 50_000}

        with pytest.raises(WontFit) as refused:
            ebbtide.fit(body([huge], tools=[{"name": "x", "description": "y" * 400_000}]), window=20_000)

        assert refused.value.made_of.tools > 20_000
        assert "tools" in str(refused.value)

    @pytest.mark.parametrize("window", [4_096, 8_192, 32_000])
    def test_small_windows_work(self, window):
        ready = ebbtide.fit(body(loop(60)), window=window)

        assert ready.report.tokens_after <= window
        assert violations(WIRES["anthropic"], ready.body) == []


def test_a_request_with_server_side_history_is_passed_unchanged_and_says_so():
    request = {"model": "gpt-5", "previous_response_id": "resp_1", "input": "and then?"}

    ready = context().prepare(request)

    assert ready.body is request
    assert "previous_response_id" in ready.report.notes[0]


def test_preparing_asynchronously_gives_the_same_bytes():
    async def ask():
        ctx = context()
        for n in range(1, len(LONG) + 1, 2):
            ready = await ctx.aprepare(body(LONG[:n]))
        return ready

    assert digest(unmarked(asyncio.run(ask()).body["messages"])) == digest(
        unmarked(run(context(), LONG)[-1].body["messages"])
    )


def test_events_report_persisted_results_and_batches():
    """R114, R244."""
    told = []
    run(context(on_event=told.append), LONG)
    kinds = {event.kind: event.fields for event in told}

    assert {
        "toolName",
        "originalSizeBytes",
        "persistedSizeBytes",
        "estimatedOriginalTokens",
        "estimatedPersistedTokens",
    } <= kinds["result_persisted"].keys()
    assert {"toolsCompacted", "totalUncompactedTokens", "tokensAfterCompaction", "tokensSaved", "triggerType"} <= kinds[
        "microcompact"
    ].keys()
    assert kinds["microcompact"]["tokensSaved"] > 0


def test_the_bill_of_a_warm_request_counts_cached_tokens_at_their_price():
    ctx = context(window=200_000)
    marked = {"role": "user", "content": [{"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}}]}
    long = [
        marked,
        *loop(8)[1:-1],
        {"role": "user", "content": [{**loop(8)[-1]["content"][0], "cache_control": {"type": "ephemeral"}}]},
    ]
    ctx.prepare(body(long))
    ctx.record(
        {
            "content": call(8)["content"],
            "usage": {"input_tokens": 10, "cache_creation_input_tokens": 22_000, "output_tokens": 60},
        }
    )

    report = ctx.prepare(body([*long, call(8), result(8, 2)])).report

    assert report.warm > 15_000
    assert report.cost < report.tokens_after / 4
    assert report.cost == pytest.approx(report.cost_untouched, rel=0.2)


def test_files_the_model_no_longer_sees_are_named():
    """R145."""
    forgotten = {path for ready in run(context(), LONG) for path in ready.report.forgotten}

    assert "src/f0.py" in forgotten
    assert "src/f23.py" not in forgotten
