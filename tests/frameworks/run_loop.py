"""Run one loop against the scripted provider and print the verdict as JSON. Runs with the Python of the framework's environment.

PYTHONPATH=tests:src python -m frameworks.run_loop langchain anthropic stream --arm alone
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib import import_module

from frameworks.scenario import WINDOW, Script, judge
from upstream.server import Upstream

ARMS = ("ebbtide", "alone", "own")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("loop")
    parser.add_argument("wire")
    parser.add_argument("mode", nargs="?", default="sync")
    parser.add_argument("--arm", choices=ARMS, default=ARMS[0], help="own: with the framework's own compaction")
    parser.add_argument("--window", type=int, default=WINDOW)
    parser.add_argument("--helper-at", type=int, default=0)
    given = parser.parse_args()
    loop = import_module(f"frameworks.loops.{given.loop}_loop")
    reports: list[tuple[str, object]] = []
    error = ""
    with tempfile.TemporaryDirectory() as store, Upstream(Script(given.helper_at), window=given.window) as upstream:
        options = {"store": store, "durable": False, "on_report": lambda name, report: reports.append((name, report))}
        try:
            more = {"own": True} if given.arm == "own" else {}
            loop.run(upstream.url, given.wire, given.mode, options if given.arm == "ebbtide" else None, "main", **more)
        except Exception as problem:  # the verdict says how the run ended
            error = f"{type(problem).__name__}: {str(problem)[:300]}"
        verdict = judge(upstream.requests, reports, error)
    sys.stdout.write("VERDICT " + verdict.as_json() + "\n")


if __name__ == "__main__":
    main()
