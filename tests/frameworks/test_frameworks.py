"""Real agents of real frameworks, with the adapters as a user would add them, against a provider that checks each request.

The tests run the four frameworks that most people use; `EBB_FRAMEWORKS=all` adds the others, 1.5 GB in all.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from frameworks.environments import ENVIRONMENTS, ROOT, CannotInstall, environ_of, python_of
from frameworks.scenario import STEPS, WINDOW, Verdict

pytestmark = pytest.mark.timeout(900)  # the first test that needs an environment installs it

ALWAYS = [
    "langchain anthropic sync",
    "langchain openai_chat async",
    "langchain openai_responses stream",
    "pydantic_ai anthropic stream",
    "pydantic_ai openai_chat sync",
    "openai_agents openai_chat sync",
    "openai_agents openai_responses stream",
    "strands anthropic sync",
    "strands openai_chat stream",
]
MORE = [
    "langchain anthropic stream",
    "langchain anthropic async",
    "pydantic_ai anthropic async",
    "pydantic_ai openai_responses stream",
    "openai_agents openai_chat async",
    "strands anthropic async",
    "strands openai_chat sync",
    "deepagents anthropic sync",
    "deepagents anthropic async",
    "deepagents anthropic stream",
    "google_adk gemini async",
    "google_adk gemini stream",
    "litellm anthropic sync",
    "litellm anthropic async",
    "litellm openai_chat stream",
    "litellm openai_chat astream",
    "litellm_proxy openai_chat guardrail",
    "litellm_proxy openai_chat hook",
    "litellm_proxy_oldest openai_chat guardrail",
    "claude_agent_sdk anthropic stream",
    "agent_framework anthropic async",
    "agent_framework anthropic stream",
    "smolagents openai_chat sync",
    "haystack openai_chat sync",
]
ALL = os.environ.get("EBB_FRAMEWORKS") == "all"
ALONE = [
    *(ALWAYS[at] for at in (0, 3, 5, 7)),
    "deepagents anthropic sync",
    "google_adk gemini async",
    "litellm anthropic sync",
    "litellm_proxy openai_chat guardrail",
    "claude_agent_sdk anthropic stream",
    "agent_framework anthropic async",
    "smolagents openai_chat sync",
    "haystack openai_chat sync",
]
FINISHES_ALONE = {"claude_agent_sdk"}
"""Claude Code compacts by itself after each refusal, and loses the user's words."""
IN_A_PROXY = {"litellm_proxy", "litellm_proxy_oldest", "claude_agent_sdk"}
"""Another process does our work, so there are no reports here."""
CANNOT_RECALL = {"litellm_proxy openai_chat hook"}
"""A callback of LiteLLM's proxy cannot answer calls of a tool."""
WITH_HELPERS = {"pydantic_ai": 1, "openai_agents": 1, "strands": 1, "google_adk": 1, "deepagents": 2}
"""How many sub-agents the agent asks."""
WINDOWS = {"deepagents": 30_000, "claude_agent_sdk": 60_000}


def run_loop(run: str, *options: str) -> Verdict:
    loop, wire, mode = run.split()
    try:
        python = python_of(ENVIRONMENTS[loop])
    except CannotInstall as problem:
        pytest.skip(f"the environment of {loop} cannot be installed here: {str(problem)[-300:]}")
    helpers = ("--helper-at", "9") if loop in WITH_HELPERS else ()
    window = ("--window", str(WINDOWS.get(loop, WINDOW)))
    command = [python, "-m", "frameworks.run_loop", loop, wire, mode, *helpers, *window, *options]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=800, cwd=ROOT, env=environ_of(), check=False
    )
    lines = [line for line in result.stdout.splitlines() if line.startswith("VERDICT ")]
    assert lines, result.stderr[-3000:]
    return Verdict(**json.loads(lines[-1].removeprefix("VERDICT ")))


@pytest.mark.parametrize("run", [*ALWAYS, *(MORE if ALL else [])])
def test_an_agent_works_on_in_a_window_that_it_has_filled_several_times(run):
    verdict = run_loop(run)
    loop = run.split()[0]

    assert verdict.error == ""
    assert verdict.too_long + verdict.invalid == 0, verdict.examples
    assert verdict.is_finished
    helpers = WITH_HELPERS.get(loop, 0)
    assert verdict.accepted >= STEPS + 30 * helpers
    assert verdict.keeps_words
    assert verdict.recalled or run in CANNOT_RECALL
    assert verdict.breaks >= 3, "the window was filled several times"
    if loop in IN_A_PROXY:
        assert verdict.breaks <= STEPS // 3, "a batch frees several results at once"
        return
    assert len(verdict.sessions) == 1 + helpers, "each agent has a session of its own"
    moved = 1 if loop == "haystack" else 0  # it repeats its system prompt when the user goes on
    assert verdict.breaks <= verdict.edits + moved, "between edits each request extends the last"


@pytest.mark.parametrize("run", ALONE if ALL else ALONE[:4])
def test_without_us_the_same_agent_does_not_finish_or_forgets(run):
    verdict = run_loop(run, "--arm", "alone")

    if run.split()[0] in FINISHES_ALONE:
        assert not verdict.keeps_words
        return
    assert not verdict.is_finished
    assert verdict.error


def test_the_adapters_use_public_names_only():
    for path in Path(ROOT / "src" / "ebbtide" / "adapters").glob("*.py"):
        assert "from ebbtide" not in path.read_text(encoding="utf-8"), path
        assert "import ebbtide." not in path.read_text(encoding="utf-8"), path
