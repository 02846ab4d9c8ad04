"""Saves a large tool result to disk when it arrives; the model gets a preview and the way to the rest.

Runs before anything truncates: what was saved can be read again, what was cut cannot (R101, R104).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Literal

from ebbtide.core import texts
from ebbtide.core.offload import Form, Offloader, describe, readable
from ebbtide.core.planner import PlanInput
from ebbtide.core.stub import HANDLE, Template, render
from ebbtide.core.text.preview import Preview, essence
from ebbtide.core.tool_calls import RECALL_TOOLS, call_arguments, describe_item, file_path, tool_name
from ebbtide.core.types import Edit, Item
from ebbtide.core.view import View

Unit = Literal["chars", "bytes", "tokens"]


def offload_results(
    view: View,
    plan_input: PlanInput,
    *,
    limit: int = 50_000,  # characters; about 12k tokens, 6 % of a 200k window (D5)
    unit: Unit = "chars",  # of the limit
    per_tool: Mapping[str, int] = MappingProxyType({}),  # limits by tool
    preview: Preview = essence(600),  # noqa: B008 - a value; the first lines and the errors
    stub: Template = render,
    form: Form = readable,
) -> Iterator[Edit]:
    """Save new results over their tool's limit to disk and show a preview. Images stay: they have no text (R107)."""
    offloader = Offloader(by="offload_results", view=view, plan_input=plan_input)
    for entry in view.entries[plan_input.first_unsent :]:
        if entry.kind != "result" or entry.media or entry.locked or entry.pinned or view.is_ours(entry):
            continue
        max_size = per_tool.get(tool_name(view, entry), limit)
        if unit == "tokens" and form is readable and entry.tokens <= max_size:
            # Counted already when it was read. Counting again would double the cost of a first read.
            continue
        size = _measure(entry, unit, form, plan_input)
        if size <= max_size:
            continue
        saved_file = _recalled_file(view, entry, plan_input)
        if saved_file is None:
            yield offloader.stub_result(entry, stub, f"{size} {unit}, over {max_size}", preview=preview, form=form)
        else:
            yield from _first_lines(offloader, entry, saved_file, plan_input.budget.message_budget // 4)


def _recalled_file(view: View, entry: Item, plan_input: PlanInput) -> str | None:
    """Return the saved file that the model read back, empty if it did so with our tools; None if it is another result.

    Saved again, what is read back would be read again, without end. So it stays whole up to a quarter of the room.
    """
    if tool_name(view, entry) in RECALL_TOOLS:
        return ""
    call = view.calls_by_id.get(entry.call_id)
    directory = plan_input.blob_names.directory if plan_input.blob_names else ""
    if call is None or not directory or directory == HANDLE:
        return None
    # By the file that it names, or in a command.
    texts_of_call = (file_path(call), *(text for text in call_arguments(call).values() if isinstance(text, str)))
    named = re.compile(re.escape(directory) + r"/[\w.-]*\w")
    return next((match[0] for text in texts_of_call if (match := named.search(text))), None)


def _first_lines(offloader: Offloader, entry: Item, saved_file: str, room: int) -> Iterator[Edit]:
    """Keep as many whole lines as the room has space for, and say which they are. Nothing is saved a second time."""
    view, count = offloader.view, offloader.plan_input.count_tokens
    if entry.tokens <= room or not saved_file:
        return
    lines = entry.text.splitlines()
    shown = max(1, len(lines) * room // (entry.tokens + 1))
    while shown > 1 and count("\n".join(lines[:shown])) > room:
        shown = shown * 3 // 4
    stub = describe(entry.text, kind="result", name=tool_name(view, entry), tokens=entry.tokens, path=saved_file)
    preview = "\n".join((*lines[:shown], texts.lines_shown(shown, len(lines))))
    if count(preview) < entry.tokens:
        yield offloader.rewrite(entry, render(replace(stub, preview=preview)), f"read back, over {room} tokens", ())


def _measure(entry: Item, unit: Unit, form: Form, plan_input: PlanInput) -> int:
    # A list counts as compact JSON, though it is saved indented (R108, R109).
    text = entry.text if form is readable else (describe_item(entry, indent=None) or entry.text)
    if unit == "tokens":
        return plan_input.count_tokens(text)
    return len(text) if unit == "chars" else len(text.encode("utf-8", "surrogatepass"))
