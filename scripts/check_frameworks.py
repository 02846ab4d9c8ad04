"""Run a user's lines for each agent framework in a fresh environment: `python -m scripts.check_frameworks [NAME ...]`.

The lines are those of `docs/how-to/frameworks.md`. Nothing is pinned, so this tells whether new versions work.
It needs a package index and some minutes. The provider is the scripted one of the tests.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from frameworks.test_page import BLOCKS, addresses  # noqa: E402
from upstream.server import Upstream  # noqa: E402

INSTALL = {
    "langchain.agents": ".[langchain] langchain-anthropic",
    "deepagents": ".[langchain] deepagents",
    "pydantic_ai": ".[pydantic-ai] pydantic-ai-slim[anthropic]",
    "agents": ".[openai-agents]",
    "strands": ".[strands] strands-agents[anthropic]",
    "google.adk.agents": ".[google-adk]",
    "ebbtide.adapters.litellm": ".[litellm]",
    "claude_agent_sdk": ".[claude-agent-sdk]",
    "agent_framework": ". agent-framework-core agent-framework-anthropic --prerelease=if-necessary-or-explicit",
    "smolagents": ". smolagents[openai]",
    "haystack.components.agents": ". haystack-ai",
}
"""By the first package that the lines import, besides ours: what to install beside the package itself."""
SECONDS = 900


def name_of(code: str) -> str:
    """Return the framework that these lines are for."""
    imports = re.findall(r"^(?:from|import) ([\w.]+)", code, re.MULTILINE)
    return next((name for name in imports if name in INSTALL), "")


def check(name: str, code: str) -> str:
    """Install and run the lines. Return what went wrong; '' if nothing did."""
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder, "env", "bin", "python")
        uv = [sys.executable, "-m", "uv"]
        what, *more = INSTALL[name].split()
        package = f"{ROOT}{what.removeprefix('.')}"
        for command in (
            [*uv, "venv", "--quiet", "--python", sys.executable, str(python.parents[1])],
            [*uv, "pip", "install", "--quiet", "--python", str(python), package, *more],
        ):
            result = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
            if result.returncode:
                return f"cannot be installed: {result.stderr[-500:]}"
        Path(folder, "program.py").write_text(code, encoding="utf-8")
        with Upstream(lambda _: "Hello from the tides.") as upstream:
            environ = {"PATH": "/usr/bin:/bin", **addresses(upstream.url, folder)}
            result = subprocess.run(
                [python, "program.py"],
                capture_output=True, text=True, timeout=SECONDS, cwd=folder, env=environ, check=False,
            )  # fmt: skip
        return "" if "Hello from the tides." in result.stdout else result.stderr[-800:] or result.stdout[-800:]


def main(wanted: list[str]) -> int:
    codes = {name_of(code): code for _, code in BLOCKS}
    unknown = set(wanted) - set(codes)
    if unknown:
        print(f"the page has no lines for {', '.join(sorted(unknown))}; it has {', '.join(codes)}", file=sys.stderr)
        return 2
    failures = 0
    for name in wanted or codes:
        problem = check(name, codes[name])
        failures += bool(problem)
        print(f"{'FAILED' if problem else 'passed'}  {name}  {problem}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="frameworks, by the package that their lines import; default: all")
    sys.exit(main(parser.parse_args().names))
