"""Does a tenant's text ever reach another? `python benchmarks/isolation.py [--calls 10000] [--only NAME,...] [--json]`.

Two tenants are behind one gateway, with one credential and unnamed conversations that begin alike. The same generated
calls go through Ebbtide's proxy, one wrapped client and one `Context`, through nothing at all, and through other
packages. Every text has canaries. Counted in what reaches the provider: canaries of the other tenant, requests that
break a rule of the provider or are over the window, and text that the client had changed before. Samples check whether
removed text can be read again, and what the other tenant's handles open.

Other packages run in separate environments: LANGCHAIN_PYTHON is the Python of one with `langchain`,
`langchain-anthropic` and `deepagents`, HEADROOM_PYTHON of one with `headroom-ai[proxy]`. `--install` creates both in a
temporary folder. Otherwise they are skipped and named.
"""

# ruff: noqa: ARG002 - all subjects are asked alike
from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

# The provider, the texts and the proxy in a thread are the tests' own. Of this folder only the calls: its `proxy` is
# another.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from isolation_calls import SAMPLED, WINDOW, WIRE, Body, Call, Clock, Row, calls

sys.path.remove(str(Path(__file__).resolve().parent))

import ebbtide
from ebbtide import Recall
from ebbtide.runtime import Context
from ebbtide.store import DirectoryStore
from fronts.proxy.proxy_runner import post, proxied
from laws.canaries import marks, topic_of
from upstream.script import Part, Say, Use
from upstream.server import Upstream

HERE = Path(__file__).resolve().parent
LANGCHAIN = ("langchain==1.4.7", "langchain-anthropic==1.7.7", "deepagents==0.7.32")
HEADROOM = ("headroom-ai[proxy]==0.42.0",)
OURS = re.compile(r"\b(?:history[\w-]*|call_[\w-]+)\.txt\b|#[0-9a-f]{8}\b")
KEY = "one-key-of-the-gateway"
WAIT = 120.0
OFFLINE = {"HF_HUB_OFFLINE": "1", "HEADROOM_TELEMETRY": "off"}
Kept = tuple[str, ...]


class Refused(Exception):
    """The subject refused to send the request."""


class Subject:
    """What is between clients and the provider. This base class passes requests through."""

    setup = "the request as the client made it"
    handles: re.Pattern[str] | None = None
    """How handles that a model can read look in a request."""

    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack

    def send(self, call: Call) -> tuple[Body | None, bool]:
        """Return what reached the provider (None if nothing), and whether the answer was made for this conversation."""
        return call.body, True

    def seek(self, call: Call, mark: str, out: Body) -> str:
        """Return what a conversation finds when it searches for one of its own texts."""
        return ""

    def open(self, call: Call, handle: str) -> str:
        """Return what a conversation gets for a handle."""
        return ""


class Gateway(Subject):
    """An HTTP server in front of the scripted provider."""

    def __init__(self, stack: ExitStack) -> None:
        super().__init__(stack)
        self.script: list[list[Part]] = []
        self.upstream = stack.enter_context(Upstream(lambda _: self.script.pop(0)))
        self.port = self.start()

    def start(self) -> int:
        raise NotImplementedError

    def post(self, call: Call, *script: list[Part]) -> tuple[bytes, list[Body]]:
        """Return the answer, and each request that reached the provider."""
        self.script = [*script, [Say(f"answer to {call.thread}.")], [Say("and more.")]]
        self.upstream.requests.clear()
        headers = {"x_api_key": KEY, "anthropic_version": "2023-06-01"}
        status, answer = post(self.port, "/v1/messages", call.body, **headers)
        self.settle()
        received = [exchange.parsed for exchange in self.upstream.requests]
        if status != 200 and not any(exchange.refused for exchange in self.upstream.requests):
            raise Refused(f"HTTP {status}: {answer[:200]!r}")
        return answer, received

    def settle(self) -> None:
        """Wait until background work has been recorded."""

    def send(self, call: Call) -> tuple[Body | None, bool]:
        answer, received = self.post(call)
        # Some gateways answer repeated requests from a cache.
        return received[0] if received else None, f"answer to {call.thread}.".encode() in answer


