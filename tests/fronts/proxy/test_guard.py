"""Who may talk to the proxy, and where a key may go."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
from dataclasses import replace

import pytest

from ebbtide.core.errors import BadConfig
from ebbtide.fronts.proxy.upstreams import PROVIDERS, check_upstream, find_target
from fronts.proxy.proxy_runner import WAIT, Running, beside, exchange, options
from fronts.proxy.raw_upstream import RawUpstream, answer

BODY = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
TOKEN = "0123456789abcdef-token"


PATHS = ["/v1/messages", "/ebb/summary", "/ebb/sessions", "/healthz", "/metrics"]


def ask(running, path, headers, prefix=""):
    method = "POST" if path.startswith("/v1") else "GET"
    return exchange(running.port, method, prefix + path, BODY if method == "POST" else None, headers)


@pytest.mark.parametrize("path", PATHS)
def test_a_page_and_a_rebound_name_are_turned_away_everywhere(path, tmp_path):
    away = [
        {"Host": "evil.example"},
        {"Host": "evil.example:8787"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000"},
        {"Sec-Fetch-Site": "cross-site"},
    ]
    fine = [
        {"Host": "localhost:1"},
        {"Host": "[::1]:8787"},
        {"Host": "gw.internal"},
        {"Origin": "https://my.example"},
        {},
    ]
    more = {"allow_hosts": ("gw.internal",), "allow_origins": ("https://my.example",)}
    with beside(lambda n, seen: [answer(b"{}")], tmp_path, **more) as (upstream, running):
        refused = [ask(running, path, headers) for headers in away]
        assert not upstream.seen
        let_in = [ask(running, path, headers) for headers in fine]

    assert [status for status, _, _ in refused] == [403] * len(away)
    assert [status for status, _, _ in let_in] == [200] * len(fine)
    assert not [1 for _, told, _ in refused + let_in if "access-control-allow-origin" in told]


@pytest.mark.parametrize("path", PATHS)
def test_with_a_token_nothing_is_served_without_it(path, tmp_path):
    wrong = [("", {}), ("", {"X-Ebb-Token": "wrong"}), ("", {"Authorization": f"Bearer {TOKEN}"}), ("/ebb/t/wrong", {})]
    right = [("", {"X-Ebb-Token": TOKEN}), (f"/ebb/t/{TOKEN}", {})]
    with beside(lambda n, seen: [answer(b"{}")], tmp_path, token=TOKEN) as (upstream, running):
        assert [ask(running, path, headers, prefix)[0] for prefix, headers in wrong] == [401] * 4
        assert not upstream.seen
        assert [ask(running, path, headers, prefix)[0] for prefix, headers in right] == [200] * 2

    for seen in upstream.seen:
        assert TOKEN.encode() not in seen.head
        assert seen.target == path


def test_a_request_that_names_another_host_is_refused(tmp_path):
    """`GET http://elsewhere/`: no key goes to a host that a request names."""
    with (
        beside(lambda n, seen: [answer(b"{}")], tmp_path) as (upstream, running),
        RawUpstream(lambda n, seen: []) as other,
    ):
        for line in (f"POST http://127.0.0.1:{other.port}/v1/messages", f"CONNECT 127.0.0.1:{other.port}", "GET *"):
            with socket.create_connection(("127.0.0.1", running.port), timeout=WAIT) as raw:
                raw.sendall(
                    f"{line} HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: canary\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
                )
                assert raw.recv(1 << 16).split(b" ")[1] in (b"400", b"403", b"404")
        assert not other.seen
        assert not upstream.seen


def test_a_redirect_is_the_clients_to_follow(tmp_path):
    with RawUpstream(lambda n, seen: [answer(b"stolen")]) as other:
        moved = answer(b"", "308 Permanent Redirect", [("Location", f"http://127.0.0.1:{other.port}/v1/messages")])
        with beside(lambda n, seen: [moved], tmp_path) as (_, running):
            status, headers, _ = exchange(running.port, "POST", "/v1/messages", BODY, {"X-Api-Key": "canary"})

    assert status == 308
    assert headers["location"].endswith("/v1/messages")
    assert not other.seen


def test_headers_that_point_elsewhere_change_nothing(tmp_path):
    with beside(lambda n, seen: [answer(b"{}")], tmp_path) as (upstream, running):
        odd = {
            "X-Forwarded-Host": "evil.example",
            "X-Upstream": "http://evil.example",
            "Forwarded": "host=evil.example",
        }
        body = json.dumps({**json.loads(BODY), "api_base": "http://evil.example", "base_url": "http://evil.example"})
        assert exchange(running.port, "POST", "/v1/messages?api_base=http://evil.example", body.encode(), odd)[0] == 200

    assert ("Host", f"127.0.0.1:{upstream.port}") in upstream.seen[0].headers


def test_no_cookie_of_one_client_reaches_another(tmp_path):
    with beside(lambda n, seen: [answer(b"{}", headers=[("Set-Cookie", "who=one; Path=/")])], tmp_path) as (
        upstream,
        running,
    ):
        for _ in range(2):
            exchange(running.port, "POST", "/v1/messages", BODY)

    assert not [name for seen in upstream.seen for name, _ in seen.headers if name.lower() == "cookie"]


def test_a_bomb_is_not_unpacked(tmp_path):
    bomb = gzip.compress(BODY[:-1] + b" " * (8 << 20) + b"}")
    with beside(lambda n, seen: [answer(b"{}")], tmp_path, max_body_bytes=1 << 20) as (upstream, running):
        status, _, _ = exchange(running.port, "POST", "/v1/messages", bomb, {"Content-Encoding": "gzip"})

    assert status == 200
    assert upstream.seen[0].body == bomb
    assert running.proxy.meters.total.requests == 0


def test_a_header_without_end_is_refused(tmp_path):
    with beside(lambda n, seen: [answer(b"{}")], tmp_path) as (upstream, running):
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=WAIT)
        try:
            connection.request("GET", "/v1/models", headers={"X-Long": "x" * 200_000})
            assert connection.getresponse().status in (400, 431)
        except ConnectionError:
            pass  # hung up on before it was done
        finally:
            connection.close()
    assert not upstream.seen


def test_neither_keys_nor_text_nor_queries_are_logged(tmp_path):
    words = "canary-words-in-the-prompt"
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": words}]}).encode()
    told = answer(
        b'{"choices":[{"message":{"role":"assistant","content":"canary-reply"}}],"usage":{"prompt_tokens":1}}'
    )
    headers = {"Authorization": "Bearer canary-key", "X-Api-Key": "canary-key-2", "Cookie": "canary-cookie"}
    with beside(lambda n, seen: [told], tmp_path) as (_, running):
        exchange(running.port, "POST", "/v1/chat/completions?key=canary-query", body, headers)
        exchange(running.port, "POST", "/v1/chat/completions", b"canary-no-json", headers)
        running.settle()
        pages = [
            exchange(running.port, "GET", path)[2].decode() for path in ("/metrics", "/ebb/sessions", "/ebb/summary")
        ]
        told = running.log.getvalue() + "".join(pages)

    assert "canary" not in told
    assert running.lines[0]["event"] == "request"


def test_the_stores_files_are_private(tmp_path):
    store = tmp_path / "store"
    with beside(lambda n, seen: [answer(b"{}")], store) as (_, running):
        exchange(running.port, "POST", "/v1/messages", BODY)
        running.settle()
    made = list(store.rglob("*"))

    assert any(path.suffix == ".jsonl" for path in made)
    assert {path.stat().st_mode & 0o777 for path in made} <= {0o700, 0o600}


def test_one_of_several_upstreams_is_chosen_by_path_then_by_credential():
    def to(path, **headers):
        target = find_target(PROVIDERS, path, {name.replace("_", "-"): value for name, value in headers.items()})
        return target and target.url

    assert to("/v1/messages?beta=true") == "https://api.anthropic.com/v1/messages?beta=true"
    assert to("/v1/chat/completions") == "https://api.openai.com/v1/chat/completions"
    assert to("/v1/responses/x") == "https://api.openai.com/v1/responses/x"
    assert (
        to("/v1beta/models/g:streamGenerateContent") == f"{PROVIDERS['gemini']}/v1beta/models/g:streamGenerateContent"
    )
    assert to("/v1/models/gemini-2.5-pro:generateContent") == (
        f"{PROVIDERS['gemini']}/v1/models/gemini-2.5-pro:generateContent"
    )
    vertex = "projects/p/locations/global/publishers/google/models/g:generateContent"
    assert to(f"/v1/{vertex}") == f"{PROVIDERS['vertex']}/v1/{vertex}"
    assert to(f"/v1beta1/{vertex}") == f"{PROVIDERS['vertex']}/v1beta1/{vertex}"
    assert to("/v1/models", x_api_key="k") == "https://api.anthropic.com/v1/models"
    assert to("/v1/models", authorization="k") == "https://api.openai.com/v1/models"
    assert to("/anthropic/v1/models") == "https://api.anthropic.com/v1/models"
    assert find_target({"a": "http://a", "b": "http://b"}, "/v1/models", {}) is None


def test_an_address_with_v1_and_a_path_with_v1_have_it_once():
    assert find_target({"u": "http://h/v1"}, "/v1/models", {}).url == "http://h/v1/models"
    assert find_target({"u": "http://h/v1"}, "/v1beta/x", {}).url == "http://h/v1/v1beta/x"
    assert find_target({"u": "http://h/api"}, "/v1/models", {}).url == "http://h/api/v1/models"


@pytest.mark.parametrize("address", ["file:///etc/passwd", "http://", "http://user:key@host", "https://h/?a=b", "evil"])
def test_an_invalid_address_is_refused(address):
    with pytest.raises(BadConfig):
        check_upstream("u", address)


def test_a_path_without_an_upstream_is_refused_with_a_reason(tmp_path):
    several = replace(
        options("http://127.0.0.1:1", store=tmp_path), upstreams={"a": "http://127.0.0.1:1", "b": "http://127.0.0.1:1"}
    )
    with Running(several) as running:
        status, _, raw = exchange(running.port, "GET", "/v1/models")

    assert status == 404
    assert "--upstream" in json.loads(raw)["error"]["message"]


@pytest.mark.parametrize(
    "path",
    [
        "/../other/v1/models",
        "/v1/..",
        "/a/%2e%2e/%2E./b",
        "/a/%252e%252e/b",
        "/a\\..\\b",
        "/a%2f..%2fb",
        "/x%3f/%252e%252e/y",
    ],
)
def test_no_path_leaves_the_folder_of_its_upstream(path, tmp_path):
    with (
        RawUpstream(lambda n, seen: [answer(b"{}")]) as upstream,
        Running(options(f"{upstream.url}/tenant-a", store=str(tmp_path))) as running,
    ):
        refused, _, response = exchange(running.port, "GET", path)
        fine, _, _ = exchange(running.port, "GET", "/v1/models/a..b?next=../x")

        assert (refused, fine) == (400, 200)
        assert b"'..'" in response
        assert [seen.target for seen in upstream.seen] == ["/tenant-a/v1/models/a..b?next=../x"]


RAW = {
    "a bare CR in a header": b"GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: a\rX-Evil: 1\r\n\r\n",
    "a bare LF in a header": b"GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: a\nX-Evil: 1\r\n\r\n",
    "a folded header": b"GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: a\r\n X-Evil: 1\r\n\r\n",
    "two lengths": b"POST /x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nContent-Length: 9\r\n\r\nGET /evil",
    "a length and chunks": b"POST /x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two hosts": b"GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
    "a host with a user": b"GET /x HTTP/1.1\r\nHost: localhost@evil.example\r\n\r\n",
    "another host's address": b"GET http://evil.example/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a line break in a path": b"GET /v1/models/x%0d%0aX-Evil:%201 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a tunnel": b"CONNECT evil.example:443 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
}


@pytest.mark.parametrize("raw", RAW.values(), ids=RAW)
def test_an_ambiguous_request_is_not_forwarded(raw, tmp_path):
    with beside(lambda n, seen: [answer(b"{}")], tmp_path) as (upstream, running):
        with socket.create_connection(("127.0.0.1", running.port), timeout=WAIT) as line:
            line.sendall(raw)
            told = line.recv(1 << 16)
        assert told.split()[1][:1] == b"4"
        assert not upstream.seen


def test_a_token_is_in_no_description_of_the_options(tmp_path):
    told = options("http://127.0.0.1:1", store=str(tmp_path), token=TOKEN)
    settings = replace(told.settings, proxy={"token": TOKEN})

    assert TOKEN not in repr(replace(told, settings=settings))
