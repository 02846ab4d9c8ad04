"""Names other compactors that work on the same conversation. What they do is left alone.

Two of them remove the same text twice, or one of them never acts, and the prompt cache suffers from both.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ebbtide.core.view import View
from ebbtide.wire.reader import Request
from ebbtide.wire.requests import find_provider_compaction

_MIN_BLOCKS = 2
"""Missing blocks that show another compactor. A client may well change one: an answer that the user edited."""


@dataclass(slots=True)
class OverlapGuard:
    """Looks at each request of one session, and names each kind of overlap once."""

    _has_named: set[str] = field(default_factory=set)

    def check(self, request: Request, last_view: View | None) -> tuple[str, ...]:
        """Return notes on other compactors. `last_view` is that of the request before."""
        asked = find_provider_compaction(request.body.tree)
        notes = []
        if asked and self._is_new("provider"):
            notes.append(
                f"the request asks the provider to remove content too ({asked}). It was left as it is: "
                "switch off one of the two"
            )
        missing = _count_missing(request, last_view) if last_view is not None else 0
        if missing >= _MIN_BLOCKS and self._is_new("history"):
            notes.append(
                f"{missing} blocks that were sent before are missing from the middle of the history, and Ebbtide did "
                "not remove them: another program summarizes or shortens it too. Switch off one of the two"
            )
        return tuple(notes)

    def _is_new(self, kind: str) -> bool:
        is_new = kind not in self._has_named
        self._has_named.add(kind)
        return is_new


def _count_missing(request: Request, last_view: View) -> int:
    """Count the model's texts, calls and results that were sent as they are and are gone, though later ones are there.

    A user who goes back removes the newest ones, and clients move reminders and drop old thinking: none of these count.
    """
    if request.unchanged_items >= len(last_view.originals):
        return 0
    present = {item.id for item in request.items}
    sent = [entry for entry in last_view.entries if entry.id in last_view.index]  # not our replacements
    while sent and sent[-1].id not in present:
        sent.pop()
    return sum(entry.id not in present and entry.role != "user" and entry.kind != "thinking" for entry in sent)
