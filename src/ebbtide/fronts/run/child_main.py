"""Run `ebb` until its standard input is closed, so that it ends with its parent, even if that is killed."""

from __future__ import annotations

import os
import runpy
import signal
import threading


def _stop_when_stdin_closes() -> None:
    # Not sys.stdin: if Python exits while a thread waits in it, it dies of a fatal error.
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_stop_when_stdin_closes, daemon=True, name="ebb-stdin").start()
    # By name: no front imports another.
    runpy.run_module("ebbtide.fronts.cli.main", run_name="__main__", alter_sys=True)
