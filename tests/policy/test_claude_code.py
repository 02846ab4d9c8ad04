"""Claude Code, seed 001: R037-R039, R048-R049, R106-R113, R135-R149, R179."""

import json

import pytest

from ebbtide.core.errors import Blocked
from ebbtide.core.tokens.estimator import CLAUDE_CODE
from ebbtide.policy import preset
from ebbtide.policy.claude_code import levels, without_auto_compact
from ebbtide.store import MemoryStore
from policy.dialogue import Refusing, body, changed, context, results, said, step, user

CLEARED = "<persisted-output>Tool result saved to: {path}\n\nUse Read to view</persisted-output>"


def history(sizes, gauge, tool="Read"):
    """Results of so many tokens each, seen by the model, and a first message that brings the gauge to the value."""
    calls = [m for n, size in enumerate(sizes) for m in step(n, tool, "ab" * (2 * size), file_path=f"f{n}")]
    messages = [user(""), *calls, said("ok"), user("next")]
    words = gauge * 3 // 4 - sum(sizes) - len(sizes) * CLAUDE_CODE.text('{"file_path":"f0"}') - 2
    messages[0] = user("w" * (4 * words))
    return messages


def test_history_has_exactly_the_promised_size():
    report = context("claude-code").prepare(body(history([10_000] * 5, 120_000))).report

    assert report.tokens_before == 120_000


@pytest.mark.parametrize(
    ("window", "warning", "auto", "blocking"),
    [
        (200_000, 135_000, 155_000, 197_000),
        (100_000, 50_000, 55_000, 97_000),
        (32_768, 16_384, 16_384, 29_768),
        (8_192, 4_096, 4_096, 5_192),
        (4_096, 2_048, 2_048, 2_048),
    ],
)
def test_levels_are_buffers_from_the_end_or_half_the_window(window, warning, auto, blocking):
    """R048-R049, E1. The reservation of 32,000 is the seed's, whatever the request asks for."""
    at = preset("claude-code").levels(window, 1000)

    assert (at.warning, at.auto, at.blocking) == (warning, auto, blocking)
    assert not at.is_reached(auto, "auto")
    assert at.warning <= at.soft <= at.auto <= at.hard


def test_without_auto_compact_the_warning_moves_up():
    """R049: the effective space is then all that is available."""
    at = levels(auto=False)(200_000, 1000)

    assert (at.auto, at.warning) == (168_000, 148_000)


@pytest.mark.parametrize(("gauge", "gone"), [(135_000, 0), (135_004, 6)])
def test_above_the_warning_line_old_results_are_cleared_until_40000_tokens_are_left(gauge, gone, tmp_path):
    """R135, R138-R140: ten of 10,000; six go, and exactly 40,000 stay."""
    messages = history([10_000] * 10, gauge)

    ready = context("claude-code", store=tmp_path, session="s").prepare(body(messages))

    assert ready.report.tokens_before == gauge
    assert changed(ready, messages) == {f"t{n}" for n in range(gone)}
    for n in range(gone):
        (path,) = tmp_path.glob(f"projects/*/s/tool-results/t{n}.txt")
        assert results(ready)[f"t{n}"] == CLEARED.format(path=path)


@pytest.mark.parametrize(("second", "gone"), [(9_999, set()), (10_000, {"t0", "t1"})])
def test_less_than_20000_tokens_are_not_worth_it(second, gone):
    """R140."""
    messages = history([10_000, second, *[10_000] * 4], 150_000)

    assert changed(context("claude-code").prepare(body(messages)), messages) == gone


def test_the_newest_three_count_but_stay():
    """R138: 90,000 in the newest three, 20,000 before them."""
    messages = history([10_000, 10_000, 30_000, 30_000, 30_000], 154_000)

    assert changed(context("claude-code").prepare(body(messages)), messages) == {"t0", "t1"}


def test_only_the_eight_tools_are_cleared():
    """R135, R137."""
    messages = history([10_000] * 10, 150_000, tool="mcp__memory")

    assert changed(context("claude-code").prepare(body(messages)), messages) == set()


