"""Items, edits and facts as JSON for the page. Secrets are masked here, on the way out, as everywhere people look.

Texts are cut to what a row shows; the rest is fetched by handle when somebody opens it. Nothing is made safe for HTML:
the page shows text as text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ebbtide.accounting.savings import EditSavings
from ebbtide.audit.history import History, Step
from ebbtide.core.stub import parse
from ebbtide.core.text.redact import redact
from ebbtide.core.tool_calls import file_path
from ebbtide.core.types import Edit, Item
from ebbtide.core.view import View
from ebbtide.fronts.ui.trace import part_of
from ebbtide.money import SessionCost
from ebbtide.wire.blocks import group_by_message

Json = dict[str, object]
PREVIEW = 600
"""Characters of an item in a list: some six lines."""
_MARGIN = 4096
"""Read beyond a cut before masking, so that a secret that the cut would split is known whole."""
SIDE = 60_000
"""Characters of one side of a diff: more is slow to compare and nobody reads it there."""


def masked(text: str, most: int) -> str:
    return redact(text[: most + _MARGIN])[0][:most]


def item_told(entry: Item, *, preview: int = PREVIEW, path: str = "") -> Json:
    return {
        "id": entry.id,
        "message": entry.message,
        "role": entry.role,
        "kind": entry.kind,
        "name": entry.name,
        "path": path or (file_path(entry) if entry.kind == "call" else ""),
        "tokens": entry.tokens,
        "tier": entry.trust,
        "source": entry.source,
        "pinned": entry.pinned,
        "text": masked(entry.text, preview),
        "chars": len(entry.text),
    }


def rows_told(view: View, batches: Mapping[str, str], start: int, stop: int) -> list[Json]:
    """Entries of a request as rows, each with the message it went out in."""
    numbers = [out for out, (_, group) in enumerate(group_by_message(view.entries)) for _ in group]
    told: list[Json] = []
    for place in range(start, min(stop, len(view.entries))):
        entry = view.entries[place]
        edit = view.edit_by_entry.get(entry.id)
        call = view.calls_by_id.get(entry.call_id) if entry.kind == "result" else None
        # A stand-in has no handle of its own: what is shown of it must be all of it.
        row = item_told(entry, preview=SIDE if edit else PREVIEW, path=file_path(call) if call else "")
        row |= {"place": place, "out": numbers[place], "part": part_of(view, entry)}
        if edit is not None and not _carried(entry, edit):
            row["stub"] = {**edit_told(edit), "batch": batches.get(edit.id, ""), "covers": len(covered(view, edit))}
        told.append(row)
    return told


def _carried(entry: Item, edit: Edit) -> bool:
    """An original that a fold kept: it stands for itself."""
    return any(item.id and item.id == entry.id for item in edit.replacement)


def covered(view: View, edit: Edit) -> Sequence[Item]:
    """The originals that an edit took out; empty for an insertion."""
    first, last = view.index.get(edit.first), view.index.get(edit.last)
    return () if first is None or last is None else view.originals[first : last + 1]


def edit_told(edit: Edit) -> Json:
    return {
        "id": edit.id,
        "by": edit.by,
        "reason": edit.reason,
        "saved": edit.saved,
        "first": edit.first,
        "last": edit.last,
        "handles": handles_of(edit),
    }


def handles_of(edit: Edit) -> list[str]:
    """Names under which the content is kept: of the edit's own record, or what its stub says."""
    told = [blob.name for blob in edit.blobs]
    stubs = [stub for item in edit.replacement if (stub := parse(item.text)) is not None]
    return list(dict.fromkeys([*told, *(stub.handle for stub in stubs if stub.handle)]))


def batches_told(history: History, accounts: SessionCost) -> list[Json]:
    booked = accounts.by_batch
    return [_batch_told(step, booked.get(step.batch.id, ())) for step in history.steps]


