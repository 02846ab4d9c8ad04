"""The article's regions, seed 003: R035, R054, R116-R117, R189-R194, R252."""

import pytest

from ebbtide.core.errors import WontFit
from ebbtide.policy import preset
from policy.dialogue import body, changed, context, results, said, step, user

NOTE = "[Earlier turns truncated due to compactor error]"


@pytest.mark.parametrize("window", [1_000_000, 200_000, 32_768, 8_192, 4_096])
def test_soft_is_above_70_and_hard_above_90_percent(window):
    """R054: strictly above; soft aims at half."""
    at = preset("region").levels(window, 1000)

    assert (at.soft, at.hard, at.low) == (window * 7 // 10, window * 9 // 10, window // 2)
    assert [at.level_at(tokens) for tokens in (at.soft, at.hard, at.hard + 1)] == ["calm", "auto", "hard"]


def test_a_chinese_character_is_a_token_and_a_half_and_all_of_the_request_counts():
    """R035, R036."""
    ready = context("region").prepare(body([user("压缩" * 10)], system="s" * 40))

    assert ready.report.tokens_before == 30 + 10


def test_a_paste_is_saved_to_a_file_and_the_message_says_where(tmp_path):
    """R116."""
    paste = "log\n" * 50_001

    ready = context("region", window=1_000_000, store=tmp_path, session="s").prepare(body([user(paste)]))

    (path,) = tmp_path.glob("projects/*/s/tool-results/*")
    content = ready.body["messages"][0]["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    assert text == f"[Large input saved to {path}, 200004 chars. Use Read tool to access.]"
    assert path.read_text() == paste


@pytest.mark.parametrize(("chars", "gone"), [(30_000, set()), (30_001, {"t0"})])
def test_a_command_that_prints_too_much_is_cut_to_its_head(chars, gone):
    """R117."""
    messages = [user("go"), *step(0, "Bash", "ab" * 15_000 + "c" * (chars - 30_000) + "\n" * (400 * len(gone)))]

    ready = context("region").prepare(body(messages))

    assert changed(ready, messages) == gone
    if gone:
        note = f"\n\n[Output truncated, {chars + 400} bytes total. Save to file with > if you need full output.]"
        same = results(ready)["t0"] == "ab" * 15_000 + note
        assert same


def history(tokens):
    """Ten turns of one result each, which come to about so many tokens."""
    each = tokens // 10
    turns = ([user(f"do {n}"), *step(n, "Read", "ab" * (2 * each)), said(f"did {n}")] for n in range(10))
    return [*(m for turn in turns for m in turn), user("next")]


def broken(_request):
    raise RuntimeError("the compactor is down")


def test_when_the_compactor_fails_the_oldest_messages_are_replaced_by_the_agents_note_and_the_user_stays():
    """R189, R192, R252: oldest first, so the newest turns are whole."""
    messages = history(181_000)

    ready = context("region", summarizer=broken).prepare(body(messages))

    out = str(ready.body["messages"])
    assert NOTE in out
    assert ready.report.tokens_after <= 180_000
    assert all(f"do {n}" in out for n in range(10))
    assert {f"t{n}" for n in (7, 8, 9)} <= results(ready).keys()


def test_between_soft_and_hard_nothing_is_lost_when_the_compactor_fails():
    ready = context("region", summarizer=broken).prepare(body(history(170_000)))

    assert ready.report.level == "auto"
    assert ready.report.edits == ()


def test_the_largest_regions_are_summarized_in_place_until_the_window_is_half_full():
    """R189-R194, R199: words stay, the newest four turns and 20,000 tokens stay, summaries are never folded again."""
    sizes = [10_000, 40_000, 20_000, 30_000, 12_000, 11_000]
    turns = ([user(f"do {n}"), *step(n, "Read", "ab" * (2 * size)), said(f"did {n}")] for n, size in enumerate(sizes))
    later = ([user(f"and {n}"), *step(10 + n, "Read", "ab" * 14_000), said(f"ok {n}")] for n in range(4))
    messages = [m for turn in (*turns, *later) for m in turn] + [user("next")]
    asked = []

    def summarizer(request):
        asked.append(request)
        return "The file has ab."

    ctx = context("region", summarizer=summarizer)
    ready = ctx.prepare(body(messages))

    out = str(ready.body["messages"])
    folded = [edit for edit in ready.report.edits if edit.by == "fold_regions"]
    assert [text.text for edit in folded for text in edit.replacement] == [
        "[compacted summary of turns 2-2]\nThe file has ab.",
        "[compacted summary of turns 4-4]\nThe file has ab.",
    ]
    assert ready.report.tokens_after <= 100_000
    assert [request["max_tokens"] for request in asked] == [8_000 + 200, 6_000 + 200]
    assert all("tools" not in request and len(request["messages"]) == 1 for request in asked)
    assert all(f"do {n}" in out and f"did {n}" in out for n in range(6))
    assert ctx.prepare(body(messages)).report.edits == ()


def test_when_nothing_can_be_removed_it_says_so():
    """R198, R258."""
    with pytest.raises(WontFit) as refused:
        context("region", window=4_096).prepare(body([user("w" * 20_000)]))

    assert refused.value.tokens == 5_000
    assert "5,000 tokens do not fit a limit of 4,096" in str(refused.value)


def test_the_summary_texts_are_the_reference_agents():
    """R194, R252."""
    texts = preset("region").templates

    assert texts.summary_block.format(first=2, last=7, summary="S") == "[compacted summary of turns 2-7]\nS"
    assert texts.truncated == NOTE
