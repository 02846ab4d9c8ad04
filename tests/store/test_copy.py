"""Copies between stores are compared with their source, go on where they stopped, and never overwrite."""

import itertools
import subprocess
import sys
import time

import pytest

from ebbtide.core.errors import StoreError
from ebbtide.store import open_store
from ebbtide.store.copy import copy_sessions
from ebbtide.store.tenants import tenant_project
from store.stores import STORES, server

PAIRS = [pair for pair in itertools.permutations(STORES, 2) if pair != ("postgres", "postgres")]
PROJECT = tenant_project("0123456789ab")


def write(store, name="s", count=1200):
    log = store.open(name, project=PROJECT, now=1.0)
    log.save_blob("a.txt", "é\ud800 text")
    log.commit([{"n": n} for n in range(count)], at=5.0)
    return log


@pytest.mark.parametrize(("origin", "goal"), PAIRS)
def test_a_copy_has_every_record_and_result_and_is_repeated_for_nothing(origin, goal, tmp_path):
    source, target = STORES[origin](tmp_path / "a"), STORES[goal](tmp_path / "b")
    log = write(source)

    [copied] = copy_sessions(source, target, source.list_sessions())
    [again] = copy_sessions(source, target, source.list_sessions())
    log.commit([{"n": "later"}], at=6.0)
    [extended] = copy_sessions(source, target, source.list_sessions())

    assert (copied.records, copied.blobs, copied.problem) == (1200, 1, "")
    assert (again.records, again.blobs) == (0, 0)
    assert extended.records == 1
    copy = target.peek("s", project=PROJECT)
    assert copy.read().records == log.read().records
    assert copy.read_blob("a.txt") == "é\ud800 text"
    assert copy.verify().ok


def test_a_copy_that_was_interrupted_goes_on(tmp_path):
    source, target = STORES["directory"](tmp_path / "a"), STORES["postgres"](tmp_path / "b")
    write(source)
    target.open("s", project=PROJECT, now=1.0).commit([{"n": n} for n in range(500)], at=5.0)

    [copied] = copy_sessions(source, target, source.list_sessions())

    assert copied.records == 700
    assert target.peek("s", project=PROJECT).read().records == source.peek("s", project=PROJECT).read().records


def test_another_session_of_the_same_name_is_left_alone_and_the_others_are_copied(tmp_path):
    source, target = STORES["directory"](tmp_path / "a"), STORES["postgres"](tmp_path / "b")
    write(source)
    write(source, "t", count=3)
    target.open("s", project=PROJECT, now=1.0).commit([{"other": 1}], at=5.0)

    problems = {copied.session: copied.problem for copied in copy_sessions(source, target, source.list_sessions())}

    assert "not the beginning" in problems["s"]
    assert problems["t"] == ""
    assert target.peek("s", project=PROJECT).read().records == [{"other": 1}]


def test_a_damaged_session_is_not_copied(tmp_path):
    source, target = STORES["directory"](tmp_path / "a"), STORES["memory"](tmp_path / "b")
    write(source)
    [path] = [info.path for info in source.list_sessions()]
    with open(path, "r+b") as file:
        file.seek(300)
        file.write(b"XX")

    [copied] = copy_sessions(source, target, source.list_sessions())

    assert "damaged" in copied.problem
    with pytest.raises(StoreError):
        target.peek("s", project=PROJECT).verify()


def test_sessions_of_two_tenants_of_one_name_are_not_mixed(tmp_path):
    """The owner of a database sees both, and a folder has place for one."""
    url = server().database_at(tmp_path)
    for tenant in ("alice", "bob"):
        open_store(url, tenant=tenant).open("s", now=1.0).commit([{"of": tenant}], at=1.0)
    owner, target = open_store(url), STORES["directory"](tmp_path / "b")

    problems = [copied.problem for copied in copy_sessions(owner, target, owner.list_sessions())]
    alice = open_store(url, tenant="alice")
    [copied] = copy_sessions(alice, target, alice.list_sessions())

    assert ["--tenant" in problem for problem in problems] == [True, True]
    assert copied.problem == ""
    assert target.peek("s").read().records == [{"of": "alice"}]


COPY = """
import sys
from ebbtide.store import open_store
from ebbtide.store import open_store
from ebbtide.store.copy import copy_sessions
source, target = map(open_store, sys.argv[1:])
print("begun", flush=True)
for copied in copy_sessions(source, target, source.list_sessions()):
    assert not copied.problem, copied.problem
"""


@pytest.mark.parametrize("origin", ["directory", "postgres"])
def test_a_copy_that_is_killed_again_and_again_ends_with_everything(origin, tmp_path):
    """As a process, both ways. Each kill leaves a beginning, which the next one extends."""
    places = {"directory": str(tmp_path / "a" / "root"), "postgres": server().database_at(tmp_path)}
    goal = next(kind for kind in places if kind != origin)
    source, target = open_store(places[origin]), open_store(places[goal])
    for name in "abc":
        write(source, name, count=1500)
    for delay in (0.05, 0.15, 0.3, 0.5):
        started = subprocess.Popen([sys.executable, "-c", COPY, places[origin], places[goal]], stdout=subprocess.PIPE)
        assert started.stdout.readline() == b"begun\n"
        time.sleep(delay)
        started.kill()
        started.communicate()
        for info in target.list_sessions():
            known = target.peek(info.session, project=info.project).read().records
            assert known == [{"n": n} for n in range(len(known))]

    assert [copied.problem for copied in copy_sessions(source, target, source.list_sessions())] == [""] * 3
    for name in "abc":
        assert len(target.peek(name, project=PROJECT).read().records) == 1500
        assert target.peek(name, project=PROJECT).read_blob("a.txt") == "é\ud800 text"
