"""learn-claude-code v5 (seed 004). Clears large old results on every turn, whatever the cache says.

R031 counting of the messages alone, R052 threshold, R115 intake, R151 clearing, R183 shape after a summary.
Departs: what the model has not seen stays.
"""

from __future__ import annotations

from functools import partial

from ebbtide.core.preset_stubs import learn_cleared, learn_persisted
from ebbtide.core.text.preview import first_chars
from ebbtide.core.tokens.estimator import LEARN_V5
from ebbtide.core.tokens.size import estimated_messages
from ebbtide.passes import clear_results, offload_results, summarize
from ebbtide.policy.combine import evict_oldest
from ebbtide.policy.levels import beside_reply, single_threshold
from ebbtide.policy.model import Policy
from ebbtide.summary.layout import PresetTexts, preset_layout
from ebbtide.summary.prompts import LEARN_V5 as STYLE

BUFFER = 13_000
"""Tokens for system prompt and tools, which its gauge leaves out (R052)."""
MOST_OUTPUT = 20_000
"""A model with a larger reply must not compact earlier for it (R052)."""


def threshold(window: int, output: int) -> float:
    """R052: 170,616 for a window of 200,000 and replies of 16,384."""
    return window - min(output, MOST_OUTPUT) - BUFFER


TEXTS = PresetTexts(
    summary_user="[Conversation compressed]\n{summary}",
    summary_ack="Understood. Continuing with compressed context.",
)
LAYOUT = preset_layout(STYLE, TEXTS)


learn_v5 = Policy(
    name="learn-v5",
    levels=single_threshold(threshold),
    usable=beside_reply,
    estimator=LEARN_V5,
    gauge=estimated_messages,
    output_reserved=16_384,  # of the reference agent's model
    arrival=(partial(offload_results, limit=40_000, unit="tokens", preview=first_chars(2_000), stub=learn_persisted),),
    always=(
        partial(
            clear_results,
            keep_results=3,
            min_tokens=1_000,
            only=frozenset(("bash", "read_file", "write_file", "edit_file")),
            never=frozenset(),
            stub=learn_cleared,
        ),
    ),
    last_resort=evict_oldest(),
    overflow="auto-compact",
    folds=(partial(summarize, keep_messages=5, keep_turns=0, keep_tokens=0, min_savings=20_000, shape=LAYOUT),),
    templates=TEXTS,
)
