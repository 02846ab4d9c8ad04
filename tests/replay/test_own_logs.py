"""Our own logs are recordings too: of every wire, from a folder and from a database, with equal scores."""

import dataclasses
import pickle

import pytest

import ebbtide
from ebbtide.replay.run import ReplayOptions, replay, replay_file
from ebbtide.replay.sources import find_sessions
from ebbtide.store import open_store
from ebbtide.store.copy import copy_sessions
from postgres_server import OWNER
from store.stores import server
from upstream.talks import TALKS, grow

TERMS = ReplayOptions(policies=("raw", "default"), window=30_000)


def record(store, wire):
    """A session as the library and the proxy leave it."""
    context = ebbtide.Context(store=store, session=f"of-{wire}", window=200_000, wire=wire)
    for body in grow(wire, 7, 3):
        context.prepare(body)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("folder")
    for wire in TALKS:
        record(path, wire)
    return path


@pytest.mark.parametrize("wire", TALKS)
def test_a_log_of_each_wire_is_replayed(folder, wire):
    [path] = folder.rglob(f"of-{wire}.jsonl")

    result = replay_file(path, TERMS)

    assert result.error == ""
    assert result.scores["raw"].calls > 3
    assert result.scores["default"].calls == result.scores["raw"].calls


def test_sessions_of_a_database_score_as_in_the_folder_and_their_address_is_never_shown(folder, tmp_path):
    url = server().database_at(tmp_path)
    source = open_store(folder)
    assert not [one.problem for one in copy_sessions(source, open_store(url), source.list_sessions()) if one.problem]

    sources = find_sessions([url])
    stored = replay(pickle.loads(pickle.dumps(sources)), TERMS, workers=1)
    files = replay(find_sessions([folder]), TERMS, workers=1)

    assert "secret" not in repr(sources) + repr(stored)
    assert OWNER in stored[0].path
    assert len(stored) == len(TALKS)
    assert sorted(map(scores, stored), key=repr) == sorted(map(scores, files), key=repr)


def scores(result):
    return {name: dataclasses.asdict(score) for name, score in result.scores.items()}
