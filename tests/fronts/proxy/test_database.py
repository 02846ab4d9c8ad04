"""Several proxies on one database: a session may reach another one with each request. And what happens without it."""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack

import psycopg
import pytest
from benchmarks.two_proxies import history

from ebbtide.store import open_store
from fronts.proxy.proxy_runner import WAIT, exchange, get, proxied, until
from postgres_server import MEMBER, OWNER
from store.stores import server
from upstream.server import Upstream

WINDOW = 12_000
TURNS = 10


@pytest.fixture
def url(tmp_path):
    return server().database_at(tmp_path)


def body(turn, first=2, lines=120):
    tool = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
    messages = history(1, TURNS + first, lines)[: 1 + 2 * (turn + first)]
    return json.dumps({"model": "gpt-5", "tools": [tool], "messages": messages}).encode()


def post(proxy, raw, key="one"):
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    status, _, told = exchange(getattr(proxy, "port", proxy), "POST", "/v1/chat/completions", raw, headers)
    return status, told


def database_of(url):
    return psycopg.conninfo.conninfo_to_dict(url)["dbname"]


def sent_through(proxies, upstream, turns=TURNS, key="one"):
    """What the provider got for each request of a conversation that goes to one proxy after the other."""
    before = len(upstream.requests)
    for turn in range(turns):
        proxy = proxies[turn % len(proxies)]
        assert post(proxy, body(turn), key)[0] == 200
        proxy.settle()
    return [request.raw for request in upstream.requests[before:]]


def test_a_session_that_moves_between_proxies_sends_the_same_bytes(url):
    member = url.replace(OWNER, MEMBER)
    with Upstream(lambda _: "Go on.", window=WINDOW) as upstream, ExitStack() as stack:
        proxies = [
            stack.enter_context(proxied(upstream.url, store=member, window=WINDOW, recall="tool")) for _ in range(3)
        ]
        alone = sent_through(proxies[:1], upstream, key="alone")
        moving = sent_through(proxies, upstream, key="moving")
        refused = [request for request in upstream.requests if request.refused]

    assert moving == alone
    assert any(len(raw) < len(body(turn)) * 3 // 4 for turn, raw in enumerate(alone)), "something was taken out"
    assert not refused
    sessions = open_store(url).list_sessions()
    assert len(sessions) == len({info.project for info in sessions}) == 2
    for info in sessions:
        assert open_store(url).peek(info.session, project=info.project).verify().ok


def test_without_its_database_a_proxy_replays_what_it_knows_and_refuses_what_does_not_fit(url):
    name = database_of(url)
    with ExitStack() as stack:
        upstream = stack.enter_context(Upstream(lambda _: "Go on.", window=WINDOW))
        limits = {"window": WINDOW, "recall": "tool", "waiting_limit": 3.0}
        with proxied(upstream.url, store=url, **limits) as proxy:
            known = sent_through([proxy], upstream, TURNS - 3)
            try:
                with server().connect() as connection:
                    connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
                    connection.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
                    )
                again = post(proxy, body(TURNS - 4))
                over = post(proxy, body(TURNS - 1, first=40))
            finally:
                with server().connect() as connection:
                    connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
            proxy.settle()
            until(lambda: post(proxy, body(TURNS - 3))[0] == 200)
            proxy.settle()
            sent = [request.raw for request in upstream.requests]

    assert again[0] == 200
    assert sent[len(known)] == known[-1], "the same request has the same bytes"
    assert over[0] == 503
    assert b"its store cannot be reached" in over[1]
    [info] = open_store(url).list_sessions()
    log = open_store(url).peek(info.session, project=info.project)
    assert log.verify().ok
    texts = {json.dumps(record.get("wire") or record.get("message")) for record in log.read().records}
    asked = json.loads(body(TURNS - 3))["messages"]
    assert all(any(str(m["tool_call_id"]) in text for text in texts) for m in asked if m["role"] == "tool")


def start(url, upstream, tmp_path):
    command = [sys.executable, "-m", "ebbtide", "proxy", "--upstream", upstream, "--port", "0", "--announce"]
    environment = {**os.environ, "EBB_HOME": url}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment
    )


def test_a_proxy_process_is_alive_before_it_is_ready_and_goes_on_after_a_kill(url, tmp_path):
    name = database_of(url)
    with Upstream(lambda _: "Go on.") as upstream:
        with server().connect() as connection:
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
        processes = [start(url, upstream.url, tmp_path) for _ in range(2)]
        try:
            ports = [int(json.loads(one.stdout.readline())["listening"].rpartition(":")[2]) for one in processes]
            alive = get(ports[0], "/healthz")
            ready = exchange(ports[0], "GET", "/readyz")
        finally:
            with server().connect() as connection:
                connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        try:
            assert (alive[0], alive[1]["status"], alive[1]["ready"]) == (200, "ok", False)
            assert ready[0] == 503
            for port in ports:
                until(lambda port=port: exchange(port, "GET", "/readyz")[0] == 200)
            assert post(ports[0], body(0))[0] == 200
            until(lambda: open_store(url).list_sessions())
            processes[0].kill()
            assert post(ports[1], body(1))[0] == 200
            until(lambda: b"ebb_store_commit_seconds_count" in exchange(ports[1], "GET", "/metrics")[2])
            processes[1].send_signal(signal.SIGTERM)
            log = processes[1].communicate(timeout=WAIT)[1]
        finally:
            for process in processes:
                process.kill()
                process.communicate()
        assert processes[1].returncode == 0
        assert "secret" not in log
    [info] = open_store(url).list_sessions()
    assert open_store(url).peek(info.session, project=info.project).verify().ok


def test_a_proxy_refuses_tables_of_a_newer_version_and_says_so(tmp_path):
    name = f"newer{os.getpid()}"
    url = server().create(name)
    try:
        with server().connect(name) as connection:
            connection.execute("INSERT INTO ebbtide.migration (number) VALUES (99)")
        process = start(url, "http://127.0.0.1:9", tmp_path)
        _, err = process.communicate(timeout=WAIT)
    finally:
        with server().connect() as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    assert process.returncode == 2
    assert "tables of a newer Ebbtide" in err
    assert "secret" not in err
