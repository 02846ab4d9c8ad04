"""Explains errors to the user: what happened and what to do. Request bodies and keys are never shown."""

from __future__ import annotations

from ebbtide.core.errors import EbbtideError, WontFit

_ADVICE = {
    401: "check the key",
    403: "the key has no permission for this",
    404: "check --model and --base-url",
    429: "wait a little and try again",
    529: "wait a little and try again",
}


def explain_error(error: Exception) -> str:
    if isinstance(error, WontFit):
        return f"the request does not fit the window: {error}. Try /compact or a larger --window"
    if isinstance(error, EbbtideError):
        return str(error)
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        advice = _ADVICE.get(status, "the provider has a problem; try again" if status >= 500 else "")
        return f"the provider refused ({status}): {_message(error)}{f'; {advice}' if advice else ''}"
    if type(error).__name__ in ("APIConnectionError", "APITimeoutError", "ConnectError"):
        return "the provider cannot be reached; check --base-url and the network"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _message(error: Exception) -> str:
    """Return the message in the provider's answer, if there is one."""
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else None
    message = inner.get("message") if isinstance(inner, dict) else None
    return " ".join(str(message or getattr(error, "message", error)).split())[:300]
