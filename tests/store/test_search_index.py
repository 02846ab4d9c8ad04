"""The index is only a copy, private, and never in the way."""

import os
import sqlite3
import stat

import pytest

from ebbtide.core.stub import digest
from ebbtide.store.log_lines import Position
from ebbtide.store.search.index import IndexUnavailable, SearchIndex
from ebbtide.store.search.tables import IndexBatch, IndexEntry
from ebbtide.store.search.words import parse_query
from store.search_texts import NOISE, at, build_index, entry, find_texts


def test_another_process_finds_what_was_added(path):
    build_index("alpha", index=SearchIndex(str(path)))

    assert find_texts(SearchIndex(str(path)), "alpha") == ["alpha"]


def test_only_new_records_are_read_and_a_batch_is_added_once(path):
    asked = []

    def fill(start, _):
        asked.append(start)
        return IndexBatch(entries=[entry(len(asked), f"alpha {len(asked)}")], position=at(len(asked)))

    SearchIndex(str(path)).add("", "s", fill)
    SearchIndex(str(path)).add("", "s", fill)

    assert asked == [Position(), at(1)]
    assert SearchIndex(str(path)).indexed_position("", "s") == at(2)


def test_a_batch_that_fails_leaves_nothing(path):
    index = SearchIndex(str(path))

    def half_way():
        yield entry(1, "alpha")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        index.add("", "s", lambda start, _: IndexBatch(entries=half_way(), position=at(2)))

    assert index.indexed_position("", "s") == Position()
    assert find_texts(index, "alpha") == []


def test_an_item_that_is_recorded_again_moves_to_its_newest_place():
    index = build_index(entry(1, "alpha one"), entry(2, "alpha two"))
    index.add("", "s", lambda start, _: IndexBatch(entries=[entry(1, "alpha one")], position=at(3)))

    assert find_texts(index, "alpha") == ["alpha one", "alpha two"]


def test_an_item_gets_the_name_of_the_blob_with_its_text():
    blob = IndexEntry(handle="t1.txt", text="alpha", digest=digest("alpha"), kind="blob", blob="t1.txt")

    hits = build_index(entry(1, "alpha"), blob).search(parse_query("alpha"), project="", session="s", limit=5)

    assert [(hit.entry.handle, hit.entry.blob, hit.copies) for hit in hits] == [(f"e1-{1:020x}", "t1.txt", 1)]


def test_only_its_owner_can_read_the_index_whatever_the_umask(path):
    before = os.umask(0)
    try:
        build_index("alpha", index=SearchIndex(str(path)))
    finally:
        os.umask(before)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_index_that_is_deleted_while_open_is_built_again(path):
    index = build_index("alpha", index=SearchIndex(str(path)))

    path.unlink()

    assert index.indexed_position("", "s") == Position()
    assert find_texts(build_index("beta", index=index), "beta") == ["beta"]
    assert path.exists()


def test_the_journal_of_a_deleted_index_is_not_applied_to_the_new_one(path):
    build_index("alpha", index=SearchIndex(str(path)))
    journal = path.with_name("index.sqlite-journal")
    journal.write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\xff" * 2000)
    path.unlink()

    assert find_texts(build_index("beta", index=SearchIndex(str(path))), "beta") == ["beta"]
    assert not journal.exists()


def damaged(path, how):
    data = path.read_bytes()
    if how == "not a database":
        path.write_bytes(b"no database at all" * 100)
    elif how == "cut short":
        path.write_bytes(data[: len(data) // 2])
    elif how == "overwritten":
        path.write_bytes(data[:4096] + b"\x5a" * (len(data) - 4096))
    elif how == "another version":
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA user_version = 99")
    elif how == "another program's":
        path.unlink()
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE entry (x)")


def used(index):
    find_texts(index, "alpha")
    index.add("", "s", lambda start, known: IndexBatch(entries=[entry(n, f"x {n}") for n in range(99)], position=start))


@pytest.mark.parametrize("how", ["not a database", "cut short", "overwritten", "another version", "another program's"])
def test_a_damaged_file_is_replaced_at_the_second_try(path, how):
    index = build_index(*NOISE, *(f"alpha {n}" for n in range(200)), index=SearchIndex(str(path)))
    index.close()
    damaged(path, how)
    index = SearchIndex(str(path))

    with pytest.raises(IndexUnavailable):
        used(index)

    assert find_texts(build_index("alpha", index=index), "alpha") == ["alpha"]


def test_a_locked_index_is_reported_and_kept(path):
    build_index("alpha", index=SearchIndex(str(path)))
    holder = sqlite3.connect(path)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(IndexUnavailable, match="locked"):
            find_texts(SearchIndex(str(path)), "alpha")
    finally:
        holder.rollback()
        holder.close()

    assert find_texts(SearchIndex(str(path)), "alpha") == ["alpha"]


def test_a_link_in_place_of_the_index_is_not_followed(path, tmp_path):
    target = tmp_path / "precious"
    target.write_text("keep me")
    path.symlink_to(target)

    with pytest.raises(IndexUnavailable):
        build_index("alpha", index=SearchIndex(str(path)))

    assert target.read_text() == "keep me"
    assert path.is_symlink()


def test_an_index_in_a_read_only_folder_is_reported(tmp_path):
    with pytest.raises(IndexUnavailable):
        build_index("alpha", index=SearchIndex(str(tmp_path / "missing" / "index.sqlite")))