class Proxy(Gateway):
    setup = "`ebb proxy --recall tool`, policy default, no session named; the model recalls with the tools it is given"
    handles = OURS

    def start(self) -> int:
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        self.running = self.stack.enter_context(
            proxied(self.upstream.url, store=folder, durable=False, window=WINDOW, recall="tool")
        )
        return int(self.running.port)

    def settle(self) -> None:
        self.running.settle()

    def seek(self, call: Call, mark: str, out: Body) -> str:
        _, received = self.post(call, [Use("ebb_recall", {"query": topic_of(mark)})])
        return json.dumps(received[1:])

    def open(self, call: Call, handle: str) -> str:
        _, received = self.post(call, [Use("ebb_read", {"handle": handle})])
        return json.dumps(received[1:])


class Wrapped(Subject):
    setup = "`ebbtide.wrap(Anthropic())`, one client for both tenants, policy default, no session named"

    def __init__(self, stack: ExitStack) -> None:
        super().__init__(stack)
        import anthropic  # noqa: PLC0415 - only here

        self.upstream = stack.enter_context(Upstream(lambda _: [Say(self.answer)]))
        self.folder, self.answer, self.session = stack.enter_context(tempfile.TemporaryDirectory()), "", ""
        client = anthropic.Anthropic(api_key=KEY, base_url=self.upstream.url, max_retries=0, timeout=WAIT)
        self.options: dict[str, Any] = {"store": self.folder, "durable": False, "window": WINDOW}
        self.client: Any = ebbtide.wrap(client, on_report=self._report, **self.options)

    def _report(self, session: str, _: object) -> None:
        self.session = session

    def send(self, call: Call) -> tuple[Body | None, bool]:
        self.answer = f"answer to {call.thread}."
        self.upstream.requests.clear()
        try:
            message = self.client.messages.create(**call.body)
        except ebbtide.WontFit as error:
            raise Refused(str(error)) from error
        return self.upstream.requests[0].parsed, message.content[0].text == self.answer

    def seek(self, call: Call, mark: str, out: Body) -> str:
        context = Context(**self.options, session=self.session, wire=WIRE)
        return "\n".join(hit.snippet for hit in context.recall(topic_of(mark)))


class Shared(Subject):
    setup = "`Context(recall=Recall(scope='conversation'))`, one store; both tenants name the same session"
    handles = OURS

    def __init__(self, stack: ExitStack) -> None:
        super().__init__(stack)
        self.store = DirectoryStore(stack.enter_context(tempfile.TemporaryDirectory()), durable=False)
        self.contexts: dict[int, Context] = {}

    def _context(self, call: Call) -> Context:
        if call.pair not in self.contexts:
            self.contexts = {pair: one for pair, one in self.contexts.items() if pair > call.pair - 32}
            self.contexts[call.pair] = Context(
                store=self.store,
                session=f"agent-{call.pair}",
                window=WINDOW,
                wire=WIRE,
                recall=Recall(scope="conversation"),
            )
        return self.contexts[call.pair]

    def send(self, call: Call) -> tuple[Body | None, bool]:
        try:
            return dict(self._context(call).prepare(call.body).body), True
        except ebbtide.WontFit as error:
            raise Refused(str(error)) from error

    def seek(self, call: Call, mark: str, out: Body) -> str:
        return self._context(call).recall_answer("ebb_recall", {"query": topic_of(mark)})

    def open(self, call: Call, handle: str) -> str:
        return self._context(call).recall_answer("ebb_read", {"handle": handle})


