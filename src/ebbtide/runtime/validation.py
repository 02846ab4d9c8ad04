"""Validates the arguments of `Context`, and names the one that is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Literal, TypeGuard, get_args

from ebbtide.compaction.answer_sources import Summarizer
from ebbtide.compaction.coordinator import Hooks
from ebbtide.core.errors import BadConfig

RecallBy = Literal["path", "tool", "off"]
RecallScope = Literal["session", "conversation"]


@dataclass(frozen=True, slots=True)
class Recall:
    """How removed text is read back."""

    by: RecallBy = "path"
    """By `path` stubs and summaries name files, by `tool` the model is given tools; `off` names neither."""
    scope: RecallScope | None = field(default=None, kw_only=True)
    """What may be opened: all that the `session` recorded, which is the default, or only the `conversation` of the last
    request. `wrap` uses `conversation` for sessions that have no name, since several conversations may share one."""

    def __post_init__(self) -> None:
        for name, value, allowed in (("by", self.by, RecallBy), ("scope", self.scope, RecallScope)):
            if value is not None and value not in get_args(allowed):
                raise wrong_type(name, f"one of {', '.join(map(repr, get_args(allowed)))}", value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """What to ask of the provider's prompt cache, besides breakpoints."""

    key: bool | None = None
    """Whether OpenAI gets a `prompt_cache_key` for each session. By default, if the model's name is one of OpenAI's."""
    retention: Literal["24h"] | None = None
    """`24h` asks OpenAI to keep the cache for a day instead of minutes, for models that support it."""
    raise_lifetimes: bool = False
    """Whether the client's own breakpoints on system prompt and tools ask Claude for an hour, where that pays."""

    def __post_init__(self) -> None:
        if self.key is not None and not isinstance(self.key, bool):
            raise wrong_type("key", "True, False or None", self.key)
        if self.retention not in (None, "24h"):
            raise wrong_type("retention", "'24h' or None", self.retention)
        if not isinstance(self.raise_lifetimes, bool):
            raise wrong_type("raise_lifetimes", "True or False", self.raise_lifetimes)


NO_CACHE_FIELDS = Cache(key=False)

_MOVED = {
    "summarizer_model": "summarizer=ebbtide.Summarizer(ask, model=...)",
    "summarizer_timeout": "summarizer=ebbtide.Summarizer(ask, timeout=...)",
    "background": "summarizer=ebbtide.Summarizer(ask, background=True)",
    "scope": "recall=ebbtide.Recall(scope=...)",
}
"""Arguments of `Context` until 0.1, and what replaces them."""


def check_tokens(name: str, value: object) -> int:
    """A whole number of tokens above zero; `2e5` is one."""
    if not _is_number(value) or value < 1 or value != int(value):
        raise wrong_type(name, "a number of tokens, as in 200_000", value)
    return int(value)


def _is_number(value: object) -> TypeGuard[int | float]:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and (isinstance(value, int) or isfinite(value))
    )


def refuse_unknown(names: Iterable[str]) -> None:
    """Raise if there are arguments that `Context` does not have."""
    names = list(names)
    refuse_moved(names)
    if names:
        raise TypeError(f"Context() got an unexpected keyword argument {names[0]!r}")


def refuse_moved(names: Iterable[str]) -> None:
    """Raise if an argument of an earlier version is among these, and say what replaces it."""
    for name in names:
        if name in _MOVED:
            raise BadConfig(f"the argument {name!r} has moved: write {_MOVED[name]}")


def check_settings(**given: object) -> None:
    """Settings of a `Context` by their names."""
    for name, value in given.items():
        description, holds = _EXPECTED[name]
        if not holds(value):
            raise wrong_type(name, description, value)


def wrong_type(name: str, description: str, value: object) -> BadConfig:
    # Show only the type of a long value or of an unknown object.
    plain = isinstance(value, str | int | float | None) and len(repr(value)) <= 40
    shown_value = f"{value!r} ({type(value).__name__})" if plain and value is not None else type(value).__name__
    return BadConfig(f"{name} must be {description}, not {shown_value}")


def _text(value: object) -> bool:
    return isinstance(value, str)


def _path(value: object) -> bool:
    return value is None or isinstance(value, str | os.PathLike)


def _callable(value: object) -> bool:
    return value is None or callable(value)


_EXPECTED: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "model": ("a model's name, as in 'claude-sonnet-5'", _text),
    "session": ("a name, as in 'nightly'", _text),
    "parent": ("the name of another session", _text),
    "tenant": ("the name of who owns the session, as in 'alice'", _text),
    "project": ("a name or a path as text", _text),
    "store": (
        "a directory, the address of a database, a store, or None for memory",
        lambda value: _path(value) or hasattr(value, "open"),
    ),
    "summarizer": (
        "a function that is given a request and returns an answer, an ebbtide.Summarizer, or None",
        lambda value: _callable(value.ask if isinstance(value, Summarizer) else value),
    ),
    "workspace": ("a directory, or None", _path),
    "live": ("a dict from a name to a function, or None", lambda value: value is None or isinstance(value, Mapping)),
    "recall": (
        f"one of {', '.join(map(repr, get_args(RecallBy)))}, or an ebbtide.Recall",
        lambda value: isinstance(value, Recall) or (isinstance(value, str) and value in get_args(RecallBy)),
    ),
    "cache": ("an ebbtide.Cache", lambda value: isinstance(value, Cache)),
    "hooks": ("ebbtide.Hooks, or None", lambda value: value is None or isinstance(value, Hooks)),
    "on_event": ("a function that is given an event, or None", _callable),
    "clock": ("a function that returns seconds, as time.time does", callable),
}
"""What each must be, in words and as a test."""
