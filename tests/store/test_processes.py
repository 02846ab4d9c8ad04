"""Several real processes on one session."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ebbtide.store import DirectoryStore, Position
from ebbtide.store.directory.verify import verify_log

SOURCE = Path(__file__).resolve().parents[2] / "src"
WRITER = """
import sys
from ebbtide.store import DirectoryStore
root, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
log = DirectoryStore(root, durable=False).open("s", now=1.0)
for n in range(count):
    with log.lock(timeout=240) as held:
        assert held
        log.commit([{"by": name, "n": n, "pad": "x" * 5000}, {"by": name, "n": -n}], at=1.0)
"""
HOLDER = """
import sys, time
from ebbtide.store import DirectoryStore
log = DirectoryStore(sys.argv[1], durable=False).open("s", now=1.0)
with log.lock() as held:
    print(bool(held), flush=True)
    time.sleep(600)
"""


def start(code, *arguments, **more):
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], env=environment, **more)


def test_processes_that_append_at_the_same_time_lose_nothing(tmp_path):
    count, names = 20, "abc"
    writers = [start(WRITER, tmp_path, name, count) for name in names]
    log = DirectoryStore(tmp_path).peek("s")
    assert [writer.wait(timeout=240) for writer in writers] == [0] * 3

    reading = log.read()

    assert reading.damage == ()
    for name in names:
        assert [r["n"] for r in reading.records if r["by"] == name] == [s * n for n in range(count) for s in (1, -1)]
    both = list(zip(reading.records[::2], reading.records[1::2], strict=True))
    assert all(one["by"] == other["by"] and one["n"] == -other["n"] for one, other in both)
    assert verify_log(tmp_path / "projects/_/s.jsonl").ok


def test_a_reader_during_writing_sees_only_complete_commits(tmp_path):
    writer = start(WRITER, tmp_path, "a", 40)
    log = DirectoryStore(tmp_path).peek("s")
    position, numbers = Position(), []
    while True:
        ended = writer.poll() is not None
        news = log.read_since(position)
        assert len(news.records) % 2 == 0
        assert {damage.kind for damage in news.damage} <= {"torn"}
        position, numbers = news.position, numbers + [r["n"] for r in news.records]
        if ended:
            break
    assert writer.returncode == 0
    assert numbers == [s * n for n in range(40) for s in (1, -1)]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_dead_holder_frees_the_lock(tmp_path, how):
    holder = start(HOLDER, tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "True\n"
        log = DirectoryStore(tmp_path, durable=False).open("s", now=1.0)
        with log.lock(timeout=0.05) as held:
            assert not held
    finally:
        holder.send_signal(how)
        holder.communicate(timeout=240)
    with log.lock(timeout=60) as held:
        assert held
