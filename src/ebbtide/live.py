"""What a running proxy says about its sessions, in one line: for status lines and terminal titles.

A status line starts a process several times a minute, so this module imports next to nothing.
"""

from __future__ import annotations

import json
import socket

TIMEOUT = 0.5  # seconds: a status line that is late is worse than none
_MAX_BYTES = 4 << 20


def read_status(address: str, timeout: float = TIMEOUT) -> list[dict[str, object]]:
    """Ask the proxy at this address for its sessions, the newest first; none if it does not answer."""
    scheme, _, rest = address.partition("://")
    place, _, prefix = rest.rstrip("/").partition("/")
    host, _, port = place.rpartition(":")
    if scheme != "http" or not host or not port.isdecimal():
        return []
    path = f"/{prefix}/ebb/status" if prefix else "/ebb/status"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=timeout) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {place}\r\nAccept: application/json\r\n\r\n".encode())
            answer = b""
            while len(answer) < _MAX_BYTES and (part := connection.recv(1 << 16)):
                answer += part
        head, _, body = answer.partition(b"\r\n\r\n")
        sessions = json.loads(body)["sessions"] if b" 200 " in head.partition(b"\r\n")[0] else []
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [session for session in sessions if isinstance(session, dict)] if isinstance(sessions, list) else []


def find_session(sessions: list[dict[str, object]], name: str) -> dict[str, object] | None:
    """The session of this name; the newest if there is only one, or no name."""
    if not name:
        return sessions[0] if sessions else None
    named = [session for session in sessions if name in str(session.get("session"))]
    return named[0] if named else (sessions[0] if len(sessions) == 1 else None)


def describe(session: dict[str, object], now: float) -> str:
    """As in `ebb 45.2k, without 160.9k (-72%) · saved $2.19 · summary 12 min ago`."""
    tokens, without = _number(session, "tokens"), _number(session, "tokens_without")
    if not tokens:
        return ""
    parts = [f"ebb {_short(tokens)} of {_short(_number(session, 'window'))}"]
    if without > tokens:
        parts[0] = f"ebb {_short(tokens)}, without {_short(without)} (-{1 - tokens / without:.0%})"
    saved = session.get("saved_usd")
    if isinstance(saved, int | float) and abs(saved) >= 0.005:
        parts.append(f"saved ${saved:,.2f}" if saved > 0 else f"not paid back yet: ${-saved:,.2f}")
    at = _number(session, "last_summary_at")
    if at:
        parts.append(f"summary {_ago(now - at)}")
    return " · ".join(parts)


def _number(session: dict[str, object], key: str) -> float:
    value = session.get(key)
    return value if isinstance(value, int | float) else 0


def _short(tokens: float) -> str:
    if tokens < 1_000:
        return f"{tokens:.0f}"
    return f"{tokens / 1_000:.1f}k" if tokens < 999_950 else f"{tokens / 1_000_000:.1f}M"


def _ago(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit} ago"
    return "just now"
