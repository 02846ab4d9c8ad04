"""The two processes of `ebb run`: the program in the foreground, and its proxy in the background.

The program has the terminal and its signals, and stays in our process group, so that the terminal's Ctrl-C reaches it
directly and it decides what to do. Signals that only we get, such as SIGTERM from a supervisor, are passed on.

The proxy has its own process session, so that Ctrl-C and Ctrl-Z reach the program alone. It is started again if it
crashes, at the same port, and continues from its store; it is stopped with the program.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO

_FROM_TERMINAL = ("SIGINT", "SIGQUIT")
_PASSED_ON = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
START_SECONDS = 120.0
"""Time to start: a hundred times what it takes, for busy machines."""
STOP_SECONDS = 5.0
"""Time to stop: it has no requests left by then."""
_MAX_RESTARTS = 3
_MAX_ERROR_LENGTH = 2_000
"""Characters."""


def run_in_foreground(command: Sequence[str], environ: Mapping[str, str]) -> int:
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


class CannotStart(Exception):
    """The proxy did not start; the message is what it printed."""


class ProxyProcess:
    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        self._arguments, self._environ = list(arguments), dict(environ)
        self.address = ""
        self.restarts = 0
        self._stopping = threading.Event()
        self._process = self._start("0")
        self._watch = threading.Thread(target=self._restart_on_crash, name="ebb-run-proxy", daemon=True)
        self._watch.start()

    def summary(self) -> Mapping[str, object]:
        """Return the totals so far; empty if the proxy does not answer."""
        # Not through a proxy that the environment may name: that one cannot reach this machine.
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with (
            suppress(OSError, ValueError),
            direct.open(f"{self.address}/ebb/summary", timeout=STOP_SECONDS) as response,
        ):
            totals = json.load(response)
            return totals if isinstance(totals, dict) else {}
        return {}

    def stop(self) -> None:
        self._stopping.set()
        _stop(self._process)
        self._watch.join(STOP_SECONDS)

    def _start(self, port: str) -> subprocess.Popen[bytes]:
        # -P: without it modules in the current folder would be imported first.
        command = [sys.executable, "-P", "-m", "ebbtide.fronts.run.child_main", "proxy", "--announce", "--port", port]
        # Not a pipe, which would have to be read, and not the terminal, which is the program's.
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(  # noqa: S603 - our own program
                [*command, *self._arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self._environ,
                start_new_session=True,
            )
            self.address = _read_address(process) or self.address
            if process.poll() is None and self.address:
                return process
            _stop(process)
            raise CannotStart(_read_error(errors))

    def _restart_on_crash(self) -> None:
        while not self._stopping.is_set():
            self._process.wait()
            if self._stopping.is_set() or self.restarts == _MAX_RESTARTS:
                return
            self.restarts += 1
            _stop(self._process)
            with suppress(CannotStart, OSError):
                self._process = self._start(self.address.rpartition(":")[2])
                if self._stopping.is_set():
                    _stop(self._process)


def _read_address(process: subprocess.Popen[bytes]) -> str:
    """Read the address from its first line; empty if it ends or prints nothing in time."""
    assert process.stdout is not None
    timer = threading.Timer(START_SECONDS, process.kill)
    timer.start()
    try:
        line = json.loads(process.stdout.readline() or b"{}")
    except ValueError:
        return ""
    finally:
        timer.cancel()
        process.stdout.close()
    return str(line.get("listening", "")) if isinstance(line, dict) else ""


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _read_error(errors: IO[bytes]) -> str:
    errors.seek(0)
    return errors.read().decode("utf-8", "replace").strip()[-_MAX_ERROR_LENGTH:] or "it printed no error"
