"""The agent against a provider of its own mind: what it sends is valid, what it is told it does, and it never dies."""

import threading
import time
from pathlib import Path

import pytest

from ebbtide.core.errors import BadRequest
from ebbtide.fronts.chat.events import (
    QueuedMessage,
    ReplyEnd,
    RequestStart,
    TextDelta,
    ToolEnd,
    ToolStart,
    TurnFailure,
    TurnInterrupt,
)
from ebbtide.fronts.chat.loop import NOT_RUN, final_reply
from ebbtide.fronts.chat.permission import PermissionAnswer
from ebbtide.fronts.chat.prompts import prompt_for
from fronts.chat.stage import Stage
from upstream.script import Cut, Failure, Say, Use
from upstream.server import Upstream

WIRES = ("anthropic", "openai", "responses", "gemini")


def kinds(events) -> list[str]:
    return [type(event).__name__ for event in events if not isinstance(event, TextDelta | RequestStart)]


def refusals(upstream: Upstream) -> list[object]:
    return [(exchange.status, exchange.refused) for exchange in upstream.requests if exchange.refused]


def last_text(upstream: Upstream) -> str:
    return str(upstream.requests[-1].parsed)


def messages_of(body):
    return next(body[key] for key in ("messages", "input", "contents") if key in body)


@pytest.mark.parametrize("provider", WIRES)
def test_a_turn_continues_until_the_model_calls_no_more_tools(tmp_path, provider):
    script = [
        [Say("I look."), Use("write", {"path": "a.txt", "content": "tide\n"}), Use("read", {"path": "a.txt"})],
        [Use("bash", {"command": "wc -l a.txt"})],
        "One line.",
    ]
    with Upstream(script, window=200_000) as upstream:
        stage = Stage(tmp_path, upstream, provider)
        chat = stage.chat()
        events = list(chat.agent.run_turn("How long is it?"))

        assert kinds(events) == [
            "ReplyEnd",
            *["ToolStart", "ToolEnd"] * 2,
            "ReplyEnd",
            "ToolStart",
            "ToolEnd",
            "ReplyEnd",
        ]
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "I look.One line."
        assert [event.result.text for event in events if isinstance(event, ToolEnd)][1:] == [
            "     1\ttide",
            "1 a.txt",
        ]
        assert (stage.root / "a.txt").read_text() == "tide\n"
        assert not refusals(upstream)
        assert chat.bill.usage.prompt == sum(request.usage.prompt for request in upstream.requests)


@pytest.mark.parametrize("provider", WIRES)
def test_a_failing_tool_call_becomes_a_result_and_the_turn_continues(tmp_path, provider):
    script = [
        [Use("teleport", {"to": "moon"}), Use("read", {"path": "gone"}), Use("read", {"path": 3})],
        "I see.",
    ]
    with Upstream(script) as upstream:
        events = list(Stage(tmp_path, upstream, provider).chat().agent.run_turn("Go."))

    outcomes = [event.result for event in events if isinstance(event, ToolEnd)]
    assert all(one.is_error for one in outcomes)
    assert "there is no tool 'teleport'" in outcomes[0].text
    assert kinds(events)[-1] == "ReplyEnd"
    assert not refusals(upstream)


def test_arguments_that_are_no_json_are_refused_by_a_sentence(tmp_path):
    with Upstream([[Use("bash", "rm -rf")], "Sorry."]) as upstream:
        events = list(Stage(tmp_path, upstream, "anthropic").chat().agent.run_turn("Go."))

    assert kinds(events)[-1] == "ReplyEnd"


def test_a_refused_permission_reaches_the_model_and_nothing_runs(tmp_path):
    with Upstream([[Use("bash", {"command": "touch made"})], "Then not."]) as upstream:
        stage = Stage(
            tmp_path, upstream, answer=lambda question: PermissionAnswer(allowed=False, instruction="use make")
        )
        list(stage.chat().agent.run_turn("Go."))

    assert not (stage.root / "made").exists()
    assert "use make" in last_text(upstream)
    assert [question.action.command for question in stage.asked] == ["touch made"]


