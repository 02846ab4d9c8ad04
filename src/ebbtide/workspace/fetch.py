"""An address the user chose is asked itself: no proxy, no password, no other host."""

from __future__ import annotations

import http.client
import ipaddress
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import IO

from ebbtide.workspace.files import FILE_CAP, decode_text


class _SameHost(urllib.request.HTTPRedirectHandler):
    """An address the user chose may move within its host; it may not send us to one nobody chose."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        old, new = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        if (old.scheme, old.netloc) != (new.scheme, new.netloc):
            raise urllib.error.URLError("redirected to another host")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def refuse_link_local(connection: http.client.HTTPConnection) -> None:
    """Cloud machines hand out credentials there. Checked on the open socket: a name may resolve differently twice."""
    peer = ipaddress.ip_address(connection.sock.getpeername()[0].partition("%")[0])
    mapped = peer.ipv4_mapped if isinstance(peer, ipaddress.IPv6Address) else None
    if (mapped or peer).is_link_local:
        connection.close()
        raise urllib.error.URLError("link-local address")


class _Plain(http.client.HTTPConnection):
    def connect(self) -> None:
        super().connect()
        refuse_link_local(self)


class _Secure(http.client.HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        refuse_link_local(self)


class _Http(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Plain, req)


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Secure, req)


def fetch_text(url: str, timeout: float) -> str:
    """The text at an address, within `timeout` seconds in all."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("only http and https addresses")
    if "@" in parts.netloc:
        raise ValueError("an address must not carry a password")
    deadline = time.monotonic() + timeout
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _SameHost, _Http, _Https)
    data = b""
    with opener.open(url, timeout=timeout) as response:  # The scheme was checked above.
        # A socket's time-out starts again with every byte, and a slow server sends one at a time.
        while len(data) <= FILE_CAP and (chunk := response.read1(65536)):
            data += chunk
            if time.monotonic() > deadline:
                raise TimeoutError("took too long")
    return decode_text(data)
