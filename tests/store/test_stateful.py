"""The store against a plain list: appends, blobs, forks, rewinds, second writers, crashes, reopenings."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ebbtide.core.errors import StoreError
from ebbtide.store import LogReplaced, message_record, messages_on_branch
from ebbtide.store.directory.file_names import session_stem
from ebbtide.store.log_lines import Position, encode_commit
from ebbtide.store.protocol import LockLost
from store.postgres_faults import cut_connections
from store.stores import LASTING, STORES, server

texts = st.text(st.characters(), max_size=8)
batches = st.lists(
    st.dictionaries(texts.filter(lambda k: k not in ("ebbsum", "store")), texts, max_size=2), min_size=1, max_size=3
)
NAMES = ("s", "Other", "../x")


class StoreMachine(RuleBasedStateMachine):
    """Two writers each on up to three sessions; `model` is what they must hold."""

    @initialize(kind=st.sampled_from(list(STORES)))
    def begin(self, kind):
        self.kind, self.place = kind, Path(tempfile.mkdtemp())
        self.store = STORES[kind](self.place)
        self.model = {name: [] for name in NAMES}
        self.blobs = {name: {} for name in NAMES}
        self.seen = {}
        self.logs = {}

    def log(self, name, writer=0):
        if (name, writer) not in self.logs:
            self.logs[name, writer] = self.store.open(name, now=1.0)
        return self.logs[name, writer]

    @rule(name=st.sampled_from(NAMES), writer=st.integers(0, 1), batch=batches)
    def append(self, name, writer, batch):
        self.log(name, writer).commit(batch, at=1.0)
        self.model[name] += batch

    @rule(name=st.sampled_from(NAMES), writer=st.integers(0, 1), batch=batches)
    def append_as_the_engine_does(self, name, writer, batch):
        log = self.log(name, writer)
        position, known = self.seen.get((name, writer), (Position(), 0))
        with log.lock() as fence:
            assert fence
            news = log.read_since(position)
            assert news.records == self.model[name][known:]
            self.seen[name, writer] = log.commit(batch, at=1.0, fence=fence), len(self.model[name]) + len(batch)
        self.model[name] += batch

    @rule(name=st.sampled_from(NAMES), writer=st.integers(0, 1), batch=batches)
    def commit_under_a_lock_that_was_lost(self, name, writer, batch):
        with self.log(name, writer).lock() as fence:
            assert fence
        with self.log(name, 1 - writer).lock():
            pass
        with pytest.raises(LockLost):
            self.log(name, writer).commit(batch, at=1.0, fence=fence)

    @rule(name=st.sampled_from(NAMES), back=st.integers(0, 3), text=texts)
    def rewind(self, name, back, text):
        """Answer an earlier message: the branch is what led to it, and the old one stays."""
        said = messages_on_branch(self.model[name])
        kept = said[: max(0, len(said) - back)]
        parent = str(kept[-1]["uuid"]) if kept else None
        record = message_record({"role": "user", "content": text}, session=name, parent=parent, at=1.0)
        self.log(name).commit([record], at=1.0)
        self.model[name].append(record)
        branch = messages_on_branch(self.log(name).read().records, str(record["uuid"]))
        assert [r["message"] for r in branch] == [r["message"] for r in [*kept, record]]

    @rule(name=st.sampled_from(NAMES), writer=st.integers(0, 1), blob=st.sampled_from(["a.txt", "b.json"]), text=texts)
    def put(self, name, writer, blob, text):
        kept = self.blobs[name].setdefault(blob, text)
        self.log(name, writer).save_blob(blob, kept)

    @rule(source=st.sampled_from(NAMES), new=st.sampled_from(NAMES), share=st.floats(0, 1))
    def fork(self, source, new, share):
        if not self.model[source] or self.log(new).read().position.size or self.blobs[new]:
            return
        upto = int(share * len(self.model[source]))
        self.store.fork(source, new, upto=upto, now=2.0)
        self.model[new] = self.model[source][:upto]
        self.blobs[new] = dict(self.blobs[source])

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name):
        """Also while both writers have the session open: they go on with an empty one."""
        if not self.log(name).read().position.size:
            with pytest.raises(StoreError):
                self.store.delete_session(name, force=True)
            return
        forget = [
            writer for writer in (0, 1) if (name, writer) in self.seen and self.seen[name, writer][0] != Position()
        ]
        self.store.delete_session(name, force=True)
        for writer in forget:
            with pytest.raises(LogReplaced):
                self.log(name, writer).read_since(self.seen.pop((name, writer))[0])
        kept = {blob.name for blob in self.store.peek(name).list_blobs()}
        assert not kept or self.kind == "directory", "a file that another log names stays"
        self.model[name], self.blobs[name] = [], {blob: self.blobs[name][blob] for blob in kept}

    @rule()
    def collect(self):
        """Nothing is old enough to be removed."""
        assert self.store.gc(older_than=0.0, max_bytes=0, now=2.0).freed == 0

    @precondition(lambda self: self.kind == "directory")
    @rule(name=st.sampled_from(NAMES), batch=batches, share=st.floats(0, 1))
    def crash(self, name, batch, share):
        """The process dies with part of a commit written, and all it knew is gone."""
        path = self.place / "root" / "projects" / "_" / f"{session_stem(name)}.jsonl"
        if path.exists():
            data, _ = encode_commit(batch, self.log(name).read().position)
            written = data[: int(share * len(data))]
            with path.open("ab") as file:
                file.write(written)
            self.model[name] += batch if written == data else []
        self.reopen()

    @precondition(lambda self: self.kind == "postgres")
    @rule(name=st.sampled_from(NAMES), batch=batches)
    def crash_of_the_database(self, name, batch):
        """The server cuts every connection while a writer holds the lock: what it planned is not in the log."""
        log = self.store.open(name, now=1.0)
        with log.lock() as fence:
            assert fence
            cut_connections(server().url(server().own_database))
            with pytest.raises(StoreError):
                log.commit(batch, at=1.0, fence=fence)
        self.reopen()

    @rule()
    def reopen(self):
        self.store = STORES[self.kind](self.place) if self.kind in LASTING else self.store
        self.logs.clear()

    @invariant()
    def reads_as_the_model(self):
        for name in NAMES:
            log = self.log(name, 1)
            reading = log.read()
            assert reading.records == self.model[name]
            assert reading.damage == ()
            assert {blob.name: log.read_blob(blob.name) for blob in log.list_blobs()} == self.blobs[name]

    def teardown(self):
        place = getattr(self, "place", None)
        if not place:
            return
        for name in NAMES:
            result = self.store.peek(name).verify() if self.model[name] else None
            assert result is None or result.ok, result
        shutil.rmtree(place)


StoreMachine.TestCase.settings = settings(stateful_step_count=30)
TestAgainstAList = StoreMachine.TestCase
