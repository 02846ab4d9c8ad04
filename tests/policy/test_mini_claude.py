"""mini-claude, seed 000: R046, R067-R069, R099-R102, R121-R132, R227."""

import pytest

from ebbtide.policy import preset
from policy.dialogue import Clock, billed, body, changed, chat_body, chat_step, context, results, said, step, user

EFFECTIVE = 180_000
PATHS = ["a.py", "a.py", "b.py", "c.py", "d.py", "e.py"]


def reads(chars, paths=PATHS):
    return [
        user("go"),
        *(m for n, path in enumerate(paths) for m in step(n, "read_file", str(n) * chars, file_path=path)),
    ]


def seen(messages):
    """The same history once the model has answered and the user spoken again."""
    return [*messages, said("ok"), user("next")]


def after_bill(messages, tokens, clock=None, **options):
    """What goes out for a history whose last call was billed so many input tokens."""
    ctx = context("mini-claude", clock=clock, **options)
    billed(ctx, messages, input=tokens)
    return ctx


@pytest.mark.parametrize(
    ("window", "auto"), [(200_000, 153_000), (100_000, 68_000), (32_768, 16_384), (8_192, 4_096), (4_096, 2_048)]
)
def test_auto_is_85_percent_of_the_window_less_20000_or_half_the_window(window, auto):
    """R046."""
    levels = preset("mini-claude").levels(window, 1000)

    assert levels.auto == auto
    assert not levels.is_reached(auto, "auto")
    assert levels.is_reached(auto + 1, "auto")


def test_only_uncached_input_of_the_last_bill_is_believed():
    """R028: cache reads and output are not in the gauge."""
    ctx = context("mini-claude")
    billed(ctx, [user("go")], input=153_000, cache_read=90_000, output=9_000)

    report = ctx.prepare(body([user("go"), said("ok"), user("next")])).report

    assert report.tokens_before == 153_000
    assert report.level == "calm"


def test_above_its_threshold_the_level_is_auto():
    ctx = after_bill([user("go")], 153_001)

    assert ctx.prepare(body([user("go"), said("ok"), user("next")])).report.level == "auto"


def test_a_result_of_30_kb_stays_and_one_byte_more_is_saved_to_disk(tmp_path):
    """R102: the limit is in UTF-8 bytes, the preview 200 lines, the words the seed's."""
    exact = ("é" * 37 + "é\n" + "x") * 393 + "x" * 66
    over = exact + "x"
    messages = [user("go"), *step(0, "run_shell", exact), *step(1, "run_shell", over)]

    ready = context("mini-claude", store=tmp_path, session="s").prepare(body(messages))

    (path,) = tmp_path.glob("projects/*/s/tool-results/*")
    same = results(ready)["t0"] == exact
    told = results(ready)["t1"] == (
        f"[Result too large (30.0 KB, 394 lines). Full output saved to {path}. "
        "You can use read_file to see the full result.]\n\nPreview (first 200 lines):\n"
        + "\n".join(over.split("\n")[:200])
    )
    assert len(exact.encode()) == 30 * 1024
    assert same
    assert told
    assert path.name == "t1.txt"
    assert path.read_text() == over


def test_the_preview_of_200_lines_still_passes_the_cut_at_50000_characters(tmp_path):
    """R099-R101: kept whole first, cut second, and only what is shown is cut."""
    lines = "\n".join(f"{n:03}" + "x" * 996 for n in range(400))
    ready = context("mini-claude", store=tmp_path, session="s").prepare(
        body([user("go"), *step(0, "run_shell", lines)])
    )

    text = results(ready)["t0"]
    (path,) = tmp_path.glob("projects/*/s/tool-results/t0.txt")
    shown = 199_999 + text.index("000xxx")
    assert len(text) <= 50_000
    assert f"\n\n[... truncated {shown - 2 * 24_970} chars ...]\n\n" in text
    assert text.startswith("[Result too large (390.6 KB, 400 lines).")
    assert path.read_text() == lines


@pytest.mark.parametrize(
    ("tokens", "budget"),
    [(89_999, None), (90_000, 30_000), (126_000, 30_000), (126_001, 15_000)],
)
def test_results_shrink_at_half_and_again_above_70_percent(tokens, budget):
    """R067, R121: exactly 50 % is on, exactly 70 % is still the loose budget."""
    long = "ab" * 15_001
    messages = [user("go"), *step(0, "other", long), *step(1, "other", "s")]

    ready = after_bill(messages, tokens).prepare(body(seen(messages)))

    keep = (budget - 80) // 2 if budget else 0
    marker = f"\n\n[... budgeted: {30_002 - 2 * keep} chars truncated ...]\n\n"
    wanted = long[:keep] + marker + long[-keep:] if budget else long
    same = results(ready)["t0"] == wanted
    assert same


