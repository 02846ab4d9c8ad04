"""The directory: private, below its root, and nobody else's links are followed."""

import os
import stat
import tempfile
from pathlib import Path

import pytest

from ebbtide.core.errors import StoreError
from ebbtide.store import DirectoryStore, FileSystem
from ebbtide.store.directory.log import DirectoryLog
from ebbtide.store.protocol import LockLost
from store.faulty_fs import Faulty, Quick
from store.open_logs import log_file, open_log


def test_files_are_private_under_any_umask(tmp_path):
    before = os.umask(0)
    try:
        log = open_log(tmp_path / "new" / "root")
        log.save_blob("a.txt", "x")
        log.commit([{"n": 1}], at=1.0)
        log_file(tmp_path / "new" / "root").open("a").write("torn")
        open_log(tmp_path / "new" / "root").commit([{"n": 2}], at=1.0)
    finally:
        os.umask(before)
    found = list((tmp_path / "new").rglob("*"))
    assert {"s.jsonl", "s.lock", "s.torn-1", "sessions-index.json", "a.txt"} <= {path.name for path in found}
    for path in [tmp_path / "new", *found]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize(
    "session", ["..", "../../x", "/etc/passwd", "a/../../b", "\0", "x" * 5000, "CON", "\ud800", ""]
)
def test_no_id_leaves_the_root(tmp_path, session):
    root = tmp_path / "deep" / "root"
    for project in {"", session}:
        log = open_log(root, session, project)
        log.save_blob("a.txt", "x")
        log.commit([{"n": 1}], at=1.0)
        assert open_log(root, session, project).read().records == [{"n": 1}]
    assert [p.name for p in tmp_path.iterdir()] == ["deep"]
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["root"]
    assert {info.session for info in DirectoryStore(root).list_sessions()} == {session}


@pytest.mark.parametrize("link", ["projects", "projects/_", "projects/_/s", "projects/_/s/tool-results"])
def test_a_linked_directory_is_not_followed(tmp_path, link):
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    (root / link).parent.mkdir(parents=True)
    (root / link).symlink_to(outside)
    log = DirectoryLog(DirectoryStore(root).root, "s", "", 1.0)
    with pytest.raises(StoreError):
        log.save_blob("a.txt", "x")
    with pytest.raises(StoreError):
        log.read_blob("a.txt")
    if link in ("projects", "projects/_"):
        with pytest.raises(StoreError):
            log.commit([{"n": 1}], at=1.0)
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "act"),
    [
        ("s.jsonl", lambda log: log.read()),
        ("s.jsonl", lambda log: log.commit([{"n": 1}], at=1.0)),
        ("s.lock", lambda log: log.commit([{"n": 1}], at=1.0)),
        ("s/tool-results/a.txt", lambda log: log.save_blob("a.txt", "x")),
        ("s/tool-results/a.txt", lambda log: log.read_blob("a.txt")),
    ],
)
def test_a_linked_file_is_not_followed(tmp_path, name, act):
    root, victim = tmp_path / "root", tmp_path / "victim"
    victim.write_text('{"secret":1}\n')
    planted = root / "projects" / "_" / name
    planted.parent.mkdir(parents=True)
    planted.symlink_to(victim)
    with pytest.raises(StoreError):
        act(DirectoryLog(DirectoryStore(root).root, "s", "", 1.0))
    assert victim.read_text() == '{"secret":1}\n'


def test_a_link_created_between_check_and_write_is_not_followed(tmp_path):
    root, victim = tmp_path / "root", tmp_path / "victim"
    victim.write_text("x")

    class Swapping(Quick):
        def open(self, name, flags, *, at=None):
            if name == "s.jsonl" and flags & os.O_APPEND:
                log_file(root).unlink(missing_ok=True)
                log_file(root).symlink_to(victim)
            return super().open(name, flags, at=at)

    log = open_log(root, fs=Swapping())
    with pytest.raises(StoreError):
        log.commit([{"n": 1}], at=1.0)
    assert victim.read_text() == "x"


