"""Shortens long old messages of the assistant to their first and last lines: what was set out, and the outcome."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ebbtide.core.edit_rules import find_loop_start, rejection_reason
from ebbtide.core.offload import Offloader, can_offload, describe, newest_turns
from ebbtide.core.planner import PlanInput
from ebbtide.core.stub import Template, render
from ebbtide.core.text.preview import clip
from ebbtide.core.texts import MORE_OMITTED
from ebbtide.core.types import Edit
from ebbtide.core.view import View


def shorten_text(
    view: View,
    plan_input: PlanInput,
    *,
    min_tokens: int = 600,  # a long answer; a shorter one is the point of its turn
    lines: int = 4,  # at the beginning and at the end
    keep_turns: int = 2,  # newest user turns
    stub: Template = render,
) -> Iterator[Edit]:
    """Shorten long assistant messages to their first and last lines, in finished turns before the newest."""
    offloader = Offloader(by="shorten_text", view=view, plan_input=plan_input)
    for entry in view.entries[: min(newest_turns(view, keep_turns), find_loop_start(view))]:
        if entry.role != "assistant" or entry.kind != "text" or entry.tokens <= min_tokens:
            continue
        if can_offload(view, entry):
            path, blobs = offloader.save_blob("text", entry.text)
            about = describe(entry.text, kind="text", tokens=entry.tokens, path=path)
            text = stub(replace(about, preview=_ends(entry.text, lines), more=True))
            edit = offloader.rewrite(entry, text, "long text of an old turn", blobs)
            # The text may belong to the reasoning before it.
            if not rejection_reason(view, edit):
                yield edit


def _ends(text: str, lines: int) -> str:
    # A paragraph on one line can be long too.
    short = [line if len(line) <= 200 else clip(line, 0, 200) + "..." for line in text.split("\n") if line.strip()]
    if len(short) <= 2 * lines:
        return "\n".join(short)
    return "\n".join((*short[:lines], MORE_OMITTED, *short[-lines:]))
