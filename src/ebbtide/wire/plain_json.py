"""A request from a program may hold any object. Read is what JSON can say; anything else is refused by its place.

SDK objects are written as their SDK writes them. What is plain already stays the same object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from operator import is_
from typing import Any

from ebbtide.core.errors import BadRequest

Origins = dict[int, tuple[Any, Any]]
"""From the id of a plain copy to the copy and what it was made from."""

_ATOMS = frozenset((str, bool, type(None)))
_CONTAINERS = frozenset((dict, list))
_DEEP = 200
"""Levels of nesting. Every function that walks a message recurses, and Python ends at a thousand calls."""
_BITS = 13_000
"""Of a whole number: above about 14,000 Python does not write it."""


def to_plain_messages(messages: list[Any], origin: Origins, path: str, first: int = 0) -> list[Any]:
    """The messages as JSON types; the very same list where they are plain already.

    `path` and `first` say where they stand in the request, for whoever has to find the one that is refused.
    """
    if is_plain(messages):
        return messages
    plain = [_plain(message, origin, f"{path}.{n}", _DEEP) for n, message in enumerate(messages, first)]
    return messages if all(map(is_, plain, messages)) else plain


def to_plain(value: Any, path: str) -> Any:
    """One part of a request beside its messages, as JSON types."""
    return value if is_plain([value]) else _plain(value, {}, path, _DEEP)


def is_plain(values: Sequence[Any]) -> bool:
    """Whether there is nothing to do, told by exact types; most messages are dicts, lists and strings."""
    level: list[Any] = [values]
    for _ in range(_DEEP):
        above, level = level, []
        for container in above:
            if type(container) is dict:
                for key, part in container.items():
                    if type(key) is not str:
                        return False
                    if type(part) not in _ATOMS:
                        level.append(part)
            else:
                level += [part for part in container if type(part) not in _ATOMS]
        if not level:
            return True
        numbers = [part for part in level if type(part) not in _CONTAINERS]
        if numbers:
            if not all(map(_is_number, numbers)):
                return False
            level = [part for part in level if type(part) in _CONTAINERS]
    return False


def _is_number(value: Any) -> bool:
    """A number that JSON has: neither endless nor without a value, and one that Python can write."""
    if type(value) is int:
        return value.bit_length() < _BITS
    return type(value) is float and isfinite(value)


def is_equal(left: Any, right: Any) -> bool:
    """Whether two parts of requests are equal. Foreign objects may refuse to be compared: they are not."""
    try:
        return bool(left == right)
    except Exception:  # noqa: BLE001 - whatever a foreign object raises; it is refused when it is read
        return False


def _plain(value: Any, origin: Origins, path: str, deep: int) -> Any:
    if deep < 0:
        raise BadRequest(f"nested more than {_DEEP} levels deep, or in a circle", path=_brief(path))
    if isinstance(value, dict):
        return _plain_dict(value, origin, path, deep)
    if isinstance(value, list):
        plain_list = [_plain(element, origin, f"{path}.{n}", deep - 1) for n, element in enumerate(value)]
        if all(map(is_, plain_list, value)):
            return value
        origin[id(plain_list)] = (plain_list, value)
        return plain_list
    if isinstance(value, tuple):
        return [_plain(one, origin, f"{path}.{n}", deep - 1) for n, one in enumerate(value)]
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int | float):
        return _number(value, path)
    if hasattr(type(value), "model_dump"):
        dumped = _plain(_dump(value, path), {}, path, deep - 1)
        origin[id(dumped)] = (dumped, value)
        return dumped
    raise BadRequest(f"{type(value).__name__} is not JSON: make it a text, a number, a list or a dict", path=path)


def _plain_dict(value: dict[Any, Any], origin: Origins, path: str, deep: int) -> Mapping[str, Any]:
    plain: dict[str, Any] = {}
    for key, part in value.items():
        if not isinstance(key, str):
            raise BadRequest(f"a key must be a text, not a {type(key).__name__}", path=path)
        plain[key] = _plain(part, origin, f"{path}.{key}", deep - 1)
    if all(plain[key] is part for key, part in value.items()):
        return value
    origin[id(plain)] = (plain, value)
    return plain


def _number(value: int | float, path: str) -> int | float:
    if isinstance(value, int):
        if value.bit_length() < _BITS:
            return value
        raise BadRequest(f"a whole number of {value.bit_length():,} bits is too long", path=path)
    if isfinite(value):
        return value
    raise BadRequest(f"{value!r} is not JSON", path=path)


def _dump(value: Any, path: str) -> Any:
    """As the SDKs themselves send it: only what was set."""
    try:
        return value.model_dump(mode="json", exclude_unset=True, by_alias=True)
    except Exception as failed:
        problem = f"a {type(value).__name__} could not be written as JSON: {type(failed).__name__}"
        raise BadRequest(problem, path=path) from failed


def _brief(path: str) -> str:
    return path if len(path) <= 120 else f"{path[:120]}..."