def test_plan_mode_refuses_writes_and_the_model_hears_of_it_and_of_its_end(tmp_path):
    script = [
        [Use("write", {"path": "a", "content": "x"})],
        "A plan.",
        [Use("write", {"path": "a", "content": "x"})],
        "Done.",
    ]
    with Upstream(script) as upstream:
        stage = Stage(tmp_path, upstream)
        chat = stage.chat()
        chat.agent.permissions.mode = "plan"
        list(chat.agent.run_turn("Plan it."))
        assert not (stage.root / "a").exists()
        assert "Plan mode is on" in last_text(upstream)

        chat.agent.permissions.mode = "build"
        list(chat.agent.run_turn("Do it."))
        assert (stage.root / "a").exists()
        assert "Plan mode is off" in last_text(upstream)


def test_text_sent_meanwhile_is_framed_and_sent_with_the_next_request(tmp_path):
    with Upstream([[Use("bash", {"command": "true"})], "Both done."]) as upstream:
        chat = Stage(tmp_path, upstream).chat()
        events = []
        for event in chat.agent.run_turn("First."):
            events.append(event)
            if isinstance(event, ToolStart):
                chat.agent.inbox.put("Also the second.")

    assert [event.text for event in events if isinstance(event, QueuedMessage)] == ["Also the second."]
    assert (
        "The user sent the following message:\nAlso the second."
        in upstream.requests[1].parsed["messages"][-1]["content"][-1]["text"]
    )


def test_text_sent_during_the_last_reply_is_answered_too(tmp_path):
    with Upstream(["One.", "Two."]) as upstream:
        chat = Stage(tmp_path, upstream).chat()
        said = []
        for event in chat.agent.run_turn("First."):
            if isinstance(event, TextDelta) and not said:
                chat.agent.inbox.put("Second.")
            said += [event.reply.text] if isinstance(event, ReplyEnd) else []

    assert said == ["One.", "Two."]
    assert upstream.requests[1].parsed["messages"][-1]["content"][-1]["text"] == "Second."


def test_an_interruption_ends_the_tool_skips_the_rest_and_the_conversation_continues(tmp_path):
    script = [[Use("bash", {"command": "touch begun; sleep 600"}), Use("bash", {"command": "touch late"})], "Fine."]
    with Upstream(script) as upstream:
        stage = Stage(tmp_path, upstream)
        agent = stage.chat().agent
        begun = stage.root / "begun"

        def interrupt() -> None:
            end = time.monotonic() + 120
            while not begun.exists() and time.monotonic() < end:
                time.sleep(0.01)
            agent.interrupt()

        person = threading.Thread(target=interrupt)
        person.start()
        events = list(agent.run_turn("Go."))
        person.join()

        outcomes = [event.result.text for event in events if isinstance(event, ToolEnd)]
        assert outcomes == ["[Interrupted by the user.]", NOT_RUN]
        assert isinstance(events[-1], TurnInterrupt)
        assert not (stage.root / "late").exists()

        assert final_reply(agent.run_turn("Never mind.")) == "Fine."
        assert not refusals(upstream)
        assert NOT_RUN in last_text(upstream)


def test_the_model_learns_of_an_interrupted_reply(tmp_path):
    with Upstream(["A long beginning. " * 40, "Right."]) as upstream:
        agent = Stage(tmp_path, upstream).chat().agent
        events = []
        for event in agent.run_turn("Go."):
            events.append(event)
            if isinstance(event, TextDelta):
                agent.interrupt()
        assert isinstance(events[-1], TurnInterrupt)

        assert final_reply(agent.run_turn("Shorter.")) == "Right."
        assert "was interrupted" in last_text(upstream)
        assert not refusals(upstream)


@pytest.mark.parametrize("provider", WIRES)
def test_a_broken_stream_fails_the_turn_and_the_next_one_continues(tmp_path, provider):
    with Upstream([Cut([Say("Half an answer, no more. " * 20)], 4), "Whole."]) as upstream:
        agent = Stage(tmp_path, upstream, provider).chat().agent
        events = list(agent.run_turn("Go."))
        assert isinstance(events[-1], TurnFailure)
        assert "before the reply was complete" in str(events[-1].error)

        assert final_reply(agent.run_turn()) == "Whole."
        assert not refusals(upstream)


