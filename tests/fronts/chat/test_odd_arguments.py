"""Whatever a model puts into a call, it gets an answer: a sentence it can act on, never an exception."""

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ebbtide.core.tool_calls import RECALL_TOOLS
from ebbtide.fronts.chat.events import ToolEnd
from ebbtide.fronts.chat.permission import PermissionAnswer
from ebbtide.fronts.chat.providers import ToolCall
from ebbtide.fronts.chat.tools import TOOLS, Arguments
from fronts.chat.stage import Stage
from upstream.script import Use
from upstream.server import Upstream

ODD = [
    *("\0", "a\0b", "\ud800", "a\udfffb", "\udc80", "~nouser", "~nouser/x", "~", "~/x", "/", "//", ".", "..", "../..", "", " "),
    *("\n", "\r", "\x1b[2J", "\u202e", "\ufeff", "é", "e\u0301", "𝒳", "a" * 300, "a/" * 3_000, "-", "--", "-rf", "*", "**", "**/"),
    *("[", "[]", "[!", "{", "(", "\\", "\\\\", "%s", "{0}", "$HOME", "`id`", "con", "NUL", "a:b", ".git", ".GIT/config", "/dev/null"),
    *("/proc/self/mem", "/dev/full", "file:///etc/passwd", "\U0010ffff", "0", "-1", "1e999", "nan", "null", "true"),
]  # fmt: skip
NUMBERS = st.sampled_from(
    [0, -1, 1, 2**31, 2**63, 2**64, 10**40, 1e308, float("inf"), float("nan"), True, None, "1e400"]
)
TEXTS = st.one_of(st.sampled_from(ODD), st.text(st.characters(), max_size=12))
VALUES = st.one_of(
    TEXTS,
    NUMBERS,
    st.lists(TEXTS, max_size=2),
    st.dictionaries(TEXTS, TEXTS, max_size=2),
    st.lists(st.fixed_dictionaries({"content": TEXTS, "status": st.one_of(TEXTS, st.just("pending"))}), max_size=2),
)
FIELDS = {tool.name: sorted(tool.properties) for tool in TOOLS if tool.name != "bash"}
FIELDS |= {name: ["query", "handle", "start", "end"] for name in RECALL_TOOLS}
BY_ACCIDENT = re.compile(r"\w+ failed: \w+(?:Error|Exception)\b")
"""What the loop says of an exception that no tool foresaw."""


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    with Upstream([]) as upstream:
        stage = Stage(tmp_path_factory.mktemp("odd"), upstream, answer=lambda _: PermissionAnswer(allowed=False))
        (stage.root / "a.txt").write_text("a\n")
        agent = stage.chat().agent
        agent.state.run_subagent = lambda title, prompt: f"{title}: {prompt}"
        yield agent


@pytest.mark.parametrize("name", sorted(FIELDS))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, *HealthCheck])
@given(data=st.data())
def test_no_tool_raises_whatever_it_is_given(agent, name, data):
    arguments = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS[name], VALUES)))

    outcome = agent._run_tool(ToolCall(id="c", name=name, arguments=Arguments(arguments)))

    assert not BY_ACCIDENT.match(outcome.text), (arguments, outcome.text)
    json.dumps(outcome.text, ensure_ascii=False).encode()  # It has to go into the next request.


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["read", "write", "edit", "grep", "glob"])
def test_no_odd_path_raises(agent, name, odd):
    rest = {"content": "x", "old": "a", "new": "b", "pattern": "a"}
    outcome = agent._run_tool(ToolCall(id="c", name=name, arguments=Arguments(rest, path=odd)))

    assert not BY_ACCIDENT.match(outcome.text), outcome.text


@pytest.mark.parametrize("odd", ODD)
def test_no_odd_word_in_a_command_raises(agent, odd):
    agent.permissions.ask = lambda _: PermissionAnswer(allowed=True)
    quoted = "'" + odd.replace("'", "") + "'"
    outcome = agent._run_tool(ToolCall(id="c", name="bash", arguments=Arguments(command=f": {quoted}")))
    agent.permissions.ask = lambda _: PermissionAnswer(allowed=False)

    assert not BY_ACCIDENT.match(outcome.text), outcome.text


def test_a_refusal_says_what_is_wrong(agent):
    def told(name, **arguments):
        return agent._run_tool(ToolCall(id="c", name=name, arguments=Arguments(arguments))).text

    for name, arguments in (
        ("read", {"path": "a\0b"}),
        ("bash", {"command": "echo \0"}),
        ("write", {"path": "b.txt", "content": "\ud800"}),
        ("ebb_recall", {"query": "\udfff"}),
        ("todo", {"todos": [{"content": "\ud800", "status": "pending"}]}),
    ):
        assert "NUL or half of a surrogate pair" in told(name, **arguments)
    assert "~nouser" in told("read", path="~nouser/x")
    assert not (agent.state.root / "b.txt").exists()


@pytest.mark.parametrize("provider", ["anthropic", "openai", "responses", "gemini"])
def test_the_conversation_continues_after_odd_arguments(tmp_path, provider):
    # The SDK of Anthropic refuses a stream with half of a surrogate pair by itself: that never reaches a tool.
    half = "~nouser" if provider == "anthropic" else "\ud800"
    odd = [Use("read", {"path": text}) for text in ("a\0b", "~nouser/x", half)]
    with Upstream([odd, [Use("bash", {"command": "echo \0"})], "I see."]) as upstream:
        events = list(Stage(tmp_path, upstream, provider).chat().agent.run_turn("Go."))

    assert [event.result.is_error for event in events if isinstance(event, ToolEnd)] == [True] * 4
    assert type(events[-1]).__name__ == "ReplyEnd"
    assert events[-1].reply.text == "I see."