def _batch_told(step: Step, entries: Sequence[tuple[EditSavings, EditSavings | None]]) -> Json:
    record = step.batch.record
    edits = [
        {**edit_told(edit), "what": _what(step, edit), **_booked(entry, paid)}
        for edit, (entry, paid) in zip(step.batch.edits, entries, strict=True)
    ]
    return {
        "id": step.batch.id,
        "call": step.turn.number,
        "at": step.batch.at,
        "policy": record.get("policy"),
        "level": record.get("level"),
        "before": record.get("tokens_before"),
        "after": record.get("tokens_after"),
        "undone": step.undone,
        "held": max((entry.calls for entry, _ in entries), default=0),
        "rewritten": sum(entry.change.after for entry, _ in entries),
        "worth": round(sum(entry.told for entry, _ in entries)),
        "usd": round(sum(paid.told for _, paid in entries if paid), 6) if any(paid for _, paid in entries) else None,
        "saved": sum(edit.saved for edit in step.batch.edits),
        "edits": edits,
    }


def _booked(entry: EditSavings, paid: EditSavings | None) -> Json:
    """`worth` in input tokens at full price, `usd` in dollars: no more than the bills show."""
    even = entry.breaks_even
    return {
        "worth": round(entry.told),
        "usd": round(paid.told, 6) if paid else None,
        "rewritten": entry.change.after,
        "breaks_even": None if math.isinf(even) else round(even, 1),
        "paid_at": entry.paid,
    }


def _what(step: Step, edit: Edit) -> Json:
    """What an edit took out, for the page to put into words."""
    taken = step.covered(edit)
    call = next((item for item in taken if item.kind == "call"), None)
    one = taken[0] if taken else None
    if one is not None and one.kind == "result" and call is None:
        call = step.call_of(one)
    return {
        "items": len(taken),
        "kind": one.kind if one and len(taken) == 1 else "call" if call and len(taken) == 2 else "",
        "role": one.role if one else "",
        "name": call.name if call else one.name if one else "",
        "path": file_path(call) if call else "",
        "first": taken[0].message if taken else -1,
        "last": taken[-1].message if taken else -1,
    }


def sides_told(history: History, edit_id: str) -> Json | None:
    """Before and after of one edit, for a diff; None where there is no such edit."""
    for step in history.steps:
        for edit in step.batch.edits:
            if edit.id == edit_id:
                # A fold names what it carries along by id alone.
                put = [step.original(item) for item in edit.replacement]
                return {
                    **edit_told(edit),
                    "what": _what(step, edit),
                    "batch": step.batch.id,
                    "call": step.turn.number,
                    "at": step.batch.at,
                    "undone": step.undone,
                    "before": list(_side(step.covered(edit))),
                    "after": list(_side(put)),
                }
    return None


def _side(items: Iterable[Item]) -> Iterator[Json]:
    left = SIDE
    for item in items:
        told = item_told(item, preview=max(0, left))
        left -= min(left, len(item.text))
        yield told


def ledger_told(history: History, items: Sequence[Item]) -> Json:
    """The facts by kind, newest last, each with the handle of the item that it was seen in."""
    facts = history.ledger(items)

    def at(order: int) -> str:
        return facts.handles[order] if 0 <= order < len(facts.handles) else ""

    return {
        "items": len(facts.handles),
        "words": [{"handle": at(one.order), "text": masked(one.text, PREVIEW)} for one in facts.user_messages],
        "stated": [{"handle": at(one.order), "text": masked(one.text, PREVIEW)} for one in facts.constraints],
        "files": [
            {
                "path": one.path,
                "did": [verb for verb in ("created", "changed", "deleted", "read") if getattr(one, f"{verb}_at") >= 0],
                "times": one.touch_count,
                "handle": at(one.last_touched),
            }
            for one in sorted(facts.files.values(), key=lambda one: one.last_touched)
        ],
        "commands": [
            {
                "handle": at(one.order),
                "text": masked(one.text, PREVIEW),
                "status": one.status,
                "failed": one.has_failed,
                "times": one.run_count,
                "lines": [masked(line, PREVIEW) for line in one.key_lines],
            }
            for one in sorted(facts.commands.values(), key=lambda one: one.order)
        ],
        "troubles": [
            {
                "handle": at(one.order),
                "about": masked(one.about, PREVIEW),
                "line": masked(one.line, PREVIEW),
                "open": one.resolved_at < 0,
                "by": list(one.changed_files),
            }
            for one in facts.failures
        ],
        "todos": [{"text": masked(one.text, PREVIEW), "status": one.status} for one in facts.todos.values()],
        "plan": masked(facts.plan.text, 4 * PREVIEW) if facts.plan else "",
    }  # fmt: skip
