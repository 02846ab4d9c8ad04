"""OpenCode, seed 001: R030, R056, R087, R153-R155."""

import pytest

from ebbtide.policy import preset
from ebbtide.policy.opencode import levels
from policy.dialogue import body, changed, context, results, said, step, user

CLEARED = "[Old tool result content cleared]"


def turns(*sizes, tool="bash"):
    """Turns of one result each, of so many tokens, and the user's words that begin the next."""
    messages = []
    for n, size in enumerate(sizes):
        messages += [user(f"do {n}"), *step(n, tool, "ab" * (2 * size)), said(f"did {n}")]
    return [*messages, user("next")]


@pytest.mark.parametrize(
    ("window", "limit", "tokens", "over"),
    [
        (100_000, 0, 80_000, True),
        (100_000, 0, 68_000, False),
        (100_000, 0, 68_001, True),
        (200_000, 0, 110_000, False),
        (400_000, 272_000, 274_000, True),
        (400_000, 272_000, 272_000, False),
        (200_000, 200_000, 168_001, True),
        (32_768, 0, 16_384, False),
        (32_768, 0, 16_385, True),
        (4_096, 0, 2_049, True),
    ],
)
def test_auto_is_above_the_input_limit_or_all_but_32000(window, limit, tokens, over):
    """R056; a limit equal to the window is none."""
    at = levels(limit)(window, 1000)

    assert at.is_reached(tokens, "auto") is over


def test_input_cache_reads_and_output_count_and_cache_writes_do_not():
    """R030."""
    ctx = context("opencode")
    ctx.prepare(body([user("go")]))
    usage = {"input_tokens": 60_000, "cache_read_input_tokens": 80_000, "output_tokens": 28_000}
    told = {"role": "assistant", "content": [{"type": "text", "text": "ok"}]}
    ctx.record({**told, "usage": {**usage, "cache_creation_input_tokens": 30_000}})

    report = ctx.prepare(body([user("go"), said("ok"), user("next")])).report

    assert report.tokens_before == 168_000
    assert report.level == "calm"


@pytest.mark.parametrize(("oldest", "gone"), [(20_000, set()), (20_001, {"t0"})])
def test_a_prune_must_free_more_than_20000_tokens_beyond_the_newest_40000(oldest, gone):
    """R153: the two newest turns, and 40,000 tokens before them, stay."""
    messages = turns(oldest, 40_000, 5_000)

    ready = context("opencode").prepare(body(messages))

    assert changed(ready, messages) == gone
    assert all(results(ready)[id] == CLEARED for id in gone)


def test_an_output_of_200000_characters_two_turns_back_is_marked_and_kept(tmp_path):
    """Origins, check 17."""
    messages = turns(50_000, 10)
    ready = context("opencode", store=tmp_path, session="s").prepare(body(messages))

    (path,) = tmp_path.glob("projects/*/s/tool-results/t0.txt")
    whole = path.read_text() == messages[2]["content"][0]["content"]
    assert changed(ready, messages) == {"t0"}
    assert whole


def test_pruning_waits_for_the_end_of_the_loop():
    """D6: not while the assistant is at work."""
    messages = turns(50_000, 10)
    inside = [*messages, *step(9, "bash", "x")]

    assert changed(context("opencode").prepare(body(inside)), inside) == set()


def test_skills_are_never_pruned():
    """R153."""
    messages = turns(50_000, 10, tool="skill")

    assert changed(context("opencode").prepare(body(messages)), messages) == set()


def test_text_in_the_middle_of_a_run_has_opencodes_frame():
    """R087."""
    assert preset("opencode").templates.interjection.format(text="stop") == (
        "<system-reminder>\nThe user sent the following message:\nstop\n\n"
        "Please address this message and continue with your tasks.\n</system-reminder>"
    )
