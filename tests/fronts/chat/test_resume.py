"""A session is its log: whatever happened to the program, the conversation is told again as it was."""

import json

import pytest

from ebbtide import Context
from ebbtide.core.errors import BadRequest
from ebbtide.fronts.chat.chat_records import INTERRUPTED
from ebbtide.fronts.chat.events import RequestStart, ToolEnd
from ebbtide.fronts.chat.loop import final_reply
from ebbtide.fronts.chat.permission import PermissionAnswer
from ebbtide.fronts.chat.session import find_session
from fronts.chat.stage import Stage
from upstream.script import Cut, Failure, Say, Think, Use
from upstream.server import Upstream

WIRES = ("anthropic", "openai", "responses", "gemini")
KEY = {"anthropic": "messages", "openai": "messages", "responses": "input", "gemini": "contents"}


def unmarked(message) -> str:
    """Cache marks move; all else must stay."""
    return (
        json.dumps(message, sort_keys=True)
        .replace(', "cache_control": {"type": "ephemeral"}', "")
        .replace('"cache_control": {"type": "ephemeral"}, ', "")
    )


def sent(upstream, key, at=-1):
    return [unmarked(message) for message in upstream.requests[at].parsed[key]]


@pytest.mark.parametrize("provider", WIRES)
def test_a_resumed_session_sends_what_it_would_have_sent(tmp_path, provider):
    script = [
        [Say("I look."), Use("bash", {"command": "exit 3"}), Use("todo", {"todos": [{"content": "x", "status": "pending"}]})],
        [Use("read", {"path": "gone"})],
        "Done.", "And more.", "Again.",
    ]  # fmt: skip
    with Upstream(script) as upstream:
        stage = Stage(tmp_path, upstream, provider)
        (stage.root / "AGENTS.md").write_text("Be brief.")
        list(stage.chat().agent.run_turn("First."))
        resumed = stage.chat()
        assert not resumed.is_waiting
        assert resumed.agent.state.todos == [{"content": "x", "status": "pending"}]
        list(resumed.agent.run_turn("Second."))
        list(stage.chat().agent.run_turn("Third."))

        key = KEY[provider]
        before, after, last = sent(upstream, key, 2), sent(upstream, key, 3), sent(upstream, key, 4)
        assert after[: len(before)] == before
        assert last[: len(after)] == after
        assert (
            len(
                {
                    json.dumps(request.parsed.get("system") or request.parsed.get("instructions")).replace(
                        ', "cache_control": {"type": "ephemeral"}', ""
                    )
                    for request in upstream.requests
                }
            )
            == 1
        )
        assert (
            len(
                {
                    json.dumps(one.parsed["tools"]).replace(', "cache_control": {"type": "ephemeral"}', "")
                    for one in upstream.requests
                }
            )
            == 1
        )
        assert not [one.refused for one in upstream.requests if one.refused]


@pytest.mark.parametrize("provider", WIRES)
def test_a_call_that_was_cut_off_is_answered_as_interrupted_and_a_finished_one_keeps_its_result(tmp_path, provider):
    """The program dies between two calls of one reply."""
    script = [[Use("bash", {"command": "echo fi''rst"}), Use("bash", {"command": "echo sec''ond"})], "I see."]
    with Upstream(script) as upstream:
        stage = Stage(tmp_path, upstream, provider)
        for event in stage.chat().agent.run_turn("Go."):
            if isinstance(event, ToolEnd):
                break  # Nothing more is heard of it.
        resumed = stage.chat()
        assert resumed.is_waiting
        assert final_reply(resumed.agent.run_turn()) == "I see."

    told = str(upstream.requests[-1].parsed)
    assert "first" in told
    assert told.count(INTERRUPTED) == 1
    assert not [request.refused for request in upstream.requests if request.refused]


@pytest.mark.parametrize("provider", WIRES)
def test_a_missing_answer_is_asked_for_again(tmp_path, provider):
    with Upstream(["Here."]) as upstream:
        stage = Stage(tmp_path, upstream, provider)
        for event in stage.chat().agent.run_turn("Where?"):
            if isinstance(event, RequestStart):
                break
        resumed = stage.chat()
        assert resumed.is_waiting
        assert final_reply(resumed.agent.run_turn("Quickly.")) == "Here."

    last = upstream.requests[-1].parsed[KEY[provider]]
    assert "Where?" in str(last)
    assert "Quickly." in str(last[-1])


def test_text_sent_after_a_failure_is_sent_again_unchanged(tmp_path):
    """The person wrote twice in a row, and the engine joined the two."""
    with Upstream([Failure(status=400), "Yes.", "Still."]) as upstream:
        stage = Stage(tmp_path, upstream)
        agent = stage.chat().agent
        list(agent.run_turn("One."))
        list(agent.run_turn("Two."))
        list(stage.chat().agent.run_turn("Three."))

    before, after = sent(upstream, "messages", 1), sent(upstream, "messages", 2)
    assert "One." in before[0]
    assert "Two." in before[0]
    assert after[: len(before)] == before