def test_a_result_of_exactly_the_budget_stays_complete():
    messages = [user("go"), *step(0, "other", "a" * 30_000)]

    ready = after_bill(messages, 100_000).prepare(body(seen(messages)))

    assert changed(ready, messages) == set()


@pytest.mark.parametrize(("tokens", "gone"), [(108_000, set()), (108_001, {"t0"})])
def test_a_file_read_again_is_snipped_above_60_percent(tokens, gone):
    """R068, R125-R126: exactly 60 % is not above. The newest read of a file stays."""
    messages = reads(400)

    ready = after_bill(messages, tokens).prepare(body(seen(messages)))

    assert changed(ready, messages) == gone
    assert all(results(ready)[id] == "[Content snipped - re-read if needed]" for id in gone)


def test_a_file_read_in_parts_counts_as_one_file():
    """R126: the seed looks at the path alone."""
    parts = [m for n in range(2) for m in step(n, "read_file", str(n) * 400, file_path="a.py", offset=n)]
    messages = [user("go"), *parts, *(m for n in range(2, 5) for m in step(n, "other", "x" * 400))]

    ready = after_bill(messages, 120_000).prepare(body(seen(messages)))

    assert changed(ready, messages) == {"t0"}


def test_what_two_tiers_removed_from_one_result_is_counted_once():
    """R227: the second tier sees what the first left."""
    messages = [
        user("go"),
        *step(0, "read_file", "o" * 20_000, file_path="a.py"),
        *step(1, "read_file", "n" * 400, file_path="a.py"),
        *(m for n in range(2, 5) for m in step(n, "other", "x" * 400)),
    ]

    report = after_bill(messages, 130_000).prepare(body(seen(messages))).report

    assert [edit.by for edit in report.edits] == ["budget_results", "snip_results"]
    assert report.tokens_before - report.tokens_after == sum(edit.saved for edit in report.edits) == 5_000 - 10


def test_the_newest_three_results_are_never_snipped():
    """R128, E11: even if the same file was read three times."""
    messages = reads(400, ["a.py"] * 4)

    ready = after_bill(messages, 120_000).prepare(body(seen(messages)))

    assert changed(ready, messages) == {"t0"}


def test_the_oldest_of_more_than_three_searches_is_snipped():
    """R127."""
    searches = [m for n in range(5) for m in step(n, "grep_search", str(n) * 400)]
    messages = [user("go"), *searches]

    ready = after_bill(messages, 120_000).prepare(body(seen(messages)))

    assert changed(ready, messages) == {"t0", "t1"}


def test_tools_that_are_not_snippable_stay():
    """R125."""
    messages = [user("go"), *(m for n in range(6) for m in step(n, "web_fetch", str(n) * 400, file_path="a"))]

    ready = after_bill(messages, 120_000).prepare(body(seen(messages)))

    assert changed(ready, messages) == set()


@pytest.mark.parametrize(("seconds", "gone"), [(299.0, set()), (300.0, {"t0", "t1", "t2"})])
def test_after_five_idle_minutes_all_but_three_results_are_cleared(seconds, gone):
    """R069, R132: of any tool."""
    clock = Clock()
    messages = [user("go"), *(m for n in range(6) for m in step(n, "web_fetch", str(n) * 400))]
    ctx = after_bill(messages, 1_000, clock)
    clock.at += seconds

    ready = ctx.prepare(body(seen(messages)))

    assert changed(ready, messages) == gone
    assert all(results(ready)[id] == "[Old result cleared]" for id in gone)


def test_nothing_is_cleared_before_the_first_call():
    """R069."""
    messages = seen([user("go"), *(m for n in range(6) for m in step(n, "web_fetch", str(n) * 400))])

    assert changed(context("mini-claude").prepare(body(messages)), messages) == set()


