"""The default in windows of which prompt, tools and reply take the most."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ebbtide.core.planner import Budget, CompactionInput, PlanInput, Thresholds, make_plan
from ebbtide.core.types import Question
from ebbtide.core.view import View
from ebbtide.passes import clear_results, summarize
from ebbtide.policy import PRESETS
from ebbtide.policy.default import levels
from ebbtide.runtime import Context
from ebbtide.store import MemoryStore
from ebbtide.wire.reader import Reader
from runtime.sessions import Clock, without_breakpoints
from upstream.check import refusals

RESERVED = 32_000
"""What Claude Code sets aside for a reply."""


def text(tokens: int, seed: int) -> str:
    return "\n".join(f"part {seed} line {n} marker_{seed * 7919 + n * 104729}" for n in range(tokens // 12))


def loop(calls: int, tokens: int) -> list[dict]:
    messages: list[dict] = [{"role": "user", "content": "Read all parts, and keep the port at 8431."}]
    for n in range(calls):
        use = {"type": "tool_use", "id": f"toolu_{n:04}", "name": "Bash", "input": {"command": f"cat part{n}.txt"}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{n:04}", "content": text(tokens, n)}
        messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    return messages


def body(messages: list[dict], *, prompt: int, output: int) -> dict:
    system = "You are an agent that reads. " * (prompt // 7)
    return {"model": "claude-sonnet-4-5", "max_tokens": output, "system": system, "messages": messages}


def plain(message):
    """A message without cache breakpoints."""
    return json.dumps(without_breakpoints(message))


def at_once(sizes: list[int]) -> list[dict]:
    calls = [
        {"type": "tool_use", "id": f"t{n}", "name": "Bash", "input": {"command": f"cat {n}"}} for n in range(len(sizes))
    ]
    results = [
        {"type": "tool_result", "tool_use_id": f"t{n}", "content": text(size, n)} for n, size in enumerate(sizes)
    ]
    return [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": results},
    ]


def test_when_many_results_together_are_too_large_the_smallest_stay_complete():
    """Each of them alone would stay."""
    sizes = [2_000, 500, 2_000, 600, 2_000, 2_000, 2_000, 2_000]
    messages = at_once(sizes)
    ctx = Context(window=20_000, store=MemoryStore(), clock=Clock())

    out = ctx.prepare(body(messages, prompt=7_000, output=0))

    contents = [block["content"] for block in out.body["messages"][-1]["content"]]
    came = [block["content"] for block in messages[-1]["content"]]
    assert out.report.tokens_before > 20_000 > out.report.tokens_after
    assert [size for size, one, other in zip(sizes, contents, came, strict=True) if one == other] == [500, 600]


def test_results_the_model_has_seen_do_not_count_towards_the_arrival_limit():
    """A long conversation that is seen for the first time is all new to us, and not to the model."""
    out = Context(window=200_000, store=MemoryStore(), clock=Clock()).prepare(
        body(loop(36, 3_000), prompt=7_000, output=0)
    )

    assert out.report.tokens_before > 100_000
    assert out.report.edits == ()


@pytest.mark.parametrize(
    ("window", "prompt", "output", "tokens"),
    [(16_000, 300, 0, 1_000), (60_000, 20_000, RESERVED, 3_700), (60_000, 40_000, RESERVED, 3_700)],
    ids=["small model", "Claude Code", "a prompt beside which the reservation leaves nothing"],
)
def test_in_a_small_window_two_requests_of_three_extend_the_last(window, prompt, output, tokens):
    ctx = Context(window=window, store=MemoryStore(), clock=Clock())
    messages = loop(45, tokens)
    last: list[str] = []
    broken = 0
    for stop in range(1, len(messages) + 1, 2):
        ready = ctx.prepare(body(messages[:stop], prompt=prompt, output=output or 1_000))
        now = [plain(message) for message in ready.body["messages"]]
        broken += now[: len(last)] != last
        last = now
        assert ready.report.tokens_after <= window
        assert refusals("anthropic", ready.body) == []

    assert broken <= len(messages) // 2 // 3
    assert "keep the port at 8431" in "".join(last)


@pytest.mark.parametrize("window", [8_192, 32_000, 64_000, 200_000, 1_000_000])
@pytest.mark.parametrize("prompt", [0.0, 0.2, 0.5, 0.7])
def test_the_low_threshold_is_above_what_no_pass_can_remove(window, prompt):
    overhead = int(window * prompt)
    at = levels(window, RESERVED, overhead)

    assert overhead <= at.low < at.soft <= at.auto <= at.hard < window
    assert at.auto - at.low >= (at.blocking - overhead) // 3


def test_a_batch_makes_room_for_the_largest_result_or_for_a_share_of_the_space():
    small = levels(60_000, RESERVED, 20_000)

    assert levels(200_000, RESERVED, 40_000).least == 12_500
    assert small.least == int(0.3 * (small.auto - small.low))


def test_when_the_reply_leaves_room_its_reservation_is_kept():
    assert levels(200_000, RESERVED, 40_000).blocking == 168_000
    assert levels(64_000, RESERVED, 20_000).blocking == 32_000


def test_a_reservation_of_more_than_half_the_window_gets_a_quarter():
    assert levels(40_000, RESERVED, 12_000).blocking == 30_000
    assert levels(60_000, 30_001, 0).blocking == 45_000
    assert levels(60_000, 30_000, 0).blocking == 30_000


def test_when_prompt_and_reservation_fill_the_window_the_conversation_gets_a_quarter():
    assert levels(64_000, RESERVED, 40_000).blocking == 56_000


def test_a_reservation_of_the_whole_window_says_that_the_client_does_not_know_it():
    assert levels(24_000, 987_000, 12_000).blocking == 22_800
    assert levels(24_000, 24_000, 12_000).blocking == 22_800


def test_a_system_prompt_among_the_messages_leaves_as_much_room_as_one_beside_them():
    """As OpenAI's and compatible clients send it: thresholds that no pass can reach would mean a batch on each call."""
    budgets: list[Budget] = []

    def look(_view: View, situation: PlanInput):
        budgets.append(situation.budget)
        return ()

    prompt = "You are an agent that reads. " * 1_700
    ctx = Context(window=24_000, policy=replace(PRESETS["default"], always=(look,)))
    ctx.prepare({"model": "m", "system": prompt, "max_tokens": 500, "messages": [{"role": "user", "content": "Go."}]})
    ctx = Context(window=24_000, policy=replace(PRESETS["default"], always=(look,)))
    system = {"role": "system", "content": prompt}
    ctx.prepare({"model": "m", "max_tokens": 500, "messages": [system, {"role": "user", "content": "Go."}]})

    beside, among = budgets
    assert abs(among.levels.auto - beside.levels.auto) < 20
    assert abs(among.message_budget - beside.message_budget) < 20
    assert among.message_budget < 24_000 - 500 - 9_000


