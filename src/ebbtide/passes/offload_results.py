"""Saves a large tool result to disk when it arrives; the model gets a preview and the way to the rest.

Runs before anything truncates: what was saved can be read again, what was cut cannot (R101, R104).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal

from ebbtide.core.offload import Form, Offloader, readable
from ebbtide.core.planner import PlanInput
from ebbtide.core.stub import Template, render
from ebbtide.core.text.preview import Preview, essence
from ebbtide.core.tool_calls import RECALL_TOOLS, describe_item, file_path, tool_name
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
        if size > max_size and not _is_recalled(view, entry, plan_input):
            yield offloader.stub_result(entry, stub, f"{size} {unit}, over {max_size}", preview=preview, form=form)


def _is_recalled(view: View, entry: Item, plan_input: PlanInput) -> bool:
    """Whether the model read it back from where it was saved: saved again, it would be read again, without end.

    More than a quarter of the window is too much all the same.
    """
    if entry.tokens > plan_input.budget.window // 4:
        return False
    call = view.calls_by_id.get(entry.call_id)
    if tool_name(view, entry) in RECALL_TOOLS:
        return True
    directory = plan_input.blob_names.directory if plan_input.blob_names else ""
    return call is not None and bool(directory) and file_path(call).startswith(f"{directory}/")


def _measure(entry: Item, unit: Unit, form: Form, plan_input: PlanInput) -> int:
    # A list counts as compact JSON, though it is saved indented (R108, R109).
    text = entry.text if form is readable else (describe_item(entry, indent=None) or entry.text)
    if unit == "tokens":
        return plan_input.count_tokens(text)
    return len(text) if unit == "chars" else len(text.encode("utf-8", "surrogatepass"))
