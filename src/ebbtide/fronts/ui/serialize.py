"""Items, edits and facts as JSON for the page, with secrets masked.

Texts are cut to what a row shows; the page fetches the rest by handle. Nothing is escaped for HTML: the page shows
text as text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ebbtide.accounting.savings import EditSavings
from ebbtide.audit.history import History, Step
from ebbtide.audit.reasons import explain_reason
from ebbtide.core.stub import stored_names
from ebbtide.core.text.redact import redact
from ebbtide.core.tool_calls import file_path
from ebbtide.core.types import Edit, Item
from ebbtide.core.view import View
from ebbtide.fronts.ui.trace import part_name
from ebbtide.money import SessionCost, add_up
from ebbtide.wire.blocks import group_by_message

Json = dict[str, object]
PREVIEW = 600
"""Characters of an item in a list: about six lines."""
_MARGIN = 4096
"""Characters read beyond a cut before masking, so that a secret is found even if the cut splits it."""
MAX_SIDE = 60_000
"""Characters of one side of a diff: more is slow to compare."""


MAX_COPY = 1_000_000
"""Characters that are copied at once."""


def mask(text: str, length: int = PREVIEW) -> str:
    return redact(text[: length + _MARGIN])[0][:length]


def item_json(entry: Item, *, preview: int = PREVIEW, path: str = "") -> Json:
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
        "text": mask(entry.text, preview),
        "chars": len(entry.text),
    }


def entry_rows(view: View, history: History, steps: Mapping[str, Step], start: int, stop: int) -> list[Json]:
    """Return entries of a request, each with the number of its message in the request. `steps` are by edit."""
    numbers = [message for message, (_, group) in enumerate(group_by_message(view.entries)) for _ in group]
    rows: list[Json] = []
    for index in range(start, min(stop, len(view.entries))):
        entry = view.entries[index]
        edit = view.edit_by_entry.get(entry.id)
        call = view.calls_by_id.get(entry.call_id) if entry.kind == "result" else None
        # A replacement has no handle to fetch the rest by, so all of it is sent.
        row = item_json(entry, preview=MAX_SIDE if edit else PREVIEW, path=file_path(call) if call else "")
        row |= {"place": index, "out": numbers[index], "part": part_name(view, entry)}
        if edit is not None and not _is_kept_original(entry, edit):
            step = steps.get(edit.id)
            row["stub"] = {
                **edit_json(edit),
                "reason": explain_reason(history, step, edit) if step else edit.reason,
                "batch": step.batch.id if step else "",
                "batch_edits": len(step.batch.edits) if step else 0,
                "call": step.turn.number if step else 0,
                "covers": len(covered_items(view, edit)),
            }
        rows.append(row)
    return rows


def _is_kept_original(entry: Item, edit: Edit) -> bool:
    """Whether the entry is an original that a compaction kept."""
    return any(item.id and item.id == entry.id for item in edit.replacement)


def covered_items(view: View, edit: Edit) -> Sequence[Item]:
    """Return the originals that an edit replaced; none for an insertion."""
    first, last = view.index.get(edit.first), view.index.get(edit.last)
    return () if first is None or last is None else view.originals[first : last + 1]


def edit_json(edit: Edit) -> Json:
    return {
        "id": edit.id,
        "by": edit.by,
        "reason": edit.reason,
        "saved": edit.saved,
        "first": edit.first,
        "last": edit.last,
        "handles": stored_names(edit),
    }


def list_batches(history: History, cost: SessionCost) -> list[Json]:
    savings = cost.by_batch
    return [_batch_json(history, step, savings.get(step.batch.id, ())) for step in history.steps]


def _batch_json(history: History, step: Step, entries: Sequence[tuple[EditSavings, EditSavings | None]]) -> Json:
    record, totals = step.batch.record, add_up(entries)
    edits = [
        {
            **edit_json(edit),
            "reason": explain_reason(history, step, edit),
            "what": _describe_edit(step, edit),
            **_savings_json(entry, dollars),
        }
        for edit, (entry, dollars) in zip(step.batch.edits, entries, strict=True)
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
        "held": totals.requests,
        "rewritten": totals.rewritten,
        "worth": round(totals.saved),
        "usd": None if totals.usd is None else round(totals.usd, 6),
        "saved": sum(edit.saved for edit in step.batch.edits),
        "paid": totals.is_paid,
        "edits": edits,
    }


def _savings_json(entry: EditSavings, dollars: EditSavings | None) -> Json:
    """`worth` is in input tokens at full price, `usd` in dollars."""
    break_even = entry.break_even_calls
    return {
        "worth": round(entry.claimed),
        "usd": round(dollars.claimed, 6) if dollars else None,
        "rewritten": entry.edit.rewritten_tokens,
        "breaks_even": None if math.isinf(break_even) else round(break_even, 1),
        "paid_at": entry.paid_since,
    }


def _describe_edit(step: Step, edit: Edit) -> Json:
    """Describe what an edit removed, for the page to phrase."""
    items = step.covered_items(edit)
    call = next((item for item in items if item.kind == "call"), None)
    first = items[0] if items else None
    if first is not None and first.kind == "result" and call is None:
        call = step.find_call(first)
    return {
        "items": len(items),
        "kind": first.kind if first and len(items) == 1 else "call" if call and len(items) == 2 else "",
        "role": first.role if first else "",
        "name": call.name if call else first.name if first else "",
        "path": file_path(call) if call else "",
        "first": items[0].message if items else -1,
        "last": items[-1].message if items else -1,
    }


def edit_sides(history: History, edit_id: str) -> Json | None:
    """Return one edit before and after, for a diff; None if there is no such edit."""
    for step in history.steps:
        for edit in step.batch.edits:
            if edit.id == edit_id:
                # A compaction records the originals that it keeps by id only.
                replacement = [step.original(item) for item in edit.replacement]
                return {
                    **edit_json(edit),
                    "reason": explain_reason(history, step, edit),
                    "what": _describe_edit(step, edit),
                    "batch": step.batch.id,
                    "call": step.turn.number,
                    "at": step.batch.at,
                    "undone": step.undone,
                    "before": list(_side_items(step.covered_items(edit))),
                    "after": list(_side_items(replacement)),
                }
    return None


def original_text(view: View, edit: Edit) -> Json:
    """Return all that an edit replaced as one text to copy, with secrets masked."""
    items = covered_items(view, edit)
    parts, length = list[str](), 0
    for item in items:
        if length >= MAX_COPY:
            break
        title = f"── {item.role} · {item.kind} ──\n" if len(items) > 2 else ""
        # Of a call with its result, the result is what people want; the call says what it was.
        parts.append(f"{title}{item.text}")
        length += len(parts[-1])
    text, secrets = redact("\n\n".join(parts)[:MAX_COPY])
    return {"text": text, "masked": secrets, "complete": length <= MAX_COPY}


def _side_items(items: Iterable[Item]) -> Iterator[Json]:
    remaining = MAX_SIDE
    for item in items:
        row = item_json(item, preview=max(0, remaining))
        remaining -= min(remaining, len(item.text))
        yield row


def facts_json(history: History, items: Sequence[Item]) -> Json:
    """Return the facts by kind, newest last, each with the handle of the item that it comes from."""
    facts = history.collect_facts(items)

    def source(order: int) -> Json:
        return {"handle": facts.handles[order] if 0 <= order < len(facts.handles) else ""}

    return {
        "items": len(facts.handles),
        "words": [source(message.order) | {"text": mask(message.text)} for message in facts.user_messages],
        "stated": [source(constraint.order) | {"text": mask(constraint.text)} for constraint in facts.constraints],
        "files": [
            source(file.last_touched)
            | {
                "path": file.path,
                "did": [verb for verb in ("created", "changed", "deleted", "read") if getattr(file, f"{verb}_at") >= 0],
                "times": file.touch_count,
            }
            for file in sorted(facts.files.values(), key=lambda file: file.last_touched)
        ],
        "commands": [
            source(command.order)
            | {
                "text": mask(command.text),
                "status": command.status,
                "failed": command.has_failed,
                "times": command.run_count,
                "lines": [mask(line) for line in command.key_lines],
            }
            for command in sorted(facts.commands.values(), key=lambda command: command.order)
        ],
        "troubles": [
            source(failure.order)
            | {
                "about": mask(failure.about),
                "line": mask(failure.line),
                "open": failure.resolved_at < 0,
                "by": list(failure.changed_files),
            }
            for failure in facts.failures
        ],
        "todos": [{"text": mask(todo.text), "status": todo.status} for todo in facts.todos.values()],
        "plan": mask(facts.plan.text, 4 * PREVIEW) if facts.plan else "",
    }