def test_thinking_is_sent_back_exactly_as_signed(tmp_path):
    script = [[Think("Where may it be?"), Use("bash", {"command": "true"})], "There."]
    with Upstream(script) as upstream:
        stage = Stage(tmp_path, upstream, "responses")
        for event in stage.chat().agent.run_turn("Where?"):
            if isinstance(event, ToolEnd):
                break
        assert final_reply(stage.chat().agent.run_turn()) == "There."

    assert "encrypted_content" in str(upstream.requests[-1].parsed["input"])
    assert not [request.refused for request in upstream.requests if request.refused]


def test_a_lasting_permission_and_known_files_outlive_the_program(tmp_path):
    script = [
        [Use("bash", {"command": "ls"}), Use("write", {"path": "b.txt", "content": "x = 1\n"})], "Done.",
        [Use("bash", {"command": "ls -a b.txt"}), Use("edit", {"path": "b.txt", "old": "1", "new": "2"})], "Done again.",
    ]  # fmt: skip
    with Upstream(script) as upstream:
        stage = Stage(tmp_path, upstream, answer=lambda question: PermissionAnswer(allowed=True, remember=True))
        list(stage.chat().agent.run_turn("Go."))
        events = list(stage.chat().agent.run_turn("Again."))

    assert len(stage.asked) == 1
    assert not [event.result.text for event in events if isinstance(event, ToolEnd) and event.result.is_error]
    assert (stage.root / "b.txt").read_text() == "x = 2\n"


def test_the_bill_continues_after_a_resume(tmp_path):
    with Upstream(["One.", "Two."]) as upstream:
        stage = Stage(tmp_path, upstream)
        list(stage.chat().agent.run_turn("Go."))
        chat = stage.chat()
        list(chat.agent.run_turn("On."))

    assert chat.bill.usage.prompt == sum(request.usage.prompt for request in upstream.requests)
    assert chat.bill.dollars > 0


def test_another_model_of_the_same_wire_can_resume_and_another_wire_cannot(tmp_path):
    from ebbtide.fronts.chat.providers import make_provider

    with Upstream(["One.", "Two."]) as upstream:
        stage = Stage(tmp_path, upstream)
        list(stage.chat().agent.run_turn("Go."))
        other = make_provider("anthropic", "claude-opus-5", upstream.url, stage.setup().access)
        list(stage.chat(provider=other).agent.run_turn("On."))
        with pytest.raises(BadRequest, match="/clear"):
            stage.chat(provider=make_provider("openai", "gpt-5", upstream.url, stage.setup().access))

    assert upstream.requests[1].parsed["model"] == "claude-opus-5"
    assert len(upstream.requests[1].parsed["messages"]) == 3
    assert "claude-opus-5" in str(upstream.requests[1].parsed["system"])


def test_sessions_are_found_by_the_beginning_of_their_id(tmp_path):
    with Upstream(["One.", "Two."]) as upstream:
        stage = Stage(tmp_path, upstream)
        for name in ("20260101-one", "20260102-two"):
            list(stage.chat(name).agent.run_turn("Go."))
        store, project = stage.setup().store, stage.setup().project

    assert find_session(store, project, "").session == "20260102-two"
    assert find_session(store, project, "20260101").session == "20260101-one"
    for wrong in ("2026", "nothing"):
        with pytest.raises(BadRequest, match="20260101-one"):
            find_session(store, project, wrong)


def test_an_empty_session_leaves_no_trace(tmp_path):
    with Upstream(["One."]) as upstream:
        stage = Stage(tmp_path, upstream)
        list(stage.chat("20260101-said").agent.run_turn("Go."))
        stage.chat("20260102-silent")
        store, project = stage.setup().store, stage.setup().project

        assert find_session(store, project, "").session == "20260101-said"


def test_sessions_of_other_programs_are_neither_listed_nor_resumed(tmp_path):
    with Upstream([]) as upstream:
        stage = Stage(tmp_path, upstream)
        other = Context(store=stage.setup().store, session="nightly", project=stage.setup().project)
        other.prepare({"model": "claude-sonnet-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]})

        with pytest.raises(BadRequest, match="no session of this project"):
            find_session(stage.setup().store, stage.setup().project, "")
        with pytest.raises(BadRequest, match="another program"):
            stage.chat("nightly")


def test_a_reply_that_broke_off_leaves_nothing_behind(tmp_path):
    with Upstream([Cut([Say("Half of it, no more. " * 20)], 4), "Whole."]) as upstream:
        stage = Stage(tmp_path, upstream)
        list(stage.chat().agent.run_turn("Go."))
        resumed = stage.chat()
        assert resumed.is_waiting
        assert final_reply(resumed.agent.run_turn()) == "Whole."
