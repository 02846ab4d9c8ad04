"""What a model's recall tools reach: its own session. Not its neighbour's, not its parent's, whatever it asks for."""

import pytest

from ebbtide.fronts.chat.providers import ToolCall
from ebbtide.fronts.chat.tools import Arguments
from fronts.chat.stage import Stage
from upstream.script import Use
from upstream.server import Upstream

A, B = "20260101-000000-000", "20260102-000000-000"


def answer(chat, tool: str, **arguments: object) -> str:
    return chat.agent._run_tool(ToolCall(id="c", name=tool, arguments=Arguments(arguments))).text


def test_a_session_of_the_same_project_is_out_of_reach(tmp_path):
    with Upstream(["Noted.", "Noted too."]) as upstream:
        stage = Stage(tmp_path, upstream)
        first, second = stage.chat(A), stage.chat(B)
        list(first.agent.run_turn("The needle of Ada lies in Brest."))
        list(second.agent.run_turn("The needle of Grace lies in Leith."))
        (hit, *_) = first.agent.context.recall("needle of Ada")

        assert "Brest" in answer(first, "ebb_recall", query="needle Ada Brest")
        assert "Brest" not in answer(second, "ebb_recall", query="needle Ada Brest")
        assert "Brest" in answer(first, "ebb_read", handle=hit.handle)
        for handle in (hit.handle, f"{A}/{hit.handle}", f"../{A}.jsonl", str(next(tmp_path.rglob(f"{A}.jsonl")))):
            assert "Error" in answer(second, "ebb_read", handle=handle)
        # Arguments that people have on the command line, and models do not.
        more = {"session": A, "across": True, "project": str(stage.root)}
        assert "Brest" not in answer(second, "ebb_recall", query="needle Ada Brest", **more)
        assert "Error" in answer(second, "ebb_read", handle=hit.handle, **more)


@pytest.mark.parametrize("asks", ["ebb_recall", "ebb_read"])
def test_a_sub_agent_does_not_read_its_parent(tmp_path, asks):
    results: list[str] = []

    def play(body):
        last = str(body["messages"][-1])
        if "Find it." in last and "tool_result" not in last:
            return [Use(asks, {"query": "needle Brest", "handle": handle})]
        if "tool_result" in last and "sub-agent" in str(body["system"]):
            results.append(last)
            return "I cannot."
        if "Go." in last:
            return [Use("task", {"title": "find", "prompt": "Find it."})]
        return "Noted."

    with Upstream(play) as upstream:
        chat = Stage(tmp_path, upstream).chat(A)
        list(chat.agent.run_turn("The needle lies in Brest."))
        handle = chat.agent.context.recall("needle")[0].handle
        list(chat.agent.run_turn("Go."))

    assert len(results) == 1
    assert "Nothing in this session's record matches" in results[0] or "not a handle" in results[0]
    assert "lies in Brest" not in results[0]


def test_without_a_session_there_is_nothing_to_recall(tmp_path):
    with Upstream([]) as upstream:
        state = Stage(tmp_path, upstream).chat().agent.state

    assert "Nothing in this session's record" in state.run_recall("ebb_recall", Arguments(query="anything")).text
