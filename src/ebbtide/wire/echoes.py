"""Replacements that a client sends back as its own history, because it keeps the body we sent.

An id tells equal items apart by counting them. If the first of two was replaced, its replacement shows that it was
there: so the second stays the second, and the edit of the first does not apply to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ebbtide.core.types import Edit
from ebbtide.wire.protocol import Wire


class ReplacedItems(NamedTuple):
    """A slice of all items that edits replaced. A compaction covers everything before it, too."""

    all: list[tuple[str, int]]
    """Fingerprint, and how often it had occurred when it was replaced."""
    first: int
    end: int

    def items(self) -> Sequence[tuple[str, int]]:
        return self.all[self.first : self.end]


@dataclass(slots=True)
class EchoedEdits:
    """The replacements of one session, in the order of their edits."""

    by_fingerprint: dict[str, list[ReplacedItems]] = field(default_factory=dict)
    """What a block with this fingerprint replaces. Equal replacements are listed in the order of their edits."""
    _replaced: list[tuple[str, int]] = field(default_factory=list)
    _known: set[tuple[str, str]] = field(default_factory=set)

    def learn(self, wire: Wire, edits: Sequence[Edit]) -> EchoedEdits:
        """Add edits; those that are known already are skipped."""
        for edit in edits:
            key = (wire.name, edit.id)
            if key in self._known:
                continue
            self._known.add(key)
            start = len(self._replaced)
            self._replaced += _replaced_ends(edit).items()
            # The replacement of a run hides the edits within it, and their replacements do not come back.
            replaced = ReplacedItems(self._replaced, start if edit.first == edit.last else 0, len(self._replaced))
            for mark in _replacement_fingerprints(wire, edit):
                self.by_fingerprint.setdefault(mark, []).append(replaced)
        return self


def block_fingerprints(wire: Wire, messages: Sequence[Any]) -> list[str]:
    """Return the fingerprints of all blocks of these messages, in order."""
    return [
        block.fingerprint
        for n, message in enumerate(messages)
        for block in wire.messages.split(message, f"{wire.list_key}.{n}")
    ]


def _replaced_ends(edit: Edit) -> dict[str, int]:
    """Count the items at the edit's ends. One that the edit keeps comes back as itself, and is not replaced."""
    kept_ids = {item.id for item in edit.replacement}
    replaced: dict[str, int] = {}
    for id in (edit.first, edit.last):
        mark, _, number = id.rpartition("-")
        if id not in kept_ids and number.isdecimal():
            replaced[mark] = max(replaced.get(mark, 0), int(number) + 1)
    return replaced


def _replacement_fingerprints(wire: Wire, edit: Edit) -> set[str]:
    forms = [form for item in edit.replacement if not item.id for form in wire.messages.replacement_forms(item)]
    return {mark for item in forms for mark in block_fingerprints(wire, wire.messages.join(None, [item]))}
