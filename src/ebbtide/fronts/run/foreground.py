"""Run a program in the foreground: it has the terminal and its signals, and we return its exit code.

It stays in our process group, so the terminal's Ctrl-C reaches it directly and it decides what to do. Signals that only
we get, such as SIGTERM from a supervisor, are passed on.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

_FROM_TERMINAL = ("SIGINT", "SIGQUIT")
_PASSED_ON = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")


def run(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Return the exit code; for a signal 128 plus its number, as in shells. Raises `OSError` if it cannot start."""
    processes: list[subprocess.Popen[bytes]] = []
    with _signals(processes):
        process = subprocess.Popen(list(command), env=dict(environ))  # noqa: S603 - what the user asked for
        processes.append(process)
        code = process.wait()
    return code if code >= 0 else 128 - code


@contextmanager
def _signals(processes: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Ignore the terminal's signals and pass on the others. Handlers, not SIG_IGN, which the program would inherit."""

    def ignore(number: int, frame: FrameType | None) -> None:
        del number, frame

    def pass_on(number: int, frame: FrameType | None) -> None:
        del frame
        for process in processes:
            with suppress(ProcessLookupError):
                process.send_signal(number)

    handlers = [(name, ignore) for name in _FROM_TERMINAL] + [(name, pass_on) for name in _PASSED_ON]
    # Windows lacks some.
    known = [(getattr(signal, name), handler) for name, handler in handlers if hasattr(signal, name)]
    previous = [(number, signal.signal(number, handler)) for number, handler in known]
    try:
        yield
    finally:
        for number, handler in previous:
            signal.signal(number, handler)
