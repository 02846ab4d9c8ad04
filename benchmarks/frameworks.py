"""What does one task cost and lose in each agent framework, with Ebbtide, with its own compaction, and with neither?

    python -m benchmarks.frameworks                                # all frameworks, into results/frameworks.json
    python -m benchmarks.frameworks --only langchain,strands --json

Each framework runs in an environment of its own, which is installed first (2.5 GB for all). The agent reads 66 files in
a window that holds a third of them; see `tests/frameworks/scenario.py`. The provider checks every request by its own
reading of the rules. `--page` writes the table of the committed results into `docs/how-to/frameworks.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from frameworks.environments import CannotInstall, environ_of, python_of  # noqa: E402
from frameworks.scenario import STEPS, WINDOW  # noqa: E402
from frameworks.test_frameworks import ENVIRONMENTS, WINDOWS, WITH_HELPERS  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "frameworks.json"
PAGE = ROOT / "docs" / "how-to" / "frameworks.md"
SECONDS = 1800
HEAD = (
    "| framework | compaction | accepted | refused as too long | invalid | largest | prefix breaks | "
    "user's words kept | read back | finished |\n|" + "---|" * 10
)
_MARK = "<!-- frameworks -->\n"


class Subject(NamedTuple):
    """A framework: its loop, API format and way of calling, and its package."""

    run: str
    package: str
    alone: str = "none"
    """What it does without Ebbtide and without settings."""
    own: str = ""
    """Its own compaction, with settings."""
    own_environment: str = ""


SUBJECTS = (
    Subject("langchain anthropic sync", "langchain", own="`SummarizationMiddleware`"),
    Subject("deepagents anthropic sync", "deepagents", alone="its summarizer, always on"),
    Subject(
        "pydantic_ai anthropic async", "pydantic-ai-slim",
        own="`TieredCompaction` of pydantic-ai-harness", own_environment="harness",
    ),
    Subject("openai_agents openai_chat async", "openai-agents", own="`ToolOutputTrimmer`"),
    Subject(
        "strands anthropic sync", "strands-agents",
        alone="`SlidingWindowConversationManager`, its default", own='`context_manager="auto"`',
    ),
    Subject("google_adk gemini async", "google-adk", own="`EventsCompactionConfig`"),
    Subject("litellm anthropic sync", "litellm", own="`litellm.compress`"),
    Subject("litellm_proxy openai_chat guardrail", "litellm"),
    Subject("claude_agent_sdk anthropic stream", "claude-agent-sdk", alone="Claude Code's own, always on"),
    Subject("agent_framework anthropic async", "agent-framework-core"),
    Subject("smolagents openai_chat sync", "smolagents"),
    Subject("haystack openai_chat sync", "haystack-ai"),
)  # fmt: skip


def rows(only: set[str]) -> Iterator[dict[str, object]]:
    for subject in SUBJECTS:
        loop, wire, mode = subject.run.split()
        if only and loop not in only:
            continue
        arms = {"ebbtide": ("**Ebbtide**", ENVIRONMENTS[loop]), "alone": (subject.alone, ENVIRONMENTS[loop])}
        if subject.own:
            arms["own"] = (subject.own, subject.own_environment or ENVIRONMENTS[loop])
        for arm, (compaction, environment) in arms.items():
            try:
                python = python_of(environment)
            except CannotInstall as problem:
                print(f"skipped {loop}: {str(problem)[-200:]}", file=sys.stderr)
                continue
            print(f"{subject.run}, {arm} ...", file=sys.stderr, flush=True)
            row = {"loop": loop, "framework": subject.package, "version": _version(python, subject.package)}
            row |= {"wire": wire, "mode": mode, "arm": arm, "compaction": compaction}
            yield {**row, "window": WINDOWS.get(loop, WINDOW), **_verdict(python, subject.run, arm)}


def _verdict(python: Path, run: str, arm: str) -> Mapping[str, object]:
    loop = run.split(maxsplit=1)[0]
    options = ["--arm", arm, *(["--helper-at", "9"] if loop in WITH_HELPERS else [])]
    options += ["--window", str(WINDOWS[loop])] if loop in WINDOWS else []
    command = [python, "-m", "frameworks.run_loop", *run.split(), *options]
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT, env=environ_of(), check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not finished after {SECONDS} s"}
    lines = [line for line in result.stdout.splitlines() if line.startswith("VERDICT ")]
    return json.loads(lines[-1].removeprefix("VERDICT ")) if lines else {"error": result.stderr[-300:]}


def _version(python: Path, package: str) -> str:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def table(results: list[dict[str, object]]) -> str:
    lines = [HEAD]
    for row in results:
        name = f"{row['framework']} {row['version']}{' proxy' if row['loop'] == 'litellm_proxy' else ''}"
        cells = [name, str(row["compaction"])]
        cells += [f"{row.get(name, 0):,}" for name in ("accepted", "too_long", "invalid", "largest", "breaks")]
        cells += ["yes" if row.get(name) else "no" for name in ("keeps_words", "recalled", "is_finished")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write_page(text: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    head, mark, rest = page.partition(_MARK)
    if not mark:
        raise SystemExit(f"{PAGE.name} has no line {_MARK.strip()}, after which the table belongs")
    rest = re.sub(r"\A(\|[^\n]*\n)+", "", rest)
    PAGE.write_text(f"{head}{mark}{text}\n{rest}", encoding="utf-8")


def _write_results(measured: list[dict[str, object]]) -> None:
    """Replace the rows of the frameworks that were measured, and keep the others."""
    loops = {row["loop"] for row in measured}
    earlier = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"] if RESULTS.exists() else []
    kept = [row for row in earlier if row["loop"] not in loops]
    order = [subject.run.split()[0] for subject in SUBJECTS]
    all_rows = sorted([*kept, *measured], key=lambda row: order.index(str(row["loop"])))
    result = {
        "command": "python -m benchmarks.frameworks",
        "steps": STEPS,
        "load": os.getloadavg()[0],
        "rows": all_rows,
    }
    RESULTS.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names of loops, with commas between")
    parser.add_argument("--json", action="store_true", help="print the rows instead of the table")
    parser.add_argument("--no-write", action="store_true", help="leave the committed results alone")
    parser.add_argument(
        "--page", action="store_true", help="write the committed results into the page; measure nothing"
    )
    given = parser.parse_args()
    if given.page:
        write_page(table(json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]))
        return
    only = set(filter(None, given.only.split(",")))
    names = [subject.run.split()[0] for subject in SUBJECTS]
    if only - set(names):
        parser.error(f"no loop is called {', '.join(sorted(only - set(names)))}; there are {', '.join(names)}")
    measured = list(rows(only))
    if not given.no_write:
        _write_results(measured)
    print(json.dumps(measured, indent=1) if given.json else table(measured))


if __name__ == "__main__":
    main()