def test_results_that_were_budgeted_snipped_or_offloaded_are_still_cleared(tmp_path):
    """R132 is indiscriminate. What lies on disk is the whole, not the shortened text."""
    clock = Clock()
    long = [f"{n}" * 31_000 for n in range(3)]
    messages = [
        user("go"),
        *step(0, "read_file", "old" * 400, file_path="a.py"),
        *step(1, "other", long[1]),
        *step(2, "read_file", long[2][:20_000], file_path="a.py"),
        *(m for n in range(3, 6) for m in step(n, "other", "new" * 100)),
    ]
    ctx = context("mini-claude", clock=clock, store=tmp_path, session="s")
    billed(ctx, messages, input=130_000)
    shortened = billed(ctx, seen(messages), input=130_000)
    clock.at += 300

    cleared = ctx.prepare(body([*seen(messages), said("ok"), user("more")]))

    assert results(shortened)["t0"] == "[Content snipped - re-read if needed]"
    assert "budgeted" in results(shortened)["t1"]
    assert [results(cleared)[f"t{n}"] for n in range(3)] == ["[Old result cleared]"] * 3
    assert changed(cleared, messages) == {"t0", "t1", "t2"}
    kept = {path.name: path.read_text() for path in tmp_path.glob("projects/*/s/tool-results/*")}
    whole = kept["t1.txt"] == long[1]
    assert whole


def test_each_tier_uses_the_bill_and_not_what_the_tier_before_freed():
    """R227-R229: at 61 % a budget that frees a fifth of the window does not spare what snip would take."""
    messages = [
        user("go"),
        *step(0, "read_file", "old" * 400, file_path="a.py"),
        *step(1, "read_file", "new" * 400, file_path="a.py"),
        *(m for n in range(2, 8) for m in step(n, "other", "x" * 30_700)),
    ]

    ready = after_bill(messages, 110_000).prepare(body(seen(messages)))

    assert "budgeted" in results(ready)["t2"]
    assert results(ready)["t0"] == "[Content snipped - re-read if needed]"


def test_a_new_result_that_is_saved_to_disk_does_not_lower_the_bill():
    """The bill of the last call has nothing of what came after it."""
    messages = [user("go"), *step(0, "other", "a" * 30_500), said("ok"), user("next")]
    ctx = after_bill(messages[:1], 130_000)

    ready = ctx.prepare(body([user("go"), *step(1, "other", "y\n" * 200_000)]))

    assert ready.report.edits
    assert ready.report.tokens_after == 130_000


def test_user_text_is_left_alone_however_long_and_however_sent():
    """Content that is a string has no results in it."""
    clock = Clock()
    messages = [user("w" * 60_000), *step(0, "other", "s"), said("ok"), user("v" * 60_000)]
    ctx = after_bill(messages, 130_000, clock)
    clock.at += 400

    ready = ctx.prepare(body([*messages, said("ok"), user("u")]))

    same = ready.body["messages"][0] == messages[0] and ready.body["messages"][4] == messages[4]
    assert same


def test_the_same_pipeline_runs_over_openai_chat():
    """R123, R230: results are messages of the role tool."""
    clock = Clock()
    long = "ab" * 15_001
    messages = [
        {"role": "system", "content": "be brief"},
        user("go"),
        *chat_step(0, "other", long),
        *(m for n in range(1, 4) for m in chat_step(n, "other", "s" * 400)),
    ]
    ctx = context("mini-claude", clock=clock)
    billed(ctx, messages, input=90_000, wrap=chat_body)

    budgeted = ctx.prepare(chat_body(seen(messages)))
    clock.at += 300
    cleared = ctx.prepare(chat_body([*seen(messages), said("ok"), user("more")]))

    keep = (30_000 - 80) // 2
    wanted = long[:keep] + f"\n\n[... budgeted: {30_002 - 2 * keep} chars truncated ...]\n\n" + long[-keep:]
    same = results(budgeted)["t0"] == wanted
    assert same
    assert results(cleared)["t0"] == "[Old result cleared]"
    assert cleared.body["messages"][0] == messages[0]


def test_an_old_bill_does_not_evict_again_after_an_eviction():
    """R044: the gauge must not stay where it was before a compaction, even if no new bill comes."""
    messages = [user("go"), *(m for n in range(40) for m in step(n, "other", str(n) * 3_000))]
    ctx = after_bill(messages, 199_500)

    first = ctx.prepare(body(seen(messages)))
    again = ctx.prepare(body(seen(messages)))

    assert any(edit.by == "summarize" for edit in first.report.edits)
    assert again.report.edits == ()


def test_the_summary_texts_are_the_reference_agents():
    """R177."""
    texts = preset("mini-claude").templates

    assert texts.summary_user.format(summary="S") == "[Previous conversation summary]\nS"
    assert texts.summary_ack == (
        "Understood. I have the context from our previous conversation. How can I continue helping?"
    )