def test_utilisation_is_measured_against_the_space_that_the_levels_share():
    """Also where prompt and tools have a say in it: a request below the blocking level is never said to be over all."""
    seen: list[PlanInput] = []

    def look(_view: View, situation: PlanInput):
        seen.append(situation)
        return ()

    ctx = Context(window=64_000, policy=replace(PRESETS["default"], always=(look,)))
    ctx.prepare(body(loop(1, 2_000), prompt=40_000, output=RESERVED))
    (now,) = seen

    assert now.budget.levels.blocking > 32_000
    assert now.utilisation == now.tokens / now.budget.levels.blocking


def test_a_name_in_a_result_and_a_large_call_is_not_removed_with_both():
    messages = loop(5, 900)
    messages[2]["content"][0]["content"] = f"slack_water_table\n{text(300, 1)}"
    messages[3]["content"][0] |= {"name": "Write", "input": {"file_path": "a", "content": "slack_water_table " * 400}}
    view = _view(messages)
    marks = replace(levels(100_000, 0), auto=view.tokens - 1, low=1)
    budget = Budget(window=100_000, levels=marks)

    plan = make_plan(view, PRESETS["default"].pressure, budget, PlanInput(budget=budget, tokens=view.tokens, idle=1.0))

    assert {"drop_calls", "clear_results"} <= {edit.by for edit in plan.edits}
    assert "slack_water_table" in "\n".join(entry.text for entry in plan.after.entries)


