"""Long old words of the assistant become their first and last lines: what was set out, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ebbtide.core.cuts import find_loop_start
from ebbtide.core.edit_rules import rejection_reason
from ebbtide.core.offload import Offloader, can_offload, describe, newest_turns
from ebbtide.core.planner import PlanInput
from ebbtide.core.stub import Template, render
from ebbtide.core.text.preview import clip
from ebbtide.core.types import Edit
from ebbtide.core.view import View


def shorten_text(
    view: View,
    plan_input: PlanInput,
    *,
    min_tokens: int = 600,  # a long answer; shorter ones are what a turn was about
    lines: int = 4,  # of either end
    keep_turns: int = 2,
    stub: Template = render,
) -> Iterator[Edit]:
    """Shorten assistant text in turns that are over, but for the newest ones."""
    offloader = Offloader(by="shorten_text", view=view, plan_input=plan_input)
    for entry in view.entries[: min(newest_turns(view, keep_turns), find_loop_start(view))]:
        if entry.role != "assistant" or entry.kind != "text" or entry.tokens <= min_tokens:
            continue
        if can_offload(view, entry):
            path, blobs = offloader.save_blob("text", entry.text)
            about = describe(entry.text, kind="text", tokens=entry.tokens, path=path)
            text = stub(replace(about, preview=_ends(entry.text, lines), more=True))
            edit = offloader.rewrite(entry, text, "long words of an old turn", blobs)
            # Words may belong to the reasoning before them.
            if not rejection_reason(view, edit):
                yield edit


def _ends(text: str, lines: int) -> str:
    said = [line for line in text.split("\n") if line.strip()]
    # 200 chars: a paragraph on one line is also long.
    shown = [line if len(line) <= 200 else clip(line, 0, 200) + "..." for line in said]
    if len(shown) <= 2 * lines:
        return "\n".join(shown)
    return "\n".join((*shown[:lines], "[...]", *shown[-lines:]))
