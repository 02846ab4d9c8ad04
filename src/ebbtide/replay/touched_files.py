"""Which files an agent changed and read, told from its recorded calls alone.

On purpose not by the ledger: what it guesses is measured here, and must not be its own yardstick.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ebbtide.core.tool_calls import arguments, failed
from ebbtide.core.types import Item
from ebbtide.replay.message_index import strings

_CHANGES = frozenset(("Edit", "Write", "MultiEdit", "NotebookEdit", "edit", "write"))
_READS = frozenset(("Read", "read"))
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update) File: (.+)$", re.MULTILINE)
_SHOWN = re.compile(r"^(?:sed -n '\d+,\d+p'|cat|nl -ba) ([\w./@+-]+)$")
"""Codex reads by shell: the plain forms that nobody can misread."""
_KEYS = ("file_path", "path", "notebook_path")


class Touched(NamedTuple):
    changed: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()
    """Only read, not changed."""


def touched(items: Sequence[Item]) -> Touched:
    """Paths as the calls name them, of calls that succeeded."""
    good = {item.call_id for item in items if item.kind == "result" and not failed(item)}
    changed, read = set[str](), set[str]()
    for call in items:
        if call.kind != "call" or call.call_id not in good:
            continue
        given = arguments(call)
        path = next((str(given[key]) for key in _KEYS if given.get(key)), "")
        if call.name in _CHANGES and path:
            changed.add(path)
        elif call.name in _READS and path:
            read.add(path)
        elif call.name == "apply_patch":
            changed.update(found for text in strings(call.text) for found in _PATCHED.findall(text))
        elif shown := _SHOWN.match(str(given.get("cmd", ""))):
            read.add(shown[1])
    return Touched(frozenset(changed), frozenset(read - changed))


def named(paths: Iterable[str], text: str) -> int:
    """How many of them the text names: whole, or by the last two parts, which is how people and models shorten them."""
    return sum(1 for path in paths if path in text or "/".join(path.split("/")[-2:]) in text)
