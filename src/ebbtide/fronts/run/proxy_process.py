"""A proxy that runs as long as the program in front of it: out of the terminal's reach, and started again if it falls.

It has a session of its own, so that Ctrl-C and Ctrl-Z are the program's alone. What it recorded is in its store: one
that is started again, at the same port, goes on where the last one was.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

START = 120.0
"""Seconds until it must listen: a hundred times what it takes, for machines that have no time."""
STOP = 5.0
"""Seconds to end in. Nothing is under way any more when it is asked to."""
_AGAIN = 3
"""Times it is started again. What falls a fourth time will fall a fifth."""
_TOLD = 2_000
"""Characters of its last words that are passed on."""


class CannotStart(Exception):
    """The proxy did not come to listen; the message is what it said."""


class Proxy:
    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        self._arguments, self._environ = list(arguments), dict(environ)
        self.address = ""
        self.fallen = 0
        self._stopping = threading.Event()
        self._process = self._start("0")
        self._watch = threading.Thread(target=self._watched, name="ebb-run-proxy", daemon=True)
        self._watch.start()

    def summary(self) -> Mapping[str, object]:
        """What it did so far; empty where it cannot say."""
        # Not through the proxy that the environment may name: that one is for the world outside.
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with suppress(OSError, ValueError), direct.open(f"{self.address}/ebb/summary", timeout=STOP) as response:
            told = json.load(response)
            return told if isinstance(told, dict) else {}
        return {}

    def stop(self) -> None:
        self._stopping.set()
        _ended(self._process)
        self._watch.join(STOP)

    def _start(self, port: str) -> subprocess.Popen[bytes]:
        # -P: without it the folder that we are started in comes first on the path of modules.
        command = [sys.executable, "-P", "-m", "ebbtide.fronts.run.child_main", "proxy", "--announce", "--port", port]
        # Nobody reads a pipe here, and the terminal is the program's.
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(  # noqa: S603 - our own program
                [*command, *self._arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                env=self._environ,
                start_new_session=True,
            )
            self.address = _announced(process) or self.address
            if process.poll() is None and self.address:
                return process
            _ended(process)
            raise CannotStart(_last_words(said))

    def _watched(self) -> None:
        while not self._stopping.is_set():
            self._process.wait()
            if self._stopping.is_set() or self.fallen == _AGAIN:
                return
            self.fallen += 1
            _ended(self._process)
            with suppress(CannotStart, OSError):
                self._process = self._start(self.address.rpartition(":")[2])
                if self._stopping.is_set():
                    _ended(self._process)


def _announced(process: subprocess.Popen[bytes]) -> str:
    """The address on its first line; empty if it ends or is silent for too long."""
    assert process.stdout is not None
    timer = threading.Timer(START, process.kill)
    timer.start()
    try:
        told = json.loads(process.stdout.readline() or b"{}")
    except ValueError:
        return ""
    finally:
        timer.cancel()
        process.stdout.close()
    return str(told.get("listening", "")) if isinstance(told, dict) else ""


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last_words(said: IO[bytes]) -> str:
    said.seek(0)
    return said.read().decode("utf-8", "replace").strip()[-_TOLD:] or "it said nothing"
