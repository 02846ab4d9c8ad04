"""Mutate inputs so that readers get far into them: JSON by its tree, logs by line, everything else by byte.

All choices come from one `random.Random`, so the same seed gives the same inputs.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

LONGEST = 64 << 10
"""Largest input in bytes. Larger ones test the same code and allow fewer runs."""

ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**53 + 1,
    2**64,
    10**400,
    -(10**30),
    0.1,
    -0.0,
    1e308,
    "",
    " ",
    "\0",
    "\ud83d",
    "\u202e",
    "a" * 300,
    "\x1b]0;x\x07",
    "../../etc/passwd",
    "0",
    "-",
    "９",
    "١",
    [],
    {},
    [[]],
    [{}],
    [None],
    [0],
    {"": ""},
    {"type": None},
    {"type": "text"},
    {"type": "text", "text": None},
    {"role": "user", "content": []},
    {"role": [], "content": {}},
    [[[[[[[[[[[[[[]]]]]]]]]]]]]],
    {"a": {"b": {"c": {"d": {}}}}},
    {"cache_control": {"type": "ephemeral"}},
)
ODD_BYTES: tuple[bytes, ...] = (
    b"",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\r\n",
    b"\n\n",
    b"\r",
    b"\xe2\x80\xa8",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"\\",
    b"\\u",
    b"\\ud83d",
    b"null",
    b"NaN",
    b"Infinity",
    b"1e999",
    b"9" * 5000,
    b"-" * 200,
    b"a-" * 200,
    b"[" * 600,
    b'{"a":' * 300,
    b"data: ",
    b"event: ",
    b"%00",
    b"%2e%2e/",
    b"\x1f\x8b\x08",
    b"0" * 30,
    b"=" * 8,
    b"<" * 50,
    b"&lt;" * 40,
    b" " * 300,
    b"\t",
)


class Mutator:
    """Makes new inputs from known ones."""

    def __init__(self, seeds: Sequence[bytes], random: Random, words: Sequence[bytes] = ()) -> None:
        self.seeds, self.random = seeds, random
        self.tokens = (*ODD_BYTES, *words)

    def input(self) -> bytes:
        """Return one more input, from a seed that we choose."""
        return self.change(self.random.choice(self.seeds))

    def change(self, data: bytes) -> bytes:
        random = self.random
        for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
            data = random.choice((self._by_tree, self._by_tree, self._by_line, self._by_byte))(data)
        return data[:LONGEST]

    # --- by the tree

    def _by_tree(self, data: bytes) -> bytes:
        """Change a part of one JSON value, of one line, or of the body of an HTTP request."""
        head, blank, body = data.partition(b"\r\n\r\n")
        if blank and body:
            changed = self._by_json(body)
            length = b"Content-Length: %d\r\n" % len(changed)
            return re.sub(rb"(?i)Content-Length: *\d+\r\n", length, head + b"\r\n") + b"\r\n" + changed
        return self._by_json(data)

    def _by_json(self, data: bytes) -> bytes:
        lines = data.split(b"\n")
        at = self.random.randrange(len(lines)) if len(lines) > 1 and data[:1] != b"[" else 0
        whole = len(lines) == 1
        prefix = b"data: " if lines[at].startswith(b"data: ") else b""
        tree = _parsed(data if whole else lines[at].removeprefix(prefix))
        if tree is None:
            tree, whole = _parsed(data), True
        if not isinstance(tree, dict | list):
            return self._by_byte(data)
        try:
            changed = _dumped(self._changed(tree), self.random)
        except RecursionError:
            return self._by_byte(data)
        if whole:
            return changed
        lines[at] = prefix + changed
        return b"\n".join(lines)

    def _changed(self, tree: Any) -> Any:
        places = list(_places(tree))
        if not places:
            return self._odd(tree)
        holder, key = self.random.choice(places)
        act = self.random.randrange(8)
        if act == 0:
            del holder[key]
        elif act == 1 and isinstance(holder, list):
            holder[key:key] = [holder[key]] * self.random.choice((1, 2, 40))
        elif act == 2:
            other, there = self.random.choice(places)
            holder[key] = json.loads(json.dumps(other[there]))
        elif act == 3 and isinstance(holder, dict):
            renamed = self.random.choice([*holder, "type", ""])
            holder[renamed] = holder.pop(key)
        elif act == 4:
            holder[key] = [holder[key]] if self.random.random() < 0.5 else {"type": "text", "text": holder[key]}
        elif act == 5 and isinstance(holder[key], str):
            holder[key] = self._text(holder[key])
        elif act == 6 and isinstance(holder, list):
            self.random.shuffle(holder)
        else:
            holder[key] = self._odd(holder[key])
        return tree

    def _odd(self, value: Any) -> Any:
        if isinstance(value, str) and self.random.random() < 0.3:
            return self._text(value)
        return json.loads(json.dumps(self.random.choice(ODD_VALUES)))

    def _text(self, text: str) -> str:
        token = self.random.choice(self.tokens).decode("utf-8", "surrogateescape")
        at = self.random.randrange(len(text) + 1)
        return self.random.choice(
            (text * 2, text[:at], text[:at] + token + text[at:], token * self.random.choice((1, 3, 50)), text.upper())
        )

    # --- by the line

    def _by_line(self, data: bytes) -> bytes:
        lines, random = data.split(b"\n"), self.random
        if len(lines) < 3:
            return self._by_byte(data)
        one, two = random.randrange(len(lines)), random.randrange(len(lines))
        act: Callable[[], object] = random.choice(
            (
                lambda: lines.pop(one),
                lambda: lines.insert(one, lines[two]),
                lambda: lines.insert(one, random.choice(random.choice(self.seeds).split(b"\n"))),
                lambda: lines.__setitem__(slice(one, one + 1), [lines[one][: len(lines[one]) // 2]]),
                lambda: lines.__setitem__(slice(0, len(lines)), [*lines[two:], *lines[:two]]),
                lambda: lines.__setitem__(slice(one, None), []),
            )
        )
        act()
        return b"\n".join(lines)

    # --- by the byte

    def _by_byte(self, data: bytes) -> bytes:
        random = self.random
        at = random.randrange(len(data) + 1)
        end = min(len(data), at + random.choice((1, 1, 2, 4, 16, 200)))
        act = random.randrange(7)
        if act == 0:
            return data[:at] + data[end:]
        if act == 1:
            return data[:at] + random.choice(self.tokens) + data[at:]
        if act == 2:
            return data[:at] + bytes(random.randrange(256) for _ in range(end - at)) + data[end:]
        if act == 3:
            return data[:at]
        if act == 4:
            other = random.choice(self.seeds)
            return data[:at] + other[random.randrange(len(other) + 1) :]
        if act == 5:
            return data[:at] + data[at:end] * random.choice((2, 8, 500)) + data[end:]
        number = struct.pack(random.choice(("<I", ">I", "<H", ">H")), random.choice((0, 1, 255, 0x7FFF, 0xFFFF)))
        return data[:at] + number + data[at + len(number) :]


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _dumped(tree: Any, random: Random) -> bytes:
    """Write JSON, with or without escapes, blanks and an integer that Python itself would not write."""
    compact = {"separators": (",", ":")} if random.random() < 0.5 else {}
    text = json.dumps(tree, ensure_ascii=random.random() < 0.5, **compact)  # type: ignore[arg-type]
    return text.encode("utf-8", "surrogatepass")


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Yield each container with each of its keys."""
    found: list[tuple[Any, Any]] = []
    todo = [tree]
    while todo and len(found) < 5000:
        one = todo.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one))
        for key in keys:
            found.append((one, key))
            if isinstance(one[key], dict | list):
                todo.append(one[key])
    return found
