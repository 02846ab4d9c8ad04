"""OpenCode at 8c4bf225 (seed 001). Prunes when a loop is over, and gives the model no way back.

R030 gauge, R056 threshold, R087 words sent in the middle of a run, R153-R155 prune, R221 marks. The turn just begun is
one of the two that stay. Departs: what is pruned is kept on disk all the same, though the request does not say where.
"""

from __future__ import annotations

from functools import partial

from ebbtide.core.cache.breakpoints import first2_last2
from ebbtide.core.tokens.estimator import OPENCODE
from ebbtide.core.tokens.size import billed_context
from ebbtide.passes import prune_results, summarize
from ebbtide.passes.when import end_of_loop, when
from ebbtide.policy.combine import evict_oldest
from ebbtide.policy.levels import LevelRule, beside_reply, single_threshold
from ebbtide.policy.model import Policy
from ebbtide.summary.layout import PresetTexts, preset_layout
from ebbtide.summary.prompts import OPENCODE as STYLE

OUTPUT_RESERVED = 32_000
"""Tokens, R056."""


def levels(input_limit: int = 0) -> LevelRule:
    """R056: the model's own limit on input, where it has one below its window, else all but the reservation."""

    def threshold(window: int, _output: int) -> float:
        return input_limit if 0 < input_limit < window else window - OUTPUT_RESERVED

    return single_threshold(threshold)


TEXTS = PresetTexts(
    summary_user="What was done up to here?",  # the message that the summary answers (D8)
    summary_assistant="{summary}",
    interjection=(
        "<system-reminder>\nThe user sent the following message:\n{text}\n\n"
        "Please address this message and continue with your tasks.\n</system-reminder>"
    ),
)
LAYOUT = preset_layout(STYLE, TEXTS)


opencode = Policy(
    name="opencode",
    levels=levels(),
    usable=beside_reply,
    estimator=OPENCODE,
    gauge=billed_context,
    output_reserved=OUTPUT_RESERVED,
    always=(when(end_of_loop, prune_results),),
    last_resort=evict_oldest(),
    marks=first2_last2,
    overflow="auto-compact",
    folds=(partial(summarize, keep_messages=1, keep_turns=0, keep_tokens=0, shape=LAYOUT),),
    templates=TEXTS,
)
