"""A fold that a person asked for: looked at first if they like, then made. And what may be said around one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ebbtide.core.types import COMPACTION_PASSES, QUOTED, Edit
from ebbtide.summary.layout import read_summary_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Called around every fold, whoever asked for it. An exception from a hook is logged and changes nothing."""

    before: Callable[[Mapping[str, object]], object] | None = None
    """False forbids the fold this time; words are added to its focus; anything else lets it go on."""
    after: Callable[[Mapping[str, object]], object] | None = None
    failed: Callable[[Mapping[str, object]], object] | None = None
    """A model was asked and its answer was of no use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """What a fold does, or would do."""

    edits: tuple[Edit, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0
    applied: bool = False
    notes: tuple[str, ...] = ()
    again: Callable[[str], Compaction] = field(repr=False, compare=False)

    def apply(self, summary: str = "") -> Compaction:
        """Make it, with the summary as it stands or as a person put it. No model is asked a second time."""
        return self if self.applied and not summary else self.again(summary)

    @property
    def text(self) -> str:
        """All that will stand for what leaves, but for the user's own messages."""
        authored = [
            item.text for edit in self.edits if edit.by in COMPACTION_PASSES for item in edit.replacement if not item.id
        ]
        return "\n\n".join(authored)

    @property
    def summary(self) -> str:
        """A model's words, where one was asked; else what the ledger says."""
        for edit in self.edits:
            for item in edit.replacement:
                parts = read_summary_text(item.text) if item.trust == QUOTED and not item.id else None
                if parts is not None:
                    return parts[0] or parts[1]
        return self.text
