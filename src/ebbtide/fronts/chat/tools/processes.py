"""Programs that are started for a model: bounded in time and output, in a group of their own, which ends as a whole.

Output is limited where it is read, not afterwards: a program that prints for ever costs no memory (R118).
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import IO

LINES = 250
BYTES = 30_000  # about 8,000 tokens, the most that one result of a command is worth


class Process:
    """One program and the head of what it prints, both streams in the order they came."""

    def __init__(
        self, command: Sequence[str], cwd: Path, environ: Mapping[str, str] | None, *, lines: int = LINES
    ) -> None:
        self._head = bytearray()
        self._lines_left = lines
        self.total = 0
        """Bytes printed so far."""
        self._read = 0
        self._lock = threading.Lock()
        self._process = subprocess.Popen(  # noqa: S603  # What a model may run was asked and answered before.
            command,
            cwd=cwd,
            env=None if environ is None else dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._collect, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def _collect(self, pipe: IO[bytes]) -> None:
        for line in iter(lambda: pipe.readline(BYTES), b""):
            with self._lock:
                self.total += len(line)
                room = BYTES - len(self._head)
                if self._lines_left > 0 and room > 0:
                    self._head += line[:room]
                    self._lines_left -= line.endswith(b"\n")

    @property
    def code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float, stop: Event) -> str:
        """Why the wait ended: `done`, `time` or `stopped`. What still runs then, still runs."""
        step = 0.02
        while seconds > 0:
            if stop.is_set():
                return "stopped"
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=min(step, seconds))
                # A child that was left behind may hold the pipe open: its output is not waited for.
                self._reader.join(timeout=0.5)
                return "done"
            seconds -= step
            step = min(0.2, step * 1.5)
        return "time"

    def kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        self._reader.join(timeout=0.5)

    def output(self) -> str:
        with self._lock:
            return limited(bytes(self._head), self.total)

    def fresh(self) -> str:
        """What came since the last look."""
        with self._lock:
            new, self._read = bytes(self._head[self._read :]), len(self._head)
            return limited(new, len(new) + self.total - len(self._head))


def limited(head: bytes, total: int) -> str:
    """The head as text; R117's words where it is not all."""
    text = head.decode("utf-8", "replace").rstrip("\n")
    if len(head) >= total:
        return text
    return f"{text}\n\n[Output truncated, {total} bytes total. Save to file with > if you need full output.]"