def test_when_content_cannot_be_saved_nothing_is_cleared():
    """Departs from R143 and R253 on purpose."""
    messages = history([10_000] * 10, 150_000)

    ready = context("claude-code", store=Refusing(MemoryStore())).prepare(body(messages))

    assert changed(ready, messages) == set()
    assert any("no space left" in note for note in ready.report.notes)


def test_cleared_content_stays_cleared_and_is_not_cleared_twice():
    """R146, R276."""
    ctx = context("claude-code")
    messages = history([10_000] * 10, 150_000)
    first = ctx.prepare(body(messages))

    again = ctx.prepare(body([*messages, said("fine"), user("more")]))

    assert again.report.edits == ()
    assert results(again) == results(first)


def test_a_resumed_session_clears_what_claude_code_had_cleared(tmp_path):
    """R149: its own boundary record names the calls."""
    store = MemoryStore()
    told = {"type": "system", "subtype": "microcompact_boundary", "microcompactMetadata": {"compactedToolIds": ["t0"]}}
    store.open("s", now=0.0).commit([told], at=0.0)
    messages = [user("go"), *step(0, "Read", "a" * 900), *step(1, "Read", "b" * 900), said("ok"), user("next")]

    ready = context("claude-code", store=store, session="s").prepare(body(messages))

    assert changed(ready, messages) == {"t0"}
    assert results(ready)["t0"] == "[Old tool result content cleared]", "in memory there is no file to name"


def test_a_record_that_lacks_a_key_is_no_trouble():
    """R149: either key may be missing."""
    store = MemoryStore()
    told = [{"type": "system", "microcompactMetadata": one} for one in ({}, {"clearedAttachmentUUIDs": ["u"]}, "x")]
    store.open("s", now=0.0).commit(told, at=0.0)
    messages = [user("go"), *step(0, "Read", "a" * 900), said("ok"), user("next")]

    assert changed(context("claude-code", store=store, session="s").prepare(body(messages)), messages) == set()


@pytest.mark.parametrize(("chars", "gone"), [(400_000, set()), (400_001, {"t0"})])
def test_a_result_over_400000_characters_is_saved_to_disk(chars, gone, tmp_path):
    """R108-R111: the preview ends with a line if that is past its half."""
    text = ("x" * 1_500 + "\n" + "y" * chars)[:chars]
    messages = [user("go"), *step(0, "Bash", text)]

    ready = context("claude-code", window=1_000_000, store=tmp_path, session="s").prepare(body(messages))

    assert changed(ready, messages) == gone
    if gone:
        (path,) = tmp_path.glob("projects/*/s/tool-results/t0.txt")
        assert results(ready)["t0"] == (
            f"<persisted-output>\nOutput too large (390.6KB). Full output saved to: {path}\n\n"
            "Preview (first 2KB):\n" + "x" * 1_500 + "\n...\n</persisted-output>"
        )


def test_list_content_is_measured_compact_and_previewed_indented(tmp_path):
    """R108, R109: 27 characters of JSON around the text; the file and its preview are indented."""
    exact = [{"type": "text", "text": "z" * (400_000 - 27)}]
    over = [{"type": "text", "text": "z" * (400_001 - 27)}]
    messages = [user("go"), *step(0, "Bash", exact), *step(1, "Bash", over)]

    ready = context("claude-code", window=1_000_000, store=tmp_path, session="s").prepare(body(messages))

    (path,) = tmp_path.glob("projects/*/s/tool-results/*")
    assert len(json.dumps(exact, separators=(",", ":"))) == 400_000
    assert changed(ready, messages) == {"t1"}
    assert path.name == "t1.json"
    assert json.loads(path.read_text()) == over
    assert 'Preview (first 2KB):\n[\n  {\n    "type": "text",\n    "text": "zzz' in results(ready)["t1"]


