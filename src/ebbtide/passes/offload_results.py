"""A large result goes to the shelf as it arrives; the model gets a preview and the way to the rest.

Runs before anything truncates: what was kept can be read again, what was cut cannot (R101, R104).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal

from ebbtide.core.offload import Form, Offloader, readable
from ebbtide.core.planner import PlanInput
from ebbtide.core.recall_limits import RECALL_TOOLS
from ebbtide.core.stub import Template, render
from ebbtide.core.text.preview import Preview, essence
from ebbtide.core.tool_calls import describe_item, file_path, tool_name
from ebbtide.core.types import Edit, Item
from ebbtide.core.view import View

Unit = Literal["chars", "bytes", "tokens"]


def offload_results(
    view: View,
    plan_input: PlanInput,
    *,
    limit: int = 50_000,  # chars, the seeds' most cited one (D5): about 12k tokens, 6 % of a 200k window
    unit: Unit = "chars",
    per_tool: Mapping[str, int] = MappingProxyType({}),
    preview: Preview = essence(600),  # noqa: B008 - a value; 600 tokens are about the seeds' 2000 chars and the errors
    stub: Template = render,
    form: Form = readable,
) -> Iterator[Edit]:
    """Offload new results over their tool's limit. Images stay: they have no text to preview (R107)."""
    offloader = Offloader(by="offload_results", view=view, plan_input=plan_input)
    for entry in view.entries[plan_input.first_unsent :]:
        if entry.kind != "result" or entry.media or entry.locked or entry.pinned or view.is_ours(entry):
            continue
        most = per_tool.get(tool_name(view, entry), limit)
        if unit == "tokens" and form is readable and entry.tokens <= most:
            # Counted when it was read, framing included. Counting again would double the price of a first read.
            continue
        measured = _measure(entry, unit, form, plan_input)
        if measured > most and not _recalled(view, entry, plan_input):
            yield offloader.stub_result(entry, stub, f"{measured} {unit}, over {most}", preview=preview, form=form)


def _recalled(view: View, entry: Item, plan_input: PlanInput) -> bool:
    """Read back from where it was put: offloaded again it would be asked for again, without end.

    A quarter of the window at once is too much all the same.
    """
    if entry.tokens > plan_input.budget.window // 4:
        return False
    call = view.calls_by_id.get(entry.call_id)
    if tool_name(view, entry) in RECALL_TOOLS:
        return True
    shelf = plan_input.blob_names.directory if plan_input.blob_names else ""
    return call is not None and bool(shelf) and file_path(call).startswith(f"{shelf}/")


def _measure(entry: Item, unit: Unit, form: Form, plan_input: PlanInput) -> int:
    # A list counts as compact JSON, though it is kept indented (R108, R109).
    text = entry.text if form is readable else (describe_item(entry, indent=None) or entry.text)
    if unit == "tokens":
        return plan_input.count_tokens(text)
    return len(text) if unit == "chars" else len(text.encode("utf-8", "surrogatepass"))
