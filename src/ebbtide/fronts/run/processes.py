"""The two processes of `ebb run`: the program in the foreground, and its proxy in the background.

The program has the terminal and its signals, and stays in our process group, so that the terminal's Ctrl-C reaches it
directly and it decides what to do. Signals that only we get, such as SIGTERM from a supervisor, are passed on.

The proxy has its own process session, so that Ctrl-C and Ctrl-Z reach the program alone. Its port is ours: connections
wait at it until the proxy accepts them, so the program starts at once, and the proxy beside it. The proxy is started
again if it crashes, at the same port, and continues from its store; it is stopped with the program.
"""

from __future__ import annotations

import json
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
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
_ANSWER_SECONDS = 20.0
"""Time for the figures at the end: a long session's log takes a second."""
_HEAD_START = 0.25
"""Seconds that a program has for itself. One that ends by then, or that asks no model, costs no proxy."""
_BACKLOG = 1024
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


@contextmanager
def settings_file(content: str) -> Iterator[str]:
    """Write a file that only this user can read, for as long as the program runs. Without content there is none."""
    if not content:
        yield ""
        return
    with tempfile.NamedTemporaryFile("w", prefix="ebb-run-", suffix=".json", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        yield file.name


class CannotStart(Exception):
    """The proxy did not start; the message is what it printed."""


class ProxyProcess:
    """The proxy, from the moment that its port is open. Its process follows with the first connection, or soon."""

    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        self._arguments, self._environ = list(arguments), dict(environ)
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.restarts = 0
        self.failure = ""
        """Why it could not be started; empty if it could, or was not needed."""
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        """Held while a process is started, so that none is left when we stop."""
        self._watch = threading.Thread(target=self._run, name="ebb-run-proxy", daemon=True)
        self._watch.start()

    def summary(self) -> Mapping[str, object]:
        """Return the totals so far; empty if the proxy does not answer."""
        return self._page("/ebb/summary")

    def receipts(self) -> list[Mapping[str, object]]:
        """Return what each session came to; empty if the proxy does not answer."""
        receipts = self._page("/ebb/receipts").get("receipts")
        return receipts if isinstance(receipts, list) else []

    def was_needed(self) -> bool:
        """Whether the program ran long enough, or connected."""
        with self._lock:
            return self._process is not None or bool(self.failure)

    def stop(self) -> None:
        self._stopping.set()
        with self._lock:
            if self._process is not None:
                _stop(self._process)
        self._socket.close()
        self._watch.join(STOP_SECONDS)

    def _page(self, path: str) -> Mapping[str, object]:
        # Not through a proxy that the environment may name: that one cannot reach this machine.
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with suppress(OSError, ValueError), direct.open(f"{self.address}{path}", timeout=_ANSWER_SECONDS) as response:
            content = json.load(response)
            return content if isinstance(content, dict) else {}
        return {}

    def _run(self) -> None:
        self._wait_for_need()
        while not self._stopping.is_set():
            try:
                self._start()
            except (CannotStart, OSError) as error:
                self.failure = str(error)
                self._socket.close()  # so that the program is refused, and does not wait
                return
            process = self._process
            if process is None:
                return
            process.wait()
            if self._stopping.is_set():
                return
            if self.restarts == _MAX_RESTARTS:
                self._socket.close()
                return
            self.restarts += 1
            _stop(process)

    def _wait_for_need(self) -> None:
        """Wait for the first connection, but not long: most programs need some time before they ask a model."""
        end = time.monotonic() + _HEAD_START
        while not self._stopping.is_set() and time.monotonic() < end:
            with suppress(OSError, ValueError):
                if select.select([self._socket], [], [], 0.02)[0]:
                    return

    def _start(self) -> None:
        # -P: without it modules in the current folder would be imported first.
        command = [sys.executable, "-P", "-m", "ebbtide.fronts.run.child_main", "proxy", "--announce"]
        command += ["--listen-fd", str(self._socket.fileno()), *self._arguments]
        # Not a pipe, which would have to be read, and not the terminal, which is the program's.
        with tempfile.TemporaryFile() as errors:
            with self._lock:
                if self._stopping.is_set():
                    return
                process = self._process = subprocess.Popen(  # noqa: S603 - our own program
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=self._environ,
                    start_new_session=True,
                    pass_fds=(self._socket.fileno(),),
                )
            is_listening = bool(_read_address(process))
            if (is_listening and process.poll() is None) or self._stopping.is_set():
                return
            _stop(process)
            raise CannotStart(_read_error(errors))


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
