"""A11: the body must survive JSON and UTF-8. Lone surrogates, NaN and infinities do not.

Clients cut strings inside a surrogate pair, and the half that is left makes every later request fail. A half becomes
U+FFFD, two halves that met again become their character, and a number JSON cannot write becomes null.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ebbtide.wire.validity.findings import Finding, Json

DEPTH = 256
"""Deeper nesting is an attack or a bug: Python's own JSON gives up near 1,000 levels."""


def is_sound(value: Json, depth: int = DEPTH) -> bool:
    """True for what is plainly fine: called on every request, so it builds nothing, and calls itself for the rare."""
    if isinstance(value, str):
        return value.isascii() or _encodes(value)
    if isinstance(value, dict):
        if depth <= 0:
            return False
        for key, part in value.items():
            if not (type(key) is str and key.isascii()) and not is_sound(key):
                return False
            if not (type(part) is str and part.isascii()) and not is_sound(part, depth - 1):
                return False
        return True
    if isinstance(value, (list, tuple)):
        return depth > 0 and all(is_sound(part, depth - 1) for part in value)
    return not isinstance(value, float) or math.isfinite(value)


def unsound(value: Json, path: str) -> Iterator[Finding]:
    """Every place under `path` that JSON or UTF-8 refuses. Nesting too deep has no repair, and ends the search."""
    stack = [(value, path, 0)]
    while stack:
        part, here, depth = stack.pop()
        if isinstance(part, dict | list | tuple) and depth >= DEPTH:
            yield Finding("A11", path, "The request body is not valid JSON: nested too deep")
            return
        if isinstance(part, dict):
            stack += [(child, f"{here}.{_printable(key)}".lstrip("."), depth + 1) for key, child in part.items()]
            if not all(is_sound(key) for key in part):
                yield Finding("A11", here, "The request body is not valid JSON: surrogates not allowed", "U+FFFD")
        elif isinstance(part, list | tuple):
            stack += [(child, f"{here}.{index}", depth + 1) for index, child in enumerate(part)]
        elif isinstance(part, str) and not is_sound(part):
            yield Finding("A11", here, "The request body is not valid JSON: no low surrogate in string", "U+FFFD")
        elif isinstance(part, float) and not math.isfinite(part):
            yield Finding("A11", here, "The request body is not valid JSON: NaN or Infinity", "null")


def made_sound(value: Json) -> Json:
    """The same object where nothing is wrong with it, so that untouched parts stay byte-equal."""
    if is_sound(value):
        return value
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {made_sound(key): made_sound(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [made_sound(part) for part in value]
    return None


def unsound_parts(body: Mapping[str, Json], key: str, since: int) -> list[Finding]:
    """What is unsound in the list under `key` from `since` on, and in what was not accepted with the part before it."""
    known = (key, "system", "instructions", "tools") if since else (key,)
    rest = {name: value for name, value in body.items() if name not in known}
    new = body[key][since:]
    if is_sound(rest) and all(is_sound(part) for part in new):
        return []
    inside = (found for at, part in enumerate(new, since) for found in unsound(part, f"{key}.{at}"))
    return [*unsound(rest, ""), *inside]


def made_sound_parts(body: Mapping[str, Json], key: str, since: int) -> Mapping[str, Json]:
    rest = made_sound({name: value for name, value in body.items() if name != key})
    return {**rest, key: [*body[key][:since], *map(made_sound, body[key][since:])]}


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _printable(key: Json) -> str:
    return str(key).encode("ascii", "backslashreplace").decode()
