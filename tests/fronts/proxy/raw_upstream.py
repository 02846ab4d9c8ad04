"""An upstream that plays bytes: what it was sent, to the byte, and whatever it is told to answer, fault by fault."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

PATIENCE = 120.0


@dataclass
class RawRequest:
    """One request, as it stood on the wire."""

    head: bytes
    body: bytes

    @property
    def target(self) -> str:
        return self.head.split(b" ", 2)[1].decode("latin-1")

    @property
    def headers(self) -> list[tuple[str, str]]:
        lines = self.head.split(b"\r\n")[1:]
        return [
            (n.decode("latin-1"), v.strip().decode("latin-1"))
            for n, _, v in (line.partition(b":") for line in lines if line)
        ]


Step = bytes | float | str
"""Bytes to send, seconds to wait, or `reset`, `close`, `hang` (until the other side goes)."""
Script = Callable[[int, RawRequest], Sequence[Step]]


@dataclass
class RawUpstream:
    """Each connection in a thread; each request answered by the steps of its number."""

    script: Script
    seen: list[RawRequest] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)
    """Somebody went while we were answering or hanging."""
    open: int = 0

    def __enter__(self) -> RawUpstream:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        self.port = self._listener.getsockname()[1]
        self._done, self._threads, self._guard = threading.Event(), [], threading.Lock()
        self._acceptor = threading.Thread(target=self._accept)
        self._acceptor.start()
        return self

    def __exit__(self, *failed: object) -> None:
        self._done.set()
        self._acceptor.join(PATIENCE)
        self._listener.close()
        for thread in self._threads:
            thread.join(PATIENCE)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def closed(self) -> bool:
        """Whether every connection ends soon."""
        until = time.monotonic() + PATIENCE
        while self.open and time.monotonic() < until:
            time.sleep(0.01)
        return not self.open

    def _accept(self) -> None:
        while not self._done.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            connection.settimeout(0.05)
            with self._guard:
                self.open += 1
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            while (request := self._read(connection)) is not None:
                with self._guard:
                    number = len(self.seen)
                    self.seen.append(request)
                if not all(self._play(connection, step) for step in self.script(number, request)):
                    return
        except OSError:
            self.left.set()
        finally:
            connection.close()
            with self._guard:
                self.open -= 1

    def _play(self, connection: socket.socket, step: Step) -> bool:
        if isinstance(step, bytes):
            connection.settimeout(PATIENCE)
            connection.sendall(step)
            connection.settimeout(0.05)
        elif isinstance(step, float):
            self._done.wait(step)
        elif step == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        elif step == "close":
            return False
        else:
            self._hang(connection)
            return False
        return True

    def _hang(self, connection: socket.socket) -> None:
        while not self._done.is_set():
            try:
                if not connection.recv(1):
                    self.left.set()
                    return
            except TimeoutError:
                continue

    def _read(self, connection: socket.socket) -> RawRequest | None:
        got = b""
        while b"\r\n\r\n" not in got:
            if (more := self._more(connection)) is None:
                return None
            got += more
        head, _, body = got.partition(b"\r\n\r\n")
        told = {n.lower(): v for n, v in RawRequest(head, b"").headers}
        length = int(told.get("content-length", 0))
        chunked = "chunked" in told.get("transfer-encoding", "")
        while len(body) < length or (chunked and not body.endswith(b"0\r\n\r\n")):
            if (more := self._more(connection)) is None:
                return None
            body += more
        return RawRequest(head, body)

    def _more(self, connection: socket.socket) -> bytes | None:
        while not self._done.is_set():
            try:
                return connection.recv(1 << 16) or None
            except TimeoutError:
                continue
        return None


def answer(body: bytes, status: str = "200 OK", headers: Sequence[tuple[str, str]] = ()) -> bytes:
    told = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"HTTP/1.1 {status}\r\n{told}Content-Length: {len(body)}\r\n\r\n".encode() + body


def chunks(*pieces: bytes) -> list[bytes]:
    return [f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces]


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
