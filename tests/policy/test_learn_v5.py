"""learn-claude-code v5, seed 004: R031, R052, R115, R151, R183."""

import pytest

from ebbtide.policy import preset
from policy.dialogue import body, changed, context, results, said, step, user

CLEARED = "[Output compacted - re-read if needed]"


def history(sizes, tool="bash"):
    """Results of so many characters, which the model has seen."""
    calls = [m for n, chars in enumerate(sizes) for m in step(n, tool, "a" * chars)]
    return [user("go"), *calls, said("ok"), user("next")]


@pytest.mark.parametrize(
    ("window", "output", "auto"),
    [
        (200_000, 16_384, 170_616),
        (200_000, 20_000, 167_000),
        (200_000, 64_000, 167_000),
        (32_768, 16_384, 16_384),
        (8_192, 1_000, 4_096),
        (4_096, 1_000, 2_048),
    ],
)
def test_the_threshold_leaves_the_reply_at_most_20000_and_13000_more(window, output, auto):
    """R052."""
    at = preset("learn-v5").levels(window, output)

    assert at.auto == auto
    assert not at.is_reached(auto, "auto")
    assert at.is_reached(auto + 1, "auto")


@pytest.mark.parametrize(("tokens", "level"), [(170_616, "calm"), (170_617, "auto")])
def test_the_messages_alone_are_counted_four_characters_a_token_rounded_down(tokens, level):
    """R031, R052: system prompt and tools have their place in the buffer."""
    request = body([user("a" * (4 * tokens + 3))], max_tokens=16_384, system="s" * 4_000)

    report = context("learn-v5").prepare(request).report

    assert report.tokens_before == tokens
    assert report.level == level


@pytest.mark.parametrize(("chars", "gone"), [(4_003, set()), (4_004, {"t0"})])
def test_on_every_turn_large_results_but_the_newest_three_are_cleared(chars, gone):
    """R151: more than 1,000 tokens. Nothing is said of pressure or cache."""
    messages = history([chars, 9_000, 9_000, 9_000])

    ready = context("learn-v5").prepare(body(messages))

    assert changed(ready, messages) == gone
    assert all(results(ready)[id] == CLEARED for id in gone)


@pytest.mark.parametrize("tool", ["bash", "read_file", "write_file", "edit_file"])
def test_the_four_tools_are_cleared(tool):
    """R151."""
    messages = history([9_000] * 5, tool)

    assert changed(context("learn-v5").prepare(body(messages)), messages) == {"t0", "t1"}


def test_other_tools_stay_and_do_not_count_among_the_newest_three():
    """R151: the newest three of these tools."""
    other = [m for n in range(5, 9) for m in step(n, "web_search", "b" * 9_000)]
    messages = [*history([9_000] * 4)[:-2], *other, said("ok"), user("next")]

    assert changed(context("learn-v5").prepare(body(messages)), messages) == {"t0"}


def test_results_the_model_has_not_seen_stay_until_it_has_answered():
    """Origins, check 13: a parallel batch of five."""
    uses = [{"type": "tool_use", "id": f"t{n}", "name": "bash", "input": {}} for n in range(5)]
    answers = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": str(n) * 9_000} for n in range(5)]
    messages = [user("go"), {"role": "assistant", "content": uses}, {"role": "user", "content": answers}]
    ctx = context("learn-v5")

    unseen = ctx.prepare(body(messages))
    ready = ctx.prepare(body([*messages, said("ok"), user("next")]))

    assert changed(unseen, messages) == set()
    assert changed(ready, messages) == {"t0", "t1"}


@pytest.mark.parametrize(("chars", "gone"), [(160_003, set()), (160_004, {"t0"})])
def test_a_result_over_40000_tokens_is_saved_to_disk(chars, gone, tmp_path):
    """R115."""
    messages = [user("go"), *step(0, "bash", "q" * chars)]

    ready = context("learn-v5", store=tmp_path, session="s").prepare(body(messages))

    assert changed(ready, messages) == gone
    if gone:
        (path,) = tmp_path.glob("projects/*/s/tool-results/t0.txt")
        same = results(ready)["t0"] == f"Output too large. Saved to: {path}\nPreview:\n" + "q" * 2_000 + "..."
        assert same


def test_the_summary_texts_are_the_reference_agents():
    """R183."""
    texts = preset("learn-v5").templates

    assert texts.summary_user.format(summary="S") == "[Conversation compressed]\nS"
    assert texts.summary_ack == "Understood. Continuing with compressed context."
