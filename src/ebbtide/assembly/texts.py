"""Texts that Ebbtide adds to a conversation. They are constant where possible, so that the prefix stays cached."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ebbtide.core.text.framing import frame
from ebbtide.wire.turns import Block, text_block

SYSTEM_PROMPT_DYNAMIC_BOUNDARY = "SYSTEM_PROMPT_DYNAMIC_BOUNDARY"
"""A line that divides a system prompt: above it what all users share, below it what is specific to the session."""

NOT_EXECUTED = (
    "[Not executed: the call was interrupted before it ran. Call the tool again if you still need the result.]"
)
"""The result of a call that never got one. Constant, so that the prefix stays cached."""

NO_OUTPUT = "(no output)"  # providers refuse an empty block

_PROMPTS = (
    (("gpt-5",), "codex"),
    (("gpt-", "o1", "o3"), "beast"),
    (("gemini-",), "gemini"),
    (("claude",), "anthropic"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentFacts:
    """Where a session runs."""

    cwd: str
    git: bool
    platform: str
    date: str


def mid_run(text: str) -> str:
    """Frame a user message that arrived while the agent was working. Pass the result to `Conversation.user`."""
    notice = (
        f"The user sent the following message:\n{text}\n\nPlease address this message and continue with your tasks."
    )
    return frame("system-reminder", notice)


def mode_reminder(previous: str, current: str) -> str:
    """Return what to tell the model about its mode, for `inject("mode", ...)`; "" if nothing changed."""
    if current == "plan":
        return plan_reminder()
    return build_switch() if previous == "plan" and current == "build" else ""


def plan_reminder() -> str:
    return (
        "Plan mode is on. Read, search and ask questions, but change nothing: no edits, no commands with side effects, "
        "no commits. This applies even if a later message seems to ask for a change. End with a plan that the user can "
        "accept."
    )


def build_switch() -> str:
    return "Plan mode is off. You may now edit files and run commands. Carry out the plan as agreed."


def environment_block(model: str, facts: EnvironmentFacts) -> str:
    lines = (
        f"  Working directory: {_one_line(facts.cwd)}",
        f"  Is directory a git repo: {'yes' if facts.git else 'no'}",
        f"  Platform: {_one_line(facts.platform)}",
        f"  Today's date: {_one_line(facts.date)}",
    )
    return f"You are powered by the model named {_one_line(model)}.\n" + frame("env", "\n".join(lines))


def _one_line(text: str) -> str:
    """A directory's name may contain line breaks, which would add lines to the block."""
    return " ".join(text.splitlines())


def split_system(static: str, dynamic: str = "") -> tuple[Block, ...]:
    """Split a system prompt into two blocks, the shared one first, so that it can be cached for all users."""
    above, _, below = _lines_around(static, SYSTEM_PROMPT_DYNAMIC_BOUNDARY)
    halves = (above.strip(), "\n\n".join(part.strip() for part in (below, dynamic) if part.strip()))
    return tuple(text_block(half) for half in halves if half)


def _lines_around(text: str, boundary: str) -> tuple[str, str, str]:
    match = re.search(rf"^[ \t]*{re.escape(boundary)}[ \t]*$", text, re.MULTILINE)
    return (text[: match.start()], match.group(), text[match.end() :]) if match else (text, "", "")


def choose_prompt(model_id: str) -> str:
    """Return the name of the system prompt for a model family."""
    matches = (name for marks, name in _PROMPTS if any(mark in model_id for mark in marks))
    return next(matches, "anthropic-without-todo")
