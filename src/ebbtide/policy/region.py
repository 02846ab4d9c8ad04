"""The article's regions (seed 003). Soft at 70 %, hard at 90 %.

R035-R036 counting, R054 levels, R116-R117 intake, R194 summary block, R218 breakpoints, R252 what stands where the
compactor failed. Soft acts like auto: the article compacts there, down to half the window (R199). Recent turns and the
user's words stay (R189-R192) as long as older ones can go. Departs: where the article names no limit, the passes' own
are used.
"""

from __future__ import annotations

from functools import partial

from ebbtide.core.planner import Thresholds
from ebbtide.core.preset_stubs import region_evicted, region_input
from ebbtide.core.tokens.estimator import REGION
from ebbtide.core.tokens.size import estimated_tokens
from ebbtide.passes import fold_regions, limit_output, offload_input
from ebbtide.policy.combine import evict_oldest
from ebbtide.policy.levels import beside_reply
from ebbtide.policy.model import Policy
from ebbtide.summary.layout import PresetTexts


def levels(window: int, _output: int, _overhead: int = 0) -> Thresholds:
    """R054, strictly above. The worked example goes from 85 % to 35 %; the rule says below half."""
    soft, hard = int(window * 0.70), int(window * 0.90)
    return Thresholds(warning=soft, soft=soft, auto=soft, hard=hard, blocking=window, low=window // 2)


region = Policy(
    name="region",
    levels=levels,
    usable=beside_reply,
    estimator=REGION,
    gauge=estimated_tokens,
    arrival=(partial(offload_input, stub=region_input), limit_output),
    folds=(fold_regions,),
    overflow="auto-compact",
    last_resort=evict_oldest(region_evicted),
    templates=PresetTexts(
        summary_block="[compacted summary of turns {first}-{last}]\n{summary}",
        truncated="[Earlier turns truncated due to compactor error]",
    ),
)
