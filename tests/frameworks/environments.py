"""The environments of the agent frameworks, one for each file in `requirements/frameworks`, made when first needed.

They stay beside the environment that runs the tests until their requirements change.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 600
"""To install one: they have up to a hundred packages."""
ENVIRONMENTS = {
    **dict.fromkeys(("langchain", "deepagents", "pydantic_ai", "openai_agents"), "agents"),
    "strands": "strands",
    "google_adk": "google-adk",
    "litellm": "litellm",
    "litellm_proxy": "litellm",
    "litellm_proxy_oldest": "litellm-oldest",
    "claude_agent_sdk": "claude-agent-sdk",
    **dict.fromkeys(("agent_framework", "smolagents", "haystack"), "clients"),
}
"""Of each loop."""


class CannotInstall(Exception):
    """There is no package index, or it has not what is pinned."""


def python_of(environment: str) -> Path:
    """Return the Python of an environment. Install it first, if need be."""
    requirements = ROOT / "requirements" / "frameworks" / f"{environment}.txt"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    folder = Path(sys.prefix) / "frameworks" / f"{environment}-{digest}"
    folder.parent.mkdir(exist_ok=True)
    with open(folder.parent / f"{environment}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two workers may want the same one
        if not (folder / "complete").exists():
            _install(folder, requirements)
            (folder / "complete").touch()
    return folder / "bin" / "python"


def _install(folder: Path, requirements: Path) -> None:
    python = folder / "bin" / "python"
    _run(sys.executable, "-m", "uv", "venv", "--clear", "--quiet", "--python", sys.executable, folder)
    install = ("pip", "install", "--quiet", "--require-hashes", "--no-deps", "--python", python, "-r", requirements)
    _run(sys.executable, "-m", "uv", *install)


def _run(*command: object) -> None:
    result = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if result.returncode:
        raise CannotInstall(result.stderr[-2000:])


def environ_of() -> dict[str, str]:
    """Return the environment variables of a loop: our sources, no proxy between, and no network of the framework's own."""
    quiet = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "LANGSMITH_TRACING": "false",
        "HAYSTACK_TELEMETRY_ENABLED": "False",
        "PYTHONWARNINGS": "ignore",
    }
    paths = os.pathsep.join(str(ROOT / name) for name in ("src", "tests"))
    return {**os.environ, **quiet, "PYTHONPATH": paths}
