"""The directory: private, below its root, whole lines, damage set aside."""

import errno
import json
import os
import stat
import tempfile
from pathlib import Path

import pytest

from ebbtide.core.errors import StoreError
from ebbtide.store import DirectoryStore, Files, verify
from ebbtide.store.lines import Position, encode, scan
from ebbtide.store.log import DirectoryLog
from store.faults import Faulty, Quick, Volatile


def opened(root, session="s", project="", files=None):
    return DirectoryStore(root, files=files or Quick()).open(session, project=project, now=1.0)


def log_file(root, session="s"):
    return root / "projects" / "_" / f"{session}.jsonl"


def test_files_are_private_under_any_umask(tmp_path):
    before = os.umask(0)
    try:
        log = opened(tmp_path / "new" / "root")
        log.put("a.txt", "x")
        log.commit([{"n": 1}], at=1.0)
        log_file(tmp_path / "new" / "root").open("a").write("torn")
        opened(tmp_path / "new" / "root").commit([{"n": 2}], at=1.0)
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
        log = opened(root, session, project)
        log.put("a.txt", "x")
        log.commit([{"n": 1}], at=1.0)
        assert opened(root, session, project).read().records == [{"n": 1}]
    assert [p.name for p in tmp_path.iterdir()] == ["deep"]
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["root"]
    assert {info.session for info in DirectoryStore(root).sessions()} == {session}


@pytest.mark.parametrize("link", ["projects", "projects/_", "projects/_/s", "projects/_/s/tool-results"])
def test_a_linked_directory_is_not_followed(tmp_path, link):
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    (root / link).parent.mkdir(parents=True)
    (root / link).symlink_to(outside)
    log = DirectoryLog(DirectoryStore(root).tree, "s", "", 1.0)
    with pytest.raises(StoreError):
        log.put("a.txt", "x")
    with pytest.raises(StoreError):
        log.get("a.txt")
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
        ("s/tool-results/a.txt", lambda log: log.put("a.txt", "x")),
        ("s/tool-results/a.txt", lambda log: log.get("a.txt")),
    ],
)
def test_a_linked_file_is_not_followed(tmp_path, name, act):
    root, victim = tmp_path / "root", tmp_path / "victim"
    victim.write_text('{"secret":1}\n')
    planted = root / "projects" / "_" / name
    planted.parent.mkdir(parents=True)
    planted.symlink_to(victim)
    with pytest.raises(StoreError):
        act(DirectoryLog(DirectoryStore(root).tree, "s", "", 1.0))
    assert victim.read_text() == '{"secret":1}\n'


def test_a_link_put_there_between_the_look_and_the_write_is_not_followed(tmp_path):
    root, victim = tmp_path / "root", tmp_path / "victim"
    victim.write_text("x")

    class Swapping(Quick):
        def open(self, name, flags, *, at=None):
            if name == "s.jsonl" and flags & os.O_APPEND:
                log_file(root).unlink(missing_ok=True)
                log_file(root).symlink_to(victim)
            return super().open(name, flags, at=at)

    log = opened(root, files=Swapping())
    with pytest.raises(StoreError):
        log.commit([{"n": 1}], at=1.0)
    assert victim.read_text() == "x"


@pytest.mark.parametrize("ending", [".jsonl", ".lock"])
def test_a_pipe_in_place_of_a_file_is_refused_and_does_not_hang(tmp_path, ending):
    log_file(tmp_path).parent.mkdir(parents=True)
    os.mkfifo(log_file(tmp_path).with_suffix(ending))
    with pytest.raises(StoreError):
        opened(tmp_path).commit([{"n": 1}], at=1.0)


def test_a_root_that_is_a_link_is_its_owners_choice(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "real")
    opened(tmp_path / "root").commit([{"n": 1}], at=1.0)

    assert log_file(tmp_path / "real").exists()


def test_two_projects_whose_folders_coincide_do_not_share_a_session(tmp_path):
    opened(tmp_path, project="/a/b").commit([{"n": 1}], at=1.0)
    with pytest.raises(StoreError, match="holds a session of project '/a/b'"):
        opened(tmp_path, project="/a-b")


def test_sessions_are_apart_on_a_file_system_that_ignores_case(tmp_path):
    opened(tmp_path, "Night").commit([{"n": 1}], at=1.0)
    opened(tmp_path, "night").commit([{"n": 2}], at=1.0)

    names = [path.name.lower() for path in log_file(tmp_path).parent.glob("*.jsonl")]
    assert len(set(names)) == 2


