"""A sub-agent with a context of its own: what it reads stays there, and only what it found comes back (R232)."""

from __future__ import annotations

from ebbtide.fronts.chat.tools.desk import Desk, Given, Outcome, Refused, Tool, free, text


def _run(desk: Desk, given: Given) -> Outcome:
    if desk.delegate is None:
        raise Refused("a sub-agent starts no sub-agents")
    found = desk.delegate(text(given, "title"), text(given, "prompt"))
    return Outcome(text=found or "(the sub-agent said nothing)", failed=not found)


task = Tool(
    name="task",
    about=(
        "Give a piece of work to a sub-agent that has the same tools and a fresh context: a wide search, a review, "
        "anything whose details you will not need again. It sees nothing of this conversation: tell it all it must "
        "know, and what to report. You get its final words."
    ),
    fields={
        "title": {"type": "string", "description": "Three to five words."},
        "prompt": {"type": "string", "description": "The whole task."},
    },
    wants=("title", "prompt"),
    need=free("task"),
    run=_run,
)
