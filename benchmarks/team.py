"""A folder and PostgreSQL side by side, and one, two and four proxies on one database.

    python benchmarks/team.py [--only commits,pickup,proxies,crowd] [--sessions 1000] [--streams 500] [--json]

*Commits*: one record of 4 KB, in turns: a folder with and without sync, a database with and without. *Pick-up*: CPU to
prepare a request of 5,000 messages for the first time in memory, and in another process that finds the session in the
database, next to the read of its checkpoint alone. *Proxies*: CPU of proxies and of the database for a request, with a
folder and with a database, for one, two and four proxies; each request of a session goes to the next proxy. *Crowd*:
many sessions over four proxies, many streams at once, then the same through one proxy: errors, texts of other tenants,
requests whose bytes differ, bytes a message, connections. The database syncs to disk. CPU time is that of the
processes, so other load does not matter.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from proxy import AFTER, PATIENCE, TICK, Subject, client, started
from proxy_parts import END, PIECES, USAGE

from store import RECORD, percentiles

TESTS = str(Path(__file__).resolve().parents[1] / "tests")
if TESTS not in sys.path:
    sys.path.insert(0, TESTS)

import ebbtide  # noqa: E402
from ebbtide.fronts.proxy.command import build_options, command_line  # noqa: E402
from ebbtide.fronts.proxy.server import serve  # noqa: E402
from ebbtide.state.snapshot import SNAPSHOT_FORMAT  # noqa: E402
from ebbtide.store import open_store  # noqa: E402
from postgres_server import MEMBER, OWNER, PostgresServer, start_server  # noqa: E402

MESSAGES = 5_000
WINDOW = 8_000
"""Tokens: a crowd's sessions outgrow it with their second request."""
PROMISED = 1.3
"""Times the CPU of a first read in memory."""
PARTS = ("commits", "pickup", "proxies", "crowd")
_MARK = re.compile(rb"mark-(\d{6})")


# --- commits ----------------------------------------------------------------------------------------------------------


def commits(url: str) -> dict[str, Any]:
    """In rounds, so that the load of the machine is the same for all."""
    with tempfile.TemporaryDirectory() as folder:
        subjects = {
            f"{name}, {'synced' if durable else 'not synced'}": open_store(place, durable=durable).open(
                f"commits-{durable}", now=0.0
            )
            for name, place in (("folder", folder), ("database", url))
            for durable in (True, False)
        }
        times: dict[str, list[float]] = {name: [] for name in subjects}
        for _ in range(300):
            for name, log in subjects.items():
                begun = time.perf_counter()
                with log.lock() as fence:
                    log.commit([RECORD], at=0.0, fence=fence)
                times[name].append(1000 * (time.perf_counter() - begun))
        ends = {name: log.read().position for name, log in subjects.items()}
        nothing = {
            name: percentiles(lambda log=log, name=name: log.read_since(ends[name]), 300)  # type: ignore[misc]
            for name, log in subjects.items()
            if "not" not in name
        }
    return {"lock and commit ms": {name: _cuts(one) for name, one in times.items()}, "nothing new ms": nothing}


def _cuts(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=100)
    return {"p50": cuts[49], "p99": cuts[98]}


# --- cold pick-up -----------------------------------------------------------------------------------------------------


