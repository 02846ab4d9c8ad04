"""A balancer for tests: HAProxy with the example's own configuration, or connections in turn where it is missing."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

HAPROXY = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
CONFIG = Path(__file__).resolve().parents[3] / "examples/team/haproxy.cfg"


@contextmanager
def balanced(ports: Sequence[int], kind: str, place: Path, token: str) -> Iterator[int]:
    """Balance over two proxies on this machine, and give the port."""
    with _haproxy(ports, place, token) if kind == "haproxy" else _in_turn(ports) as port:
        yield port


def configuration(ports: Sequence[int], own: int) -> str:
    """The example's configuration with the addresses of this machine."""
    text = CONFIG.read_text(encoding="utf-8").replace("bind :8787", f"bind 127.0.0.1:{own}")
    return re.sub(r"(server proxy-(\d)) \S+", lambda found: f"{found[1]} 127.0.0.1:{ports[int(found[2]) - 1]}", text)


@contextmanager
def _haproxy(ports: Sequence[int], place: Path, token: str) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = free.getsockname()[1]
    file = place / "haproxy.cfg"
    file.write_text(configuration(ports, own), encoding="utf-8")
    assert HAPROXY is not None
    process = subprocess.Popen([HAPROXY, "-db", "-f", file], env={**os.environ, "EBB_PROXY_TOKEN": token})
    try:
        yield own
    finally:
        process.kill()
        process.wait()


@contextmanager
def _in_turn(ports: Sequence[int]) -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_accept, args=(listener, list(ports)), daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def _accept(listener: socket.socket, ports: list[int]) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            for port in list(ports):
                ports.append(ports.pop(0))
                with suppress(ConnectionRefusedError):
                    server = socket.create_connection(("127.0.0.1", port))
                    for pair in ((client, server), (server, client)):
                        threading.Thread(target=_pass_on, args=pair, daemon=True).start()
                    break
            else:
                client.close()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
