"""Eight writers on one session, killed at random: is anything lost that was acknowledged, or planned twice?

    python benchmarks/crashes.py [--crashes 2000] [--writers 8] [--store folder|postgres] [--json]

Each writer locks the session, reads what is new, saves a text, and commits one edit that names the position it was
planned from; then it acknowledges. A crash point is one of three: SIGKILL at a random moment, SIGSTOP while the server
ends the writer's connection (it then goes on and must not commit over its successor), or, for PostgreSQL, a crash of
the whole server (`pg_ctl restart -m immediate`). Afterwards the log is compared with what was acknowledged. The exit
code is 1 if anything is wrong. The tests run a short form.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

TESTS = str(Path(__file__).resolve().parents[1] / "tests")
if TESTS not in sys.path:
    sys.path.insert(0, TESTS)

from ebbtide.core.errors import StoreError  # noqa: E402
from ebbtide.store import Position, Store, open_store  # noqa: E402
from postgres_server import PostgresServer, start_server  # noqa: E402

OF_ONE_SESSION = 250
"""Crash points; then another session begins, since each new writer reads all of it."""
_PAUSE = 0.04
"""Seconds between crash points at most: a commit takes some milliseconds."""
_SERVER_CRASHES = 100
"""Every so many crash points the server crashes."""


@dataclass(slots=True)
class Outcome:
    store: str
    writers: int
    crashes: dict[str, int] = field(default_factory=dict)
    """Crash points, by kind."""
    acknowledged: int = 0
    recorded: int = 0
    """Edits in the logs; more than acknowledged, because a writer may die in between."""
    lost: int = 0
    """Acknowledged edits that no log has."""
    repeated: int = 0
    """Edits that a log has twice."""
    overtaken: int = 0
    """Edits that were planned from a position from which another had been planned."""
    damaged: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.repeated or self.overtaken or self.damaged)


def write(store: Store, session: str, name: str, acknowledge: int) -> None:
    """Commit edits until killed."""
    log, position, number = store.open(session, now=1.0), Position(), 0
    while True:
        with suppress(StoreError), log.lock(timeout=5.0) as fence:
            if not fence:
                continue
            news = log.read_since(position)
            position = news.position
            # A commit that failed may be in the log all the same.
            number += sum((record.get("by"), record.get("number")) == (name, number) for record in news.records)
            blob = f"{name}-{number}.txt"
            log.save_blob(blob, f"{blob} {'saved ' * 40}")
            edit = {"by": name, "number": number, "from": position.size, "blob": blob}
            position = log.commit([{"before": blob}, edit], at=1.0, fence=fence)
            os.write(acknowledge, f"{name} {number}\n".encode())  # shorter than PIPE_BUF: whole or not at all
            number += 1


class Writers:
    """The processes of one session, each under a name of its own."""

    def __init__(self, open_it: Callable[[], Store], session: str, count: int) -> None:
        self._open, self._session, self._started = open_it, session, 0
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._text = b""
        self.running: dict[int, str] = {}
        for _ in range(count):
            self.start()

    def start(self) -> None:
        self._started += 1
        name = f"w{self._started}"
        process = os.fork()
        if not process:
            try:
                write(self._open(), self._session, name, self._write_end)
            finally:
                os._exit(1)
        self.running[process] = name

    def kill(self, process: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        del self.running[process]

    def acknowledged(self) -> set[tuple[str, int]]:
        with suppress(BlockingIOError):
            while data := os.read(self._read_end, 1 << 16):
                self._text += data
        words = (line.split() for line in self._text.decode().splitlines())
        return {(name, int(number)) for name, number in words}

    def close(self) -> None:
        for process in list(self.running):
            self.kill(process)
        os.close(self._write_end)


def crash_session(
    outcome: Outcome,
    open_it: Callable[[], Store],
    session: str,
    crashes: int,
    server: PostgresServer | None,
    rng: random.Random,
) -> None:
    writers = Writers(open_it, session, outcome.writers)
    try:
        for number in range(crashes):
            time.sleep(rng.uniform(0.0, _PAUSE if server is None else 3 * _PAUSE))  # a new writer must connect first
            kind = _kind(number, server, rng)
            victim = rng.choice(list(writers.running))
            if kind == "server":
                _crash_server(server)
                _wait_for_progress(writers)
            elif kind == "stop":
                _stop_and_cut(victim, server, rng)
            else:
                writers.kill(victim)
                writers.start()
            outcome.crashes[kind] = outcome.crashes.get(kind, 0) + 1
            writers.acknowledged()  # so that the pipe never fills
        _wait_for_progress(writers)
    finally:
        writers.close()
    _check(outcome, open_it(), session, writers.acknowledged())


def _kind(number: int, server: PostgresServer | None, rng: random.Random) -> str:
    if server is None:
        return "kill"
    if number % _SERVER_CRASHES == _SERVER_CRASHES // 2:
        return "server"
    return "stop" if rng.random() < 0.15 else "kill"


_CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"


def _stop_and_cut(process: int, server: PostgresServer | None, rng: random.Random) -> None:
    """Stop a writer, let the server end all connections, so its lock too, and let it go on."""
    assert server is not None
    os.kill(process, signal.SIGSTOP)
    try:
        with server.connect() as connection:
            connection.execute(_CUT, (server.own_database,))
        time.sleep(rng.uniform(0.0, 0.05))
    finally:
        os.kill(process, signal.SIGCONT)


def _crash_server(server: PostgresServer | None) -> None:
    assert server is not None
    command = [str(server.bin / "pg_ctl"), "-D", str(server.folder), "-m", "immediate", "-w"]
    options = ["-o", f'-h "" -k {server.socket}'] if server.socket else []
    _as_owner([*command, "stop"], server)
    _as_owner([*command, *options, "-l", str(server.folder / "restart.log"), "start"], server)


def _as_owner(command: list[str], server: PostgresServer) -> None:
    """PostgreSQL refuses to run as root: run its programs as whoever owns its folder."""
    owner = server.folder.stat()
    more = {"user": owner.st_uid, "group": owner.st_gid} if os.getuid() == 0 and owner.st_uid else {}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", **more)  # type: ignore[call-overload]


def _wait_for_progress(writers: Writers) -> None:
    """After the last crash the others go on."""
    before, deadline = len(writers.acknowledged()), time.monotonic() + 120
    while len(writers.acknowledged()) == before and time.monotonic() < deadline:
        time.sleep(0.01)


def _check(outcome: Outcome, store: Store, session: str, acknowledged: set[tuple[str, int]]) -> None:
    log = store.peek(session)
    records = log.read().records
    edits = [record for record in records if "by" in record]
    names = Counter((str(edit["by"]), int(str(edit["number"]))) for edit in edits)
    origins = Counter(edit["from"] for edit in edits)
    outcome.acknowledged += len(acknowledged)
    outcome.recorded += len(edits)
    outcome.lost += len(acknowledged - set(names))
    outcome.repeated += names.total() - len(names)
    outcome.overtaken += origins.total() - len(origins)
    verified = log.verify()
    outcome.damaged += [*map(str, verified.damage), *verified.problems]
    if len(records) != 2 * len(edits):
        outcome.damaged.append("part of a commit")
    for edit in edits:
        if not log.read_blob(str(edit["blob"])).startswith(str(edit["blob"])):
            outcome.damaged.append(f"another text in {edit['blob']}")


@contextmanager
def place(kind: str, server: PostgresServer | None) -> Iterator[Callable[[], Store]]:
    with tempfile.TemporaryDirectory(prefix="ebb-crashes-") as folder:
        address = server.database_at(folder) if server is not None else folder
        open_store(address).check()
        yield lambda: open_store(address, durable=kind == "postgres")


def run(kind: str, *, crashes: int, writers: int = 8, seed: int = 0, server: PostgresServer | None = None) -> Outcome:
    """Crash so many times, in as many sessions as that needs."""
    outcome, rng, begun = Outcome(store=kind, writers=writers), random.Random(seed), time.monotonic()
    with place(kind, server) as open_it:
        for start in range(0, crashes, OF_ONE_SESSION):
            crash_session(outcome, open_it, f"s{start}", min(OF_ONE_SESSION, crashes - start), server, rng)
    outcome.seconds = round(time.monotonic() - begun, 1)
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crashes", type=int, default=2000)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", choices=("folder", "postgres"), help="default: both")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    outcomes = []
    for kind in [args.store] if args.store else ["folder", "postgres"]:
        server = start_server(os.getpid()) if kind == "postgres" else None
        outcomes.append(run(kind, crashes=args.crashes, writers=args.writers, seed=args.seed, server=server))
    if args.json:
        print(json.dumps({one.store: asdict(one) for one in outcomes}, indent=1))
    else:
        for one in outcomes:
            kinds = ", ".join(f"{count} {name}" for name, count in one.crashes.items())
            print(
                f"{one.store}: {one.writers} writers, crash points: {kinds}; {one.acknowledged:,} edits acknowledged,"
            )
            counts = f"{one.recorded:,} recorded, {one.lost} lost, {one.repeated} repeated, {one.overtaken} overtaken"
            print(f"  {counts}, damage: {one.damaged or 'none'}")
    return 0 if all(one.is_good for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