def conversation(count: int) -> dict[str, Any]:
    line = "src/tide/gauge.py:{n}: reading = level - datum\n"
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Fix the gauge."}]
    while len(messages) < count:
        n = len(messages)
        call = {"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {"file_path": f"src/f{n}.py"}}
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": line.format(n=n) * 20}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return {"model": "claude-opus-4-5", "max_tokens": 1000, "messages": messages[:count]}


def pick_up(place: str) -> dict[str, float]:
    """In this process: CPU milliseconds of the first request, and of the read of the checkpoint."""
    _prepare("", conversation(11))  # imports and patterns
    if place:
        open_store(place).check()
    body = conversation(MESSAGES + 1)
    raw = json.dumps(body).encode()
    checkpoint = 0.0
    if place:
        begun = time.process_time()
        open_store(place).peek("pickup").resume(lambda _: None, SNAPSHOT_FORMAT)
        checkpoint = 1000 * (time.process_time() - begun)
    begun = time.process_time()
    _prepare(place, raw)
    return {"prepare": 1000 * (time.process_time() - begun), "checkpoint": checkpoint}


def _prepare(place: str, body: Any) -> Any:
    return ebbtide.Context(window=10**7, store=place or None, session="pickup", wire="anthropic").prepare(body)


def pick_ups(url: str) -> dict[str, Any]:
    context = ebbtide.Context(window=10**7, store=url, session="pickup", wire="anthropic")
    for count in range(MESSAGES - 400, MESSAGES + 1, 100):
        context.prepare(json.dumps(conversation(count + count % 2 - 1)).encode())
        context.record({"role": "assistant", "content": [], "usage": {"input_tokens": 100, "output_tokens": 1}})
    del context
    found: dict[str, list[dict[str, float]]] = {"memory": [], "database": []}
    for _ in range(5):  # in turns; the fastest counts, because a busy machine slows the others
        for name, place in (("memory", ""), ("database", url)):
            command = [sys.executable, __file__, "--pick-up", place or "memory"]
            told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found[name].append(json.loads(told))
    memory = min(one["prepare"] for one in found["memory"])
    best = min(found["database"], key=lambda one: one["prepare"])
    times = (best["prepare"] - best["checkpoint"]) / memory
    figures = {"memory cpu ms": memory, "database cpu ms": best["prepare"], "checkpoint cpu ms": best["checkpoint"]}
    return {"messages": MESSAGES, **figures, "times, without the checkpoint": times, "promised": PROMISED}


# --- proxies ----------------------------------------------------------------------------------------------------------


async def provide() -> None:
    """A provider that remembers what it got: a hash of each body, and marks of conversations that are not its own."""
    seen: dict[str, str] = {}
    foreign = Counter[str]()

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return web.json_response({"seen": seen, "foreign": foreign})
        body, name = await request.read(), request.headers["x-bench"]
        seen[name] = sha256(body).hexdigest()
        foreign["texts"] += sum(mark.decode() != name.partition(".")[0] for mark in _MARK.findall(body))
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for piece in PIECES[:20]:
            await response.write(piece)
            await asyncio.sleep(float(request.headers["x-pause"]))
        await response.write(END + USAGE + b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=2048).start()
    print(json.dumps({"listening": f"http://127.0.0.1:{runner.addresses[0][1]}"}), flush=True)
    await asyncio.to_thread(sys.stdin.read)


def body_of(session: int, turn: int, results: int = 6) -> bytes:
    """The request of a session's turn: each has so many more tool results, each with the session's mark."""
    line = f"mark-{session:06} src/gauge.py: reading = level - datum\n"
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"mark-{session:06} Go through the gauges."}]
    for n in range((turn + 1) * results):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "read", "arguments": f'{{"n":{n}}}'}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": line * 60})
    tool = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
    return json.dumps({"model": "gpt-5", "stream": True, "tools": [tool], "messages": messages}).encode()


async def ask(
    calling: aiohttp.ClientSession, proxy: Subject, session: int, turn: int, pause: float, results: int = 6
) -> int:
    """One request of a tenant with one session. Returns how often it was sent again after a 503."""
    headers = {
        "content-type": "application/json", "authorization": f"Bearer tenant-{session}",
        "x-bench": f"{session:06}.{turn}", "x-pause": str(pause),
    }  # fmt: skip
    body = body_of(session, turn, results)
    for again in range(20):
        async with calling.post(f"{proxy.url}/v1/chat/completions", data=body, headers=headers) as told:
            data = await told.read()
            if told.status == 503:
                await asyncio.sleep(1.0)
                continue
            if told.status != 200 or not data.endswith(b"data: [DONE]\n\n"):
                raise RuntimeError(f"{told.status} {data[:100]!r}")
            return again
    raise RuntimeError("refused twenty times")


async def settled(proxies: list[Subject]) -> None:
    """Until nothing is in flight and the processes have gone quiet."""
    spent = -1.0
    while spent < (spent := sum(one.cpu for one in proxies)) - 0.05:
        await asyncio.sleep(AFTER)


def patient_proxy(arguments: list[str]) -> None:
    """`ebb proxy` that has time to plan: on a busy machine it would else fall back, and nothing could be compared."""
    options = build_options(command_line().parse_args(arguments))
    asyncio.run(serve(replace(options, idle_limit=PATIENCE, acting_limit=PATIENCE)))


