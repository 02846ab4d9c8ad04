"""Our own words around a conversation. Constant where nothing differs, so that the prefix holds."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ebbtide.assembly.turn_formats import Block, text_block
from ebbtide.core.blob_names import MEMORY, BlobNames, digest
from ebbtide.core.text.framing import frame
from ebbtide.core.types import Blob

SYSTEM_PROMPT_DYNAMIC_BOUNDARY = "SYSTEM_PROMPT_DYNAMIC_BOUNDARY"
"""On a line of its own in a system prompt: above it what every user shares, below it what is this session's."""

NOT_EXECUTED = "[Not executed: the call was interrupted before it ran. Call again if the result is still needed.]"
"""Stands for a result that never came. Constant, so that the prefix holds."""

NO_OUTPUT = "(no output)"  # Providers refuse an empty block.

LARGE_INPUT_THRESHOLD = 50_000  # characters: the cap a single tool result has, about 12k tokens

_PROMPTS = (
    (("gpt-5",), "codex"),
    (("gpt-", "o1", "o3"), "beast"),
    (("gemini-",), "gemini"),
    (("claude",), "anthropic"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentFacts:
    """Where a session runs, as the edge found it."""

    cwd: str
    git: bool
    platform: str
    date: str


def mid_run(text: str) -> str:
    """The user's words that arrived while the agent worked. Hand it to `Conversation.user` as it is."""
    told = f"The user sent the following message:\n{text}\n\nPlease address this message and continue with your tasks."
    return frame("system-reminder", told)


def mode_reminder(previous: str, current: str) -> str:
    """What the model must hear about its mode this turn, for `inject("mode", ...)`; empty where nothing changed."""
    if current == "plan":
        return plan_reminder()
    return build_switch() if previous == "plan" and current == "build" else ""


def plan_reminder() -> str:
    return (
        "Plan mode is on. Look, read and ask, but change nothing: no edits, no commands with effects, no commits. "
        "This holds even where a later message seems to ask for a change. End with a plan the user can accept."
    )


def build_switch() -> str:
    return "Plan mode is off: you may now edit files and run commands. Carry out the plan as it was agreed."


def environment_block(model: str, facts: EnvironmentFacts) -> str:
    lines = (
        f"  Working directory: {_one_line(facts.cwd)}",
        f"  Is directory a git repo: {'yes' if facts.git else 'no'}",
        f"  Platform: {_one_line(facts.platform)}",
        f"  Today's date: {_one_line(facts.date)}",
    )
    return f"You are powered by the model named {_one_line(model)}.\n" + frame("env", "\n".join(lines))


def _one_line(text: str) -> str:
    """A directory's name may hold line breaks, and would then add facts of its own."""
    return " ".join(text.splitlines())


def split_system(static: str, dynamic: str = "") -> tuple[Block, ...]:
    """Two system blocks, the shared half first, so that what differs between users leaves its cache alone."""
    above, _, below = _lines_around(static, SYSTEM_PROMPT_DYNAMIC_BOUNDARY)
    halves = (above.strip(), "\n\n".join(part.strip() for part in (below, dynamic) if part.strip()))
    return tuple(text_block(half) for half in halves if half)


def _lines_around(text: str, boundary: str) -> tuple[str, str, str]:
    found = re.search(rf"^[ \t]*{re.escape(boundary)}[ \t]*$", text, re.MULTILINE)
    return (text[: found.start()], found.group(), text[found.end() :]) if found else (text, "", "")


def choose_prompt(model_id: str) -> str:
    """The name of the system prompt that suits a model family."""
    matches = (name for marks, name in _PROMPTS if any(mark in model_id for mark in marks))
    return next(matches, "anthropic-without-todo")


def offload_input(text: str, shelf: BlobNames, *, limit: int = LARGE_INPUT_THRESHOLD) -> tuple[str, Blob | None]:
    """What to say in place of a huge paste, and what must be on disk before it is said."""
    if len(text) <= limit:
        return text, None
    blob = Blob(name=shelf.name(f"input-{digest(text)}", text), text=text)
    path = shelf.path(blob.name)
    said = f"[Large input saved to {path}, {len(text)} chars. Use Read tool to access.]"
    if path.startswith(MEMORY):
        said = f"[Large input kept in {path}, {len(text)} chars. There is no file to read.]"
    return said, blob
