"""What a policy is made of. A frozen value: to change one, `dataclasses.replace` it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ebbtide.core.cache.breakpoints import BreakpointStrategy, choose_by_value
from ebbtide.core.planner import Pass
from ebbtide.core.tokens import DEFAULT, Estimator
from ebbtide.core.tokens.size import SizeRule, anchored_usage
from ebbtide.policy.levels import LevelRule, SpaceRule
from ebbtide.summary.layout import PresetTexts

Overflow = Literal["prune", "summarize", "auto-compact", "error"]
"""R010: what to do when the passes do not suffice. `error` raises instead of changing history."""


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
    templates: PresetTexts = field(default_factory=PresetTexts)
