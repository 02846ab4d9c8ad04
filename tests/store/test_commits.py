"""A commit is whole and durable, or it is not acknowledged."""

import errno
import os

import pytest

from ebbtide.core.errors import StoreError
from ebbtide.store import DirectoryStore
from ebbtide.store.directory.log import DirectoryLog
from ebbtide.store.directory.verify import verify_log
from ebbtide.store.log_lines import Position, scan
from store.faulty_fs import Faulty, Quick, Volatile
from store.open_logs import log_file, open_log


def test_reading_again_costs_one_system_call_if_nothing_is_new(tmp_path):
    log = open_log(tmp_path)
    position = log.commit([{"n": 1}], at=1.0)
    fs = Faulty("EIO", 2, sticky=True)

    assert DirectoryLog(DirectoryStore(tmp_path, fs=fs).root, "s", "", 1.0).read_since(position).records == []
    assert fs.calls == 1


class Writer(Quick):
    """Keeps what was asked of it, in order."""

    def __init__(self):
        self.asked = []

    def write(self, fd, data):
        self.asked.append("write")
        return super().write(fd, data)

    def sync(self, fd):
        self.asked.append("sync")


def test_a_commit_is_one_write_and_one_sync(tmp_path):
    fs = Writer()
    log = open_log(tmp_path, fs=fs)
    log.commit([{"n": 1}], at=1.0)
    fs.asked.clear()
    log.commit([{"n": n} for n in range(50)], at=1.0)

    assert fs.asked == ["write", "sync"]


def test_without_durable_nothing_is_synced(tmp_path):
    fs = Faulty("EIO", 1, sticky=True, only=("sync", "sync_folder"))
    log = DirectoryStore(tmp_path / "root", durable=False, fs=fs).open("s", now=1.0)
    log.save_blob("a.txt", "x")
    log.commit([{"n": 1}], at=1.0)

    assert fs.calls == 0


def test_a_commit_that_returned_survives_a_power_cut(tmp_path):
    """The power fails after each acknowledged step; another machine finds all of it, and every blob that is named."""
    fs, root = Volatile(), tmp_path / "disk" / "a" / "root"
    (tmp_path / "disk").mkdir()
    log = DirectoryStore(root, fs=fs).open("s", project="/p", now=1.0)
    for step in range(4):
        if step % 2:
            log.save_blob(f"{step}.txt", f"blob {step}")
        log.commit([{"n": step}], at=1.0)
        survivor = tmp_path / f"cut-{step}"
        fs.power_cut(tmp_path / "disk", survivor)
        found = DirectoryStore(survivor / "a" / "root", fs=Quick()).open("s", project="/p", now=1.0)
        assert [record["n"] for record in found.read().records] == list(range(step + 1))
        assert [found.read_blob(f"{n}.txt") for n in range(1, step + 1, 2)] == [
            f"blob {n}" for n in range(1, step + 1, 2)
        ]


def test_a_failed_sync_is_reported_and_the_file_is_checked_again(tmp_path):
    log = open_log(tmp_path)
    log.commit([{"n": 1}], at=1.0)

    class Dropping(Faulty):
        """As some kernels do: the sync fails, and what was to be written is gone."""

        def sync(self, fd):
            if self.due("sync"):
                os.truncate(log_file(tmp_path), self.good + 20)
                raise OSError(errno.EIO, "gone")

    fs = Dropping("EIO", 2, only=("sync",))
    fs.good = log_file(tmp_path).stat().st_size
    log = open_log(tmp_path, fs=fs)
    fs.good = log.commit([{"n": 2}], at=1.0).size
    with pytest.raises(StoreError, match="gone"):
        log.commit([{"n": 3}], at=1.0)

    log.commit([{"n": 4}], at=1.0)

    assert [record["n"] for record in log.read().records] == [1, 2, 4]
    assert verify_log(log_file(tmp_path)).ok


def test_a_half_line_on_a_full_disk_is_cut_off_and_the_session_continues(tmp_path):
    class Full(Quick):
        room = 10**6

        def write(self, fd, data):
            if not self.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            done = os.write(fd, bytes(data)[: self.room])
            self.room -= done
            return done

    fs = Full()
    log = open_log(tmp_path, fs=fs)
    log.commit([{"n": 1}], at=1.0)
    before = log_file(tmp_path).read_bytes()
    for _ in range(3):
        fs.room = 30
        with pytest.raises(StoreError, match="No space left"):
            log.commit([{"n": 2}], at=1.0)
        assert log_file(tmp_path).read_bytes() == before
        fs.room = 3
        with pytest.raises(StoreError, match="No space left"):
            log.save_blob("a.txt", "a long result")
        assert log.list_blobs() == []
        assert log.read().records == [{"n": 1}]
    fs.room = 10**6
    log.save_blob("a.txt", "a long result")
    log.commit([{"n": 3}], at=1.0)

    assert log.read().records == [{"n": 1}, {"n": 3}]
    assert not list(tmp_path.rglob(".new-*"))


@pytest.mark.parametrize("then_full", [False, True])
def test_a_write_of_another_program_during_a_commit_is_reported_and_kept(tmp_path, then_full):
    """Claude Code does not know our lock."""
    log = open_log(tmp_path)
    log.commit([{"n": 1}], at=1.0)

    class Crowded(Quick):
        crowd, full = True, then_full

        def write(self, fd, data):
            if not self.crowd:
                if self.full:
                    self.full = False
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return super().write(fd, data)
            self.crowd = False
            done = os.write(fd, bytes(data)[:20])
            os.write(os.open(log_file(tmp_path), os.O_WRONLY | os.O_APPEND), b'\n{"foreign":1}\n')
            return done

    log = open_log(tmp_path, fs=Crowded())
    with pytest.raises(StoreError, match="No space left" if then_full else "another program wrote"):
        log.commit([{"n": 2}], at=1.0)
    log.commit([{"n": 3}], at=1.0)

    assert [r for r in log.read().records if "n" in r or "foreign" in r] == [{"n": 1}, {"foreign": 1}, {"n": 3}]


@pytest.mark.parametrize("code", ["EROFS", "EACCES", "EMFILE", "EDQUOT"])
def test_a_session_on_a_read_only_disk_can_still_be_read(tmp_path, code):
    open_log(tmp_path).commit([{"n": 1}], at=1.0)

    class Refusing(Quick):
        def open(self, name, flags, *, at=None):
            if flags & (os.O_WRONLY | os.O_RDWR):
                raise OSError(getattr(errno, code), os.strerror(getattr(errno, code)))
            return super().open(name, flags, at=at)

    log = open_log(tmp_path, fs=Refusing())
    with pytest.raises(StoreError, match=os.strerror(getattr(errno, code))):
        log.commit([{"n": 2}], at=1.0)
    with log.lock(timeout=0) as held:
        assert not held

    assert log.read().records == [{"n": 1}]
    assert DirectoryStore(tmp_path, fs=Refusing()).list_sessions()[0].session == "s"


def test_a_commit_returns_the_position_that_a_reader_reaches(tmp_path):
    log = open_log(tmp_path)
    end = log.commit([{"n": 1}, {"n": 2}], at=1.0)

    assert scan([log_file(tmp_path).read_bytes()], Position()).position == end
