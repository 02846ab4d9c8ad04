"""`ebb chat` with Gemini's own API: JSON as it is, without an SDK."""

import json
import os
import subprocess
import sys

import pytest

from ebbtide.config import Account, environment_without_keys, load_access
from ebbtide.fronts.chat.error_messages import explain_error
from ebbtide.fronts.chat.events import ToolEnd, TurnFailure
from ebbtide.fronts.chat.loop import final_reply
from fronts.chat.stage import Stage
from upstream.script import Failure, Say, Use
from upstream.server import Upstream


def contents(upstream, number):
    return upstream.requests[number].parsed["contents"]


def test_a_reply_is_sent_back_with_its_signature_and_each_call_with_its_result(tmp_path):
    with Upstream(
        [[Say("I look."), Use("bash", {"command": "echo tide"}), Use("glob", {"pattern": "*"})], "Yes."]
    ) as upstream:
        events = list(Stage(tmp_path, upstream, "gemini").chat().agent.run_turn("Go."))
        calls = [part for part in contents(upstream, 1)[-2]["parts"] if "functionCall" in part]
        results = [part["functionResponse"] for part in contents(upstream, 1)[-1]["parts"][:2]]

    assert [part["functionCall"]["name"] for part in calls] == ["bash", "glob"]
    assert calls[0]["thoughtSignature"]
    assert [result["id"] for result in results] == [part["functionCall"]["id"] for part in calls]
    assert "tide" in results[0]["response"]["output"]
    assert len({event.call.id for event in events if isinstance(event, ToolEnd)}) == 2
    assert not [request.refused for request in upstream.requests if request.refused]


def test_all_tools_are_functions_of_one_tool(tmp_path):
    with Upstream(["Hello."]) as upstream:
        final_reply(Stage(tmp_path, upstream, "gemini").chat().agent.run_turn("Hi."))
        (tool,) = upstream.requests[0].parsed["tools"]

    assert {"bash", "task", "ebb_recall", "ebb_read"} <= {one["name"] for one in tool["functionDeclarations"]}


def test_a_refusal_is_explained_in_the_providers_words(tmp_path):
    with Upstream([Failure(status=403, message="API key not valid.")]) as upstream:
        (*_, event) = Stage(tmp_path, upstream, "gemini").chat().agent.run_turn("Go.")

    assert isinstance(event, TurnFailure)
    assert explain_error(event.error) == (
        "the provider refused (403): API key not valid.; the key has no permission for this"
    )


def test_a_provider_that_is_busy_for_a_moment_is_asked_again(tmp_path):
    with Upstream([Failure(status=503, message="The model is overloaded."), "Four."]) as upstream:
        assert final_reply(Stage(tmp_path, upstream, "gemini").chat().agent.run_turn("Two and two?")) == "Four."
        assert len(upstream.requests) == 2


def test_a_provider_that_stays_busy_is_asked_three_times(tmp_path):
    with Upstream([Failure(status=429, message="Resource exhausted.")] * 3) as upstream:
        (*_, event) = Stage(tmp_path, upstream, "gemini").chat().agent.run_turn("Go.")
        assert len(upstream.requests) == 3

    assert isinstance(event, TurnFailure)
    assert "Resource exhausted." in explain_error(event.error)


def test_keys_and_address_are_those_of_the_environment(tmp_path, monkeypatch):
    environ = {"GOOGLE_API_KEY": "k1", "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:8080"}
    access = load_access(environ=environ, home=tmp_path)
    assert access.accounts["gemini"] == Account(key="k1", url="http://127.0.0.1:8080")
    environ["GEMINI_API_KEY"] = "k2"
    assert load_access(environ=environ, home=tmp_path).accounts["gemini"].key == "k2"

    monkeypatch.setenv("GEMINI_API_KEY", "secret")
    assert "GEMINI_API_KEY" not in environment_without_keys()


@pytest.mark.parametrize("arguments", [[], ["--model", "gemini-2.5-flash"], ["--provider", "gemini"]])
def test_the_command_finds_gemini_by_key_model_or_option(tmp_path, arguments):
    with Upstream(["Four."]) as upstream:
        keys = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "EBB_MODEL")
        environ = {name: value for name, value in os.environ.items() if name not in keys}
        environ |= {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": upstream.url, "EBB_HOME": str(tmp_path / "store")}
        command = [sys.executable, "-m", "ebbtide", "chat", "-p", "2 + 2?", "--output", "json", *arguments]
        done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=True)

    answer = json.loads(done.stdout)
    assert answer["answer"] == "Four."
    assert answer["model"] == (arguments[1] if "--model" in arguments else "gemini-2.5-pro")
    assert upstream.requests[0].headers.get("x-goog-api-key") == "k"
