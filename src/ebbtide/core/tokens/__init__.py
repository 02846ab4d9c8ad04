"""The last usage is the truth; only what came after it is estimated, and every usage corrects the estimate."""

from __future__ import annotations

from ebbtide.core.tokens.calibration import (
    Calibration,
    LearnedRatio,
    keeps_thinking,
    prior,
    reentering,
    scale_from_anchor,
    scale_from_anchor_upper,
)
from ebbtide.core.tokens.estimator import CLAUDE_CODE, DEFAULT, LEARN_V5, MINI_CLAUDE, OPENCODE, REGION, Estimator, sage
from ebbtide.core.tokens.exact import TokenCounter, Vocabulary, prime_tool_tokens, tiktoken_counter
from ebbtide.core.tokens.stream import StreamingCounter, StreamStats
from ebbtide.core.tokens.usage import usage_from

__all__ = [
    "CLAUDE_CODE",
    "DEFAULT",
    "LEARN_V5",
    "MINI_CLAUDE",
    "OPENCODE",
    "REGION",
    "Calibration",
    "Estimator",
    "LearnedRatio",
    "StreamStats",
    "StreamingCounter",
    "TokenCounter",
    "Vocabulary",
    "keeps_thinking",
    "prime_tool_tokens",
    "prior",
    "reentering",
    "sage",
    "scale_from_anchor",
    "scale_from_anchor_upper",
    "tiktoken_counter",
    "usage_from",
]
