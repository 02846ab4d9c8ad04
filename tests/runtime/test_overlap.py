"""Another compactor on the same conversation is named once, and what it does is left alone."""

import pytest

from runtime.sessions import body, call, context, loop, result
from runtime.sessions import run as run_session

TALK = loop(12, lines=3)
SUMMARY = {"role": "user", "content": "Summary of the work so far: the gauge was read eight times."}


def overlaps(ready) -> list[str]:
    return [note for note in ready.report.notes if "Switch off one" in note or "switch off one" in note]


def after(*requests, first=TALK, **options):
    """The notes on overlaps of each request that follows this conversation."""
    ctx = context(window=60_000, **options)
    run_session(ctx, first)
    return [overlaps(ctx.prepare(body(messages))) for messages in requests]


@pytest.mark.parametrize(
    "shortened",
    [
        pytest.param([SUMMARY, *TALK[17:]], id="old turns became a summary"),
        pytest.param([TALK[0], *TALK[9:]], id="the oldest calls slid out of a window"),
        pytest.param(
            [
                {**message, "content": [{**message["content"][0], "content": "[Old tool result cleared]"}]}
                if message["role"] == "user" and 0 < n < 16
                else message
                for n, message in enumerate(TALK)
            ],
            id="old results were cleared",
        ),
    ],
)
def test_a_history_that_was_shortened_by_another_program_is_named_once(shortened):
    more = [*shortened, call(90), result(90, 3)]
    ((note,), later, *_) = after(shortened, more, [*more[:1], *more[5:]])

    assert "missing from the middle of the history" in note
    assert later == []


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param([*TALK, call(90), result(90, 3)], id="it goes on"),
        pytest.param(TALK[:9], id="the user goes back"),
        pytest.param([*TALK[:9], call(91), result(91, 3)], id="a branch"),
        pytest.param([{"role": "user", "content": "Something else."}], id="another conversation"),
        pytest.param([TALK[0], {**TALK[1], "content": TALK[1]["content"][1:]}, *TALK[2:]], id="one text was removed"),
        pytest.param(TALK, id="the same again"),
    ],
)
def test_what_a_user_does_is_no_overlap(request_):
    assert after(request_) == [[]]


def test_reminders_that_move_are_no_overlap():
    reminder = {"role": "user", "content": "<system-reminder>The time is 12:30.</system-reminder>"}
    talk = [TALK[0], reminder, *TALK[1:5], reminder, *TALK[5:9], reminder, *TALK[9:]]
    moved = [*TALK, reminder]

    assert after(moved, first=talk) == [[]]


def test_thinking_that_a_client_drops_is_no_overlap():
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s" * 40}
    talk = [
        {**message, "content": [thinking, *message["content"]]} if message["role"] == "assistant" else message
        for message in TALK
    ]

    assert after(TALK, first=talk) == [[]]


def test_a_client_that_keeps_what_was_sent_is_no_other_compactor():
    """Its history has our replacements in the place of what they replace."""
    ctx, messages, notes, edits = context(window=30_000), list(loop(1)), [], 0
    for n in range(1, 40):
        ready = ctx.prepare(body(messages))
        notes += overlaps(ready)
        edits += len(ready.report.edits)
        messages = [*ready.body["messages"], call(n), result(n)]

    assert edits
    assert notes == []


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}, "clear_tool_uses_20250919"),
        ({"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}, ""),
    ],
)
def test_edits_that_the_provider_makes_are_named_once_and_left_alone(field, name):
    ctx = context(window=60_000)
    first, second = (ctx.prepare(body(TALK[:n], **field)) for n in (3, 5))

    assert [name in note for note in overlaps(first)] == ([True] if name else [])
    assert overlaps(second) == []
    assert first.body["context_management"] == field["context_management"]


@pytest.mark.parametrize(
    "field", [{"truncation": "auto"}, {"context_management": [{"type": "compaction", "compact_threshold": 9_000}]}]
)
def test_so_are_those_of_the_responses_api(field):
    ctx = context(window=60_000, wire="openai_responses", model="gpt-5")
    ready = ctx.prepare({"model": "gpt-5", "input": [{"role": "user", "content": "Hello."}], **field})

    assert [next(iter(field)) in note for note in overlaps(ready)] == [True]
    assert ready.body[next(iter(field))] == next(iter(field.values()))
