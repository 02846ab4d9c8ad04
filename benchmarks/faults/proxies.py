"""Two proxy processes on one store and one set of conversations, while the machine is busy.

Requests go to the proxies in turn, as behind a load balancer, or each to both at the same time, as behind one that
retries early. The provider counts tokens: no request may be over the window, whichever proxy was late. It checks that
thinking matches what was sent only if requests go in turn: of two answers to two bodies a client continues with one.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.faults.sessions import Tally, named_files

from ebbtide.store.directory.verify import verify_log
from fronts.proxy.agent import Agent, looping
from fronts.proxy.proxy_runner import proxied
from upstream import signing
from upstream.prefix import tokens, units
from upstream.server import Upstream

WINDOW = 24_000
AGENTS = 4
WIRES = ("anthropic", "openai_chat", "openai_responses", "gemini")
ROOT = Path(__file__).resolve().parents[2]
_BUSY = "while True: sum(range(100000))"


@contextlib.contextmanager
def _proxy(upstream: str, store: Path) -> Iterator[int]:
    command = [sys.executable, "-m", "ebbtide", "proxy", "--announce", "--port", "0", "--store", str(store)]
    command += ["--window", str(WINDOW), "--upstream", upstream, "--drain", "1"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "EBB_HOME": str(store)}
    running = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert running.stdout is not None
        yield int(json.loads(running.stdout.readline())["listening"].rpartition(":")[2])
    finally:
        running.terminate()
        running.wait(60)


@contextlib.contextmanager
def _load(processes: int) -> Iterator[None]:
    """Processes that keep the machine busy."""
    busy = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def two_proxies(turns: int, seed: int, tell: Callable[[int], None], *, load: int) -> Tally:
    """`load` is the number of processes that keep the machine busy meanwhile."""
    tally, store = Tally(), Path(tempfile.mkdtemp(prefix="ebb-faults-"))
    wire, at_once = WIRES[seed % len(WIRES)], seed % 2 == 1
    guard = threading.Lock()
    try:
        with (
            Upstream(looping(wire), issuer=signing.trusting if at_once else signing.refusals) as upstream,
            _proxy(upstream.url, store) as one,
            _proxy(upstream.url, store) as other,
            _load(load),
            ThreadPoolExecutor(3 * AGENTS) as pool,
        ):
            agents = [
                _Agent(wire, (one, other), upstream, number, pool if at_once else None) for number in range(AGENTS)
            ]
            for turn in range(turns):
                for problem in pool.map(lambda agent, turn=turn: agent.go(turn), agents):
                    with guard:
                        tally.points += 1 + at_once
                        if problem:
                            tally.count("unusable", f"two proxies, {wire}, turn {turn}", problem)
                tell(tally.points)
            _check_requests(tally, wire, upstream, store, "two proxies")
        for path in store.rglob("*.jsonl"):
            found = verify_log(path)
            if not found.ok:
                tally.count("lost", path.name, found.problems or found.damage)
    finally:
        shutil.rmtree(store, ignore_errors=True)
    return tally


class _Agent:
    """A client that sends to the proxies in turn, or with a `pool` to both, and continues with the first answer."""

    def __init__(
        self, wire: str, ports: tuple[int, int], upstream: Upstream, number: int, pool: ThreadPoolExecutor | None
    ) -> None:
        told = {"x_api_key": f"sk-{number}", "x_session_id": f"agent-{number}-of-many"}
        self.ways = [Agent(wire, port, upstream, lines=150, **told) for port in ports]
        self.history, self.pool = self.ways[0].history, pool

    def go(self, turn: int) -> str:
        """Return what went wrong, if anything."""
        first, second = self.ways if turn % 2 else self.ways[::-1]
        first.history = self.history
        body = first.request()
        other = self.pool.submit(second.post, body) if self.pool else None
        try:
            status, raw = first.post(body)
            beside = other.result(120)[0] if other else 200
        except (OSError, TimeoutError) as error:
            return f"{type(error).__name__}: {error}"
        if status != 200:
            return f"status {status}: {raw[:200]!r}"
        self.history = [*self.history, *first._heard(json.loads(raw), turn)]
        return "" if beside == 200 else f"the other proxy: status {beside}"


def _check_requests(tally: Tally, wire: str, upstream: Upstream, store: Path, name: str) -> None:
    for number, exchange in enumerate(upstream.requests):
        tally.requests += 1
        where = f"{name}, {wire}, request {number}"
        if exchange.refused:
            tally.count("invalid", where, [one.rule for one in exchange.refused])
            continue
        length = tokens(units(wire, exchange.parsed))
        if length > WINDOW:
            tally.count("over", where, f"{length} of {WINDOW}")
        missing = [path for path in named_files(store, exchange.parsed) if not path.exists()]
        if missing:
            tally.count("dangling", where, missing[0].name)


LATE = ((1e-4, 120.0), (120.0, 1e-4), (1e-4, 1e-4))
"""Seconds that an idle and an acting turn may take: one kind, the other, or both always run out of time."""


def late(turns: int, seed: int, tell: Callable[[int], None]) -> Tally:
    """Run one proxy whose own work is always too late: the provider must still accept what it sends."""
    tally, store = Tally(), Path(tempfile.mkdtemp(prefix="ebb-faults-"))
    wire, (idle, acting) = WIRES[seed % len(WIRES)], LATE[seed // len(WIRES) % len(LATE)]
    try:
        with (
            Upstream(looping(wire)) as upstream,
            proxied(upstream.url, store=str(store), window=WINDOW, idle_limit=idle, acting_limit=acting) as running,
        ):
            agent = _Agent(wire, (running.port, running.port), upstream, seed, None)
            for turn in range(turns):
                tally.points += 1
                problem = agent.go(turn)
                running.settle()
                if problem:
                    tally.count("unusable", f"late by {idle} and {acting}, {wire}, turn {turn}", problem)
                tell(tally.points)
            _check_requests(tally, wire, upstream, store, f"late by {idle} and {acting}")
    finally:
        shutil.rmtree(store, ignore_errors=True)
    return tally