def test_a_provider_that_keeps_refusing_is_reported_and_survived(tmp_path):
    with Upstream([Failure(status=400, message="no such thing"), "Back."]) as upstream:
        agent = Stage(tmp_path, upstream).chat().agent
        events = list(agent.run_turn("Go."))
        assert events[-1].error.status_code == 400

        assert final_reply(agent.run_turn("Again.")) == "Back."


@pytest.mark.parametrize(("provider", "rule"), [("anthropic", "A59"), ("gemini", "G10")])
def test_an_overflow_that_the_provider_reports_is_compacted_and_sent_again(tmp_path, provider, rule):
    """The provider's window is a tenth of what was believed."""
    calls = [[Use("bash", {"command": f"seq {n}000 {n}240"})] for n in range(1, 25)]
    with Upstream([*calls, "Done."], window=12_000) as upstream:
        chat = Stage(tmp_path, upstream, provider).chat()
        said = final_reply(chat.agent.run_turn("Count."))

    assert said == "Done."
    assert [exchange.refused[0].rule for exchange in upstream.requests if exchange.refused] == [rule]
    assert chat.agent.context.window <= 12_000


@pytest.mark.parametrize("provider", WIRES)
def test_a_small_window_is_compacted_automatically_and_the_model_writes_the_summary(tmp_path, provider):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "big.txt").write_text("".join(f"{n}: the level is off by a hand\n" for n in range(150)))
    steps = iter(range(60))

    def script(body):
        if "tools" not in body or "summar" in str(messages_of(body)[-1]).lower()[-3000:]:
            return "<summary>\n## Intent\n- Read the file again and again.\n</summary>"
        n = next(steps)
        return [Say(f"Step {n}."), Use("read", {"path": "big.txt"})] if n < 30 else "Done."

    with Upstream(script, window=16_000) as upstream:
        stage = Stage(tmp_path, upstream, provider, window=16_000)
        chat = stage.chat()
        assert final_reply(chat.agent.run_turn("Read it thirty times.")) == "Done."

    told = [event.kind for event in stage.events]
    assert told.index("fold_begins") < told.index("folded")
    assert "summarize" in {edit.by for edit in chat.agent.context.edits()}
    assert "Read the file again and again." in last_text(upstream)
    assert not refusals(upstream)


def test_files_that_others_changed_are_reported_once_and_must_be_read_again(tmp_path):
    script = [
        [Use("write", {"path": "a.txt", "content": "mine\n"})], "Written.",
        [Use("edit", {"path": "a.txt", "old": "mine", "new": "ours"})], "Hm.",
        "Yes.",
    ]  # fmt: skip
    with Upstream(script) as upstream:
        stage = Stage(tmp_path, upstream)
        agent = stage.chat().agent
        list(agent.run_turn("Write."))
        (stage.root / "a.txt").write_text("theirs, and longer\n")
        events = list(agent.run_turn("Edit."))
        list(agent.run_turn("And?"))

    told = [str(request.parsed["messages"][-1]) for request in upstream.requests]
    assert "changed on disk after you last saw them" in told[2]
    assert sum("after you last saw them" in one for one in told) == 1
    assert [event.result.is_error for event in events if isinstance(event, ToolEnd)] == [True]


def test_a_file_that_a_command_changed_is_reported_with_the_next_request(tmp_path):
    script = [
        [Use("write", {"path": "a.txt", "content": "x\n"})],
        [Use("bash", {"command": "echo more >> a.txt"})],
        "Done.",
    ]
    with Upstream(script) as upstream:
        list(Stage(tmp_path, upstream).chat().agent.run_turn("Go."))

    assert "after you last saw them" not in str(upstream.requests[1].parsed["messages"])
    assert "after you last saw them" in str(upstream.requests[2].parsed["messages"][-1])