class TestBatchesThatFreeLittle:
    """`least`: below the hard level they wait."""

    def planned(
        self, *, least: int, hard: int, cached_entries: int = 100, propose=lambda view, now: _first_result(view, now)
    ):
        items = _view(loop(6, 300))
        tokens = items.tokens
        marks = replace(levels(100_000, 0), warning=1, soft=1, auto=tokens - 1, hard=hard, low=tokens // 2, least=least)
        budget = Budget(window=100_000, levels=marks)
        now = PlanInput(budget=budget, tokens=tokens, cached_entries=cached_entries, idle=1.0)
        return make_plan(items, (propose,), budget, now)

    def test_wait_and_say_so(self):
        plan = self.planned(least=1_000, hard=10**6)
        assert plan.edits == ()
        assert "a batch is worth it from 1,000 on" in plan.deferred_reason

    def test_are_made_at_the_hard_level(self):
        assert self.planned(least=1_000, hard=1).edits

    def test_are_made_when_the_prefix_is_cold_anyway(self):
        assert self.planned(least=1_000, hard=10**6, cached_entries=0).edits

    def test_do_not_wait_when_a_model_is_asked_for_more(self):
        """A fold that waits for its answer frees nothing yet."""
        plan = self.planned(least=1_000, hard=10**6, propose=_asking)
        assert [ask.by for ask in plan.questions] == ["summarize"]

    def test_are_made_once_they_free_enough(self):
        assert self.planned(least=100, hard=10**6).edits


def _view(messages: list[dict]) -> View:
    return View.of(
        Reader(PRESETS["default"].estimator).read({"model": "m", "max_tokens": 9, "messages": messages}).items
    )


def _first_result(view, situation):
    yield next(iter(clear_results(view, situation)))


def _asking(view, situation):
    yield from _first_result(view, situation)
    yield Question(by="summarize", first=view.originals[0].id, last=view.originals[4].id, prompt="What was done?")


class TestCompaction:
    """When gentler passes were not enough."""

    VIEW = _view(loop(12, 400))
    ROOM = 20_000
    """What is left of the window beside a prompt that takes four fifths of it."""

    def folds(self, tokens: int, *, cached_entries: int = 9, after: int | None = None, hard: int = 10**6) -> bool:
        marks = Thresholds(warning=1_000, soft=9_000, auto=10_000, hard=hard, blocking=100_000, low=5_000, least=1_500)
        now = PlanInput(
            budget=Budget(window=100_000, levels=marks, overhead=100_000 - self.ROOM), tokens=tokens, cached_entries=cached_entries,
            idle=1.0, forced=True, compaction=CompactionInput(after=after),
        )  # fmt: skip
        return bool(list(summarize(self.VIEW, now, keep_tokens=500)))

    def test_clearing_that_ends_just_below_the_high_threshold_is_followed_by_a_compaction(self):
        assert self.folds(8_600)
        assert not self.folds(8_400)

    def test_when_nothing_is_cached_it_may_end_just_below_the_high_threshold(self):
        assert not self.folds(8_600, cached_entries=0)

    def test_a_conversation_is_compacted_again_when_it_has_grown_by_a_fifth_of_its_message_budget(self):
        assert self.folds(11_000, after=7_000)
        assert not self.folds(11_000, after=7_100)

    def test_at_the_hard_level_a_small_compaction_counts_too(self):
        small = _view(loop(5, 400))
        marks = Thresholds(warning=1, soft=1, auto=1, hard=10, blocking=100_000, low=5_000)
        now = PlanInput(budget=Budget(window=100_000, levels=marks), tokens=100, cached_entries=9, idle=1.0)
        calm = now._replace(budget=replace(now.budget, levels=replace(marks, hard=10**6)))
        (edit,) = summarize(small, now, keep_tokens=500)

        assert 0 < edit.saved < 2_000
        assert list(summarize(small, calm, keep_tokens=500)) == []


def test_a_provider_that_counts_the_reply_against_the_window_is_believed():
    """A60: there the conversation gets no part of the reservation, from then on."""
    ctx = Context(window=64_000, store=MemoryStore(), clock=Clock())
    request = body(loop(6, 1_500), prompt=25_000, output=RESERVED)
    sent = ctx.prepare(request).report.tokens_after
    assert sent > 64_000 - RESERVED, "our levels count on a part of it"

    told = f"input length and `max_tokens` exceed context limit: {sent} + {RESERVED} > 64000, decrease input length"
    again = ctx.overflowed(RuntimeError(told))

    assert again.report.tokens_after + RESERVED <= 64_000
    for calls in range(7, 20):
        later = ctx.prepare(body(loop(calls, 1_500), prompt=25_000, output=RESERVED))
        assert later.report.tokens_after + RESERVED <= 64_000


THOUGHT = {"type": "thinking", "thinking": "First I read everything.", "signature": "sig" * 20}


class TestAnOpenLoopThatThoughtOnce:
    """A37: the assistant's turn opens with its thinking, so a loop that thought only at its start can be cut nowhere."""

    WINDOW = 16_000

    def request(self, calls: int, *, beside: str = "") -> dict:
        messages = loop(calls, 700)
        messages[1]["content"].insert(0, THOUGHT)
        if beside:
            messages[2]["content"].append({"type": "text", "text": beside})
        thinking = {"type": "enabled", "budget_tokens": 1_024}
        return {**body(messages, prompt=300, output=2_000), "thinking": thinking}

    @pytest.mark.parametrize("beside", ["", "<system-reminder>The skill says: be brief.</system-reminder>"])
    def test_a_long_session_continues_without_limit(self, beside):
        """Its steps fold into the result before them."""
        ctx = Context(window=self.WINDOW, store=MemoryStore(), clock=Clock())
        folds = 0
        for calls in range(1, 80):
            asked = self.request(calls, beside=beside)
            ready = ctx.prepare(asked)
            folds += any(edit.by == "summarize" for edit in ready.report.edits)
            assert ready.report.tokens_after <= self.WINDOW
            assert refusals("anthropic", ready.body) == []
            assert ready.body["messages"][1]["content"][0]["thinking"] == THOUGHT["thinking"]
            newest = ready.body["messages"][-1]["content"][0]
            assert newest["content"] == asked["messages"][-1]["content"][0]["content"], "not seen yet, so whole"

        assert folds >= 2
        first = ready.body["messages"][2]["content"]
        report = first[0]["content"]
        told = report if isinstance(report, str) else report[0]["text"]
        assert told.startswith("[ebb: result of Bash removed, "), "a long result shows its stub"
        assert "history, not commands" in told
        assert [block["text"] for block in first[1:] if block["type"] == "text"] == ([beside] if beside else [])
        assert "keep the port at 8431" in json.dumps(ready.body["messages"][0])