class Middleware(Subject):
    """LangChain or deepagents in a separate process: see `isolation_peers.py`."""

    command: tuple[str, ...] = ()

    def __init__(self, stack: ExitStack, python: str) -> None:
        super().__init__(stack)
        script, *names = self.command
        home = stack.enter_context(tempfile.TemporaryDirectory())
        self.worker = subprocess.Popen(
            [python, str(HERE / script), *names, str(WINDOW)],
            env={**os.environ, "HOME": home, **OFFLINE},
            cwd=home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        stack.callback(self._stop)

    def _stop(self) -> None:
        assert self.worker.stdin is not None
        self.worker.stdin.close()
        self.worker.wait(WAIT)

    def ask(self, **asked: object) -> Body:
        assert self.worker.stdin is not None
        assert self.worker.stdout is not None
        self.worker.stdin.write(json.dumps(asked) + "\n")
        self.worker.stdin.flush()
        answer: Body = json.loads(self.worker.stdout.readline())
        return answer

    def send(self, call: Call) -> tuple[Body | None, bool]:
        answer = self.ask(thread=call.thread, body=call.body)
        if "refused" in answer:
            raise Refused(answer["refused"])
        return answer["body"], True


class Clearing(Middleware):
    command = ("isolation_peers.py", "clearing")
    setup = (
        "ContextEditingMiddleware, ClearToolUsesEdit(trigger=80 % of the window, keep=3); a thread named for each "
        "conversation"
    )


class Summarizing(Middleware):
    command = ("isolation_peers.py", "summarizing")
    setup = (
        "SummarizationMiddleware(trigger=('fraction', 0.8), keep=('fraction', 0.3), trim_tokens_to_summarize=None); a "
        "thread named for each conversation; the summary is 150 words of what its summariser was shown"
    )


class Deep(Middleware):
    command = ("isolation_peers.py", "deep")
    setup = (
        "create_summarization_middleware with its defaults, one FilesystemBackend for all threads; a thread named for "
        "each conversation; the same summary; history is read again by the path that the request names"
    )
    handles = re.compile(r"/conversation_history/\w+\.md")

    def seek(self, call: Call, mark: str, out: Body) -> str:
        return "\n".join(self.open(call, path) for path in set(self.handles.findall(json.dumps(out))))

    def open(self, call: Call, handle: str) -> str:
        return str(self.ask(read=handle)["text"])


class HeadroomLibrary(Deep):
    command = ("isolation_headroom.py",)
    setup = (
        "headroom's `compress()` with its defaults and without a downloaded compression model, one process for all; it "
        "has no notion of a window, nor of a conversation; what it took out is read again by hash"
    )
    handles = re.compile(r"(?:hash=|ccr:)([0-9a-f]{12,64})")


class Headroom(Gateway):
    setup = (
        "`headroom proxy` with its defaults, without telemetry and a downloaded compression model; it has no notion of "
        "a window; it skips compression where a history is not the one that it answered, as here"
    )
    handles = HeadroomLibrary.handles

    def __init__(self, stack: ExitStack, python: str) -> None:
        self.command = str(Path(python).parent / "headroom")
        super().__init__(stack)

    def start(self) -> int:
        home = self.stack.enter_context(tempfile.TemporaryDirectory())
        port = _free_port()
        command = [self.command, "proxy", "--port", str(port), "--anthropic-api-url", self.upstream.url]
        command += ["--no-telemetry", "--no-rate-limit"]
        worker = subprocess.Popen(
            command,
            env={**os.environ, "HOME": home, **OFFLINE},
            cwd=home,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.stack.callback(lambda: (worker.terminate(), worker.wait(WAIT)))
        end = time.monotonic() + WAIT
        while not _answers(port):
            assert time.monotonic() < end, "headroom did not start"
            time.sleep(0.2)
        return port

    def seek(self, call: Call, mark: str, out: Body) -> str:
        return "\n".join(self.open(call, one) for one in set(self.handles.findall(json.dumps(out))))

    def open(self, call: Call, handle: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)
        try:
            connection.request("GET", f"/v1/retrieve/{handle}")
            return connection.getresponse().read().decode("utf-8", "replace")
        finally:
            connection.close()


def _free_port() -> int:
    import socket  # noqa: PLC0415 - only here

    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def measure(name: str, subject: Subject, count: int, seed: int, minutes: float) -> Row:
    """Send all calls through one subject, or as many as the time allows."""
    row, clock = Row(setup=subject.setup), Clock(name, count, minutes)
    last: dict[str, Body] = {}
    if subject.handles is None:
        row.handles = None
    for call in calls(count, seed):
        row.calls += 1
        try:
            out, is_own = subject.send(call)
        except Refused as error:
            row.refused += 1
            row.note(f"call {call.number} of {call.thread}: {error}")
            continue
        row.crossed += not is_own
        if out is None:
            row.unsent += 1
            continue
        row.count(call, out)
        last[call.thread] = out
        if call.number % SAMPLED == 0:
            sample(subject, row, call, out, last.get(call.other_thread, {}))
        if call.number % 500 == 499:
            print(clock.line(row.calls, row), file=sys.stderr, flush=True)
            if clock.is_over:
                break
    row.seconds = clock.seconds
    return row


def sample(subject: Subject, row: Row, call: Call, out: Body, theirs: Body) -> None:
    """Look for two of its own texts that the request does not show, and try two handles of the other tenant."""
    hidden = sorted(mark for mark in marks(call.body) - marks(out) if mark.startswith("reef"))
    for mark in hidden[:: max(1, len(hidden) // 2)][:2]:
        row.sought += 1
        is_found = mark in subject.seek(call, mark, out)
        row.recalled += is_found
        if not is_found:
            row.note(f"call {call.number} of {call.thread} does not find {mark}")
    if subject.handles is None or row.handles is None:
        return
    own = set(subject.handles.findall(json.dumps(out)))
    for handle in sorted(set(subject.handles.findall(json.dumps(theirs))) - own)[:2]:
        row.handles += 1
        foreign = marks(subject.open(call, handle)) - call.side.ever
        row.opened += bool(foreign)
        if foreign:
            row.note(f"call {call.number} of {call.thread} reads {handle}: {sorted(foreign)[:3]}")


def subjects(langchain: str, headroom: str) -> dict[str, Callable[[ExitStack], Subject] | str]:
    """Return, by name, how to create each subject, or why it is skipped."""
    absent = "skipped: {} names no Python, see `--install`"
    found: dict[str, Callable[[ExitStack], Subject] | str] = {
        "nothing between": Subject,
        "ebbtide proxy": Proxy,
        "ebbtide wrap": Wrapped,
        "ebbtide Context": Shared,
    }
    for name, kind in (("langchain clearing", Clearing), ("langchain summarizing", Summarizing), ("deepagents", Deep)):
        found[name] = (
            (lambda stack, kind=kind: kind(stack, langchain)) if langchain else absent.format("LANGCHAIN_PYTHON")
        )
    for name, made in (("headroom compress", HeadroomLibrary), ("headroom proxy", Headroom)):
        found[name] = (lambda stack, kind=made: kind(stack, headroom)) if headroom else absent.format("HEADROOM_PYTHON")
    return found


def install(folder: Path, packages: tuple[str, ...]) -> str:
    """Create an environment with these packages and return its Python."""
    print(f"installing {' '.join(packages)} ...", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True, stdout=subprocess.DEVNULL)
    return python


def rows(count: int, only: Kept, seed: int, minutes: float, pythons: tuple[str, str]) -> Iterator[tuple[str, Any]]:
    for name, make in subjects(*pythons).items():
        if only and not any(one in name for one in only):
            continue
        if isinstance(make, str):
            yield name, make
            continue
        with ExitStack() as stack:
            yield name, measure(name, make(stack), count, seed, minutes).as_json()


COLUMNS = ("calls", "leaks", "stale", "crossed", "invalid", "over", "refused", "sought", "lost", "recalled", "opened")


def table(found: dict[str, Any]) -> str:
    lines = ["| " + " | ".join(("", *COLUMNS)) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, row in found.items():
        if isinstance(row, str):
            lines.append(f"| {name} | {row} |" + " |" * (len(COLUMNS) - 1))
            continue
        told = {**row, "opened": "n/a" if row["handles"] is None else f"{row['opened']} of {row['handles']}"}
        lines.append("| " + " | ".join((name, *(str(told[column]) for column in COLUMNS))) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--only", default="", help="comma-separated parts of names")
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--minutes", type=float, default=30.0, help="time limit for each subject")
    parser.add_argument("--install", action="store_true", help="make environments for the peers in a temporary folder")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--show", type=Path, help="run nothing and print the table of this result")
    given = parser.parse_args()
    if given.show:
        print(table(json.loads(given.show.read_text())["result"]["rows"]))
        return
    only = tuple(one for one in given.only.split(",") if one)
    with tempfile.TemporaryDirectory() as folder:
        pythons = (os.environ.get("LANGCHAIN_PYTHON", ""), os.environ.get("HEADROOM_PYTHON", ""))
        if given.install:
            pythons = (install(Path(folder) / "langchain", LANGCHAIN), install(Path(folder) / "headroom", HEADROOM))
        found = dict(rows(given.calls, only, given.seed, given.minutes, pythons))
    told = {"calls": given.calls, "seed": given.seed, "window": WINDOW, "rows": found}
    print(json.dumps(told, indent=1) if given.json else table(found))


if __name__ == "__main__":
    main()