def test_a_torn_tail_at_any_byte_is_set_aside_whole_and_the_log_goes_on(tmp_path):
    log = opened(tmp_path)
    log.commit([{"n": 1}], at=1.0)
    middle = log.commit([{"n": 2}, {"n": 3}], at=1.0)
    log.commit([{"n": 4}], at=1.0)
    data = log_file(tmp_path).read_bytes()
    first = data.index(b'{"n":2')
    for cut in range(first, len(data)):
        root = tmp_path / str(cut)
        log_file(root).parent.mkdir(parents=True)
        log_file(root).write_bytes(data[:cut])
        whole = middle.offset if cut >= middle.offset else first

        reopened = opened(root)
        assert log_file(root).read_bytes() == data[:whole]
        aside = b"".join(Path(path).read_bytes() for path in reopened.set_aside)
        assert data[:whole] + aside == data[:cut]
        reopened.commit([{"n": 9}], at=1.0)

        expected = [1, 2, 3] if cut >= middle.offset else [1]
        assert [record["n"] for record in reopened.read().records] == [*expected, 9]
        assert verify(log_file(root)).ok


@pytest.mark.parametrize("garbage", [b"\0" * 5000, b"{", b"\xff\xfe", b'{"a":1}{'])
def test_garbage_after_the_last_line_is_set_aside(tmp_path, garbage):
    opened(tmp_path).commit([{"n": 1}], at=1.0)
    before = log_file(tmp_path).read_bytes()
    log_file(tmp_path).write_bytes(before + garbage)

    log = opened(tmp_path)

    assert log_file(tmp_path).read_bytes() == before
    assert Path(log.set_aside[0]).read_bytes() == garbage


def test_a_reader_reports_a_torn_tail_and_writes_nothing(tmp_path):
    opened(tmp_path).commit([{"n": 1}], at=1.0)
    log_file(tmp_path).open("ab").write(b'{"n":')
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    reading = DirectoryStore(tmp_path).peek("s").read()

    assert [damage.kind for damage in reading.damage] == ["torn"]
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_torn_tail_is_left_alone_while_its_writer_may_be_at_work(tmp_path):
    writer = opened(tmp_path)
    writer.commit([{"n": 1}], at=1.0)
    log_file(tmp_path).open("ab").write(b'{"n":')
    with writer.locked():
        assert opened(tmp_path).set_aside == ()

    assert len(opened(tmp_path).set_aside) == 1


def test_damage_in_the_middle_is_reported_and_never_rewritten(tmp_path):
    log = opened(tmp_path)
    for number in range(4):
        log.commit([{"n": number}], at=1.0)
    damaged = log_file(tmp_path).read_bytes().replace(b'{"n":2', b'{"n":7')
    log_file(tmp_path).write_bytes(damaged)

    again = opened(tmp_path)
    again.commit([{"n": 4}], at=1.0)

    assert log_file(tmp_path).read_bytes().startswith(damaged)
    reading = again.read()
    assert [record["n"] for record in reading.records] == [0, 1, 3, 4]
    assert [(damage.kind, damage.line) for damage in reading.damage] == [("altered", 4)]


def test_where_a_tail_cannot_be_cut_off_the_next_commit_goes_after_it(tmp_path):
    """An append-only file by attribute: what was never finished stays in place and stays unread."""
    log = opened(tmp_path)
    end = log.commit([{"n": 1}], at=1.0)
    half = encode([{"n": 2}, {"n": 3}], end)[0]
    for torn in (half[:-9], half[: half.index(b"\n") + 1]):
        log_file(tmp_path).open("ab").write(torn)
        stuck = opened(tmp_path, files=Faulty("EPERM", 1, sticky=True, only=("truncate",)))
        stuck.commit([{"n": 4}], at=1.0)
        stuck.commit([{"n": 5}], at=1.0)

    assert [r["n"] for r in opened(tmp_path).read().records] == [1, 4, 5, 4, 5]
    assert sorted(path.name for path in tmp_path.rglob("s.torn-*")) == ["s.torn-1", "s.torn-2"]


def test_another_programs_last_line_without_a_newline_is_kept(tmp_path):
    log_file(tmp_path).parent.mkdir(parents=True)
    log_file(tmp_path).write_bytes(b'{"type":"user"}\n{"type":"assistant"}')

    log = opened(tmp_path)
    log.commit([{"n": 1}], at=1.0)

    assert log.read().records == [{"type": "user"}, {"type": "assistant"}, {"n": 1}]
    assert (log.set_aside, verify(log_file(tmp_path)).damage) == ((), ())