def test_the_model_is_reminded_of_an_unfinished_list_when_the_person_writes(tmp_path):
    rows = [{"content": "mend the gauge", "status": "in_progress"}]
    with Upstream([[Use("todo", {"todos": rows})], "Listed.", "On it."]) as upstream:
        agent = Stage(tmp_path, upstream).chat().agent
        list(agent.run_turn("Plan."))
        list(agent.run_turn("Go on."))

    assert "[>] mend the gauge" in str(upstream.requests[2].parsed["messages"][-1]["content"][0])


def test_a_sub_agent_has_its_own_context_and_returns_its_last_message(tmp_path):
    def script(body):
        first = str(body["messages"][0])
        if "Find the datum." in first:
            return [Use("bash", {"command": "echo 41"})] if len(body["messages"]) == 1 else "The datum is 41."
        return (
            [Use("task", {"title": "find datum", "prompt": "Find the datum."})] if len(body["messages"]) == 1 else "41."
        )

    with Upstream(script) as upstream:
        stage = Stage(tmp_path, upstream)
        chat = stage.chat()
        assert final_reply(chat.agent.run_turn("What is it?")) == "41."

    inner = [request.parsed for request in upstream.requests if "Find the datum." in str(request.parsed["messages"][0])]
    assert len(inner) == 2
    assert "task" not in [tool["name"] for tool in inner[0]["tools"]]
    assert "What is it?" not in str(inner)
    assert "The datum is 41." in str(upstream.requests[-1].parsed["messages"][-1])
    assert chat.bill.usage.prompt == sum(one.usage.prompt for one in upstream.requests)


def test_a_sub_agent_that_fails_is_a_failed_result(tmp_path):
    def script(body):
        if "Find the datum." in str(body["messages"][0]):
            return Failure(status=400, message="not today")
        return [Use("task", {"title": "find", "prompt": "Find the datum."})] if len(body["messages"]) == 1 else "Well."

    with Upstream(script) as upstream:
        events = list(Stage(tmp_path, upstream).chat().agent.run_turn("What is it?"))

    (outcome,) = [event.result for event in events if isinstance(event, ToolEnd)]
    assert outcome.is_error
    assert "not today" in outcome.text
    assert kinds(events)[-1] == "ReplyEnd"


def test_a_person_who_does_not_wait_for_a_summary_gets_the_facts(tmp_path):
    reads = [[Use("bash", {"command": f"seq {n}000 {n}200"})] for n in range(6)]
    with Upstream([*reads, "Done."]) as upstream:
        chat = Stage(tmp_path, upstream).chat()
        list(chat.agent.run_turn("Count."))
        sent = len(upstream.requests)
        chat.agent.interrupt()
        compaction = chat.agent.context.compact(apply=False)

    assert len(upstream.requests) == sent
    assert compaction.edits
    assert "seq 1000" in compaction.text


def test_the_first_request_knows_the_place_the_rules_and_the_tools(tmp_path):
    with Upstream(["Hello."]) as upstream:
        stage = Stage(tmp_path, upstream)
        (stage.root / "AGENTS.md").write_text("Indent with tabs.")
        list(stage.chat().agent.run_turn("Hi."))

    body = upstream.requests[0].parsed
    assert str(stage.root) in str(body["system"])
    assert "Indent with tabs." in body["messages"][0]["content"][0]["text"]
    names = [tool["name"] for tool in body["tools"]]
    assert names == ["bash", "read", "write", "edit", "grep", "glob", "todo", "task", "ebb_recall", "ebb_read"]
    assert "cache_control" in str(body)


def test_prompts_differ_by_family_and_all_explain_recall():
    found = {name: prompt_for(name) for name in ("claude-sonnet-5", "gpt-5", "gpt-4o", "gemini-3", "qwen3")}

    assert len(set(found.values())) == 5
    assert all("ebb_recall" in text for text in found.values())


def test_an_empty_turn_with_nothing_open_says_so(tmp_path):
    with Upstream([]) as upstream:
        events = list(Stage(tmp_path, upstream).chat().agent.run_turn())

    assert isinstance(events[-1].error, BadRequest)
    assert not upstream.requests


def test_the_loop_is_short_enough_to_read_at_once():
    import ebbtide.fronts.chat.loop as loop

    assert len(Path(loop.__file__).read_text().splitlines()) < 200