async def recorded(server: PostgresServer, name: str, messages: int) -> None:
    """Until the database has so many messages: then no proxy has a reply that another one should know."""
    deadline = time.monotonic() + PATIENCE
    while _sizes(server, name)["messages"] < messages and time.monotonic() < deadline:
        await asyncio.sleep(AFTER)


async def drive(
    proxies: list[Subject], sessions: int, turns: int, streams: int, pause: float, server: PostgresServer, name: str
) -> dict[str, int]:
    """Every session's turns, one turn of all sessions after the other. A request goes to the next proxy each time."""
    gate, counts = asyncio.Semaphore(streams), Counter[str]()

    async def one(calling: aiohttp.ClientSession, session: int, turn: int) -> None:
        async with gate:
            proxy = proxies[(session + turn) % len(proxies)]
            try:
                counts["sent again"] += await ask(calling, proxy, session, turn, pause)
            except Exception as error:  # noqa: BLE001 - counted, and shown
                counts["errors"] += 1
                print(f"session {session}, turn {turn}: {error!r}"[:200], file=sys.stderr)

    async with client() as calling:
        for turn in range(turns):
            print(f"{len(proxies)} proxies, turn {turn} of {sessions} sessions", file=sys.stderr)
            await asyncio.gather(*(one(calling, session, turn) for session in range(sessions)))
            await recorded(server, name, sessions * (2 + 13 * turn + 12))
            await settled(proxies)
    return {"errors": counts["errors"], "sent again": counts["sent again"]}


class Rig(ExitStack):
    """A provider and proxies on one store."""

    def __init__(self, store: str, count: int) -> None:
        super().__init__()
        python = sys.executable
        self.provider = self.enter_context(started("provider", [python, __file__, "--provider"]))
        command = [python, __file__, "--patient-proxy", "--port", "0", "--announce", "--upstream", self.provider.url]
        command += ["--store", store, "--window", str(WINDOW), "--recall", "off"]
        self.proxies = [self.enter_context(started(f"proxy {n}", command)) for n in range(count)]

    async def seen(self) -> dict[str, Any]:
        async with client() as calling, calling.get(self.provider.url) as told:
            return dict(await told.json())

    async def summary(self) -> Counter[str]:
        total = Counter[str]()
        async with client() as calling:
            for proxy in self.proxies:
                async with calling.get(f"{proxy.url}/ebb/summary") as told:
                    page = await told.json()
                total.update({name: page[name] for name in ("requests", "edits", "fallbacks", "unanswered_requests")})
        return total


def database_cpu(server: PostgresServer) -> float:
    """Seconds of CPU of the server and of all its processes, also of those that have ended."""
    main = int((server.folder / "postmaster.pid").read_text().split()[0])
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        is_main = int(path.parent.name) == main
        if is_main or int(fields[1]) == main:
            total += sum(map(int, fields[11 : 15 if is_main else 13]))
    return total / TICK


async def cpu_of(store: str, count: int, server: PostgresServer, sticky: bool = False) -> dict[str, float]:
    """Sessions of 24 turns, eight at a time. What a process does once is done before."""
    errors: list[str] = []

    async def one(calling: aiohttp.ClientSession, gate: asyncio.Semaphore, session: int, turns: int) -> None:
        async with gate:
            for turn in range(turns):
                proxy = rig.proxies[(session + (0 if sticky else turn)) % count]
                try:
                    await ask(calling, proxy, session, turn, 0.0, 1)
                except Exception as error:  # noqa: BLE001 - counted
                    errors.append(repr(error))

    async def all_of(sessions: range, turns: int) -> None:
        gate = asyncio.Semaphore(8)
        async with client() as calling:
            await asyncio.gather(*(one(calling, gate, session, turns) for session in sessions))
        await settled(rig.proxies)

    with Rig(store, count) as rig:
        await all_of(range(100, 100 + 4 * count), 8)
        before, database = sum(one.cpu for one in rig.proxies), database_cpu(server)
        await all_of(range(20), 24)
        spent, database = sum(one.cpu for one in rig.proxies) - before, database_cpu(server) - database
        print(f"{count} proxies: {1000 * spent / 480:.1f} ms", file=sys.stderr)
        each = {"proxy cpu ms a request": 1000 * spent / 480, "database cpu ms a request": 1000 * database / 480}
        return {"requests": 480, "errors": len(errors), **each, "load": os.getloadavg()[0]}


