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
    "strands openai_chat sync",
]
MORE = [
    "langchain anthropic stream",
    "langchain anthropic async",
    "pydantic_ai openai_responses stream",
    "deepagents anthropic sync",
    "google_adk gemini sync",
    "google_adk gemini stream",
    "litellm anthropic sync",
    "litellm anthropic async",
    "litellm openai_chat stream",
    "claude_agent_sdk anthropic sync",
]
ALL = os.environ.get("EBB_FRAMEWORKS") == "all"
WITH_HELPERS = {"pydantic_ai": 1, "openai_agents": 1, "strands": 1, "deepagents": 2}
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

    assert verdict.error == ""
    assert verdict.too_long + verdict.invalid == 0, verdict.examples
    assert verdict.is_finished
    helpers = WITH_HELPERS.get(run.split()[0], 0)
    assert verdict.accepted >= STEPS + 30 * helpers
    assert len(verdict.sessions) == 1 + helpers, "each agent has a session of its own"
    assert verdict.edits >= 3, "the window was filled several times"
    assert verdict.breaks <= verdict.edits, "between edits each request extends the last"
    assert verdict.keeps_words
    assert verdict.recalled


@pytest.mark.parametrize("run", [ALWAYS[0], ALWAYS[3], ALWAYS[5], ALWAYS[7], *(MORE[3:] if ALL else [])])
def test_without_us_the_same_agent_does_not_finish(run):
    verdict = run_loop(run, "--alone")

    assert not verdict.is_finished
    assert verdict.error


def test_the_adapters_use_public_names_only():
    for path in Path(ROOT / "src" / "ebbtide" / "adapters").glob("*.py"):
        assert "from ebbtide" not in path.read_text(encoding="utf-8"), path
        assert "import ebbtide." not in path.read_text(encoding="utf-8"), path
