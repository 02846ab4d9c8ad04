"""A compaction that a person asks for, as a preview or applied; and the hooks around every compaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ebbtide.core.types import COMPACTION_PASSES, QUOTED, Edit
from ebbtide.summary.layout import read_summary_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Called around every compaction, automatic or manual. An exception from a hook is logged and changes nothing."""

    before: Callable[[Mapping[str, object]], object] | None = None
    """False forbids the compaction this time; a text is added to its focus; anything else lets it go on."""
    after: Callable[[Mapping[str, object]], object] | None = None
    failed: Callable[[Mapping[str, object]], object] | None = None
    """Called when a model's answer could not be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """What a compaction did, or would do."""

    edits: tuple[Edit, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0
    applied: bool = False
    notes: tuple[str, ...] = ()
    again: Callable[[str], Compaction] = field(repr=False, compare=False)

    def apply(self, summary: str = "") -> Compaction:
        """Apply the compaction, with its own summary or with this one. No model is asked again."""
        return self if self.applied and not summary else self.again(summary)

    @property
    def text(self) -> str:
        """All of the replacement text, without the user's own messages."""
        texts = [
            item.text for edit in self.edits if edit.by in COMPACTION_PASSES for item in edit.replacement if not item.id
        ]
        return "\n\n".join(texts)

    @property
    def summary(self) -> str:
        """The model's summary, or the collected facts if no model was asked."""
        for edit in self.edits:
            for item in edit.replacement:
                parts = read_summary_text(item.text) if item.trust == QUOTED and not item.id else None
                if parts is not None:
                    return parts[0] or parts[1]
        return self.text
