"""Saves a user message that is too large to disk; the message says where it is (R116).

The user's words are never lost: if there is no place to save them, they stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ebbtide.core.offload import Offloader, describe
from ebbtide.core.planner import PlanInput
from ebbtide.core.stub import Template, render
from ebbtide.core.text.preview import Preview, essence
from ebbtide.core.types import Edit
from ebbtide.core.view import View


def offload_input(
    view: View,
    plan_input: PlanInput,
    *,
    limit: int = 200_000,  # characters, 50k tokens: pasted logs and dumps, not long instructions
    preview: Preview = essence(2_000),  # noqa: B008 - a value; the request is at the top or the end of a paste
    stub: Template = render,
) -> Iterator[Edit]:
    """Save new user messages over the limit to disk and show a preview. Without a place to save, they stay."""
    if plan_input.blob_names is None:
        return
    offloader = Offloader(by="offload_input", view=view, plan_input=plan_input)
    for entry in view.entries[plan_input.first_unsent :]:
        if entry.role != "user" or entry.kind != "text" or len(entry.text) <= limit:
            continue
        if entry.locked or entry.pinned or view.is_ours(entry):
            continue
        path, blobs = offloader.save_blob("input", entry.text)
        about = describe(entry.text, kind="message", tokens=entry.tokens, path=path)
        text = stub(replace(about, preview=preview(entry.text, plan_input.count_tokens), more=True))
        yield offloader.rewrite(entry, text, f"{len(entry.text)} chars, over {limit}", blobs)
