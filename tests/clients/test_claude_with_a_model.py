"""All of Claude Code, its own prompt and tools, on a real model with a window of 32,768 tokens: `ebb run -- claude -p`.

What the user pastes in passes the window; the server refuses such a conversation, and here it never gets to see one.
Minutes of a core, so opt-in: `scripts/install_clients.py` has both.
"""

from __future__ import annotations

import itertools
import json
import os
import sys

import pytest

from clients.programs import CLAUDE, ProgramRun, run_program
from local_model.model_server import served

pytestmark = pytest.mark.timeout(1800)

WINDOW = 32_768
SENTENCE = 'root ::= [A-Z] [a-z ,]{4,60} "."'
"""The model's answers. By itself it would not stop, and the client asks again for what was cut off."""
LINES = 900
"""Of a paste: with the client's own 11,000 tokens it fits, two of them do not."""


def paste_of_day(day: int) -> str:
    rows = (f"{day}-{n} the gauge of station {n * 31 % 97} reads {n * day} mm" for n in range(LINES))
    return "Here is a day of the log.\n" + "\n".join(rows) + "\nSay what you think of it."


@pytest.fixture(scope="module")
def model(client_file):
    file = client_file("gemma")
    pytest.importorskip("xllamacpp")
    with served(WINDOW, file, SENTENCE) as up:
        yield up


@pytest.fixture
def say(client_file, model, tmp_path):
    """Returns exit code, the client's JSON output, and stderr."""
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    claude = [str(client_file("claude")), "--model", "gemma", "--output-format", "json"]
    environ = {**CLAUDE, "ANTHROPIC_BASE_URL": model.address, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = [sys.executable, "-m", "ebbtide.fronts.cli.main", "run", "--window", str(WINDOW)]
    run += ["--store", str(tmp_path / "store"), "--"]

    def send(text: str, *more: str, behind: list[str] = run) -> tuple[int, dict, str]:
        command = [*behind, *claude, *more, "-p", text]
        code, output, stderr = run_program(ProgramRun(command=command, environ=environ), work, home)
        return code, json.loads(output), stderr

    return send


def read(usage: dict) -> int:
    """Tokens of a request, by the server's own count."""
    return usage["input_tokens"] + usage["cache_read_input_tokens"]


def test_claude_code_continues_when_its_model_refuses_and_reads_the_models_cache(say, record_testsuite_property):
    code, refused, _ = say(paste_of_day(1) + paste_of_day(2), behind=[])
    assert (code, refused["is_error"]) == (1, True)
    assert "exceeds the available context size" in refused["result"]

    turns = [say("Say hello."), say(paste_of_day(1), "--continue"), say(paste_of_day(2), "--continue")]

    record_testsuite_property(
        "figures of Claude Code", [(output["usage"], stderr) for _, output, stderr in turns]
    )  # shown by --junitxml
    assert [(code, output["is_error"], output["stop_reason"]) for code, output, _ in turns] == [
        (0, False, "end_turn")
    ] * 3
    assert [stderr for _, _, stderr in turns if "refused" in stderr or "removed" not in stderr] == []
    usages = [output["usage"] for _, output, _ in turns]
    assert [usage for usage in usages if not 10_000 < read(usage) < WINDOW] == []
    for before, usage in itertools.pairwise(usages):
        # Each turn is a proxy of its own: what was edited comes from the store as it went out.
        assert usage["cache_read_input_tokens"] > 0.9 * read(before)
    assert "by 1 edit" in turns[-1][2], "the second paste left as well"
