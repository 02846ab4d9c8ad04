"""The benchmark of solved tasks, with its scripted reader: what is in view is answered, what was removed is found."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).resolve().parents[1] / "benchmarks" / "tasks.py"
ARMS = ("raw", "default", "default-no-recall", "truncation")


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, BENCHMARK, *options], capture_output=True, text=True, check=False)


def test_a_perfect_reader_solves_all_tasks_with_recall_in_a_conversation_of_two_windows():
    done = run("--window", "8000", "--lengths", "2", "--seeds", "1", "--arms", ",".join(ARMS), "--json")

    assert done.returncode == 0, done.stderr
    assert "control: 6 of 6" in done.stderr
    rows = json.loads(done.stdout)["lengths"]["2"]
    assert tuple(rows) == ARMS
    assert rows["raw"]["refused"] == 6
    assert rows["raw"]["solved"] == 0
    assert rows["default"]["solved"] == 6
    assert rows["default"]["refused"] == 0
    assert rows["default-no-recall"]["solved"] < 6
    assert rows["truncation"]["kinds"] == {"value": 0, "error": 0, "rule": 0, "output": 0, "changed": 0, "absent": 1}


def test_raw_solves_all_tasks_while_the_conversation_fits():
    done = run("--window", "8000", "--lengths", "0.5", "--seeds", "1", "--arms", "raw", "--json")

    assert json.loads(done.stdout)["lengths"]["0.5"]["raw"]["solved"] == 6


def test_a_provider_without_a_model_or_a_key_is_refused_before_the_work():
    assert "--model" in run("--provider", "anthropic").stderr
    assert run("--provider", "anthropic").returncode == 2
