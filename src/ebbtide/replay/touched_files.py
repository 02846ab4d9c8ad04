"""Which files an agent changed and read, from its recorded tool calls alone.

This does not use `facts`, which the replay measures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ebbtide.core.tool_calls import argument_strings, call_arguments, is_failed_result
from ebbtide.core.types import Item

_CHANGES = frozenset(("Edit", "Write", "MultiEdit", "NotebookEdit", "edit", "write"))
_READS = frozenset(("Read", "read"))
_PATCH_FILE = re.compile(r"^\*\*\* (?:Add|Update) File: (.+)$", re.MULTILINE)
_SHELL_READ = re.compile(r"^(?:sed -n '\d+,\d+p'|cat|nl -ba) ([\w./@+-]+)$")
"""Codex reads files by shell. Only the unambiguous forms count."""
_KEYS = ("file_path", "path", "notebook_path")


class TouchedFiles(NamedTuple):
    changed: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()
    """Read but not changed."""


def find_touched_files(items: Sequence[Item]) -> TouchedFiles:
    """Collect the paths that successful tool calls name."""
    succeeded = {item.call_id for item in items if item.kind == "result" and not is_failed_result(item)}
    changed, read = set[str](), set[str]()
    for call in items:
        if call.kind != "call" or call.call_id not in succeeded:
            continue
        arguments = call_arguments(call)
        path = next((str(arguments[key]) for key in _KEYS if arguments.get(key)), "")
        if call.name in _CHANGES and path:
            changed.add(path)
        elif call.name in _READS and path:
            read.add(path)
        elif call.name == "apply_patch":
            changed.update(path for text in argument_strings(call.text) for path in _PATCH_FILE.findall(text))
        elif shell_read := _SHELL_READ.match(str(arguments.get("cmd", ""))):
            read.add(shell_read[1])
    return TouchedFiles(frozenset(changed), frozenset(read - changed))


def count_mentioned(paths: Iterable[str], text: str) -> int:
    """Count the paths that a text names in full or by their last two parts, as people and models shorten them."""
    return sum(1 for path in paths if path in text or "/".join(path.split("/")[-2:]) in text)
