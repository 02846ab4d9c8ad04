"""Helpers for your own agent loop: build requests from what happened."""

from ebbtide.assembly.conversation import Conversation, Note
from ebbtide.assembly.texts import (
    NO_OUTPUT,
    NOT_EXECUTED,
    SYSTEM_PROMPT_DYNAMIC_BOUNDARY,
    EnvironmentFacts,
    build_switch,
    choose_prompt,
    environment_block,
    mid_run,
    mode_reminder,
    plan_reminder,
    split_system,
)
from ebbtide.core.text.framing import TAG_BY_SOURCE, frame, frames
from ebbtide.wire.turns import Block

__all__ = [
    "NOT_EXECUTED",
    "NO_OUTPUT",
    "SYSTEM_PROMPT_DYNAMIC_BOUNDARY",
    "TAG_BY_SOURCE",
    "Block",
    "Conversation",
    "EnvironmentFacts",
    "Note",
    "build_switch",
    "choose_prompt",
    "environment_block",
    "frame",
    "frames",
    "mid_run",
    "mode_reminder",
    "plan_reminder",
    "split_system",
]