@pytest.mark.data
def test_claude_codes_own_file_is_opened_as_it_is_and_continued(tmp_path, data):
    original = (data / "claude-code-log" / "representative_messages.jsonl").read_bytes()
    log_file(tmp_path).parent.mkdir(parents=True)
    log_file(tmp_path).write_bytes(original)
    expected = [json.loads(line) for line in original.decode().split("\n") if line.strip()]

    log = opened(tmp_path)
    log.commit([{"type": "ebb", "n": 1}], at=1.0)

    assert log_file(tmp_path).read_bytes().startswith(original)
    assert log.read().records == [*expected, {"type": "ebb", "n": 1}]
    assert verify(log_file(tmp_path)).ok
    assert DirectoryStore(tmp_path).sessions()[0].first_prompt.startswith("Hello Claude!")


def test_a_log_that_became_shorter_is_not_read_on(tmp_path):
    log = opened(tmp_path)
    position = log.commit([{"n": 1}], at=1.0)
    os.truncate(log_file(tmp_path), 10)
    with pytest.raises(StoreError, match="shorter"):
        log.since(position)


def test_reading_on_costs_one_look_where_nothing_is_new(tmp_path):
    log = opened(tmp_path)
    position = log.commit([{"n": 1}], at=1.0)
    files = Faulty("EIO", 2, sticky=True)

    assert DirectoryLog(DirectoryStore(tmp_path, files=files).tree, "s", "", 1.0).since(position).records == []
    assert files.calls == 1


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
    files = Writer()
    log = opened(tmp_path, files=files)
    log.commit([{"n": 1}], at=1.0)
    files.asked.clear()
    log.commit([{"n": n} for n in range(50)], at=1.0)

    assert files.asked == ["write", "sync"]


def test_without_durable_nothing_is_synced(tmp_path):
    files = Faulty("EIO", 1, sticky=True, only=("sync", "sync_folder"))
    log = DirectoryStore(tmp_path / "root", durable=False, files=files).open("s", now=1.0)
    log.put("a.txt", "x")
    log.commit([{"n": 1}], at=1.0)

    assert files.calls == 0


def test_acknowledged_means_durable(tmp_path):
    """The power fails after each acknowledged step; another machine finds all of it, and every blob that is named."""
    files, root = Volatile(), tmp_path / "disk" / "a" / "root"
    (tmp_path / "disk").mkdir()
    log = DirectoryStore(root, files=files).open("s", project="/p", now=1.0)
    for step in range(4):
        if step % 2:
            log.put(f"{step}.txt", f"blob {step}")
        log.commit([{"n": step}], at=1.0)
        survivor = tmp_path / f"cut-{step}"
        files.power_cut(tmp_path / "disk", survivor)
        found = DirectoryStore(survivor / "a" / "root", files=Quick()).open("s", project="/p", now=1.0)
        assert [record["n"] for record in found.read().records] == list(range(step + 1))
        assert [found.get(f"{n}.txt") for n in range(1, step + 1, 2)] == [f"blob {n}" for n in range(1, step + 1, 2)]


def test_a_failed_sync_is_not_acknowledged_and_the_file_is_checked_anew(tmp_path):
    log = opened(tmp_path)
    log.commit([{"n": 1}], at=1.0)

    class Dropping(Faulty):
        """As some kernels do: the sync fails, and what was to be written is gone."""

        def sync(self, fd):
            if self.due("sync"):
                os.truncate(log_file(tmp_path), self.good + 20)
                raise OSError(errno.EIO, "gone")

    files = Dropping("EIO", 2, only=("sync",))
    files.good = log_file(tmp_path).stat().st_size
    log = opened(tmp_path, files=files)
    files.good = log.commit([{"n": 2}], at=1.0).offset
    with pytest.raises(StoreError, match="gone"):
        log.commit([{"n": 3}], at=1.0)

    log.commit([{"n": 4}], at=1.0)

    assert [record["n"] for record in log.read().records] == [1, 2, 4]
    assert verify(log_file(tmp_path)).ok


