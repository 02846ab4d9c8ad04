"""What a plan and its outcome are worth telling, as events with the fields that the seeds' telemetry has."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ebbtide.core.planner import Failure, Plan
from ebbtide.core.types import COMPACTION_PASSES, Edit, Item, Trigger
from ebbtide.runtime.report import Event
from ebbtide.wire.protocol import Repair

_log = logging.getLogger("ebbtide")


@dataclass(slots=True)
class FailureLog:
    """Passes of one session that broke. Each is logged once, with where it broke."""

    _logged: set[str] = field(default_factory=set)

    def report(self, failed: Sequence[Failure], event: Callable[..., None]) -> None:
        """An event for each, at every request."""
        for one in failed:
            self.log(f"the pass {one.name}", "it is left out", one.error)
            event("pass_failed", by=one.name, reason=one.reason)

    def log(self, name: str, outcome: str, error: Exception) -> None:
        if name not in self._logged:
            self._logged.add(name)
            _log.error("%s failed; %s", name, outcome, exc_info=error)


def request_events(
    session: str,
    made: Plan | None,
    edits: Sequence[Edit],
    notes: Sequence[str],
    repairs: Sequence[Repair],
    trigger: Trigger,
) -> Iterator[Event]:
    if made is not None and edits:
        yield from _persisted_events(session, made, edits)
        yield _microcompact_event(session, made, edits, trigger)
    for edit in edits:
        fields = {"by": edit.by, "reason": edit.reason, "saved": edit.saved, "id": edit.id}
        yield Event(kind="edit", session=session, fields=fields)
    for repair in repairs:
        yield Event(kind="repair", session=session, fields={"rule": repair.rule, "path": repair.path})
    for note in notes:
        yield Event(kind="store", session=session, fields={"message": note})


def _persisted_events(session: str, made: Plan, edits: Sequence[Edit]) -> Iterator[Event]:
    """R114, for each result whose content went to disk."""
    for edit in edits:
        if not edit.blobs or not edit.replacement or edit.by in COMPACTION_PASSES:
            continue
        item, put = _covered_item(made, edit), edit.replacement[0]
        fields = {
            "toolName": item.name,
            "originalSizeBytes": len(item.text),
            "persistedSizeBytes": len(put.text),
            "estimatedOriginalTokens": item.tokens,
            "estimatedPersistedTokens": put.tokens,
        }
        yield Event(kind="result_persisted", session=session, fields=fields)


def _microcompact_event(session: str, made: Plan, edits: Sequence[Edit], trigger: Trigger) -> Event:
    """R244, once a batch; with what R147 wants in a boundary."""
    saved = sum(edit.saved for edit in edits)
    fields = {
        "toolsCompacted": sum(1 for edit in edits if edit.replacement and edit.replacement[0].kind == "result"),
        "totalUncompactedTokens": made.tokens_before,
        "tokensAfterCompaction": made.tokens_after,
        "tokensSaved": saved,
        "triggerType": "manual" if trigger == "manual" else "auto",
        "compactedToolIds": [
            edit.replacement[0].call_id for edit in edits if edit.replacement and edit.replacement[0].call_id
        ],
    }
    return Event(kind="microcompact", session=session, fields=fields)


def _covered_item(made: Plan, edit: Edit) -> Item:
    return made.before.originals[made.before.index[edit.first]]
