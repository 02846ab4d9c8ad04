"""What users of a framework meet if something is wrong: a sentence that says what to do, and nothing is lost."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from functools import cache

import pytest

from ebbtide.adapters import require
from frameworks.environments import ENVIRONMENTS, ROOT, CannotInstall, environ_of, python_of
from frameworks.test_frameworks import ALL

pytestmark = pytest.mark.timeout(900)  # the first test that needs an environment installs it

NO_CLIENT = "has no client .*ebb proxy"
BOTH = "two cannot compact the same conversation: leave .* out"
SAYS = {
    "langchain": {
        "unknown_client": NO_CLIENT,
        "two_compactors": "SummarizationMiddleware has shortened .* leave it out",
        "two_editors": "ContextEditingMiddleware has shortened .* leave it out",
        "two_in_deepagents": "SummarizationMiddleware has shortened .* use DeepAgentsMiddleware",
        "orphan_result": "^Done.$",
        "dying_helper": "^Done.$",
    },
    "pydantic_ai": {
        "unknown_client": NO_CLIENT,
        "two_compactors": f"OpenAICompaction, and {BOTH}",
        "orphan_result": "^Done.$",
        "dying_helper": "^Done.$",
    },
    "openai_agents": {
        "unknown_client": r"wrap\(\) takes a client of an SDK, such as .* not object",
        "orphan_result": "^Done.$",
        "dying_helper": "^Done.$",
    },
    "strands": {
        "unknown_client": NO_CLIENT,
        "two_compactors": "SummarizingConversationManager, and two cannot .* leave out conversation_manager=",
        "two_with_a_context_manager": "a context manager, and two cannot .* leave out context_manager=",
        "orphan_result": "^Done.",
        "dying_helper": "^Done.",
    },
    "google_adk": {
        "unknown_client": "has no google-genai client .*ebb proxy",
        "two_compactors": f"events_compaction_config, and {BOTH}",
        "two_with_a_filter": "ContextFilterPlugin, and two cannot shorten .* leave it out",
        "orphan_result": "Done.",
        "dying_helper": "403 .*no access",  # ADK ends the whole run
    },
    "litellm": {
        "no_session": "pass litellm_session_id=",
        "orphan_result": "A summary",
    },
}
RUN = SAYS if ALL else {name: SAYS[name] for name in ("langchain", "pydantic_ai", "openai_agents", "strands")}
TELLS_THE_PARENT = ("langchain", "pydantic_ai")
"""Their adapters know a sub-agent's parent."""


@cache
def outcomes(framework: str) -> dict[str, dict]:
    """Run all faulty programs of a framework. Returns what each ended with."""
    try:
        python = python_of(ENVIRONMENTS[framework])
    except CannotInstall as problem:
        pytest.skip(f"the environment of {framework} cannot be installed here: {str(problem)[-300:]}")
    command = [python, "-m", "frameworks.run_faults", framework]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=800, cwd=ROOT, env=environ_of(), check=False
    )
    assert result.returncode == 0, result.stderr[-3000:]
    lines = [line.split(" ", 2) for line in result.stdout.splitlines() if line.startswith("FAULT ")]
    return {name: json.loads(found) for _, name, found in lines}


@pytest.mark.parametrize("framework", RUN)
def test_every_fault_has_its_row(framework):
    assert set(outcomes(framework)) == set(SAYS[framework])


@pytest.mark.parametrize(
    ("framework", "fault", "says"), [(name, fault, says) for name, rows in RUN.items() for fault, says in rows.items()]
)
def test_a_fault_ends_in_a_sentence_and_loses_nothing(framework, fault, says):
    outcome = outcomes(framework)[fault]

    assert not [one for one in outcome["refused"] if "no access" not in one], "the provider never refuses a request"
    assert re.search(says, outcome["says"]), outcome["says"]
    if fault == "dying_helper":
        assert outcome["has_helpers_work"], "what the sub-agent had read is in its session"
        assert outcome["has_note"] == (framework in TELLS_THE_PARENT)


EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
ADAPTERS = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "src" / "ebbtide" / "adapters").glob("*.py"))
    if path.stem != "__init__"
}


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_adapter_asks_for_the_version_that_its_extra_installs(adapter):
    needs = [need for need in EXTRAS[adapter.replace("_", "-")] if not need.startswith("ebbtide")]
    package, _, oldest = needs[0].partition(">=")

    assert f'require("{package}", "{oldest}")' in ADAPTERS[adapter]


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_without_its_framework_an_adapter_says_what_to_install(adapter, tmp_path):
    """In an interpreter that sees nothing but our sources."""
    code = f"import sys; sys.path[:0] = [{str(ROOT / 'src')!r}]; import ebbtide.adapters.{adapter}"
    result = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False)

    assert "ImportError: this adapter needs " in result.stderr
    assert "pip install '" in result.stderr


def test_a_version_that_is_too_old_is_named_with_the_one_that_is_needed():
    with pytest.raises(ImportError, match=r"needs pytest 9999.0 or later, and \d.* is installed: pip install -U"):
        require("pytest", "9999.0")
    require("pytest", "1.0")
