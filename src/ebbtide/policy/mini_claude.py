"""mini-claude (seed 000). It believes the last bill and nothing else.

R046 threshold, R067-R069 tiers, R099-R103 intake, R121-R132 history, R177 shape after a summary, R227 order. A result
goes to disk first and is cut second (R101), so the preview of 200 lines still passes the cut at 50,000 characters.
Departs: before the first bill the gauge is an estimate, not 0; what the model has not seen stays; a result no longer
than its placeholder stays; files are named by the call, not by the clock (D19).
"""

from __future__ import annotations

from functools import partial

from ebbtide.core.cache.breakpoints import static_plus_last
from ebbtide.core.preset_stubs import mini_claude_cleared, mini_claude_persisted, mini_claude_snipped
from ebbtide.core.text.preview import head_lines
from ebbtide.core.tokens.estimator import MINI_CLAUDE
from ebbtide.core.tokens.size import billed_input
from ebbtide.passes import budget_results, clear_results, offload_results, snip_results, summarize, truncate_results
from ebbtide.passes.snip_results import same_file
from ebbtide.passes.when import above, end_of_loop, idle_for, when
from ebbtide.policy.combine import SHORTENING_PASSES, OnOriginals, PassGroup, evict_oldest
from ebbtide.policy.levels import at_least_half, single_threshold
from ebbtide.policy.model import Policy
from ebbtide.summary.layout import PresetTexts, preset_layout
from ebbtide.summary.prompts import MINI_CLAUDE as STYLE

RESERVED = 20_000
"""Tokens set aside for the next input and its reply (R046)."""


def effective(window: int, _output: int = 0, _overhead: int = 0) -> int:
    return at_least_half(window, window - RESERVED)


TEXTS = PresetTexts(
    summary_user="[Previous conversation summary]\n{summary}",
    summary_ack="Understood. I have the context from our previous conversation. How can I continue helping?",
)
LAYOUT = preset_layout(STYLE, TEXTS)


mini_claude = Policy(
    name="mini-claude",
    levels=single_threshold(lambda window, _: effective(window) * 0.85),
    usable=effective,
    estimator=MINI_CLAUDE,
    gauge=billed_input,
    output_reserved=RESERVED,
    arrival=(
        partial(offload_results, limit=30 * 1024, unit="bytes", preview=head_lines(200), stub=mini_claude_persisted),
        truncate_results,
    ),
    always=(
        PassGroup(
            (
                budget_results,
                when(
                    above(0.60),
                    OnOriginals(
                        SHORTENING_PASSES,
                        partial(
                            snip_results,
                            searches=frozenset(("grep_search", "list_files", "run_shell")),
                            readers=frozenset(("read_file",)),
                            same=same_file,
                            stub=mini_claude_snipped,
                        ),
                    ),
                ),
                # Any tool, whatever was done to it before: the cache is cold anyway (R132, R133).
                when(
                    idle_for(300),
                    OnOriginals(
                        SHORTENING_PASSES | {"snip_results"},
                        partial(
                            clear_results, keep_results=3, min_tokens=0, never=frozenset(), stub=mini_claude_cleared
                        ),
                    ),
                ),
            )
        ),
    ),
    last_resort=evict_oldest(),
    marks=static_plus_last,
    overflow="auto-compact",
    folds=(
        when(
            end_of_loop,
            partial(summarize, keep_messages=1, keep_turns=1, keep_tokens=0, max_tokens=2_048, shape=LAYOUT),
        ),
    ),
    templates=TEXTS,
)
