"""Facts kept by machine. A model's summary is added to them, checked against them, and never replaces them."""

from __future__ import annotations

from ebbtide.facts.build import collect_facts, extend_facts, item_handle
from ebbtide.facts.model import (
    AssistantText,
    CommandFact,
    Constraint,
    Failure,
    FileFact,
    NameStats,
    RunningTask,
    SessionFacts,
    Todo,
    UserMessage,
)
from ebbtide.facts.must_keep import RequiredFact, find_missing, required_facts
from ebbtide.facts.render import render_facts

__all__ = [
    "AssistantText",
    "CommandFact",
    "Constraint",
    "Failure",
    "FileFact",
    "NameStats",
    "RequiredFact",
    "RunningTask",
    "SessionFacts",
    "Todo",
    "UserMessage",
    "collect_facts",
    "extend_facts",
    "find_missing",
    "item_handle",
    "render_facts",
    "required_facts",
]
