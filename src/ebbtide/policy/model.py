"""What a policy is made of. It is a frozen value: use `dataclasses.replace` to change one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ebbtide.core.cache.breakpoints import BreakpointStrategy, choose_by_value
from ebbtide.core.planner import Pass
from ebbtide.core.tokens.estimator import DEFAULT, Estimator
from ebbtide.core.tokens.size import SizeRule, anchored_usage
from ebbtide.policy.levels import LevelRule, SpaceRule
from ebbtide.summary.layout import PresetTexts

Overflow = Literal["prune", "summarize", "auto-compact", "error"]
"""R010: what to do if the passes do not free enough. `error` raises instead of changing history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a conversation is kept inside its window.

    It has 16 fields because a preset is one such value, written down in one place, and every field is a setting.
    """

    name: str
    levels: LevelRule
    usable: SpaceRule
    estimator: Estimator = DEFAULT
    gauge: SizeRule = anchored_usage
    arrival: tuple[Pass, ...] = ()
    """For items that were never sent."""
    always: tuple[Pass, ...] = ()
    """On every request; each pass decides whether to act."""
    pressure: tuple[Pass, ...] = ()
    """Over a threshold, gentlest first, down to `low`."""
    folds: tuple[Pass, ...] = ()
    """Compactions: after the gentler passes if `overflow` allows it, and on request."""
    last_resort: tuple[Pass, ...] = ()
    """If the request must come down to the hard threshold and nothing else did it."""
    telling: bool = False
    """Whether its passes keep salient lines of cleared results. For information: nothing depends on it."""
    marks: BreakpointStrategy | None = choose_by_value
    overflow: Overflow = "prune"
    blocks: bool = False
    """Whether a request over the blocking threshold is refused."""
    output_reserved: int = 0
    """Tokens reserved for the reply if the request does not say."""
    templates: PresetTexts = field(default_factory=PresetTexts)
