"""A fold that a person asks for, and what they may say about it."""

import asyncio
from typing import Any

import pytest

from ebbtide import Context, Summarizer
from ebbtide.audit.replan import replan
from ebbtide.core.errors import BadRequest
from ebbtide.core.types import COMPACTION_PASSES
from ebbtide.store import MemoryStore
from policy.dialogue import Clock, body, said, step, user
from upstream import signing
from upstream.check import refusals


def history(turns=6, chars=12_000):
    done = ([user(f"look {n}"), *step(n, "Read", f"value_{n}_seen " + "ab" * (chars // 2), file_path=f"src/f{n}.py"),
             said(f"saw {n}")] for n in range(turns))  # fmt: skip
    return [*(message for turn in done for message in turn), user("next")]


def ready(**options):
    ctx = Context(window=200_000, model="claude-sonnet-5", clock=Clock(), session="s", **options)
    ctx.prepare(body(history()))
    return ctx


def texts(ctx, messages=None):
    out = ctx.prepare(body(messages or history())).body["messages"]
    return str(out)


def test_every_compaction_between_two_requests_can_be_undone_alone():
    ctx = ready()
    first = ctx.compact(last=item(ctx, "saw 1"))
    second = ctx.compact(last=item(ctx, "saw 3"))

    assert first.edits
    assert second.edits
    undone = ctx.undo()
    assert [edit.id for edit in undone] == [edit.id for edit in second.edits]
    assert [edit.id for edit in ctx.edits()] == [edit.id for edit in first.edits]


def test_the_awaited_call_makes_the_same_compaction():
    ctx, other = ready(), ready()
    looked = asyncio.run(ctx.acompact(apply=False))
    awaited, plain = asyncio.run(ctx.acompact(focus="the values")), other.compact(focus="the values")

    assert not looked.applied
    assert awaited.applied
    assert [edit.id for edit in ctx.edits()] == [edit.id for edit in other.edits()] != []
    assert (awaited.text, awaited.tokens_after) == (plain.text, plain.tokens_after)


def item(ctx, text):
    """The handle of what was said."""
    return next(hit.handle for hit in ctx.recall(text) if hit.snippet.startswith(text))


def test_up_to_here_keeps_what_follows_and_from_here_what_precedes():
    ctx = ready()
    ctx.compact(last=item(ctx, "saw 2"))
    upto = texts(ctx)
    ctx.undo()
    ctx.compact(first=item(ctx, "saw 3"))
    since = texts(ctx)

    assert ("'saw 1'" in upto, "'saw 4'" in upto) == (False, True)
    assert ("'saw 1'" in since, "'saw 4'" in since) == (True, False)


@pytest.mark.parametrize("end", ["first", "last"])
@pytest.mark.parametrize("handle", ["e1-00000000000000000000-0", "ffffffff", ""])
def test_an_item_that_is_not_there_is_refused(end, handle):
    ctx = ready()
    if not handle:
        assert ctx.compact(**{end: handle}).edits
        return
    with pytest.raises(BadRequest, match=handle):
        ctx.compact(**{end: handle})


def test_pinned_content_stays_and_unpinned_content_is_compacted():
    ctx = ready()
    handle = item(ctx, "saw 1")
    ctx.pin(handle)
    ctx.compact()
    pinned = texts(ctx)
    ctx.undo()
    ctx.unpin(handle)
    ctx.compact()

    assert "'saw 1'" in pinned
    assert "'saw 1'" not in texts(ctx)


def test_a_persons_summary_is_called_one():
    (edit,) = ready().compact(summary="We looked at six files.").edits

    assert edit.reason == "old turns replaced by a person's summary"


def test_a_preview_changes_nothing_and_is_applied_without_asking_again():
    asked = []

    def summarizer(request):
        asked.append(request)
        return "The user looks at src/f1.py."

    ctx = ready(summarizer=summarizer)
    before = texts(ctx)
    preview = ctx.compact(apply=False)

    assert (preview.applied, preview.summary, texts(ctx)) == (False, "The user looks at src/f1.py.", before)
    assert preview.apply().applied
    assert len(asked) == 1
    assert "The user looks at src/f1.py." in texts(ctx)


def test_a_handle_as_the_facts_write_it_can_be_read():
    ctx = ready()
    hit = ctx.recall("value_3_seen")[0]

    assert ctx.read(f"#{hit.handle}").text == ctx.read(hit.handle).text


@pytest.mark.parametrize(("recall", "named"), [("path", True), ("off", False)])
def test_the_summary_names_its_file_only_when_the_model_may_read_it(recall, named, tmp_path):
    text = ready(store=tmp_path, recall=recall).compact().text

    assert ("tool-results/history" in text) is named
    assert ("s.jsonl" in text) is named


def test_without_a_store_no_file_is_promised():
    assert "history-" not in ready().compact().text


def test_the_tool_is_named_when_the_model_has_it():
    ctx = ready(recall="tool")

    assert [tool["name"] for tool in ctx.recall_tools()] == ["ebb_recall", "ebb_read"]
    assert "ebb_recall" in ctx.compact().text
    assert "value_2_seen" in ctx.recall_answer("ebb_recall", {"query": "value_2_seen"})


def test_the_recall_mode_of_the_first_request_stays():
    """A tool that comes later would cost the whole cached prefix."""
    store = MemoryStore()
    ready(store=store, recall="off")

    again = ready(store=store, recall="tool")

    assert again.recall_tools() == []


def test_plans_of_manual_compactions_can_be_repeated():
    store = MemoryStore()
    ctx = ready(store=store)
    ctx.compact(last=item(ctx, "saw 1"), focus="the files")
    ctx.compact(summary="In my words.")
    ctx.prepare(body([*history(), said("ok"), user("more")]))

    plan_count, differences = replan(store.open("s", now=0.0).read().records)

    assert plan_count == 2
    assert differences == []


def test_a_broken_chain_of_compactions_still_sends_every_message():
    """R283: where the turns that a fold stood for are gone from the client's history, the fold is not shown."""
    ctx = ready()
    ctx.compact()

    later = [*history()[8:], said("ok"), user("more")]
    out = texts(ctx, later)

    assert all(f"look {n}" in out for n in range(2, 6))
    assert "was removed to save space" not in out


def test_a_session_is_handed_over_to_a_new_one():
    """R197: what a fold leaves is a beginning for another session, which needs nothing of the first."""
    old = ready()
    summary = old.compact().text

    new = Context(window=200_000, model="claude-sonnet-5", clock=Clock(), session="t")
    sent = new.prepare(body([user(summary), said("Understood."), user("go on")]))

    assert "f1.py" in str(sent.body)
    assert sent.report.edits == ()


def test_the_facts_stay_when_one_compaction_follows_another():
    """R186, R285: what was asked before the first fold is still there after the second."""
    ctx = ready()
    ctx.compact()
    longer = [*history()[:-1], *history(12)[24:]]
    ctx.prepare(body(longer))
    ctx.compact()

    out = texts(ctx, longer)

    assert all(f"look {n}" in out for n in range(12))
    assert sum(edit.by in COMPACTION_PASSES for edit in ctx.edits()) == 2


def test_the_fold_due_event_is_sent_when_the_bill_arrives():
    """R057, R235."""
    events = []
    ctx = Context(window=20_000, model="claude-sonnet-5", clock=Clock(), on_event=lambda one: events.append(one.kind))
    ctx.prepare(body(history()))

    ctx.record({"role": "assistant", "content": "ok", "usage": {"input_tokens": 19_000, "output_tokens": 5}})

    assert "fold_due" in events


def test_another_model_may_be_asked():
    """R169, R277: a cheaper one."""
    asked = []
    ctx = ready(summarizer=Summarizer(lambda request: asked.append(request["model"]) or "Fine.", model="small"))

    ctx.compact()

    assert asked == ["small"]


INSTRUCTIONS = "# Project\n\n## Compact Instructions\nKeep every SQL statement.\n\n## Style\nTabs."


@pytest.mark.parametrize("place", ["system", "reminder", "chat"])
def test_the_projects_instructions_about_summaries_are_followed(place):
    """R097: in the system prompt, in instructions inside the conversation, and in an OpenAI system message."""
    asked = []
    ctx = Context(window=200_000, clock=Clock(), summarizer=lambda request: asked.append(str(request)) or "Fine.")
    reminder = user(f"<system-reminder>\n{INSTRUCTIONS}\n</system-reminder>")
    request = {
        "system": body(history(), system=INSTRUCTIONS),
        "reminder": body([reminder, said("ok"), *history()]),
        "chat": {"model": "gpt-5", "messages": [{"role": "system", "content": INSTRUCTIONS}, *chat_history()]},
    }[place]

    ctx.compact(request)

    (question,) = asked
    assert question.count("Keep every SQL statement.") == 2, "where it stood, and in the question"


def chat_history():
    said_so = ([user(f"look {n}"), said(f"saw {n} " * 400)] for n in range(6))
    return [*(message for turn in said_so for message in turn), user("next")]


def test_our_output_fed_back_is_known_as_what_was_sent():
    """The bill of what went out still counts when a client takes it for its history."""
    ctx = ready()
    ctx.compact()
    sent = ctx.prepare(body(history())).body["messages"]
    ctx.record({"role": "assistant", "content": "ok", "usage": {"input_tokens": 50_000, "output_tokens": 5}})

    again = ctx.prepare(body([*sent, said("ok"), user("more")]))

    assert 50_000 < again.report.tokens_before < 51_000


def test_a_refusal_is_answered_on_an_event_loop_too():
    """The window that the provider told is the window from then on."""
    ctx = ready()
    told = RuntimeError("prompt is too long: 210000 tokens > 9000 maximum")

    again = asyncio.run(ctx.aoverflowed(told))

    assert again.report.tokens_after <= 9_000
    assert (ctx.window, again.report.window) == (9_000, 9_000)


BOUND_MODEL = "claude-opus-5-5"
"""Its thinking is valid only after the exact prefix that it was written for (A63)."""


@pytest.mark.parametrize("is_calling", [False, True], ids=["a last word", "an open call"])
def test_a_compaction_without_a_request_knows_the_reply_to_the_last_one(is_calling):
    ctx = Context(window=200_000, model=BOUND_MODEL, clock=Clock(), session="s")
    asked: dict[str, Any] = {**body(history()), "model": BOUND_MODEL, "thinking": {"type": "adaptive"}}
    sent = ctx.prepare(asked)
    signature = signing.sign(BOUND_MODEL, "hm", signing.bound_to(sent.body))
    call, result = step("last", "Read", "short", file_path="src/g.py")
    rest = call["content"] if is_calling else [{"type": "text", "text": "all seen"}]
    reply = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": signature}, *rest]}
    sent.record({**reply, "usage": {"input_tokens": 60_000, "output_tokens": 9}})

    compaction = ctx.compact()
    after = ctx.prepare({**asked, "messages": [*asked["messages"], reply, result if is_calling else user("go on")]})

    assert compaction.edits
    assert len(str(after.body)) < len(str(sent.body)) // 2
    assert signing.refusals("anthropic", after.body) == []
    assert refusals("anthropic", after.body) == []
    assert after.report.edits == ()
