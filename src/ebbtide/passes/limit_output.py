"""Cuts the output of a command to its head, with a hint to write it to a file next time (R117)."""

from __future__ import annotations

from collections.abc import Iterator

from ebbtide.core.offload import Offloader
from ebbtide.core.planner import PlanInput
from ebbtide.core.preset_stubs import region_output
from ebbtide.core.stub import Template
from ebbtide.core.text.preview import first_chars
from ebbtide.core.tool_calls import tool_name
from ebbtide.core.types import Edit
from ebbtide.core.view import View

COMMANDS = frozenset(("Bash", "bash", "shell", "run_shell", "local_shell", "exec_command", "run_terminal_cmd"))


def limit_output(
    view: View,
    plan_input: PlanInput,
    *,
    limit: int = 30_000,  # characters; the usual limit of a shell tool
    only: frozenset[str] = COMMANDS,
    stub: Template = region_output,
) -> Iterator[Edit]:
    """Keep the head of new command output over the limit. The whole output is saved, if the session saves anything."""
    offloader = Offloader(by="limit_output", view=view, plan_input=plan_input)
    for entry in view.entries[plan_input.first_unsent :]:
        if entry.kind != "result" or entry.media or len(entry.text) <= limit or tool_name(view, entry) not in only:
            continue
        if entry.locked or entry.pinned or view.is_ours(entry):
            continue
        yield offloader.stub_result(entry, stub, f"{len(entry.text)} chars, over {limit}", preview=first_chars(limit))
