"""Who is answered: this person, this page, this run. The rest learns nothing."""

import asyncio

import pytest

from fronts.ui.inspector import BilledAgent, library, page

STRICT = {
    **dict.fromkeys(("default-src", "base-uri", "form-action", "frame-ancestors", "trusted-types"), "'none'"),
    **dict.fromkeys(("script-src", "style-src", "img-src", "connect-src"), "'self'"),
    "require-trusted-types-for": "'script'",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    where = tmp_path_factory.mktemp("store")
    BilledAgent(where).steps(1)
    return where


async def test_without_the_token_there_is_no_answer(root):
    async with page(library(root), log_in=False) as ask:
        before = await ask.status("GET", "/api/sessions")
        wrong = [await ask.login(""), await ask.login(ask.guard.token[:-1]), await ask.login("é")]
        still = await ask.status("GET", "/api/sessions")
        right = await ask.login()
        after = await ask.status("GET", "/api/sessions")

    assert (before, wrong, still, right, after) == (401, [403, 403, 403], 401, 200, 200)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example", ""])
async def test_another_host_is_refused_on_every_path(root, host):
    """A name that resolves to loopback is how another page would reach us."""
    async with page(library(root)) as ask:
        for path in ("/", "/app.js", "/api/sessions", "/api/login"):
            assert await ask.status("GET", path, headers={"Host": host}) in (400, 403)


async def test_localhost_is_an_accepted_host_name(root):
    async with page(library(root)) as ask:
        assert await ask.status("GET", "/api/sessions", headers={"Host": f"localhost:{ask.guard.port}"}) == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1", "https://127.0.0.1:{port}"])
async def test_another_origin_is_refused_whatever_cookie_it_has(root, origin):
    async with page(library(root), allow_undo=True) as ask:
        headers = {"Origin": origin.format(port=ask.guard.port)}
        assert await ask.status("GET", "/api/sessions", headers=headers) == 403
        assert await ask.status("POST", "/api/session/x/undo", headers=headers, json={}) == 403
        assert await ask.status("POST", "/api/login", headers=headers, json={"token": ask.guard.token}) == 403


async def test_a_form_cannot_change_anything(root):
    """No Origin, or not JSON: neither is a script of ours."""
    async with page(library(root), allow_undo=True) as ask:
        listed = (await ask.get("sessions"))["sessions"][0]["key"]
        path = f"/api/session/{listed}/redo"

        assert await ask.status("POST", path, json={}) == 403
        assert await ask.status("POST", path, data={"batch": "p1"}, headers=ask.origin) == 403
        assert await ask.status("POST", path, json={}, headers=ask.origin) == 200


async def test_fetches_of_another_site_are_refused_except_for_a_link_to_the_page(root):
    async with page(library(root)) as ask:
        cross = {"Sec-Fetch-Site": "cross-site"}
        assert await ask.status("GET", "/api/sessions", headers=cross) == 403
        assert await ask.status("GET", "/app.js", headers=cross) == 403
        assert await ask.status("GET", "/", headers=cross) == 200


async def test_every_answer_carries_the_strict_headers(root):
    async with page(library(root)) as ask:
        for path in ("/", "/app.js", "/app.css", "/api/sessions", "/api/session/none", "/nowhere"):
            async with ask.http.get(ask.base + path) as answer:
                policy = answer.headers["Content-Security-Policy"]
                assert dict(part.split(" ", 1) for part in policy.split("; ")) == STRICT
                assert answer.headers["X-Frame-Options"] == "DENY"
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert answer.headers["Cache-Control"] == "no-store"


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(root):
    async with (
        page(library(root), log_in=False) as ask,
        ask.http.post(f"{ask.base}/api/login", json={"token": ask.guard.token}, headers=ask.origin) as answer,
    ):
        cookie = answer.headers["Set-Cookie"]

    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert ask.guard.token not in cookie


async def test_it_listens_on_loopback_alone(root):
    async with page(library(root)) as ask:
        assert ask.guard.address.startswith("http://127.0.0.1:")
        assert "?" not in ask.guard.address
        assert "#token=" in ask.guard.address
        # Another address of this machine: who listens on all of them would answer there, too.
        with pytest.raises(OSError, match=r"127\.0\.0\.2"):
            await asyncio.open_connection("127.0.0.2", ask.guard.port)


async def test_no_path_of_a_request_reaches_the_disk(root):
    async with page(library(root)) as ask:
        for path in ("/../command.py", "/static/app.js", "/%2e%2e/command.py", "/app.js/../../command.py"):
            async with ask.http.get(ask.base + path) as answer:
                assert answer.status == 404


ODD = ["", "null", "[]", "{", '"x"', "5", '{"token":5}', '{"token":"\\ud800"}', "[" * 60_000]


@pytest.mark.parametrize("charset", ["utf-8", "no-such-charset", "utf-16"])
async def test_an_odd_body_is_refused_with_a_sentence(root, charset):
    headers = {"Content-Type": f"application/json; charset={charset}"}
    async with page(library(root), allow_undo=True, log_in=False) as ask:
        told = {
            sent: await ask.status("POST", "/api/login", headers={**ask.origin, **headers}, data=sent) for sent in ODD
        }
        assert set(told.values()) <= {400, 403}, told
        assert await ask.login() == 200
        key = (await ask.get("sessions"))["sessions"][0]["key"]
        undone = await ask.status("POST", f"/api/session/{key}/undo", headers={**ask.origin, **headers}, data="[")

    assert undone == 400


@pytest.mark.parametrize("value", ["\udcff", "\udced\udca0\udc80", ";;;=", '"', "x" * 5000])
async def test_an_odd_cookie_is_not_accepted(root, value):
    async with page(library(root), log_in=False) as ask:
        raw = f"GET /api/sessions HTTP/1.1\r\nHost: 127.0.0.1:{ask.guard.port}\r\nConnection: close\r\n"
        raw += f"Cookie: {ask.guard.cookie_name}={value}\r\nExpect: {value}\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", ask.guard.port)
        writer.write(raw.encode("utf-8", "surrogateescape"))
        answered = await asyncio.wait_for(reader.read(), 120)
        writer.close()

    assert answered.startswith(b"HTTP/1.1 401 ")
    assert b'{"error": "log in"}' in answered


async def test_the_address_that_a_browser_is_started_with_logs_in_once(root):
    """Everybody on the machine can see what programs are started with."""
    async with page(library(root), log_in=False) as ask:
        token = ask.guard.single_use_url().partition("#token=")[2]
        assert token != ask.guard.token
        assert [await ask.login(token), await ask.login(token), await ask.login()] == [200, 403, 200]
        assert token not in repr(ask.guard)
        assert ask.guard.token not in repr(ask.guard)


async def test_a_number_with_too_many_digits_is_refused_and_not_our_fault(root):
    async with page(library(root)) as ask:
        key = (await ask.get("sessions"))["sessions"][0]["key"]
        for number in ("9" * 30, "0" * 12 + "9" * 30, "9" * 5000, "１"):
            assert await ask.status("GET", f"/api/session/{key}", params={"window": number}) == 400, number
