"""What does one task cost and lose in each agent framework, with Ebbtide and with the framework alone?

    python -m benchmarks.frameworks                       # all frameworks
    python -m benchmarks.frameworks --only langchain,strands --json

Each framework runs in an environment of its own, which is installed first (1.5 GB for all). The agent reads 66 files in
a window that holds a third of them; see `tests/frameworks/scenario.py`. The provider checks every request by its own
reading of the rules. `--page` writes the table into `docs/how-to/frameworks.md`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from frameworks.environments import CannotInstall, environ_of, python_of  # noqa: E402
from frameworks.scenario import STEPS  # noqa: E402
from frameworks.test_frameworks import ALWAYS, ENVIRONMENTS, MORE, WINDOWS, WITH_HELPERS  # noqa: E402

PAGE = ROOT / "docs" / "how-to" / "frameworks.md"
PACKAGES = {
    "langchain": "langchain", "deepagents": "deepagents", "pydantic_ai": "pydantic-ai-slim",
    "openai_agents": "openai-agents", "strands": "strands-agents", "google_adk": "google-adk",
    "litellm": "litellm", "claude_agent_sdk": "claude-agent-sdk",
}  # fmt: skip
SECONDS = 1800
HEAD = (
    "| framework | API format, way | | accepted | refused as too long | invalid | largest | prefix breaks | "
    "user's words kept | read back | finished |\n|" + "---|" * 11
)


def rows(only: set[str]) -> Iterator[dict[str, object]]:
    for run in [*ALWAYS, *MORE]:
        loop, wire, mode = run.split()
        if only and loop not in only:
            continue
        try:
            python = python_of(ENVIRONMENTS[loop])
        except CannotInstall as problem:
            print(f"skipped {loop}: {str(problem)[-200:]}", file=sys.stderr)
            continue
        version = _version(python, PACKAGES[loop])
        for is_alone in (False, True):
            print(f"{run}{' alone' if is_alone else ''} ...", file=sys.stderr, flush=True)
            verdict = _verdict(python, loop, wire, mode, is_alone=is_alone)
            row = {"framework": PACKAGES[loop], "version": version, "wire": wire, "mode": mode, "alone": is_alone}
            yield {**row, "error": "no verdict"} if verdict is None else {**row, **verdict}


def _verdict(python: Path, loop: str, wire: str, mode: str, *, is_alone: bool) -> dict[str, object] | None:
    options = ["--alone"] if is_alone else []
    options += ["--helper-at", "9"] if loop in WITH_HELPERS else []
    options += ["--window", str(WINDOWS[loop])] if loop in WINDOWS else []
    command = [python, "-m", "frameworks.run_loop", loop, wire, mode, *options]
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT, env=environ_of(), check=False
        )
    except subprocess.TimeoutExpired:
        return None
    lines = [line for line in result.stdout.splitlines() if line.startswith("VERDICT ")]
    return json.loads(lines[-1].removeprefix("VERDICT ")) if lines else None


def _version(python: Path, package: str) -> str:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def table(results: list[dict[str, object]]) -> str:
    lines = [HEAD]
    for row in results:
        cells = [f"{row['framework']} {row['version']}", f"{row['wire']}, {row['mode']}"]
        cells += ["alone" if row["alone"] else "**with Ebbtide**"]
        cells += [f"{row.get(name, 0):,}" for name in ("accepted", "too_long", "invalid", "largest", "breaks")]
        cells += ["yes" if row.get(name) else "no" for name in ("keeps_words", "recalled", "is_finished")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write_page(text: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    page = re.sub(r"(<!-- frameworks -->\n).*\Z", lambda match: f"{match[1]}\n{text}\n", page, flags=re.DOTALL)
    PAGE.write_text(page, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names of loops, with commas between")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--page", action="store_true", help="write the table into the page")
    given = parser.parse_args()
    only = set(filter(None, given.only.split(",")))
    unknown = only - set(PACKAGES)
    if unknown:
        parser.error(f"no loop is called {', '.join(sorted(unknown))}; there are {', '.join(PACKAGES)}")
    results = list(rows(only))
    if given.page:
        write_page(table(results))
    print(json.dumps({"steps": STEPS, "rows": results}, indent=1) if given.json else table(results))


if __name__ == "__main__":
    main()
