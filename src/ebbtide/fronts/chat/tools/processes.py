"""Runs programs for the model, each in its own process group, so that it can be killed with all its children.

Output is limited while it is read: a program that prints without end uses no memory (R118).
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

MAX_LINES = 250
MAX_BYTES = 30_000  # about 8,000 tokens


class Process:
    """A running program and the first part of its output, stdout and stderr in the order printed."""

    def __init__(self, command: Sequence[str], cwd: Path, environ: Mapping[str, str] | None) -> None:
        self._head = bytearray()
        self._lines_left = MAX_LINES
        self.total = 0
        """Bytes printed so far."""
        self._shown_bytes = 0
        self._lock = threading.Lock()
        self._process = subprocess.Popen(  # noqa: S603  # `permission` has allowed it.
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
        for line in iter(lambda: pipe.readline(MAX_BYTES), b""):
            with self._lock:
                self.total += len(line)
                room = MAX_BYTES - len(self._head)
                if self._lines_left > 0 and room > 0:
                    self._head += line[:room]
                    self._lines_left -= line.endswith(b"\n")

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float, stop: Event) -> str:
        """Return why the wait ended: `done`, `time` or `stopped`. A program that is not done keeps running."""
        step = 0.02
        while seconds > 0:
            if stop.is_set():
                return "stopped"
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=min(step, seconds))
                # A background child may hold the pipe open: do not wait for its output.
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
            return truncate_output(bytes(self._head), self.total)

    def new_output(self) -> str:
        """Return the output since the last call."""
        with self._lock:
            new, self._shown_bytes = bytes(self._head[self._shown_bytes :]), len(self._head)
            return truncate_output(new, len(new) + self.total - len(self._head))


def truncate_output(head: bytes, total: int) -> str:
    """Decode the head, with the notice of R117 if there was more."""
    text = head.decode("utf-8", "replace").rstrip("\n")
    if len(head) >= total:
        return text
    return f"{text}\n\n[Output truncated, {total} bytes total. Save to file with > if you need full output.]"
