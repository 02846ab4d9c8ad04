"""`ebb`, until nobody holds its standard input any more: whatever ends its owner, and be it SIGKILL, ends it too."""

from __future__ import annotations

import os
import runpy
import signal
import threading


def _until_let_go() -> None:
    # Not through sys.stdin: a thread that waits in there makes Python die of a fatal error where it ends by itself.
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_until_let_go, daemon=True, name="ebb-leash").start()
    # By name, as on the command line: no front imports another.
    runpy.run_module("ebbtide.fronts.cli.main", run_name="__main__", alter_sys=True)
