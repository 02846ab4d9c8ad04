"""The code of `docs/how-to/frameworks.md`, as a user would paste it into a file, in the environment of its framework."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from benchmarks.frameworks import RESULTS, SUBJECTS, table

from frameworks.environments import ENVIRONMENTS, ROOT, CannotInstall, environ_of, python_of
from upstream.server import Upstream

PAGE = ROOT / "docs" / "how-to" / "frameworks.md"
BLOCKS = re.findall(r"^```python ([a-z-]+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
ALWAYS = {"agents", "strands"}
RUN = [block for block in BLOCKS if block[0] in ALWAYS or os.environ.get("EBB_FRAMEWORKS") == "all"]

pytestmark = pytest.mark.timeout(900)


def addresses(url: str, home: str) -> dict[str, str]:
    """Return the environment variables that lead all SDKs, and `ebb proxy`, to the scripted provider."""
    settings = Path(home, ".config", "ebbtide", "config.toml")
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[proxy.upstreams]\nanthropic = "{url}"\n', encoding="utf-8")
    return {
        "ANTHROPIC_BASE_URL": url,
        "OPENAI_BASE_URL": f"{url}/v1",
        "GOOGLE_GEMINI_BASE_URL": url,
        "ANTHROPIC_API_BASE": url,
        **dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY"), "k"),
        "HOME": home,
        "IS_SANDBOX": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "HAYSTACK_TELEMETRY_ENABLED": "False",
    }


def test_the_page_has_code_for_each_environment():
    assert {environment for environment, _ in BLOCKS} == set(ENVIRONMENTS.values()) - {"litellm-oldest"}  # a proxy only


def test_the_table_is_the_one_that_was_measured():
    """`python -m benchmarks.frameworks --page` writes it."""
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]

    assert table(rows) in PAGE.read_text(encoding="utf-8")
    assert [(row["loop"], row["arm"]) for row in rows] == [
        (subject.run.split(maxsplit=1)[0], arm)
        for subject in SUBJECTS
        for arm in ("ebbtide", "alone", *(["own"] if subject.own else []))
    ]


def test_with_us_no_request_was_refused_and_nothing_was_lost():
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]
    for row in rows:
        if row["arm"] == "ebbtide":
            assert row["too_long"] == row["invalid"] == 0, row["framework"]
            assert row["keeps_words"], row["framework"]
            assert row["recalled"], row["framework"]
            assert row["is_finished"], row["framework"]


@pytest.mark.parametrize(("environment", "code"), RUN, ids=[f"{name}-{at}" for at, (name, _) in enumerate(RUN)])
def test_the_code_runs_and_its_conversation_is_in_the_store(environment, code, tmp_path):
    try:
        python = python_of(environment)
    except CannotInstall as problem:
        pytest.skip(f"the environment {environment} cannot be installed here: {str(problem)[-300:]}")
    (tmp_path / "program.py").write_text(code, encoding="utf-8")
    with Upstream(lambda _: "Hello from the tides.") as upstream:
        environ = {**environ_of(), **addresses(upstream.url, str(tmp_path))}
        result = subprocess.run(
            [python, "program.py"],
            capture_output=True, text=True, timeout=600, cwd=tmp_path, env=environ, check=False,
        )  # fmt: skip
        # Claude Code tries a system message between others, and goes on without it.
        refused = [one.refused for one in upstream.requests if one.refused and one.refused[0].rule != "A2"]

    assert result.returncode == 0, result.stderr[-3000:]
    assert "Hello from the tides." in result.stdout
    assert refused == []
    logs = [path.read_text(encoding="utf-8") for path in (tmp_path / "agents").rglob("*.jsonl")]
    assert any("Hello from the tides." in log for log in logs)
