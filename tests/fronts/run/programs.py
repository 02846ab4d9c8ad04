"""Programs to run behind `ebb run`, and how to start it as a person would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PATIENCE = 240.0
"""Seconds for a process to do what takes it one or two on an idle machine."""

EBB = [sys.executable, "-m", "ebbtide.fronts.cli.main"]

AGENT = """
import sys, anthropic
client = anthropic.Anthropic(api_key="key-of-a-test", max_retries=int(sys.argv[1]), timeout=240)
history = [{"role": "user", "content": "Read them all."}]
for n in range(12):
    message = client.messages.create(
        model="claude-sonnet-5", max_tokens=500, messages=history,
        tools=[{"name": "read", "input_schema": {"type": "object"}}],
    )
    uses = [block for block in message.content if block.type == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": use.id, "content": "a line of text\\n" * 400} for use in uses]
    history += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
    if n == 5 and len(sys.argv) > 2:
        print("half", flush=True)
        sys.stdin.readline()
print("done")
sys.exit(7)
"""


def environment(home: Path, **more: str) -> dict[str, str]:
    """Nothing of the person who runs the tests: no settings, no addresses."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH", "SYSTEMROOT") if name in os.environ}
    return {**kept, "HOME": str(home), "EBB_HOME": str(home / "store"), **more}


def ebb_run(*arguments: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*EBB, "run", *arguments], env=environ, capture_output=True, text=True, timeout=PATIENCE)


def python(code: str, *arguments: str) -> Sequence[str]:
    return [sys.executable, "-c", code, *arguments]
