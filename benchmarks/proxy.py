"""What `ebb proxy` adds to a call, next to a direct call, a plain aiohttp pass-through and LiteLLM, in one run.

    python benchmarks/proxy.py [--litellm PYTHON] [--quick] [--json]

Each subject is a process in front of the same provider on loopback, and all take turns. *Idle*: one stream at a time,
200 events at once, bodies of 200 KB that grow by a turn each time. *Chunk*: CPU for an event that arrives alone.
*Crowd*: 500 streams of two seconds at the same time, each a separate conversation. *Memory*: what the process holds
after 1,000 and after 10,000 requests. Each figure says how many requests it is from: LiteLLM gets every fifth turn,
because it takes about thirty times as long. A stream that has not ended after two minutes is an error. `--litellm` or
LITELLM_PYTHON is the Python of an environment with `litellm[proxy]`; without it LiteLLM is skipped and named. CPU time
is that of the process, so other load does not matter. Progress goes to stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from proxy_parts import KINDS

PARTS = str(Path(__file__).with_name("proxy_parts.py"))
BYTES = 200_000
KEY = f"sk-{secrets.token_hex(32)}"
"""LiteLLM needs one to start; the others ignore it."""
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
AIMS = {"added p50 ms": 3.0, "added p99 ms": 15.0, "litellm's cpu, times ours": 10.0, "memory grown mb": 20.0}
WARM = 5
"""Warm-up rounds that open connections and read the conversation."""
AFTER = 1.0
"""Seconds for what a subject still records after the client has everything."""
PATIENCE = 120.0
"""Seconds for a subject to listen, and for a stream to end: LiteLLM takes ten to start on an idle machine."""
SLOW = {"litellm": 5}
"""Subjects that run only in every Nth round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    name: str
    url: str
    process: int | None = None

    @property
    def cpu(self) -> float:
        """Seconds of CPU so far, including its threads."""
        if self.process is None:
            return 0.0
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    @property
    def resident(self) -> float:
        """Megabytes."""
        return int(Path(f"/proc/{self.process}/statm").read_text().split()[1]) * PAGE / 1e6


class Missing(Exception):
    """A subject that is not available here."""


@contextmanager
def started(name: str, command: list[str], **environ: str) -> Iterator[Subject]:
    """A process that prints its address in its first line."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, **environ}
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise Missing(f"{name} did not start: exit {process.wait(10)}")
        yield Subject(name=name, url=json.loads(line)["listening"], process=process.pid)
    finally:
        ended(process)


def ended(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(40)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def litellm(python: str, upstream: str, place: Path) -> Iterator[Subject]:
    terms = {"model": "openai/small", "api_base": f"{upstream}/v1", "api_key": "none"}
    config = place / "litellm.yaml"
    config.write_text(json.dumps({"model_list": [{"model_name": "small", "litellm_params": terms}]}))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(Path(python).with_name("litellm")), "--config", str(config), "--host", "127.0.0.1"]
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "LITELLM_TELEMETRY": "False"}
    quiet["LITELLM_MASTER_KEY"] = KEY
    if not Path(command[0]).exists():
        raise Missing("no litellm beside that python")
    process = subprocess.Popen(
        [*command, "--port", str(port)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env={**os.environ, **quiet}, cwd=place,
    )  # fmt: skip
    try:
        if not listens(port, process):
            raise Missing("litellm did not listen")
        yield Subject(name="litellm", url=f"http://127.0.0.1:{port}", process=process.pid)
    finally:
        ended(process)


def listens(port: int, process: subprocess.Popen[bytes]) -> bool:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as trying:
            if trying.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.2)
    return False


class Talk:
    """A conversation of this many bytes that grows by a turn with each request."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        line = "src/tide.py:{n}: the gauge of {name} stood at {n} cm, and the offset was left alone\n"
        self._messages = [{"role": "user", "content": f"Begin with {name}."}]
        while sum(len(one["content"]) for one in self._messages) < size:
            at = len(self._messages)
            text = "".join(line.format(n=at * 100 + n, name=name) for n in range(20))
            self._messages.append({"role": ("user", "assistant")[at % 2], "content": text[:2000]})

    def body(self, kind: int = 200) -> bytes:
        """Return the next request. `proxy_parts.KINDS` has the kinds of answers."""
        at = len(self._messages)
        self._messages.append({"role": ("user", "assistant")[at % 2], "content": f"Turn {at}."})
        self._messages.append({"role": ("user", "assistant")[(at + 1) % 2], "content": f"And {at}."})
        told = {"model": "small", "stream": True, "max_tokens": kind, "messages": self._messages}
        return json.dumps(told).encode()


