"""Fetches the text at an address that the user chose: without a proxy, a password or a redirect to another host."""

from __future__ import annotations

import http.client
import ipaddress
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import IO

from ebbtide.workspace.files import FILE_CAP, decode_text


class _SameHostRedirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects within a host only: the user chose no other."""

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
    """Refuse link-local addresses, where cloud machines offer credentials.

    The open socket is checked, since a name may resolve differently the second time.
    """
    peer = ipaddress.ip_address(connection.sock.getpeername()[0].partition("%")[0])
    mapped = peer.ipv4_mapped if isinstance(peer, ipaddress.IPv6Address) else None
    if (mapped or peer).is_link_local:
        connection.close()
        raise urllib.error.URLError("link-local address")


class _CheckedHttp(http.client.HTTPConnection):
    def connect(self) -> None:
        super().connect()
        refuse_link_local(self)


class _CheckedHttps(http.client.HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        refuse_link_local(self)


class _Http(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_CheckedHttp, req)


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_CheckedHttps, req)


def fetch_text(url: str, timeout: float) -> str:
    """Fetch a text within `timeout` seconds in all."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("only http and https addresses")
    if "@" in parts.netloc:
        raise ValueError("an address must not carry a password")
    deadline = time.monotonic() + timeout
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _SameHostRedirects, _Http, _Https)
    data = b""
    with opener.open(url, timeout=timeout) as response:
        # A socket's timeout starts again with every byte, and a slow server may send one at a time.
        while len(data) <= FILE_CAP and (chunk := response.read1(65536)):
            data += chunk
            if time.monotonic() > deadline:
                raise TimeoutError("took too long")
    return decode_text(data)
