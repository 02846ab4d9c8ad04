"""The article's regions (seed 003). Soft at 70 %, hard at 90 %; recent turns and the user's words are not touched.

R035-R036 counting, R054 levels, R116-R117 intake, R189-R190 what stays, R194 summary block, R218 marks, R252 what
stands where the compactor failed. Soft acts like auto: the seed compacts there, down to half the window (R199).
Departs: where the seed names no limit for input and output, the usual ones are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ebbtide.core.engine import Levels, Situation
from ebbtide.core.gauge import estimated
from ebbtide.core.leaving import newest
from ebbtide.core.stub import region_evicted, region_input
from ebbtide.core.tokens import REGION
from ebbtide.core.types import Edit
from ebbtide.core.view import View
from ebbtide.passes import evict, limit_output, offload_input
from ebbtide.policy.fallback import oldest_leave
from ebbtide.policy.levels import beside_reply
from ebbtide.policy.model import Policy, Templates


def levels(window: int, _output: int) -> Levels:
    """R054, strictly above. The worked example goes from 85 % to 35 %; the rule says below half."""
    soft, hard = int(window * 0.70), int(window * 0.90)
    return Levels(warning=soft, soft=soft, auto=soft, hard=hard, blocking=window, low=window // 2)


def truncate_oldest(
    view: View, situation: Situation, *, keep_turns: int = 4, keep_tokens: int = 20_000
) -> Iterator[Edit]:
    """R252: what the compactor could not summarise leaves, but for the newest turns and tokens (R189, R190)."""
    recent = len({entry.message for entry in view.entries[_recent(view, keep_turns, keep_tokens) :]})
    yield from evict(view, situation, keep=recent, stub=region_evicted)


def _recent(view: View, keep_turns: int, keep_tokens: int) -> int:
    """Where the part begins that stays: whole messages, whichever rule keeps more."""
    start, left = len(view.entries), keep_tokens
    while start > 0 and left > 0:
        message = view.entries[start - 1].message
        while start > 0 and view.entries[start - 1].message == message:
            start -= 1
            left -= view.entries[start].tokens
    return min(start, newest(view, keep_turns))


region = Policy(
    name="region",
    levels=levels,
    usable=beside_reply,
    estimator=REGION,
    gauge=estimated,
    arrival=(partial(offload_input, stub=region_input), limit_output),
    last_resort=(truncate_oldest, *oldest_leave(region_evicted)),
    templates=Templates(
        summary_block="[compacted summary of turns {first}-{last}]\n{summary}",
        truncated="[Earlier turns truncated due to compactor error]",
    ),
)
