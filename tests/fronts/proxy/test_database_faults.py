"""A proxy whose database fails in every way that a database does: clients go on, and afterwards nothing is missing."""

import json
from contextlib import suppress

import pytest

from ebbtide.core.errors import StoreError
from ebbtide.store import open_database, open_store
from fronts.proxy.proxy_runner import proxied, until
from fronts.proxy.test_database import TURNS, WINDOW, body, post, sent_through
from store.postgres_faults import FAULTS, fault
from store.stores import server
from upstream.server import Upstream

REFUSED_WHEN = {"away", "read-only standby", "row locked"}
"""Faults under which no lock can be taken, so that nothing is planned and a request over the window is refused. Where
only commits fail, it is planned, and written with a later request."""


@pytest.fixture
def url(request):
    name = f"p{abs(hash(request.node.name)):x}"
    yield server().create(name)
    with server().connect() as connection:
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.mark.parametrize("kind", FAULTS)
def test_clients_go_on_while_the_database_fails_and_nothing_is_missing_afterwards(url, kind):
    with Upstream(lambda _: "Go on.", window=WINDOW) as upstream:
        with proxied(upstream.url, store=url, window=WINDOW, recall="tool", waiting_limit=2.0) as proxy:
            known = sent_through([proxy], upstream, TURNS - 3)
            [info] = open_store(url).list_sessions()
            before = open_store(url).peek(info.session, project=info.project).read().records
            with fault(kind, url):
                again = post(proxy, body(TURNS - 4))
                over = post(proxy, body(TURNS - 1, first=40)) if kind in REFUSED_WHEN else None
                proxy.settle()
            until(lambda: post(proxy, body(TURNS - 3))[0] == 200)
            until(lambda: is_recorded(url, info, proxy))
        sent = [request.raw for request in upstream.requests]
        refused = [request for request in upstream.requests if request.refused]

    log = open_store(url).peek(info.session, project=info.project)
    assert again[0] == 200
    assert sent[len(known)] == known[-1], "the same request has the same bytes"
    assert over is None or (over[0], b"retry" in over[1] or b"store" in over[1] or b"lock" in over[1]) == (503, True)
    assert not refused, "nothing over the window reached the provider"
    assert log.read().records[: len(before)] == before
    assert log.verify().ok


def is_recorded(url, info, proxy):
    """Whether the log has every result of the newest request. A client that asks again writes what is missing."""
    store = open_database(url)
    with suppress(StoreError):  # for a second after a failed attempt nobody else tries
        store.check()
    if not store.is_reachable:
        return False
    records = open_store(url).peek(info.session, project=info.project).read().records
    texts = [json.dumps(record.get("wire") or record.get("message")) for record in records]
    asked = json.loads(body(TURNS - 3))["messages"]
    names = [str(message["tool_call_id"]) for message in asked if message["role"] == "tool"]
    if all(any(name in text for text in texts) for name in names):
        return True
    post(proxy, body(TURNS - 3))
    proxy.settle()
    return False
