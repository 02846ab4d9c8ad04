"""Every command that takes a store takes the address of a database, and never shows its password."""

import gc
import json

import pytest

import ebbtide
from ebbtide.store import open_store
from fronts.cli.terminal import stored
from fronts.ui.inspector import library
from postgres_server import MEMBER, OWNER
from store.stores import server


@pytest.fixture
def url(tmp_path):
    return server().database_at(tmp_path)


def run(ebb, url, *words):
    result = ebb(*words, "--store", url)
    assert "secret" not in result.text + result.err
    return result


@pytest.mark.parametrize(
    "words",
    [
        ("sessions",),
        ("sessions", "--json"),
        ("verify",),
        ("verify", "--replan", "--json"),
        ("context", "nightly"),
        ("report", "nightly"),
        ("show", "nightly"),
        ("export", "nightly"),
        ("gc", "--older-than", "30d", "--json"),
        ("doctor", "--json"),
        ("recall", "gauge"),
        ("top", "--json"),
        ("explain", "nightly"),
        ("audit", "--receipt"),
    ],
)
def test_a_command_reads_sessions_of_a_database(ebb, url, words):
    stored(url, "nightly")
    gc.collect()

    result = run(ebb, url, *words)

    assert result.code == 0, result.err


def test_what_does_not_exist_is_said_without_the_password(ebb, url):
    assert "no session" in run(ebb, url, "show", "missing").err or "no sessions" in run(ebb, url, "show", "missing").err
    broken = run(ebb, url.replace("host=/", "host=/nowhere/"), "sessions")
    assert broken.code == 1
    assert "cannot be reached" in broken.err


def test_all_data_of_a_person_goes_with_one_command(ebb, url):
    for tenant in ("alice", "bob"):
        ebbtide.Context(store=url, tenant=tenant, session="s", window=100_000).prepare(
            {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
        )
    gc.collect()

    assert run(ebb, url, "delete", "--tenant", "alice", "--yes").code == 0

    assert open_store(url, tenant="alice").list_sessions() == []
    assert len(open_store(url, tenant="bob").list_sessions()) == 1


def test_set_up_and_copy(ebb, url, tmp_path):
    stored(tmp_path / "folder", "nightly")
    gc.collect()

    granted = ebb("store", "setup", url, "--grant", MEMBER)
    copied = ebb("store", "copy", tmp_path / "folder", url.replace(OWNER, MEMBER), "--json")
    back = ebb("store", "copy", url, tmp_path / "back")

    assert (granted.code, copied.code, back.code) == (0, 0, 0), granted.err + copied.err + back.err
    assert [one["problem"] for one in json.loads(copied.text)] == [""]
    assert "secret" not in granted.err + copied.err + back.err
    assert open_store(tmp_path / "back").list_sessions()[0].session == "nightly"
    assert ebb("store", "copy", url).code == 2
    assert ebb("store", "setup", tmp_path).code == 2
    missing = ebb("store", "setup", url, "--grant", "nobody_of_this_name")
    assert (missing.code, "createuser" in missing.err) == (1, True)


def test_an_audit_with_a_database_writes_no_folder_named_after_its_address(ebb, url):
    stored(url, "nightly")
    gc.collect()

    result = run(ebb, url, "audit", url, "--json")
    run(ebb, url, "audit", "--receipt")

    assert result.code == 0, result.err
    assert [row["calls"] > 10 for row in result.json["sessions"]] == [True]
    assert not list(ebb.home.glob("postgresql*"))


def test_the_inspector_lists_and_opens_a_session_of_a_database_and_follows_it(url):
    stored(url, "nightly", steps=12)
    listing = library(url)
    [row] = listing.list()
    before = len(listing.open(row.key).history.turns)

    stored(url, "nightly", steps=13)

    assert "secret" not in repr(row)
    assert 0 < before < len(listing.open(row.key).history.turns)
