"""Scores of conversations so small that the right answer is obvious."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.types import Usage
from ebbtide.prices import find_rates
from ebbtide.replay.contenders import EngineContender, RawContender
from ebbtide.replay.score import MIN_AGE, names_used_by_call
from replay.recordings import (
    MODEL,
    ChangingContender,
    SendingContender,
    assistant,
    conversation,
    first_becomes,
    growing_session,
    replay_session,
    result,
    score,
    side_call,
    tool_call,
    user,
)

PRICE = find_rates(MODEL)
NEEDED = "the harbour_gauge reads\nthree metres"


# --- which names count ------------------------------------------------------------------------------------------------


def test_a_name_counts_if_it_was_last_seen_more_than_ten_calls_before():
    assert names_used_by_call(conversation(NEEDED, "see harbour_gauge", between=MIN_AGE + 1))[-1] == {"harbour_gauge"}
    assert names_used_by_call(conversation(NEEDED, "see harbour_gauge", between=MIN_AGE))[-1] == frozenset()


def test_a_name_that_was_never_mentioned_before_need_not_be_kept():
    assert names_used_by_call(conversation("nothing", "see harbour_gauge", between=14))[-1] == frozenset()


def test_a_name_seen_again_since_then_does_not_count():
    small = [part for n in range(12) for part in (assistant(f"ok {n}"), user("harbour_gauge" if n == 8 else f"go {n}"))]

    assert names_used_by_call(growing_session(user(NEEDED), *small, assistant("see harbour_gauge")))[-1] == frozenset()


def test_after_a_rewind_the_other_branch_was_not_seen():
    """The user went back to the second message: what the branch in between told is not known there."""
    start = [user(NEEDED)]
    branch = [
        part for n in range(14) for part in (assistant(f"ok {n}"), user(f"go tide_table {n}" if n == 0 else f"go {n}"))
    ]
    histories = [[*start, *branch[: 2 * n], assistant("ok")] for n in range(15)]
    back = [*start, assistant("ok 0"), user("another way"), assistant("harbour_gauge and tide_table")]

    assert names_used_by_call(replay_session(*histories, back))[-1] == {"harbour_gauge"}


# --- there or not -----------------------------------------------------------------------------------------------------


def test_raw_has_everything():
    result = score(conversation(NEEDED, "see harbour_gauge"), RawContender(None))

    assert (result.used, result.available, result.in_context) == (1, 1, 1)
    assert (result.breaks, result.invalid, result.over, result.shrunk) == (0, 0, 0, 0)


def test_what_an_arm_removed_is_not_available():
    result = score(conversation(NEEDED, "see harbour_gauge"), ChangingContender(first_becomes("[gone]")))

    assert (result.used, result.available, result.in_context) == (1, 0, 0)


def test_an_index_that_names_it_makes_it_available_and_not_in_context():
    result = score(
        conversation(NEEDED, "see harbour_gauge"), ChangingContender(first_becomes("[gone; names: harbour_gauge]"))
    )

    assert (result.available, result.in_context) == (1, 0)


def test_text_is_in_context_when_a_line_contains_it_also_inside_another_text():
    result = score(
        conversation(NEEDED, "see harbour_gauge"),
        ChangingContender(first_becomes("[gone]\n  the harbour_gauge reads\n...")),
    )

    assert (result.available, result.in_context) == (1, 1)


def test_a_line_the_client_sends_later_is_subtracted_as_it_was_added():
    """An index line that the client itself sends afterwards: when the stub leaves, nothing is taken off twice."""
    line = "names: harbour_gauge"

    def change(messages):
        if len(messages) < 5:
            return messages
        return [user(line if len(messages) < 9 else "[gone]"), *messages[1:]]

    small = [part for n in range(14) for part in (assistant(f"ok {n}"), user(line if n == 2 else f"go {n}"))]
    result = score(growing_session(user(NEEDED), *small, assistant("see harbour_gauge")), ChangingContender(change))

    assert (result.used, result.available, result.in_context) == (1, 1, 1)


def test_the_users_messages_count_while_they_are_present_word_for_word():
    kept, lost = (
        score(conversation(NEEDED, "done"), ChangingContender(first_becomes(text))) for text in (NEEDED, NEEDED + "!")
    )

    assert (kept.said, kept.verbatim) == (13, 13)
    assert (lost.said, lost.verbatim) == (13, 12)


def test_a_file_counts_while_the_last_request_names_it_in_full_or_by_two_parts():
    work = growing_session(
        user("go"),
        tool_call(1, "Edit", file_path="repo/src/gauge.py", old="a", new="b"),
        result(1, "done"),
        tool_call(2, file_path="repo/src/tide.py"),
        result(2, "tides"),
        tool_call(3, "Write", file_path="repo/src/failed.py", content="x"),
        result(3, "no such folder", is_error=True),
        assistant("done"),
    )
    notes = {"whole": "repo/src/gauge.py", "short": "see src/gauge.py and src/tide.py", "none": "gauge.py"}
    found = {name: score(work, ChangingContender(lambda messages, t=text: [user(t)])) for name, text in notes.items()}

    assert {(one.changed, one.read_files) for one in found.values()} == {(1, 1)}
    assert [(one.changed_named, one.read_named) for one in found.values()] == [(1, 0), (1, 1), (0, 0)]


def test_a_name_after_an_escape_is_the_name_without_it():
    """A log line quoted as JSON: the letter of the escape is no part of the name."""
    quoted = conversation(NEEDED, r"grep 'reads\nharbour_gauge' and C:\temp\harbour_gauge")

    assert names_used_by_call(quoted)[-1] == {"harbour_gauge"}


@pytest.mark.parametrize(
    ("text", "is_visible"),
    [
        ("/home/me/app/src/gauge/reads.py", True),
        ("app/src/gauge/reads.pyc", False),
        ("app/mysrc/gauge/reads.py", False),
        ("my-src-gauge-reads.py", False),
    ],
)
def test_a_name_that_is_part_of_a_longer_visible_path_is_available(text, is_visible):
    work = conversation("see src/gauge/reads.py", "edit src/gauge/reads.py")
    result = score(work, ChangingContender(first_becomes(text)))

    assert (result.used, result.available) == (1, is_visible)


# --- getting it back --------------------------------------------------------------------------------------------------


def test_recall_is_asked_for_each_missing_name_and_charged():
    arm = ChangingContender(
        first_becomes("[gone]"), found=lambda query: "... harbour_gauge ..." if "gauge" in query else ""
    )
    result = score(conversation(NEEDED, "see harbour_gauge"), arm)

    assert result.recoverable == 1
    assert result.recalls == 1
    assert result.recalled > 0
    assert result.available == 0


def test_a_query_from_the_request_has_only_the_newest_text_in_it():
    arm = ChangingContender(
        first_becomes("[gone]"), found=lambda query: "harbour_gauge" if query == "go 11\nok 11" else ""
    )
    result = score(conversation(NEEDED, "see harbour_gauge"), arm)

    assert result.by_request == 1
    assert result.recoverable == 0


def test_an_answer_is_searched_for_before_it_is_recorded():
    """What the agent writes is no place where it could have found what it needed to write it."""
    arm = ChangingContender(first_becomes("[gone]"), found=lambda query: "")
    score(conversation(NEEDED, "see harbour_gauge"), arm)

    assert {known for known, _ in arm.queries} == {12}


def test_nothing_is_searched_when_recall_is_off():
    arm = ChangingContender(first_becomes("[gone]"), found=lambda query: "harbour_gauge")

    assert score(conversation(NEEDED, "see harbour_gauge"), arm, recalls=False).recoverable == 0
    assert not arm.queries


def test_the_engine_finds_removed_content_and_not_its_own_echo():
    work = growing_session(user(NEEDED), assistant("ok"))
    engine = EngineContender(work, "default", 200_000)
    engine.send(work.calls[0])

    assert "harbour_gauge" in engine.recall("harbour_gauge")
    assert engine.recall("nowhere_to_be_found") == ""
    assert EngineContender(work, "default", 200_000, can_recall=False).recall("harbour_gauge") is None


# --- bills and sizes --------------------------------------------------------------------------------------------------


def test_the_bill_is_the_providers_sum_over_all_calls():
    work = conversation(NEEDED, "done", between=3)
    result = score(work, RawContender(None))
    tokens = [2_000 + sum(work.messages.tokens(message) for message in take.raw["messages"]) for take in work.calls]

    steps = [tokens[0], *(now - before for before, now in pairwise(tokens))]
    assert result.written == sum(steps)
    assert result.read == sum(tokens[:-1])
    assert result.bill == pytest.approx((result.read * PRICE.read + result.written * PRICE.write) / 1e6)
    assert result.uncached == pytest.approx(sum(tokens) * PRICE.input / 1e6)
    assert result.tokens == sum(tokens)
    assert result.peak == tokens[-1]


def test_a_request_is_billed_by_the_breakpoints_that_it_carries():
    work = conversation(NEEDED, "done", between=3)
    marked, bare = (score(work, SendingContender(field)) for field in ("raw", "unmarked"))

    assert bare.read == bare.written == 0
    assert bare.bill == pytest.approx(bare.uncached)
    assert marked.bill < bare.bill


def test_a_long_request_costs_what_the_table_says_of_long_ones():
    work = growing_session(user("word " * 250_000), assistant("ok"))
    tokens = work.messages.tokens(work.calls[0].raw["messages"][0]) + 2_000
    long = find_rates(MODEL, prompt=tokens)

    assert long.write > PRICE.write
    result = score(work, RawContender(work))
    assert result.bill == pytest.approx(tokens * long.write / 1e6)
    assert result.surcharge == pytest.approx(tokens * (long.write - PRICE.write) / 1e6)


def test_each_missing_name_costs_what_recorded_agents_read_again():
    lost, kept = (
        score(conversation(NEEDED, "see harbour_gauge"), ChangingContender(first_becomes(text)), recalls=False)
        for text in ("[gone]", "harbour_gauge")
    )

    assert lost.repaired > kept.repaired == 0


def test_questions_of_an_arm_to_a_model_are_billed_to_it_input_and_output():
    work = growing_session(user("go"), assistant("ok"))
    plain, dear = (
        score(work, RawContender(None)),
        score(work, ChangingContender(list, asked=(side_call("sum it up", 500),))),
    )
    aside = 2_000 + work.messages.tokens(user("sum it up"))

    assert dear.asked == pytest.approx((aside * PRICE.write + 500 * PRICE.output) / 1e6)
    # The question left the system prompt in the cache.
    assert dear.bill - dear.asked == pytest.approx(plain.bill - 2_000 * (PRICE.write - PRICE.read) / 1e6)


def test_a_request_that_a_provider_refuses_is_counted():
    """A result without its call."""
    work = growing_session(user("go"), tool_call(1, file_path="a.py"), result(1, "text"), assistant("ok"))
    found = score(
        work, ChangingContender(lambda messages: [message for message in messages if message["role"] == "user"])
    )

    assert found.invalid == 1
    assert score(work, RawContender(None)).invalid == 0


def test_space_freed_is_measured_against_what_would_have_been_sent():
    work = conversation("long " * 2_000, "done", between=3)

    def change(messages):
        return [stub, *messages[1:]] if len(messages) >= 5 else messages

    stub = user("[gone]")
    result = score(work, ChangingContender(change))
    assert (result.breaks, result.shrunk) == (1, 1)
    assert result.freed == work.messages.tokens(work.calls[0].raw["messages"][0]) - work.messages.tokens(stub)


def test_a_call_over_the_window_and_one_that_an_engine_gave_up_on_are_counted():
    work = conversation("word " * 30_000, "done", between=2)

    assert score(work, RawContender(None), window=20_000).over == 3
    # 1,000 tokens of it are for the reply.
    assert score(work, EngineContender(work, "default", 1_010), window=10**9).over > 0


_TALKS = st.lists(st.tuples(st.sampled_from(["a", "tide_table_1", "word " * 400, "harbour_gauge"]), st.integers(0, 400)), min_size=1, max_size=16)  # fmt: skip


@given(_TALKS)
def test_for_every_arm_the_bill_has_each_token_once_and_raw_keeps_all(steps):
    messages = [
        part for n, (text, _) in enumerate(steps) for part in (user(f"{text} {n}"), assistant(f"{text} harbour_gauge"))
    ]
    made = growing_session(*messages)
    times = [sum(pause for _, pause in steps[: n + 1]) for n in range(len(steps))]
    made = replace(made, calls=tuple(replace(take, at=float(at)) for take, at in zip(made.calls, times, strict=True)))

    for arm in (RawContender(made), ChangingContender(first_becomes("[gone]"))):
        result = score(made, arm)
        assert result.read + result.written + result.fresh == result.tokens
    raw = score(made, RawContender(made))
    assert (raw.available, raw.in_context) == (raw.used, raw.used)
    assert raw.breaks == 0


def test_the_provider_reports_its_charge_to_each_arm():
    arm = ChangingContender(list)
    work = growing_session(user("go"), assistant("ok"), user("on"), assistant("yes"))
    score(work, arm)

    first, second = arm.known
    assert isinstance(first, Usage)
    assert second.cache_read == first.cache_write
    assert first.output == work.messages.tokens(assistant("ok"))
