"""Usage comes from outside: missing, negative or contradictory numbers are brought into range, never passed on."""

from __future__ import annotations

from collections.abc import Mapping

from ebbtide.core.types import Usage

_KEYS = frozenset({"input_tokens", "output_tokens", "prompt_tokens", "completion_tokens"})

_MOST = 1 << 40
"""No window is larger, and a float still holds it exactly: JSON may carry integers of any length."""


def usage_from(obj: object) -> Usage | None:
    """Reads Anthropic, OpenAI Chat and OpenAI Responses usage, or a response that carries it; dicts or SDK objects.

    OpenAI counts cached tokens inside the prompt, Anthropic beside it. None where there is nothing to read.
    """
    inner = obj.get("usage") if isinstance(obj, Mapping) else getattr(obj, "usage", None)
    data = _numbers(inner) or _numbers(obj)
    if data is None:
        return None
    if "prompt_tokens" in data or "completion_tokens" in data:
        cached = (_mapping(data.get("prompt_tokens_details")) or {}).get("cached_tokens")
        return _inclusive(data.get("prompt_tokens"), cached, data.get("completion_tokens"))
    details = _mapping(data.get("input_tokens_details"))
    if details is not None:
        return _inclusive(data.get("input_tokens"), details.get("cached_tokens"), data.get("output_tokens"))
    if "cached_input_tokens" in data:  # Codex's own record of it
        return _inclusive(data.get("input_tokens"), data.get("cached_input_tokens"), data.get("output_tokens"))
    written = _whole(data.get("cache_creation_input_tokens"))
    return Usage(
        input=_whole(data.get("input_tokens")),
        cache_read=_whole(data.get("cache_read_input_tokens")),
        cache_write=written,
        output=_whole(data.get("output_tokens")),
        cache_write_1h=min(written, written_for_an_hour(data)),
    )


def written_for_an_hour(usage: Mapping[str, object]) -> int:
    """Return how many tokens a usage of Anthropic says were written to be kept for an hour."""
    return _whole((_mapping(usage.get("cache_creation")) or {}).get("ephemeral_1h_input_tokens"))


def _inclusive(prompt: object, cached: object, output: object) -> Usage:
    total = _whole(prompt)
    read = min(_whole(cached), total)
    return Usage(input=total - read, cache_read=read, output=_whole(output))


def _numbers(obj: object) -> Mapping[str, object] | None:
    data = _mapping(obj)
    return data if data is not None and _KEYS & data.keys() else None


def _mapping(obj: object) -> Mapping[str, object] | None:
    if isinstance(obj, Mapping):
        return obj
    dump = getattr(obj, "model_dump", None)
    dumped = dump() if callable(dump) else None
    return dumped if isinstance(dumped, Mapping) else None


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0
    return int(max(0, min(value, _MOST)))  # in this order NaN, which compares as false, gives 0
