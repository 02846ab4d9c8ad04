"""A `Context` on a database that fails, sync and async: what was recorded is replayed, and nothing acknowledged is lost."""

import asyncio
from contextlib import suppress

import pytest

from ebbtide.core.errors import EbbtideError, StoreError
from ebbtide.store import open_store
from fronts.proxy.proxy_runner import until
from runtime.sessions import body, context, loop
from store.postgres_faults import FAULTS, fault
from store.stores import server

MESSAGES = loop(24)


@pytest.fixture
def url(request):
    """Of a database of its own, because a fault may change its settings."""
    name = f"f{abs(hash(request.node.name)):x}"
    yield server().create(name)
    with server().connect() as connection:
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def ask(session, count, is_async):
    request = body(MESSAGES[:count])
    ready = asyncio.run(session.aprepare(request)) if is_async else session.prepare(request)
    return ready.body


def refusal(session, count, is_async):
    """What it says if the request is refused, which must be a sentence; "" if it is not."""
    try:
        ask(session, count, is_async)
    except EbbtideError as refused:
        return str(refused)
    return ""


def is_back(url):
    with suppress(StoreError):
        open_store(url).check()
        return True
    return False


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("kind", FAULTS)
def test_a_session_survives_a_fault_of_its_database(url, kind, is_async):
    session = context(store=url, session="s")
    known = [ask(session, count, is_async) for count in range(1, 34, 2)]
    before = open_store(url).peek("s").read().records

    with fault(kind, url):
        again = ask(session, 33, is_async)
        said = refusal(session, 35, is_async)
    until(lambda: is_back(url))  # for a second after a failed attempt nobody else tries
    after = [ask(session, count, is_async) for count in range(37, 46, 2)]

    log = open_store(url).peek("s")
    records = log.read().records
    assert again == known[-1], "the same request has the same edits"
    assert said == "" or " " in said
    assert "secret" not in said
    assert any(edit for edit in session.edits())
    assert records[: len(before)] == before
    assert all(message in [record.get("message") for record in records] for message in MESSAGES[:45])
    assert log.verify().ok
    restarted = context(store=url, session="s")
    assert ask(restarted, 45, is_async) == after[-1], "another process goes on from the same edits"
