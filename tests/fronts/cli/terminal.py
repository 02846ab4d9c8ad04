"""Runs `ebb` for tests: in this process with captured streams, or as the real program."""

import io
import json
import os
import pty
import subprocess
import sys
from dataclasses import dataclass

from ebbtide.fronts.cli.main import main
from ebbtide.runtime import Context
from runtime.sessions import LINES, body, call, loop, result

PROGRAM = [sys.executable, "-m", "ebbtide.fronts.cli.main"]
PRESSED = ["--window", "30k"]
"""A window in which `request()` does not fit."""


@dataclass
class CommandResult:
    code: int
    out: bytes
    err: str

    @property
    def text(self):
        return self.out.decode()

    @property
    def json(self):
        return json.loads(self.out)


class _Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


class Ebb:
    """`ebb(...)` in this process: with a home of its own, and whatever stdin is given."""

    def __init__(self, monkeypatch, home):
        self._patch, self.home = monkeypatch, home
        monkeypatch.setenv("EBB_HOME", str(home))
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.chdir(home)

    def __call__(self, *args, stdin=b""):
        return self._run(args, stdin, io.TextIOWrapper)

    def on_a_terminal(self, *args):
        """The same where stdout and stderr say that they are a terminal."""
        self._patch.setenv("TERM", "xterm-256color")
        self._patch.setenv("COLUMNS", "100")
        return self._run(args, b"", _Terminal)

    def _run(self, args, stdin, stream):
        out, err = stream(io.BytesIO(), "utf-8"), stream(io.BytesIO(), "utf-8")
        with self._patch.context() as streams:
            streams.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
            streams.setattr(sys, "stdout", out)
            streams.setattr(sys, "stderr", err)
            code = main([str(arg) for arg in args])
        out.flush(), err.flush()
        return CommandResult(code, out.buffer.getvalue(), err.buffer.getvalue().decode())


def run_program(*args, stdin=b"", env=None, **options):
    """The real program, with only this environment changed."""
    return subprocess.run(
        [*PROGRAM, *map(str, args)], input=stdin, capture_output=True, env={**os.environ, **(env or {})}, **options
    )


def on_a_terminal(*args, env=None, answer=""):
    """What the real program writes to a terminal, stdout and stderr together. `answer` is typed at a question."""
    leader, follower = pty.openpty()
    told = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **(env or {})}
    process = subprocess.Popen([*PROGRAM, *map(str, args)], stdin=follower, stdout=follower, stderr=follower, env=told)
    os.close(follower)
    seen = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the other side is gone
            break
        if not part:
            break
        seen += part
        if answer and seen.endswith(b"[y/N] "):
            os.write(leader, answer.encode())
            answer = ""
    os.close(leader)
    return process.wait(), seen.decode("utf-8", "replace")


def request(steps=24, **more):
    return body(loop(steps), **more)


def written(path, value, **options):
    path.write_text(json.dumps(value, **options), encoding="utf-8")
    return path


def stored(home, session="nightly", *, project="", steps=24, window=30_000):
    """A stored session in which results were cleared more than once. Returns its messages."""
    messages = loop(steps)
    context = Context(model="claude-opus-4-5", window=window, store=home, session=session, project=project)
    for n in range(1, len(messages) + 1, 2):
        ready = context.prepare(body(messages[:n]))
        said = messages[n]["content"] if n < len(messages) else [{"type": "text", "text": "the gauge is fixed"}]
        usage = {"input_tokens": 10, "cache_read_input_tokens": ready.report.tokens_after, "output_tokens": 60}
        ready.record({"content": said, "usage": usage})
    return messages


def recorded(path, steps=24, usage=None):
    """A Claude Code session file of so many calls, each billed alike, or not at all."""
    rows, parent = [], None
    for n, message in enumerate(loop(steps)):
        row = {
            "type": message["role"],
            "uuid": f"u{n}",
            "parentUuid": parent,
            "sessionId": "s1",
            "timestamp": f"2026-01-01T10:{n // 60:02}:{n % 60:02}.000Z",
            "message": dict(message),
        }
        if message["role"] == "assistant":
            bill = {"input_tokens": 5, "cache_read_input_tokens": usage, "output_tokens": 9}
            row["message"] |= {"id": f"m{n}", "model": "claude-opus-4-5"} | ({"usage": bill} if usage else {})
        rows.append(row)
        parent = f"u{n}"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


__all__ = ["LINES", "PRESSED", "CommandResult", "Ebb", "call", "loop", "on_a_terminal", "recorded", "request", "result", "run_program", "stored", "written"]  # fmt: skip
