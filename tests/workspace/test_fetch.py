"""An address is asked itself, for so long, and may lead nowhere else."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from ebbtide.workspace import fetch_text
from ebbtide.workspace.fetch import refuse_link_local
from ebbtide.workspace.files import FILE_CAP
from workspace.project_files import instruction_files


class SiteHandler(BaseHTTPRequestHandler):
    """A small real server. `asked` keeps every path that was asked for."""

    asked: list[str]
    elsewhere: str

    def do_GET(self) -> None:
        self.asked.append(self.path)
        moved = {
            "/moved": "/rules",
            "/away": f"{self.elsewhere}/rules",
            "/loop": "/loop",
            "/file": "file:///etc/passwd",
        }
        if self.path in moved:
            self.send_response(302)
            self.send_header("Location", moved[self.path])
            self.end_headers()
            return
        if self.path == "/drip":
            self.drip()
            return
        bodies = {"/rules": b"be brief", "/huge": b"x" * (FILE_CAP + 1), "/binary": b"a\0b", "/latin": b"caf\xe9"}
        self.send_response(200 if self.path in bodies else 404)
        self.end_headers()
        self.wfile.write(bodies.get(self.path, b"no"))

    def drip(self) -> None:
        """A byte at a time, each well within any time-out, until the other side hangs up."""
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(200):
                self.wfile.write(b"x")
                self.wfile.flush()
                time.sleep(0.05)

    def log_message(self, *args: object) -> None:
        pass


def serve(elsewhere: str = "") -> tuple[ThreadingHTTPServer, list[str], str]:
    asked: list[str] = []
    handler = type("Handler", (SiteHandler,), {"asked": asked, "elsewhere": elsewhere})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, asked, f"http://127.0.0.1:{server.server_port}"


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[str, list[str]]]:
    """An address, and the paths that the *other* host, to which `/away` leads, was asked for."""
    other, asked, elsewhere = serve()
    server, _, address = serve(elsewhere)
    yield address, asked
    for one in (server, other):
        one.shutdown()
        one.server_close()


def test_a_redirect_within_a_host_is_followed(site: tuple[str, list[str]]) -> None:
    assert fetch_text(f"{site[0]}/rules", 5) == "be brief"
    assert fetch_text(f"{site[0]}/moved", 5) == "be brief"


@pytest.mark.parametrize("path", ["/away", "/file", "/loop", "/huge", "/binary", "/latin", "/nothing"])
def test_an_address_that_breaks_a_rule_is_skipped_and_reported(
    project: Path, site: tuple[str, list[str]], path: str
) -> None:
    skipped: list[str] = []

    instructions = instruction_files(
        project, urls=[site[0] + path, f"{site[0]}/rules"], report=lambda source, _: skipped.append(source)
    )

    assert instructions == [(f"{site[0]}/rules", "be brief")]
    assert skipped == [site[0] + path]
    assert site[1] == []


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://x/y", "http:///x", "http://me:secret@127.0.0.1:1/", "rules"]
)
def test_only_http_addresses_without_a_password_are_fetched(url: str) -> None:
    with pytest.raises(ValueError):
        fetch_text(url, 5)


def test_a_server_that_sends_slowly_times_out(site: tuple[str, list[str]]) -> None:
    with pytest.raises(TimeoutError):
        fetch_text(f"{site[0]}/drip", 0.3)


@pytest.mark.parametrize("peer", ["169.254.169.254", "fe80::1%eth0", "::ffff:169.254.1.1"])
def test_link_local_addresses_are_refused(peer: str) -> None:
    """The check is on the open connection, before a byte is sent: names can be made to resolve to it."""
    connection: Any = FakeConnection(peer)
    with pytest.raises(URLError, match="link-local"):
        refuse_link_local(connection)
    assert connection.closed


class FakeConnection:
    """A connection to somewhere this machine cannot really connect to."""

    def __init__(self, peer: str) -> None:
        self.peer, self.sock, self.closed = peer, self, False

    def getpeername(self) -> tuple[str, int]:
        return self.peer, 80

    def close(self) -> None:
        self.closed = True


def test_an_address_that_hangs_is_skipped(project: Path) -> None:
    never = threading.Event()
    skipped: list[tuple[str, str]] = []

    def fetch(url: str, timeout: float) -> str:
        if url == "http://slow/":
            never.wait()
        return "rules"

    instructions = instruction_files(
        project,
        urls=["http://slow/", "http://quick/"],
        fetch=fetch,
        timeout=2.0,  # the other must get its turn on a busy machine
        report=lambda *one: skipped.append(one),
    )

    assert instructions == [("http://quick/", "rules")]
    assert skipped == [("http://slow/", "took too long")]
    never.set()
