"""`ebb delete`: one session, or all of a tenant, after asking."""

import gc

import pytest

from ebbtide.store import open_store
from ebbtide.store.tenants import tenant_project
from fronts.cli.terminal import on_a_terminal, stored

TENANT = "0123456789ab"


@pytest.fixture
def two(tmp_path):
    stored(tmp_path, "nightly")
    stored(tmp_path, "other", steps=2)
    gc.collect()  # a session that is still in memory is in use
    return tmp_path


def names(root):
    return sorted(info.session for info in open_store(root).list_sessions())


def answer(root, text, *words):
    return on_a_terminal(*words, "--store", root, answer=text)


def test_the_session_goes_with_its_results_and_the_other_stays(ebb, two):
    result = ebb("delete", "night", "--yes")

    assert result.code == 0
    assert "nightly.jsonl" in result.text
    assert "1 session and" in result.err
    assert names(two) == ["other"]
    assert not list(two.rglob("nightly*"))


def test_json_has_the_fields_of_gc(ebb, two):
    result = ebb("delete", "nightly", "--yes", "--json").json

    assert set(result) == {"sessions", "blobs", "freed", "left", "in_use"}
    assert len(result["sessions"]) == 1
    assert result["freed"] > 0


def test_without_a_terminal_nothing_is_deleted_unless_yes_is_given(ebb, two):
    result = ebb("delete", "nightly")

    assert result.code == 2
    assert "--yes" in result.err
    assert names(two) == ["nightly", "other"]


@pytest.mark.parametrize(
    ("text", "left"), [("y\n", ["other"]), ("\n", ["nightly", "other"]), ("no\n", ["nightly", "other"])]
)
def test_at_a_terminal_it_asks(two, text, left):
    code, output = answer(two, text, "delete", "nightly")

    assert code == 0
    assert "Delete session nightly for good? [y/N]" in output
    assert names(two) == left


def test_an_unknown_session_is_bad_input(ebb, two):
    assert ebb("delete", "missing", "--yes").code == 2
    assert ebb("delete").code == 2
    assert ebb("delete", "nightly", "--tenant", TENANT).code == 2
    assert names(two) == ["nightly", "other"]


def test_a_session_that_a_program_has_open_is_deleted_only_by_force(ebb, two):
    log = open_store(two).open("nightly", now=1.0)
    with log.lock():
        pass

    refused = ebb("delete", "nightly", "--yes")
    assert refused.code == 1
    assert "is open in a program" in refused.err
    assert names(two) == ["nightly", "other"]

    assert ebb("delete", "nightly", "--yes", "--force").code == 0
    assert names(two) == ["other"]
    assert log.read().records == []


def test_a_tenant_is_deleted_with_all_sessions(ebb, two):
    for name in ("one", "more"):
        stored(two, name, project=tenant_project(TENANT), steps=1)
    gc.collect()

    result = ebb("delete", "--tenant", f"proxy-{TENANT}", "--yes", "--json")

    assert len(result.json["sessions"]) == 2
    assert names(two) == ["nightly", "other"]
    assert ebb("delete", "--tenant", TENANT, "--yes").code == 2
