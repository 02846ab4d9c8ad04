"""Claude Code 2.1.19 (seed 001). Clears old results above the warning line, refuses at the blocking one.

R037-R039 counting, R048-R049 levels, R106-R113 intake, R135-R144 clearing, R149 resume, R179 shape after a summary.
The output reservation is the agent's own, not the request's: its 155,000 hold for any `max_tokens`. "Above" is read as
`>`. Departs: where content cannot be kept, nothing is cleared (R143, R253 clear it all the same).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ebbtide.core.cache.breakpoints import static_plus_last
from ebbtide.core.offload import Offloader, as_received, can_offload
from ebbtide.core.planner import PlanInput, Thresholds
from ebbtide.core.preset_stubs import claude_code_cleared, claude_code_persisted
from ebbtide.core.text.preview import head_chars
from ebbtide.core.tokens.estimator import CLAUDE_CODE
from ebbtide.core.tokens.size import estimated_messages
from ebbtide.core.types import Edit
from ebbtide.core.view import View
from ebbtide.passes import clear_to_target, offload_results, summarize
from ebbtide.policy.combine import evict_oldest
from ebbtide.policy.levels import LevelRule, at_least_half, beside_reply
from ebbtide.policy.model import Policy
from ebbtide.summary.layout import PresetTexts, preset_layout
from ebbtide.summary.prompts import CLAUDE_CODE as CLAUDE_CODE_STYLE

OUTPUT_RESERVED = 32_000
AUTO_BUFFER, WARNING_BUFFER, BLOCKING_BUFFER = 13_000, 20_000, 3_000
"""Tokens, R048."""


def levels(
    *, reserved: int = OUTPUT_RESERVED, percent: float | None = None, auto: bool = True, blocking: int | None = None
) -> LevelRule:
    """R049, with what its environment variables may change: `percent` is of the window, `blocking` is in tokens.

    Without auto-compact the space that counts is all that the reply leaves, and the warning line moves up with it.
    """

    def rule(window: int, output: int, _overhead: int = 0) -> Thresholds:
        available = at_least_half(window, window - reserved)
        usual = at_least_half(window, available - AUTO_BUFFER)
        threshold = usual if percent is None else max(1, int(window * percent / 100))
        counts = threshold if auto else available
        refuse = at_least_half(window, window - BLOCKING_BUFFER) if blocking is None else blocking
        warning = min(counts, at_least_half(window, counts - WARNING_BUFFER))
        return Thresholds(
            warning=warning,
            soft=counts,
            auto=counts,
            hard=max(counts, min(available, beside_reply(window, output))),
            blocking=refuse,
            low=counts // 2,
        )

    return rule


def clear_again(view: View, plan_input: PlanInput) -> Iterator[Edit]:
    """What Claude Code had cleared before this session was resumed stays cleared (R149)."""
    offloader = Offloader(by="clear_again", view=view, plan_input=plan_input)
    for entry in view.results if plan_input.cleared else ():
        if entry.call_id in plan_input.cleared and can_offload(view, entry):
            yield offloader.stub_result(
                entry, claude_code_cleared, "cleared before the session was resumed", form=as_received
            )


TEXTS = PresetTexts(
    summary_user=(
        "This session is being continued from a previous conversation that ran out of context. "
        "The summary below covers the earlier portion of the conversation.\n\n{summary}"
    ),
    summary_analysed="Analysis:\n{analysis}\n\nSummary:\n{summary}",
    transcript_hint=(
        "If you need specific details from before compaction (like exact code snippets, error messages, "
        "or content you generated), read the full transcript at: {path}"
    ),
    continuation=(
        "Please continue the conversation from where we left it off without asking the user any further "
        "questions. Continue with the last task that you were asked to work on."
    ),
)

LAYOUT = preset_layout(CLAUDE_CODE_STYLE, TEXTS)
"""R163, R174, R179: one user message replaces all that went before, and the analysis is kept (D9)."""


claude_code = Policy(
    name="claude-code",
    levels=levels(),
    usable=lambda window, *_: at_least_half(window, window - OUTPUT_RESERVED),
    estimator=CLAUDE_CODE,
    gauge=estimated_messages,
    output_reserved=OUTPUT_RESERVED,
    arrival=(
        partial(
            offload_results,
            limit=400_000,
            preview=head_chars(2_000),
            stub=claude_code_persisted,
            form=as_received,
        ),
    ),
    always=(clear_again, clear_to_target),
    last_resort=evict_oldest(),
    marks=static_plus_last,
    blocks=True,
    overflow="auto-compact",
    folds=(partial(summarize, keep_messages=1, keep_turns=0, keep_tokens=0, shape=LAYOUT),),
    templates=TEXTS,
)


def without_auto_compact(policy: Policy) -> Policy:
    """R064: nothing is compacted or dropped automatically; only the blocking threshold is left."""
    return replace(policy, pressure=(), folds=(), last_resort=())


def without_microcompact(policy: Policy) -> Policy:
    """R066."""
    return replace(policy, always=())
