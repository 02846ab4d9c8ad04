"""sage (seed 002). A share of the window, reached at exactly its value; then the oldest messages go.

R009-R012 configuration by provider and model, R033-R034 counting in UTF-8 bytes, R058 threshold, R182 boundary,
R200 prune. sage gives no numbers for its models; these are its origin's. Departs: calls leave with their results,
the live request stays, and a note says what went (E15).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, partial

from ebbtide.core.planner import Thresholds
from ebbtide.core.tokens.estimator import sage as counting_for
from ebbtide.core.tokens.size import estimated_with_tools
from ebbtide.passes import evict_messages, summarize
from ebbtide.policy.combine import evict_oldest
from ebbtide.policy.levels import LevelRule, beside_reply
from ebbtide.policy.model import Overflow, Policy
from ebbtide.summary.layout import PresetTexts, preset_layout
from ebbtide.summary.prompts import SAGE as STYLE

TARGET = 0.5
"""Share of the window to come down to (R175)."""
LIMIT = 0.935
"""Share that must not be passed: 13,000 short of 200,000, where the origin compacts at the latest."""
RESERVED = 13_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextConfig:
    """R009. What sage knows of a model."""

    window: int = 128_000
    ratio: float = 0.75
    overflow: Overflow = "prune"
    keep: int = 10
    """Newest messages that stay."""
    reserved: int = RESERVED

    @property
    def threshold(self) -> int:
        """R012."""
        return int(self.window * self.ratio)


_CLAUDE = ContextConfig(window=200_000, ratio=0.80, keep=15)
_CONFIGS = (
    ("anthropic", "opus", _CLAUDE),
    ("anthropic", "sonnet", _CLAUDE),
    ("openai", "gpt-4o", ContextConfig(window=128_000)),
    ("openai", "gpt-4", ContextConfig(window=8_192, ratio=0.70, keep=5)),
)
"""R011. First match wins, so `gpt-4o` is asked before `gpt-4`."""

_PROVIDERS = (("anthropic", r"claude"), ("openai", r"gpt|codex|\bo[134]\b"), ("google", r"gemini"))


def config_for(provider: str, model: str) -> ContextConfig:
    """R011. Any other provider or model: the default."""
    configs = (config for name, part, config in _CONFIGS if name == provider and part in model)
    return next(configs, ContextConfig())


def levels(ratio: float) -> LevelRule:
    """The share of the window at which sage acts. Always `>=` (R014, R058)."""

    def rule(window: int, _output: int, _overhead: int = 0) -> Thresholds:
        auto = max(1, int(window * ratio))
        hard = max(auto, int(window * LIMIT))
        low = min(auto, int(window * TARGET))
        return Thresholds(warning=auto, soft=auto, auto=auto, hard=hard, blocking=window, low=low, inclusive=True)

    return rule


TEXTS = PresetTexts(
    summary_assistant="[Previous conversation summary]\n\n{summary}\n\n[End of summary]",
    summary_counted="Previous conversation with {users} user messages and {assistants} assistant responses.",
)
LAYOUT = preset_layout(STYLE, TEXTS, answer_mode="transcript", merge_mode="accumulate")
"""R171-R172, R181-R182, R206: only what follows the last boundary is summarized, and boundaries stand in a row."""


@cache
def for_provider(provider: str, model: str = "") -> Policy:
    """R011, R013: levels, counting and what stays, for one provider and model."""
    config = config_for(provider, model)
    return Policy(
        name="sage",
        levels=levels(config.ratio),
        usable=beside_reply,
        estimator=counting_for(provider),
        gauge=estimated_with_tools,
        output_reserved=config.reserved,
        pressure=(partial(evict_messages, keep=config.keep),),
        last_resort=evict_oldest(),
        overflow=config.overflow,
        folds=(partial(summarize, keep_messages=config.keep, keep_turns=0, keep_tokens=0, shape=LAYOUT),),
        templates=TEXTS,
    )


def for_model(model: str) -> Policy:
    """The same with the provider of the model, by its name; Claude without a name."""
    if not model:
        return for_provider("anthropic", "sonnet")
    providers = (provider for provider, pattern in _PROVIDERS if re.search(pattern, model.lower()))
    return for_provider(next(providers, ""), model.lower())


sage = for_model("")