def test_a_full_disk_takes_back_its_half_line_and_the_session_goes_on(tmp_path):
    class Full(Quick):
        room = 10**6

        def write(self, fd, data):
            if not self.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            done = os.write(fd, bytes(data)[: self.room])
            self.room -= done
            return done

    files = Full()
    log = opened(tmp_path, files=files)
    log.commit([{"n": 1}], at=1.0)
    before = log_file(tmp_path).read_bytes()
    for _ in range(3):
        files.room = 30
        with pytest.raises(StoreError, match="No space left"):
            log.commit([{"n": 2}], at=1.0)
        assert log_file(tmp_path).read_bytes() == before
        files.room = 3
        with pytest.raises(StoreError, match="No space left"):
            log.put("a.txt", "a long result")
        assert log.blobs() == []
        assert log.read().records == [{"n": 1}]
    files.room = 10**6
    log.put("a.txt", "a long result")
    log.commit([{"n": 3}], at=1.0)

    assert log.read().records == [{"n": 1}, {"n": 3}]
    assert not list(tmp_path.rglob(".new-*"))


@pytest.mark.parametrize("then_full", [False, True])
def test_another_program_writing_in_between_is_told_and_nothing_of_it_is_cut(tmp_path, then_full):
    """Claude Code does not know our lock."""
    log = opened(tmp_path)
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

    log = opened(tmp_path, files=Crowded())
    with pytest.raises(StoreError, match="No space left" if then_full else "another program wrote"):
        log.commit([{"n": 2}], at=1.0)
    log.commit([{"n": 3}], at=1.0)

    assert [r for r in log.read().records if "n" in r or "foreign" in r] == [{"n": 1}, {"foreign": 1}, {"n": 3}]


@pytest.mark.parametrize("code", ["EROFS", "EACCES", "EMFILE", "EDQUOT"])
def test_where_nothing_can_be_written_the_session_is_still_read(tmp_path, code):
    opened(tmp_path).commit([{"n": 1}], at=1.0)

    class Refusing(Quick):
        def open(self, name, flags, *, at=None):
            if flags & (os.O_WRONLY | os.O_RDWR):
                raise OSError(getattr(errno, code), os.strerror(getattr(errno, code)))
            return super().open(name, flags, at=at)

    log = opened(tmp_path, files=Refusing())
    with pytest.raises(StoreError, match=os.strerror(getattr(errno, code))):
        log.commit([{"n": 2}], at=1.0)
    with log.locked(timeout=0) as held:
        assert held is False

    assert log.read().records == [{"n": 1}]
    assert DirectoryStore(tmp_path, files=Refusing()).sessions()[0].session == "s"


def test_a_read_only_directory_is_read_and_says_why_it_cannot_be_written():
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        root = Path(place) / "root"
        opened(root).commit([{"n": 1}], at=1.0)
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
                log.put("a.txt", "x")
            records = log.read().records
        finally:
            os.seteuid(user)
            for path in [root, *root.rglob("*")]:
                os.chmod(path, 0o755)
        assert records == [{"n": 1}]


def test_a_file_system_without_hard_links_stores_blobs_too(tmp_path):
    log = opened(tmp_path, files=Faulty("EPERM", 1, sticky=True, only=("link",)))
    log.put("a.txt", "x")
    log.put("a.txt", "x")
    with pytest.raises(StoreError, match="another text"):
        log.put("a.txt", "y")

    assert log.get("a.txt") == "x"
    assert [path.name for path in Path(log.path("a.txt")).parent.iterdir()] == ["a.txt"]


def test_a_changed_blob_is_not_handed_out(tmp_path):
    log = opened(tmp_path)
    log.put("a.txt", "hello")
    log.commit([{"n": 1}], at=1.0)
    Path(log.path("a.txt")).write_text("hallo")
    again = opened(tmp_path)
    again.read()
    for reader in (log, again):
        with pytest.raises(StoreError, match="not what was stored"):
            reader.get("a.txt")


def test_a_lock_file_that_was_removed_no_longer_counts(tmp_path):
    """`gc` takes it away with its session; two writers must not each hold one of two files."""

    class Removing(Files):
        once = True

        def flock(self, fd):
            if self.once:
                self.once = False
                log_file(tmp_path).with_suffix(".lock").unlink()
            return super().flock(fd)

    with opened(tmp_path, files=Removing()).locked() as mine:
        assert mine
        with opened(tmp_path).locked(timeout=0) as other:
            assert other is False


def test_the_position_after_a_commit_is_where_a_reader_gets_to(tmp_path):
    log = opened(tmp_path)
    end = log.commit([{"n": 1}, {"n": 2}], at=1.0)

    assert scan([log_file(tmp_path).read_bytes()], Position()).position == end
