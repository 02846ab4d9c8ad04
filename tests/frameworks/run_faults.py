"""Run the faulty programs of one framework, and print what each ended with. Runs with the Python of its environment.

PYTHONPATH=tests:src python -m frameworks.run_faults langchain
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from frameworks.scenario import read_page, tool_names
from upstream.finding import Body
from upstream.script import Failure, Turn, Use
from upstream.server import Upstream

HELPER_TASK = "You are the helper: read the other file."


def script(body: Body) -> Turn:
    """Call a tool, then answer. A sub-agent's second request fails."""
    text = json.dumps(body.get("messages") or body.get("contents") or [])
    names = tool_names(body)
    is_helper = HELPER_TASK in text and "ask_helper" not in names
    has_result = "CODE" in text or "helper failed" in text or "rror" in text
    if not names or names == "[]":
        return "A summary: a file was read."
    if is_helper:
        return Failure(status=403, message="no access") if has_result else [Use("read_file", {"path": "src/b.py"})]
    if "ask_helper" in names and "functionResponse" not in text and "tool_result" not in text and '"tool"' not in text:
        return [Use("ask_helper", {"request" if '"request"' in names else "task": HELPER_TASK})]
    if "Read some files." in text and "tool_result" not in json.dumps(body["messages"][-1]):
        return [Use("read_file", {"path": f"src/f{len(body['messages'])}.py"})]
    return "Done."


def main() -> None:
    module = import_module(f"frameworks.faults.{sys.argv[1]}_faults")
    for name, program in list(vars(module).items()):
        if not callable(program) or getattr(program, "__module__", "") != module.__name__ or name[0] in "_L":
            continue
        with tempfile.TemporaryDirectory() as store, Upstream(script, window=200_000) as upstream:
            try:
                outcome = program(upstream.url, {"store": store, "durable": False})
            except Exception as problem:
                outcome = f"{type(problem).__name__}: {problem}"
            log = "".join(path.read_text(encoding="utf-8") for path in Path(store).rglob("*.jsonl"))
            result = {
                "says": str(outcome),
                "refused": [str(one.refused[0]) for one in upstream.requests if one.refused],
                "has_helpers_work": json.dumps(read_page("src/b.py"))[1:200] in log,
                "has_note": "ended with an error and gave no answer" in log,
            }
        sys.stdout.write(f"FAULT {name} {json.dumps(result)}\n")


if __name__ == "__main__":
    main()
