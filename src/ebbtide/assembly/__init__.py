"""A turn put together: what happened in, a request out."""

from ebbtide.assembly.conversation import Conversation, Note
from ebbtide.assembly.texts import (
    LARGE_INPUT_THRESHOLD,
    NO_OUTPUT,
    NOT_EXECUTED,
    SYSTEM_PROMPT_DYNAMIC_BOUNDARY,
    EnvironmentFacts,
    build_switch,
    choose_prompt,
    environment_block,
    mid_run,
    mode_reminder,
    offload_input,
    plan_reminder,
    split_system,
)
from ebbtide.assembly.turn_formats import Block
from ebbtide.core.text.framing import TAG_BY_SOURCE, frame, frames

__all__ = [
    "LARGE_INPUT_THRESHOLD",
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
    "offload_input",
    "plan_reminder",
    "split_system",
]
