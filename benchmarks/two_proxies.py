"""Two `ebb proxy` processes on one store under load: how many requests reach the provider over its window.

    python benchmarks/two_proxies.py [--talks 8] [--turns 28] [--burners 4] [--json]

Each conversation goes through both proxies at once, so that they compete for its log, and every turn has more
work than the proxy has time for. The provider counts tokens by its own rule and refuses requests over its window; these
are counted. A request that a proxy itself refuses (503) is sent again, as SDKs do, and counted separately. Other
programs call `run()`: the fault campaign, and a short form in the tests. The exit code is 1 if any request was over.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

TESTS = str(Path(__file__).resolve().parents[1] / "tests")
if TESTS not in sys.path:
    sys.path.insert(0, TESTS)

from upstream.server import Upstream  # noqa: E402 - the scripted provider of the tests

WINDOW = 16_000
PATIENCE = 240.0
"""Seconds for an answer, and for a proxy to listen: a busy machine is slow."""
TRIES = 20
"""Times that a request is sent again after a 503."""
TOO_LONG = frozenset(("A59", "A60", "C11", "R14"))
"""The provider's rules about the window."""
_LINE = "src/harbour/gauge_{n}.py:{line}: level = reading - datum  # station {n}\n"


@dataclass(slots=True)
class Outcome:
    """Counts of what happened to the requests."""

    sent: int = 0
    """Sent by clients, without retries."""
    over: int = 0
    """Requests that the provider refused for their size, whether or not they were sent again."""
    largest: int = 0
    """Bytes of the largest request that reached the provider."""
    waited_for: int = 0
    """How often a proxy answered 503 and the client sent the request again."""
    failed: list[str] = field(default_factory=list)
    """Anything other than an answer."""
    seconds: float = 0.0


def history(talk: int, steps: int, lines: int) -> list[dict[str, object]]:
    """A conversation of tool calls; each result has some thousand tokens."""
    messages: list[dict[str, object]] = [{"role": "user", "content": f"Talk {talk}: go through the gauges one by one."}]
    for n in range(steps):
        call = {"id": f"c{talk}x{n}", "type": "function", "function": {"name": "read", "arguments": f'{{"n":{n}}}'}}
        result = "".join(_LINE.format(n=n, line=line) for line in range(lines))
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{talk}x{n}", "content": result})
    return messages


@contextmanager
def proxy(upstream: str, store: Path, window: int) -> Iterator[int]:
    """Start a real process and return its port."""
    command = [sys.executable, "-m", "ebbtide", "proxy", "--upstream", upstream, "--port", "0", "--announce"]
    command += ["--store", str(store), "--window", str(window)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=store, env=os.environ)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"ebb proxy did not start: exit {process.wait(10)}")
        yield int(json.loads(line)["listening"].rpartition(":")[2])
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def burning(number: int) -> Iterator[None]:
    """Start this many processes that only use CPU; they also end on their own after a while."""
    waste = "import time\nend = time.monotonic() + 600\nwhile time.monotonic() < end: pass"
    others = [subprocess.Popen([sys.executable, "-c", waste]) for _ in range(number)]
    try:
        yield
    finally:
        for one in others:
            one.kill()
            one.wait()


def run(
    *, talks: int = 8, turns: int = 28, burners: int = 4, window: int = WINDOW, lines: int = 200, first: int = 6
) -> Outcome:
    """Run all conversations at once through two proxies; a conversation's first request has `first` results."""
    outcome, guard, begun = Outcome(), threading.Lock(), time.monotonic()
    with ExitStack() as stack:
        upstream = stack.enter_context(Upstream(lambda _: "Go on.", window=window))
        store = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ebb-two-")))
        ports = [stack.enter_context(proxy(upstream.url, store, window)) for _ in range(2)]
        stack.enter_context(burning(burners))
        threads = [
            threading.Thread(target=_talk, args=(talk, port, turns, lines, first, outcome, guard))
            for talk in range(talks)
            for port in ports
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        requests = list(upstream.requests)
    outcome.over = sum(any(one.rule in TOO_LONG for one in request.refused) for request in requests)
    outcome.largest = max((len(request.raw) for request in requests), default=0)
    outcome.seconds = round(time.monotonic() - begun, 1)
    return outcome


def _talk(talk: int, port: int, turns: int, lines: int, first: int, outcome: Outcome, guard: threading.Lock) -> None:
    messages = history(talk, turns + first, lines)
    tool = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
    for n in range(turns):
        body = {"model": "gpt-5", "tools": [tool], "messages": messages[: 1 + 2 * (n + first)]}
        status, told, waits = _posted(port, json.dumps(body).encode(), f"Bearer talk-{talk}")
        with guard:
            outcome.sent += 1
            outcome.waited_for += waits
            if status != 200:
                outcome.failed.append(f"talk {talk}, turn {n}: {status} {told[:200]!r}")


def _posted(port: int, body: bytes, key: str) -> tuple[int, bytes, int]:
    """Return status, answer, and how often it had to be sent again."""
    headers = {"content-type": "application/json", "authorization": key}
    for tries in range(TRIES):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            connection.request("POST", "/v1/chat/completions", body, headers)
            answer = connection.getresponse()
            status, told = answer.status, answer.read()
        except OSError as failed:
            return 0, repr(failed).encode(), tries
        finally:
            connection.close()
        if status != 503:
            return status, told, tries
    return status, told, TRIES


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--talks", type=int, default=8, help="number of simultaneous conversations")
    parser.add_argument("--turns", type=int, default=28, help="requests of each conversation through each proxy")
    parser.add_argument("--burners", type=int, default=4, help="number of processes that only use CPU")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(arguments)
    outcome = run(talks=args.talks, turns=args.turns, burners=args.burners)
    if args.json:
        print(json.dumps(asdict(outcome)))
    else:
        print(f"{outcome.sent} requests through two proxies in {outcome.seconds} s: {outcome.over} over the window of")
        print(
            f"{WINDOW:,} tokens, {outcome.waited_for} sent again after a 503, {len(outcome.failed)} without an answer"
        )
        for one in outcome.failed[:10]:
            print(f"  {one}")
    return 1 if outcome.over or outcome.failed else 0


if __name__ == "__main__":
    sys.exit(main())