def proxies(server: PostgresServer) -> dict[str, Any]:
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        found["1 proxy, folder"] = asyncio.run(cpu_of(folder, 1, server))
    for count in (1, 2, 4):
        for sticky in (False, True) if count > 2 else (False,):
            name = f"{count} {'proxies' if count > 1 else 'proxy'}, database{', sticky' if sticky else ''}"
            url = server.create(f"bench{len(found)}").replace(OWNER, MEMBER)
            found[name] = asyncio.run(cpu_of(url, count, server, sticky))
    return found


# --- a crowd ----------------------------------------------------------------------------------------------------------


async def crowd(server: PostgresServer, sessions: int, streams: int) -> dict[str, Any]:
    """The same requests through four proxies and through one."""
    found: dict[str, Any] = {"sessions": sessions, "streams at once": streams, "requests": 3 * sessions}
    seen = {}
    for count in (4, 1):
        url = server.create(f"crowd{count}")
        with Rig(url.replace(OWNER, MEMBER), count) as rig:
            watching = asyncio.create_task(_most_connections(server, f"crowd{count}"))
            begun = time.perf_counter()
            counts = await drive(rig.proxies, sessions, 3, streams, 0.1, server, f"crowd{count}")
            watching.cancel()
            told, summary = await rig.seen(), await rig.summary()
            seen[count] = told["seen"]
            found[f"{count} proxies" if count > 1 else "1 proxy"] = {
                **counts, "seconds": time.perf_counter() - begun, "texts of others": told["foreign"].get("texts", 0),
                "edits": summary["edits"], "fallbacks": summary["fallbacks"], "connections at most": _MOST["now"],
                **_sizes(server, f"crowd{count}"),
            }  # fmt: skip
            _MOST["now"] = 0
    found["different bytes"] = sum(seen[4].get(name) != value for name, value in seen[1].items())
    return found


_MOST = {"now": 0}


async def _most_connections(server: PostgresServer, name: str) -> None:
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND application_name = 'ebbtide'"
    with server.connect() as connection:
        while True:
            [(now,)] = connection.execute(count, (name,)).fetchall()
            _MOST["now"] = max(_MOST["now"], now)
            await asyncio.sleep(0.25)


_ON_DISK = """
SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relnamespace = 'ebbtide'::regnamespace AND relkind = 'r'
"""


def _sizes(server: PostgresServer, name: str) -> dict[str, Any]:
    with server.connect(name) as connection:
        connection.execute("SELECT set_config('ebbtide.tenant', '*', false)")
        [(disk,)] = connection.execute(_ON_DISK).fetchall()
        [(messages, logs)] = connection.execute("SELECT sum(messages), sum(size) FROM ebbtide.session").fetchall()
    sizes = {"bytes on disk a message": float(disk / messages), "log bytes a message": float(logs / messages)}
    return {"messages": int(messages), **sizes}


# --- the program ------------------------------------------------------------------------------------------------------


def run(parts: list[str], sessions: int, streams: int) -> dict[str, Any]:
    server = start_server(os.getpid(), durable=True)
    found: dict[str, Any] = {}
    if "commits" in parts:
        found["commits"] = commits(server.create("commits"))
    if "pickup" in parts:
        found["pickup"] = pick_ups(server.create("pickup"))
    if "proxies" in parts:
        found["proxies"] = proxies(server)
    if "crowd" in parts:
        found["crowd"] = asyncio.run(crowd(server, sessions, streams))
    return found


def main() -> None:
    if sys.argv[1:2] == ["--patient-proxy"]:
        return patient_proxy(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--pick-up", help=argparse.SUPPRESS)
    parser.add_argument("--provider", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.provider:
        asyncio.run(provide())
    elif args.pick_up:
        json.dump(pick_up("" if args.pick_up == "memory" else args.pick_up), sys.stdout)
    else:
        found = run(args.only.split(","), args.sessions, args.streams)
        print(json.dumps(found, indent=1))
    return None


if __name__ == "__main__":
    main()