def test_results_with_images_are_never_offloaded():
    """R107."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    messages = [user("go"), *step(0, "Bash", [{"type": "text", "text": "z" * 500_000}, image])]

    ready = context("claude-code", window=1_000_000).prepare(body(messages))

    same = results(ready)["t0"] == messages[2]["content"][0]["content"]
    assert same


def test_a_user_message_that_is_a_string_is_left_alone_while_results_around_it_are_cleared():
    messages = history([10_000] * 10, 150_000)

    ready = context("claude-code").prepare(body(messages))

    same = [ready.body["messages"][n] == messages[n] for n in (0, -2)]
    assert same == [True, True]
    assert ready.body["messages"][-1]["role"] == "user"


def test_counting_is_in_utf16_units_rounded_half_up_and_a_third_more():
    """R037-R039: 😀 is two units, an image is 2,000."""
    ready = context("claude-code").prepare(body([user("😀" * 5)]))

    assert CLAUDE_CODE.text("😀" * 5) == 3
    assert CLAUDE_CODE.image((10, 10)) == 2_000
    assert ready.report.tokens_before == 4


@pytest.mark.parametrize("policy", [preset("claude-code"), without_auto_compact(preset("claude-code"))])
def test_the_blocking_level_refuses_politely(policy):
    """R049, D22: at 197,000 it goes out, above it a person is told what to do."""
    exact = [user("w" * (4 * 147_750))]

    ready = context(policy).prepare(body(exact))
    with pytest.raises(Blocked) as refused:
        context(policy).prepare(body([user("w" * (4 * 147_751))]))

    assert ready.report.tokens_after == 197_000
    assert "Compact, or start a new session" in str(refused.value)
    assert refused.value.limit == 197_000


def test_with_auto_compact_off_nothing_is_dropped_above_the_hard_level():
    """R064."""
    messages = history([1_000] * 100, 180_000, tool="other")

    off = context(without_auto_compact(preset("claude-code"))).prepare(body(messages))
    on = context("claude-code").prepare(body(messages))

    assert off.report.edits == ()
    assert on.report.edits
    assert on.report.tokens_after <= 168_000


def test_context_left_never_falls_below_zero():
    """R051."""
    left = [context("claude-code").prepare(body([user("w" * 4 * n)])).report.context_left for n in (0, 58_125, 140_000)]

    assert left == [1.0, 0.5, 0.0]


def test_events_have_the_fields_of_claude_codes_telemetry():
    """R114, R244."""
    events = []
    ctx = context("claude-code", on_event=events.append)
    ctx.prepare(body(history([10_000] * 10, 150_000)))

    by_kind = {event.kind: event.fields for event in events}
    assert by_kind["microcompact"].keys() >= {
        "toolsCompacted",
        "totalUncompactedTokens",
        "tokensAfterCompaction",
        "tokensSaved",
        "triggerType",
    }
    assert by_kind["microcompact"]["toolsCompacted"] == 6
    assert by_kind["result_persisted"].keys() == {
        "toolName",
        "originalSizeBytes",
        "persistedSizeBytes",
        "estimatedOriginalTokens",
        "estimatedPersistedTokens",
    }


def test_counters_show_compactions_skips_and_savings():
    """R020, R248."""
    ctx = context("claude-code")
    ctx.prepare(body([user("go")]))
    ready = ctx.prepare(body(history([10_000] * 10, 150_000)))

    counters = ctx.counters()
    assert (counters["compact_count"], counters["skipped_count"]) == (1, 1)
    assert counters["tokens_saved"] == sum(edit.saved for edit in ready.report.edits)


def test_the_summary_texts_are_the_reference_agents():
    """R179, E3."""
    texts = preset("claude-code").templates

    assert texts.summary_user.startswith("This session is being continued from a previous conversation that ran out of")
    assert texts.summary_user.endswith("covers the earlier portion of the conversation.\n\n{summary}")
    assert texts.transcript_hint.endswith("read the full transcript at: {path}")
    assert texts.continuation.startswith("Please continue the conversation from where we left it off without asking")
    assert texts.continuation.endswith("Continue with the last task that you were asked to work on.")