async def called(client: aiohttp.ClientSession, subject: Subject, name: str, body: bytes) -> tuple[float, float]:
    """Return milliseconds to the first byte, and to the last."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}", "x-session-id": name}
    begun = time.perf_counter()
    async with client.post(f"{subject.url}/v1/chat/completions", data=body, headers=headers) as answer:
        first = await answer.content.readany()
        told = 1000 * (time.perf_counter() - begun)
        rest = await answer.content.read()
        if answer.status != 200 or b"[DONE]" not in (first + rest)[-400:]:
            raise RuntimeError(f"{subject.name}: {answer.status}")
        return told, 1000 * (time.perf_counter() - begun)


def percentiles(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=100)
    return {"p50": cuts[49], "p99": cuts[98]}


def client() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=PATIENCE))


async def idle(subjects: list[Subject], rounds: int) -> dict[str, Any]:
    """Run the subjects in turn. Work after the last byte counts as CPU time too, and ends before the next subject."""
    talks = {one.name: Talk(f"idle-{one.name}", BYTES) for one in subjects}
    times: dict[str, list[tuple[float, float]]] = {one.name: [] for one in subjects}
    spent = {}
    async with client() as calling:
        for at in range(-WARM, rounds):
            if at == 0:
                await asyncio.sleep(AFTER)
                spent = {one.name: one.cpu for one in subjects}
            for one in subjects:
                if at > 0 and at % SLOW.get(one.name, 1):
                    continue
                told = await called(calling, one, f"idle-{one.name}", talks[one.name].body())
                times[one.name] += [told] if at >= 0 else []
    await asyncio.sleep(AFTER)
    return {one.name: _idle(times[one.name], one.cpu - spent[one.name]) for one in subjects}


def _idle(times: list[tuple[float, float]], cpu: float) -> dict[str, Any]:
    first, last = ([one[at] for one in times] for at in (0, 1))
    bytes_ms = {"first byte ms": percentiles(first), "last byte ms": percentiles(last)}
    return {"requests": len(times), **bytes_ms, "cpu ms a stream": 1000 * cpu / len(times)}


async def trickle(subject: Subject, rounds: int) -> dict[str, Any]:
    """CPU for a chunk that arrives alone, including its share of the stream."""
    talk, events = Talk(f"trickle-{subject.name}", 4000), KINDS[202][0]
    async with client() as calling:
        await called(calling, subject, f"trickle-{subject.name}", talk.body())
        await asyncio.sleep(AFTER)
        before = subject.cpu
        for _ in range(rounds):
            await called(calling, subject, f"trickle-{subject.name}", talk.body(202))
    await asyncio.sleep(AFTER)
    return {"requests": rounds, "chunks": rounds * events, "ms": 1000 * (subject.cpu - before) / (rounds * events)}


async def crowd(subject: Subject, streams: int) -> dict[str, Any]:
    names = [f"crowd-{subject.name}-{at}" for at in range(streams)]
    bodies = [Talk(name, 4000).body(201) for name in names]
    before, begun = subject.cpu, time.perf_counter()
    async with client() as calling:
        calls = (called(calling, subject, name, body) for name, body in zip(names, bodies, strict=True))
        told = await asyncio.gather(*calls, return_exceptions=True)
        seconds = time.perf_counter() - begun
    await asyncio.sleep(AFTER)
    good = [one for one in told if not isinstance(one, BaseException)]
    return {
        "streams": streams,
        "errors": streams - len(good),
        "seconds": seconds,
        "first byte ms": percentiles([first for first, _ in good]) if len(good) > 1 else {},
        "cpu ms a stream": 1000 * (subject.cpu - before) / streams,
    }


async def memory(subject: Subject, marks: tuple[int, int]) -> dict[str, float]:
    """Fifty conversations of 20 KB, sixteen requests at a time, with short answers."""
    talks = [Talk(f"memory-{at}", 20_000) for at in range(50)]
    bodies = [(f"memory-{at}", talk.body(203)) for at, talk in enumerate(talks)]
    found, done = {}, 0
    async with client() as calling:
        for mark in marks:
            while done < mark:
                some = [bodies[(done + at) % 50] for at in range(min(16, mark - done))]
                await asyncio.gather(*(called(calling, subject, *one) for one in some))
                done += len(some)
            await asyncio.sleep(1.0)
            found[f"after {mark}"] = subject.resident
    return found


async def measured(subjects: list[Subject], quick: bool) -> dict[str, Any]:
    tell("one stream in flight")
    found: dict[str, Any] = {"idle": await idle(subjects, 50 if quick else 300), "chunk cpu": {}, "crowd": {}}
    for one in subjects:
        tell(f"{one.name}: chunks that come alone, then a crowd")
        if one.process:
            found["chunk cpu"][one.name] = await trickle(one, 1 if quick else 5)
        found["crowd"][one.name] = await crowd(one, 100 if quick else 500)
    tell("memory")
    ours = next(one for one in subjects if one.name == "ebb proxy")
    found["memory mb"] = await memory(ours, (100, 1000) if quick else (1000, 10_000))
    return found


BEGUN = time.monotonic()


def tell(doing: str) -> None:
    print(f"{time.monotonic() - BEGUN:5.0f} s  {doing}", file=sys.stderr, flush=True)


def judged(found: dict[str, Any]) -> dict[str, Any]:
    """Print the goals and what was measured."""
    ours, direct = found["idle"]["ebb proxy"], found["idle"]["direct"]
    first, last = found["memory mb"].values()
    told = {f"added {p} ms": ours["first byte ms"][p] - direct["first byte ms"][p] for p in ("p50", "p99")}
    other = found["idle"].get("litellm", {}).get("cpu ms a stream")
    more = {"litellm's cpu, times ours": other / ours["cpu ms a stream"]} if other else {}
    told |= more | {"memory grown mb": last - first}
    return {name: {"measured": value, "aim": AIMS[name]} for name, value in told.items()}


def run(given: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        place, python = Path(folder), sys.executable
        provider = stack.enter_context(started("provider", [python, PARTS, "provider"]))
        ours = [python, "-m", "ebbtide.fronts.cli.main", "proxy", "--port", "0", "--announce"]
        ours += ["--store", str(place / "store"), "--window", "200k", "--upstream", provider.url]
        subjects = [
            Subject(name="direct", url=provider.url),
            stack.enter_context(started("pass-through", [python, PARTS, "passing", provider.url])),
            stack.enter_context(started("ebb proxy", ours)),
        ]
        skipped = {}
        try:
            if not given.litellm:
                raise Missing("not asked for: --litellm PYTHON")
            subjects.append(stack.enter_context(litellm(given.litellm, provider.url, place)))
        except Missing as absent:
            skipped["litellm"] = str(absent)
        load = round(os.getloadavg()[0], 1)
        found = asyncio.run(measured(subjects, given.quick))
        return {"load": [load, round(os.getloadavg()[0], 1)], "skipped": skipped, **found, "aims": judged(found)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    place = os.environ.get("LITELLM_PYTHON")
    parser.add_argument(
        "--litellm", metavar="PYTHON", default=place, help="the Python of an environment with litellm[proxy]"
    )
    parser.add_argument("--quick", action="store_true", help="run a sixth of the rounds and a fifth of the crowd")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = run(given)
    if given.json:
        json.dump(found, sys.stdout, indent=1)
        return
    for name, one in found["idle"].items():
        first = one["first byte ms"]
        told = f"first byte p50 {first['p50']:.2f} p99 {first['p99']:.2f} ms, {one['cpu ms a stream']:.2f} ms of CPU"
        print(f"idle   {name:<13} {told}, of {one['requests']}")
    for name, one in found["chunk cpu"].items():
        print(f"chunk  {name:<13} {one['ms']:.3f} ms of CPU, of {one['chunks']}")
    for name, one in found["crowd"].items():
        print(
            f"crowd  {name:<13} {one['streams']} streams, {one['errors']} errors, {one['seconds']:.1f} s, "
            f"{one['cpu ms a stream']:.2f} ms of CPU each"
        )
    print("memory " + ", ".join(f"{name}: {value:.0f} MB" for name, value in found["memory mb"].items()))
    for name, why in found["skipped"].items():
        print(f"skipped {name}: {why}")
    for name, one in found["aims"].items():
        print(f"{name}: {one['measured']:.1f} (aim {one['aim']:.0f})")
    print(f"load {found['load'][0]} to {found['load'][1]}")


if __name__ == "__main__":
    main()
