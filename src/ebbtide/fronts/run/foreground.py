"""The program has the terminal, its signals and its exit code, as if nobody stood behind it.

It stays in our process group: what the terminal sends on Ctrl-C reaches it by itself, and we let it decide. What is
sent to us alone, as SIGTERM by a supervisor, is passed on.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

_FROM_TERMINAL = ("SIGINT", "SIGQUIT")
_TO_US = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")


def run(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """The exit code of the program, as shells count: 128 and the number for a signal. `OSError` if it cannot start."""
    held: list[subprocess.Popen[bytes]] = []
    with _signals(held):
        process = subprocess.Popen(list(command), env=dict(environ))  # noqa: S603 - what the user asked for
        held.append(process)
        code = process.wait()
    return code if code >= 0 else 128 - code


@contextmanager
def _signals(held: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """A handler that does nothing, and not SIG_IGN, which the program would inherit."""

    def leave(number: int, frame: FrameType | None) -> None:
        del number, frame

    def pass_on(number: int, frame: FrameType | None) -> None:
        del frame
        for process in held:
            with suppress(ProcessLookupError):
                process.send_signal(number)

    wanted = [(name, leave) for name in _FROM_TERMINAL] + [(name, pass_on) for name in _TO_US]
    # Some are missing on Windows.
    known = [(getattr(signal, name), handler) for name, handler in wanted if hasattr(signal, name)]
    before = [(number, signal.signal(number, handler)) for number, handler in known]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
