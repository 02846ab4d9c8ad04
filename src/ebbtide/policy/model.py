"""What a policy is made of. A frozen value: to change one, `dataclasses.replace` it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ebbtide.core.cache.breakpoints import BreakpointStrategy, choose_by_value
from ebbtide.core.planner import Pass
from ebbtide.core.tokens import DEFAULT, Estimator
from ebbtide.core.tokens.size import SizeRule, anchored_usage
from ebbtide.policy.levels import LevelRule, SpaceRule

Overflow = Literal["prune", "summarize", "auto-compact", "error"]
"""R010: what to do when the passes do not suffice. `error` raises instead of changing history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """Texts around a fold, as a seed writes them. The fold itself fills `{summary}` and the like."""

    summary_user: str = ""
    """The user message that carries the summary."""
    summary_ack: str = ""
    """The assistant's answer to it, where the seed has one."""
    summary_assistant: str = ""
    """Where the summary is the assistant's own message."""
    summary_block: str = ""
    """Where the summary is a block in place, with the turns it stands for."""
    summary_analysed: str = ""
    """How the analysis is kept before the summary, where a seed keeps it (D9)."""
    summary_counted: str = ""
    """The summary without a model, where a seed has one (R172)."""
    continuation: str = ""
    """Added when the compaction was automatic."""
    truncated: str = ""
    """What stands where exchanges were dropped."""
    transcript_hint: str = ""
    """The way back to what was summarised, with its `{path}`."""
    interjection: str = ""
    """The frame around words that a user sends in the middle of a run (R087)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How one agent's conversation is kept inside its window."""

    name: str
    levels: LevelRule
    usable: SpaceRule
    estimator: Estimator = DEFAULT
    gauge: SizeRule = anchored_usage
    arrival: tuple[Pass, ...] = ()
    """Over items never sent yet."""
    always: tuple[Pass, ...] = ()
    """On every request; each decides for itself."""
    pressure: tuple[Pass, ...] = ()
    """Over a level, gentlest first, down to low water."""
    folds: tuple[Pass, ...] = ()
    """Old turns into a summary: after the gentler ones, where `overflow` says so, and when a person asks."""
    last_resort: tuple[Pass, ...] = ()
    """When the request must come down to the hard level and nothing else did it."""
    telling: bool = False
    """Whether its passes keep lines of the results that they clear. For readers: nothing is decided by it."""
    marks: BreakpointStrategy | None = choose_by_value
    overflow: Overflow = "prune"
    blocks: bool = False
    """Whether the blocking level refuses."""
    output_reserved: int = 0
    """What is set aside for the reply where the request does not say."""
    templates: Templates = field(default_factory=Templates)
