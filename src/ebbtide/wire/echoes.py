"""Stand-ins that went out, known again when a client takes our body for its history and feeds it back.

An id tells equals apart by counting them. Where the first of two left, its stand-in tells that it was there: so the
second stays the second, and an edit of the first does not take it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ebbtide.core.types import Edit
from ebbtide.wire.protocol import Wire, fingerprint


class Left(NamedTuple):
    """A part of all that ever left: what a fold stands for is all before it, too."""

    all: list[tuple[str, int]]
    """Content, and how often it had occurred when it left."""
    first: int
    end: int

    def items(self) -> Sequence[tuple[str, int]]:
        return self.all[self.first : self.end]


@dataclass(slots=True)
class StandIns:
    """Of one session, in the order in which its edits were made."""

    marks: dict[str, list[Left]] = field(default_factory=dict)
    """From how a stand-in looks to what left for it. Several may look alike: the first of them is of the first edit."""
    _left: list[tuple[str, int]] = field(default_factory=list)
    """All that ever left, in order."""
    _known: set[tuple[str, str]] = field(default_factory=set)

    def learn(self, wire: Wire, edits: Sequence[Edit]) -> StandIns:
        """These too. What is known already is passed over."""
        for edit in edits:
            known = (wire.name, edit.id)
            if known in self._known:
                continue
            self._known.add(known)
            before = len(self._left)
            self._left += _ends(edit).items()
            # What stands for a run hides the edits within it, and their stand-ins do not come back.
            left = Left(self._left, before if edit.first == edit.last else 0, len(self._left))
            for mark in _looks(wire, edit):
                self.marks.setdefault(mark, []).append(left)
        return self


def stand_in_marks(wire: Wire, messages: Sequence[Any]) -> set[str]:
    """Fingerprints of all blocks of these messages, as a client would feed them back."""
    found = set()
    for n, message in enumerate(messages):
        for block in wire.blocks(message, f"{wire.key}.{n}"):
            found.add(fingerprint(block.role, block.kind, block.canonical))
    return found


def _ends(edit: Edit) -> dict[str, int]:
    """The items at its ends that left. One that is carried along comes back itself."""
    carried = {item.id for item in edit.replacement}
    left: dict[str, int] = {}
    for id in (edit.first, edit.last):
        mark, _, number = id.rpartition("-")
        if id not in carried and number.isdecimal():
            left[mark] = max(left.get(mark, 0), int(number) + 1)
    return left


def _looks(wire: Wire, edit: Edit) -> set[str]:
    authored = [item for item in edit.replacement if not item.id]
    if wire.name == "anthropic":
        # Where a result failed its stand-in says so too.
        failed = {"type": "tool_result", "is_error": True}
        results = [item for item in authored if item.kind == "result"]
        authored += [replace(item, raw={**failed, "tool_use_id": item.call_id}) for item in results]
    return {mark for item in authored for mark in stand_in_marks(wire, wire.compose(None, [item]))}
