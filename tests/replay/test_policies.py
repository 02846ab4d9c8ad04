"""The rules of others, written with our passes, do what their sources say."""

import json

from ebbtide.replay.policies import PEERS
from runtime.sessions import context, loop, run

WINDOW = 200_000


def sent(policy, messages, **options):
    return [ready.body["messages"] for ready in run(context(policy=PEERS[policy], window=WINDOW, **options), messages)]


def results(messages):
    blocks = [block for message in messages if isinstance(message["content"], list) for block in message["content"]]
    return [json.dumps(block["content"]) for block in blocks if block["type"] == "tool_result"]


def test_masking_shows_the_newest_ten_results_on_every_turn():
    for messages in sent("masking", loop(25, lines=10)):
        masked = ["Old environment output: (11 lines omitted)" in result for result in results(messages)]
        assert masked == [n < len(masked) - 10 for n in range(len(masked))]


def test_the_hybrid_masks_and_summarizes_all_but_ten_turns_after_43_more():
    asked = []

    def summarize(request):
        asked.append(request)
        return "what was done so far"

    out = sent("hybrid", loop(60, lines=5), summarizer=summarize)

    counts = [len(results(messages)) for messages in out]
    assert counts[:53] == list(range(53)), "nothing folds before"
    assert counts[53:56] == [10, 11, 12]
    assert len(asked) == 1
    assert "fix the gauge" in json.dumps(out[-1][:2])
    assert "Old environment output" in results(out[-1])[0]


def test_clear_tool_uses_clears_all_but_three_above_100_000_tokens_and_what_was_cleared_stays_so():
    out = sent("clear-tool-uses", loop(80, lines=200))

    cleared = [sum("cleared to save context" in result for result in results(messages)) for messages in out]
    acted = [n for n in range(1, len(cleared)) if cleared[n] != cleared[n - 1]]
    assert acted, "the talk is long enough"
    assert cleared[acted[0]] == len(results(out[acted[0]])) - 3
    assert len(acted) < 5, "it waits until the rest has grown to 100,000 again"


def test_a_lean_tail_waits_for_three_quarters_of_a_window_below_512_000():
    levels = PEERS["lean"].levels(WINDOW, 0)
    large = PEERS["lean"].levels(1_000_000, 0)

    assert (levels.auto, large.auto) == (150_000, 500_000)
    assert levels.low // 2 >= 25_000, "a fold keeps at most half of low water, and the tail must fit"
