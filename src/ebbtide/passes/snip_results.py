"""Clears results that newer ones made stale: a file read again, the oldest of many searches (R125-R130)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from ebbtide.core.offload import Offloader, can_offload
from ebbtide.core.planner import PlanInput
from ebbtide.core.stub import Template, render
from ebbtide.core.tool_calls import (
    READS,
    SEARCHES,
    call_arguments,
    file_path,
    is_failed_result,
    is_read_call,
    tool_name,
)
from ebbtide.core.types import Edit, Item
from ebbtide.core.view import View

Same = Callable[[Item, Item], bool]
"""Whether a newer call shows what an older one did."""

_RANGES = ("offset", "limit", "start_line", "end_line", "view_range", "pages", "start", "end", "range", "head", "tail")


def covers(newer: Item, older: Item) -> bool:
    """Whether the newer call reads the same file, and the same part of it or all of it."""
    new, old = call_arguments(newer), call_arguments(older)
    if not file_path(newer) or file_path(newer) != file_path(older):
        return False
    return all(new.get(key) is None or new.get(key) == old.get(key) for key in _RANGES)


def same_file(newer: Item, older: Item) -> bool:
    """Whether both read the same path, whatever part of it: mini-claude's rule (R126)."""
    return bool(file_path(newer)) and file_path(newer) == file_path(older)


def snip_results(
    view: View,
    plan_input: PlanInput,
    *,
    keep_results: int = 3,  # newest results of any tool, always (R128, E11)
    keep_each: int = 3,  # newest results of each search (R127)
    searches: frozenset[str] = SEARCHES,  # search tools
    readers: frozenset[str] = READS,  # tools that read files
    same: Same = covers,
    stub: Template = render,
) -> Iterator[Edit]:
    """Clear stale results, oldest first. The calls stay (R129)."""
    offloader = Offloader(by="snip_results", view=view, plan_input=plan_input)
    recent = {entry.id for entry in view.results[max(0, len(view.results) - keep_results) :]}
    stale = _superseded(view, readers, same) | _outnumbered(view, searches, keep_each)
    for entry in view.results:
        if entry.id in stale and entry.id not in recent and can_offload(view, entry):
            yield offloader.stub_result(entry, stub, stale[entry.id])


def _superseded(view: View, readers: frozenset[str], same: Same) -> dict[str, str]:
    newer: dict[str, list[Item]] = {}
    stale: dict[str, str] = {}
    for entry in reversed(view.results):
        call = view.calls_by_id.get(entry.call_id)
        file = is_read_call(call) if call is not None and call.name in readers else ""
        if call is None or not file:
            continue
        newer_calls = newer.setdefault(file, [])
        if any(same(newer_call, call) for newer_call in newer_calls):
            stale[entry.id] = f"{file} was read again"
        # An error or a stub does not show what the older result does.
        elif not is_failed_result(entry) and not view.is_ours(entry):
            newer_calls.append(call)
    return stale


def _outnumbered(view: View, searches: frozenset[str], keep_each: int) -> dict[str, str]:
    counts = Counter[str]()
    stale: dict[str, str] = {}
    for entry in reversed(view.results):
        tool = tool_name(view, entry)
        counts[tool] += tool in searches
        if counts[tool] > keep_each:
            stale[entry.id] = f"{keep_each} newer results of {tool}"
    return stale
