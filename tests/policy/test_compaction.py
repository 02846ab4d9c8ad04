"""What stands after a summary, in each seed's own form: R159-R183, R200-R206, D8-D10."""

import json
from dataclasses import replace

import pytest

from ebbtide.policy import preset
from policy.dialogue import body, chat_body, chat_step, context, said, step, user

ANSWER = "<analysis>Weighing it up.</analysis>\n<summary>\nThe gauge in src/gauge.py reads too high.\n</summary>\nShall I go on?"
SUMMARY = "The gauge in src/gauge.py reads too high."


class SummaryModel:
    """A model that is asked for summaries."""

    def __init__(self, answer=ANSWER):
        self.answer, self.asked = answer, []

    def __call__(self, request):
        self.asked.append(request)
        return {
            "role": "assistant",
            "stop_reason": "end_turn",
            "content": [{"type": "text", "text": self.answer}],
            "usage": {"input_tokens": 9, "output_tokens": 9},
        }


def history(turns=8, chars=24_000):
    """Turns about one file, of about 6,000 tokens each."""
    done = ([user(f"look {n}"), *step(n, "other", "src/gauge.py " + "ab" * (chars // 2)), said(f"saw {n}")]
            for n in range(turns))  # fmt: skip
    return [m for turn in done for m in turn]


def folded(policy, messages, *, window=40_000, bill=None, **options):
    """The messages that go out once the preset has folded."""
    ctx = context(policy, window=window, **options)
    ready = ctx.prepare(body(messages))
    if bill:
        usage = {"input_tokens": bill, "output_tokens": 1}
        ctx.record({"role": "assistant", "content": [{"type": "text", "text": "ok"}], "usage": usage})
        ready = ctx.prepare(body([*messages, said("ok"), user("more")]))
    assert any(edit.by == "summarize" for edit in ready.report.edits)
    return ready.body["messages"]


def texts(message):
    content = message["content"]
    return [content] if isinstance(content, str) else [block["text"] for block in content]


def test_claude_code_continues_in_one_message_with_the_analysis_and_the_transcript(tmp_path):
    """R163, R174, R179, D9: all of it is summarised, and only an automatic fold says to go on."""
    scribe = SummaryModel()

    (first,) = folded("claude-code", [*history(4), user("next")], summarizer=scribe, store=tmp_path, session="s")

    (log,) = tmp_path.glob("projects/*/s.jsonl")
    assert texts(first) == [
        "This session is being continued from a previous conversation that ran out of context. The summary below "
        f"covers the earlier portion of the conversation.\n\nAnalysis:\nWeighing it up.\n\nSummary:\n{SUMMARY}\n\n"
        "If you need specific details from before compaction (like exact code snippets, error messages, or content "
        f"you generated), read the full transcript at: {log}\n\nPlease continue the conversation from where we left "
        "it off without asking the user any further questions. Continue with the last task that you were asked to "
        "work on.",
        "next",
    ]
    question = scribe.asked[0]["messages"][-1]["content"][-1]
    assert question["cache_control"] == {"type": "ephemeral"}, "R164: the question carries a mark of its own"
    assert "9. Optional Next Step" in question["text"]


def test_a_manual_compaction_of_claude_code_does_not_ask_to_continue():
    """R173, R179: `/compact keep the SQL`."""
    scribe = SummaryModel()
    ctx = context("claude-code", summarizer=scribe)
    ctx.prepare(body([*history(), user("next")]))

    compaction = ctx.compact(focus="keep the SQL")

    assert "Please continue" not in compaction.text
    assert "keep the SQL" in json.dumps(scribe.asked[0]["messages"][-1])


def test_opencode_answers_a_question_with_the_summary():
    """R158, R166, D8, D11: no way back is told."""
    first, second, *rest = folded(
        "opencode", [*history(3), user("next")], window=60_000, bill=50_000, summarizer=SummaryModel()
    )

    assert (first["role"], second["role"]) == ("user", "assistant")
    assert texts(second) == [SUMMARY]
    assert [texts(one) for one in rest] == [["more"]]


@pytest.mark.parametrize("policy", ["opencode", "learn-v5"])
def test_an_assistant_summary_is_not_placed_before_thinking_that_starts_a_step(policy):
    """A37: joined into one message with the step, it would have thinking switched off."""
    ctx = context(policy, window=20_000)
    messages, repairs, folds = [user("look at all of it")], [], 0
    for n in range(20):
        called, brought = step(n, "other", "src/gauge.py " + "ab" * 2_000)
        thought = {"type": "thinking", "thinking": "Hm.", "signature": f"sig{n}"}
        messages += [{**called, "content": [thought, *called["content"]]}, brought]
        ready = ctx.prepare({**body(messages), "thinking": {"type": "enabled", "budget_tokens": 1_024}})
        folds += any(edit.by == "summarize" for edit in ready.report.edits)
        repairs += [told for told in ready.report.repairs if told.startswith("A37")]

    assert folds
    assert repairs == []


def test_mini_claude_leaves_summary_acknowledgement_and_the_pending_message():
    """R159, R177, R228."""
    scribe = SummaryModel(SUMMARY)

    out = folded("mini-claude", [*history(3), user("next")], window=60_000, bill=50_000, summarizer=scribe)

    assert [(one["role"], *texts(one)) for one in out] == [
        ("user", f"[Previous conversation summary]\n{SUMMARY}"),
        ("assistant", "Understood. I have the context from our previous conversation. How can I continue helping?"),
        ("user", "more"),
    ]
    assert scribe.asked[0]["max_tokens"] <= 2_048


def test_mini_claude_does_not_compact_inside_a_tool_loop():
    """R228: a call would be parted from its result."""
    ctx = context("mini-claude", window=200_000)
    usage = {"input_tokens": 199_000, "output_tokens": 1}
    ctx.prepare(body([*history(), user("next")]))
    ctx.record({"role": "assistant", "content": [{"type": "text", "text": "ok"}], "usage": usage})

    ready = ctx.prepare(body([*history(), user("next"), *step(90, "other", "x")]))

    assert not any(edit.by == "summarize" for edit in ready.report.edits)


def test_mini_claude_keeps_the_system_message_on_openai():
    """R160, R178."""
    turns = ([user(f"look {n}"), *chat_step(n, "other", "ab" * 12_000), said(f"saw {n}")] for n in range(3))
    system = {"role": "system", "content": "Be brief."}
    messages = [system, *(m for turn in turns for m in turn), user("next")]
    ctx = context("mini-claude", window=60_000)
    ctx.prepare(chat_body(messages))
    told = {"choices": [{"message": {"role": "assistant", "content": "ok"}}]}
    ctx.record({**told, "usage": {"prompt_tokens": 50_000, "completion_tokens": 1}})

    ready = ctx.prepare(chat_body([*messages, said("ok"), user("more")]))

    out = ready.body["messages"]
    assert out[0] == system
    assert [one["role"] for one in out[1:]] == ["user", "assistant", "user"]
    assert out[1]["content"].startswith("[Previous conversation summary]\n")


@pytest.mark.parametrize("messages", [2, 3])
def test_mini_claude_leaves_short_conversations_alone(messages):
    """R159: fewer than four messages."""
    ctx = context("mini-claude")
    ctx.prepare(body([user("a"), said("b"), user("c")][:messages]))

    assert ctx.compact().edits == ()


@pytest.mark.parametrize("overflow", ["summarize", "auto-compact"])
def test_sage_summarizes_what_follows_the_last_boundary_and_boundaries_form_a_row(overflow):
    """R171, R181-R182, R202, R206, D10 accumulate."""
    scribe = SummaryModel(SUMMARY)
    policy = replace(preset("sage"), overflow=overflow, pressure=())
    ctx = context(policy, window=60_000, summarizer=scribe)
    ctx.prepare(body([*history(12), user("next")]))
    ready = ctx.prepare(body([*history(24), user("next")]))

    boundary = f"[Previous conversation summary]\n\n{SUMMARY}\n\n[End of summary]"
    said_so = [text for message in ready.body["messages"] if message["role"] == "assistant" for text in _words(message)]
    assert said_so[:2] == [boundary, boundary]
    assert len(ready.body["messages"]) <= 18
    second = json.dumps(scribe.asked[1]["messages"])
    assert "look 0" not in second, "R206: what came before the boundary is not asked about again"
    assert "tools" not in scribe.asked[0]


def _words(message):
    return [message["content"]] if isinstance(message["content"], str) else [
        block["text"] for block in message["content"] if block["type"] == "text"
    ]  # fmt: skip


def test_sage_without_a_model_counts_messages():
    """R172, R256."""
    ctx = context("sage")
    ctx.prepare(body([*history(12), user("next")]))

    compaction = ctx.compact()

    assert compaction.text == (
        "[Previous conversation summary]\n\nPrevious conversation with 9 user messages and 16 assistant responses.\n\n"
        "[End of summary]"
    )


def test_learn_v5_restores_files_and_keeps_five_messages(tmp_path):
    """R053, R183, R184."""
    (tmp_path / "gauge.py").write_text("level = 4\n")
    messages = [*history(), *step(98, "read_file", "level = 3", path="gauge.py"), said("ok"), user("next")]
    messages = [*messages, *history(4, 200), user("then")]

    ctx = context("learn-v5", window=60_000, summarizer=SummaryModel(SUMMARY), workspace=tmp_path)
    ready = ctx.prepare(body(messages))

    first, second, *rest = ready.body["messages"]
    (told,) = texts(first)
    assert told.startswith(f"[Conversation compressed]\n{SUMMARY}\n\n")
    assert "level = 4" in told, "as the file is now"
    assert texts(second) == ["Understood. Continuing with compressed context."]
    assert rest == messages[-5:]


def test_learn_v5_does_nothing_when_too_little_would_be_saved():
    """R053, R263: 20,000 tokens at least."""
    ctx = context("learn-v5", window=200_000)
    large = [user("look"), said("ab" * 12_000), user("go"), said("ab" * 370_000), user("then"), said("x"), user("next")]

    ready = ctx.prepare(body(large))

    assert ready.report.level in ("auto", "hard")
    assert not any(edit.by == "summarize" for edit in ready.report.edits)
