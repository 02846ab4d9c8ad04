"""Errors in words for a person: what happened, and what to do about it. Bodies and keys stay out of them."""

from __future__ import annotations

from ebbtide.core.errors import EbbtideError, WontFit

_ADVICE = {
    401: "check the key",
    403: "the key may not do this",
    404: "check --model and --base-url",
    429: "wait a little and try again",
    529: "wait a little and try again",
}


def explain_error(error: Exception) -> str:
    if isinstance(error, WontFit):
        return f"it does not fit the window: {error}. /compact, or a larger --window, may help"
    if isinstance(error, EbbtideError):
        return str(error)
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        advice = _ADVICE.get(status, "the provider's trouble; try again" if status >= 500 else "")
        return f"the provider refused ({status}): {_message(error)}{f'; {advice}' if advice else ''}"
    if type(error).__name__ in ("APIConnectionError", "APITimeoutError", "ConnectError"):
        return "the provider cannot be reached; check --base-url and the network"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _message(error: Exception) -> str:
    """The provider's own sentence, where its answer has one."""
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else None
    message = inner.get("message") if isinstance(inner, dict) else None
    return " ".join(str(message or getattr(error, "message", error)).split())[:300]
