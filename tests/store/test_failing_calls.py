"""What single failing calls did before: a lock that nobody gave back, records twice, a name that was taken for ever."""

import errno
import os

import pytest

from ebbtide.core.errors import StoreError
from ebbtide.store.directory.verify import verify_log
from store.faulty_fs import Faulty, Quick
from store.open_logs import log_file, open_log


class FailingCloseFs(Quick):
    """Closes, and says that it failed, as network file systems do."""

    def close(self, fd):
        os.close(fd)
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_descriptor_whose_closing_fails_is_closed_once_and_leaves_no_lock_behind(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    log = open_log(tmp_path, fs=FailingCloseFs())
    log.commit([{"n": 1}], at=1.0)
    log.commit([{"n": 2}], at=1.0)

    assert len(os.listdir("/proc/self/fd")) == before
    with open_log(tmp_path).lock(timeout=0) as held:
        assert held
    assert open_log(tmp_path).read().records == [{"n": 1}, {"n": 2}]


def test_a_result_whose_file_could_not_be_closed_is_not_acknowledged(tmp_path):
    log = open_log(tmp_path, fs=FailingCloseFs())
    with pytest.raises(StoreError, match=r"a\.txt"):
        log.save_blob("a.txt", "text")


@pytest.mark.parametrize("call", ["sync", "sync_folder", "fstat"])
def test_a_commit_that_is_retried_after_a_failed_sync_is_written_once(tmp_path, call):
    open_log(tmp_path).commit([{"n": 0}], at=1.0)
    reached = 0
    for when in range(1, 12):
        fs = Faulty("EIO", 0, only=(call,))
        log = open_log(tmp_path, fs=fs)
        fs.when = fs.calls + when  # not while it is opened
        try:
            log.commit([{"n": when}], at=1.0)
        except StoreError:
            reached += 1
            log.commit([{"n": when}], at=1.0)

    assert reached
    assert [record["n"] for record in open_log(tmp_path).read().records] == list(range(12))
    assert verify_log(log_file(tmp_path)).ok


def test_a_blob_that_no_commit_names_may_be_replaced(tmp_path):
    """Whoever put it was killed before the commit; what is to be kept since then is another text."""
    first = open_log(tmp_path)
    first.commit([{"n": 1}], at=1.0)
    first.save_blob("history.txt", "of a request that was never made")

    second = open_log(tmp_path)
    second.read()
    second.save_blob("history.txt", "another")
    second.commit([{"n": 2}], at=1.0)

    third = open_log(tmp_path)
    third.read()
    assert third.read_blob("history.txt") == "another"
    with pytest.raises(StoreError, match="already stored"):
        third.save_blob("history.txt", "a third")


def test_a_blob_whose_commit_may_still_follow_is_not_replaced(tmp_path):
    holder, other = open_log(tmp_path), open_log(tmp_path)
    holder.commit([{"n": 1}], at=1.0)
    other.read()
    with holder.lock():
        holder.save_blob("a.txt", "mine")
        with pytest.raises(StoreError, match="already stored"):
            other.save_blob("a.txt", "yours")
        holder.commit([{"n": 2}], at=1.0)

    with pytest.raises(StoreError, match="already stored"):
        other.save_blob("a.txt", "yours")  # it has not read the commit that names it