@pytest.mark.parametrize("ending", [".jsonl", ".lock"])
def test_a_pipe_in_place_of_a_file_is_refused_and_does_not_hang(tmp_path, ending):
    log_file(tmp_path).parent.mkdir(parents=True)
    os.mkfifo(log_file(tmp_path).with_suffix(ending))
    with pytest.raises(StoreError):
        open_log(tmp_path).commit([{"n": 1}], at=1.0)


def test_the_root_itself_may_be_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "real")
    open_log(tmp_path / "root").commit([{"n": 1}], at=1.0)

    assert log_file(tmp_path / "real").exists()


def test_two_projects_with_the_same_folder_name_do_not_share_a_session(tmp_path):
    open_log(tmp_path, project="/a/b").commit([{"n": 1}], at=1.0)
    with pytest.raises(StoreError, match="holds a session of project '/a/b'"):
        open_log(tmp_path, project="/a-b")


def test_sessions_do_not_collide_on_a_file_system_that_ignores_case(tmp_path):
    open_log(tmp_path, "Night").commit([{"n": 1}], at=1.0)
    open_log(tmp_path, "night").commit([{"n": 2}], at=1.0)

    names = [path.name.lower() for path in log_file(tmp_path).parent.glob("*.jsonl")]
    assert len(set(names)) == 2


def test_a_read_only_directory_is_read_and_says_why_it_cannot_be_written():
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        root = Path(place) / "root"
        open_log(root).commit([{"n": 1}], at=1.0)
        for path in [root, *root.rglob("*")]:
            os.chmod(path, 0o555 if path.is_dir() else 0o444)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)  # the superuser is allowed everything
        try:
            log = DirectoryStore(root).open("s", now=1.0)
            with pytest.raises(StoreError, match="Permission denied"):
                log.commit([{"n": 2}], at=1.0)
            with pytest.raises(StoreError, match="Permission denied"):
                log.save_blob("a.txt", "x")
            records = log.read().records
        finally:
            os.seteuid(user)
            for path in [root, *root.rglob("*")]:
                os.chmod(path, 0o755)
        assert records == [{"n": 1}]


def test_a_file_system_without_hard_links_stores_blobs_too(tmp_path):
    log = open_log(tmp_path, fs=Faulty("EPERM", 1, sticky=True, only=("link",)))
    log.save_blob("a.txt", "x")
    log.save_blob("a.txt", "x")
    with pytest.raises(StoreError, match="another text"):
        log.save_blob("a.txt", "y")

    assert log.read_blob("a.txt") == "x"
    assert [path.name for path in Path(log.blob_path("a.txt")).parent.iterdir()] == ["a.txt"]


def test_a_changed_blob_is_not_returned(tmp_path):
    log = open_log(tmp_path)
    log.save_blob("a.txt", "hello")
    log.commit([{"n": 1}], at=1.0)
    Path(log.blob_path("a.txt")).write_text("hallo")
    again = open_log(tmp_path)
    again.read()
    for reader in (log, again):
        with pytest.raises(StoreError, match="not what was stored"):
            reader.read_blob("a.txt")


def test_a_lock_on_a_removed_lock_file_is_not_valid(tmp_path):
    """`gc` takes it away with its session; two writers must not each hold one of two files."""

    class Removing(FileSystem):
        once = True

        def flock(self, fd):
            if self.once:
                self.once = False
                log_file(tmp_path).with_suffix(".lock").unlink()
            return super().flock(fd)

    with open_log(tmp_path, fs=Removing()).lock() as mine:
        assert mine
        with open_log(tmp_path).lock(timeout=0) as other:
            assert not other


def test_a_paused_holder_whose_lock_file_was_removed_cannot_commit(tmp_path):
    paused, successor = open_log(tmp_path), open_log(tmp_path)
    with paused.lock() as old:
        log_file(tmp_path).with_suffix(".lock").unlink()
        with successor.lock(timeout=0) as new:
            successor.commit([{"n": 1}], at=1.0, fence=new)
        with pytest.raises(LockLost):
            paused.commit([{"n": "planned before 1"}], at=1.0, fence=old)

    assert open_log(tmp_path).read().records == [{"n": 1}]
