"""Contenders by name: our presets, and the rules of other agents written with our passes.

Only the rules: `benchmarks/` runs the real packages, with their prompts and their bugs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from ebbtide.core.planner import PlanInput, Thresholds
from ebbtide.core.stub import Stub
from ebbtide.core.types import Edit, Question
from ebbtide.core.view import View
from ebbtide.passes import clear_results, summarize
from ebbtide.policy import DIAL, PRESETS, Policy
from ebbtide.policy.levels import LevelRule, beside_reply, shares
from ebbtide.replay.contenders import EngineContender, MakeContender, RawContender, RecordedContender

_NEVER = 10**9


def _masked_stub(stub: Stub) -> str:
    return f"Old environment output: ({stub.lines} lines omitted)"


def _cleared_stub(_: Stub) -> str:
    return "[cleared to save context]"


def _no_levels(window: int, _output: int, _overhead: int = 0) -> Thresholds:
    """No thresholds, for rules that ignore the window."""
    return Thresholds(warning=_NEVER, soft=_NEVER, auto=_NEVER, hard=_NEVER, blocking=_NEVER, low=window)


def _act_above(tokens: int, low: int) -> LevelRule:
    """Act above `tokens`; in a small window, above half of it."""

    def rule(window: int, _output: int, _overhead: int = 0) -> Thresholds:
        auto = min(tokens, window // 2)
        return Thresholds(warning=auto, soft=auto, auto=auto, hard=_NEVER, blocking=_NEVER, low=min(low, auto))

    return rule


masking = Policy(
    name="masking",
    levels=_no_levels,
    usable=beside_reply,
    always=(partial(clear_results, keep_results=10, min_tokens=0, never=frozenset(), stub=_masked_stub),),
)
"""JetBrains and SWE-agent (arXiv 2508.21433, M=10): mask all results but the newest 10, on every turn.

SWE-agent also keeps the first observation, which is the task. Here the task is a user message and never masked.
"""


def _every_43(view: View, situation: PlanInput) -> Iterable[Edit | Question]:
    """Summarize all but the newest 10 turns once 43 more have gathered (N=43, M=10), at any size of the request.

    A turn is an answer and its tool results, so 20 messages stay. User messages stay, as the task does in the paper;
    our record of facts is left out.
    """
    answered = {entry.message for entry in view.entries if entry.role == "assistant"}
    if len(answered) < 43 + 10:
        return ()
    levels = replace(situation.budget.levels, soft=0, auto=0)
    folding = situation.compaction._replace(after=None)
    due = situation._replace(budget=replace(situation.budget, levels=levels), compaction=folding)
    return summarize(view, due, keep_messages=20, keep_turns=_NEVER, keep_tokens=0, ledger_tokens=0)


hybrid = Policy(
    name="hybrid",
    levels=_no_levels,
    usable=beside_reply,
    always=(*masking.always, _every_43),
    overflow="summarize",
)
"""Masking, and a summary every 43 turns (the same paper)."""

clear_tool_uses = Policy(
    name="clear-tool-uses",
    levels=_act_above(100_000, 0),
    usable=beside_reply,
    pressure=(partial(clear_results, keep_results=3, min_tokens=0, never=frozenset(), stub=_cleared_stub),),
)
"""Anthropic's context editing with its defaults: above 100,000 tokens, clear all results but the newest 3.

It runs at the provider, on the whole history of each request. Its documentation leaves open what happens next; this is
the reading in its favour: what was cleared stays cleared until the rest has grown to 100,000 again. LangChain's copy
(benchmarks/replay_peers.py) reads it the other way.
"""


def _hermes(window: int, output: int, _overhead: int = 0) -> Thresholds:
    """Act at half of a large window, and at three quarters of one below 512,000."""
    auto = 0.75 if window < 512_000 else 0.5
    # The low level leaves room for the tail of 25,000 tokens: a compaction keeps at most half of it.
    return shares(warning=auto, soft=auto, auto=auto, hard=0.95, low=0.3)(window, output)


lean = Policy(
    name="lean",
    levels=_hermes,
    usable=beside_reply,
    folds=(partial(summarize, keep_tokens=25_000, keep_turns=_NEVER),),
    overflow="summarize",
)
"""Hermes with a lean tail: all but 25,000 tokens becomes a summary, an index of names and the user's messages.

The model can search what was removed. Two rules of Hermes are left out: it keeps the first three messages, which are
mostly the user's, and it clears old results before a compaction, which replaces them anyway.
"""

PEERS = {policy.name: policy for policy in (masking, hybrid, clear_tool_uses, lean)}

_OURS = frozenset({"default", *DIAL})
_CAN_SEARCH = _OURS | {"lean"}
"""Policies whose model can search what was removed."""

LIBRARY = "+library"
"""Ends the name of a contender that sets the cache breakpoints itself, for a program that sets none."""
UNMARKED = "+library-unmarked"
"""The same with `marks=False`: there are no breakpoints."""
_DIAL = tuple(policy.name for policy in DIAL.values())
NAMES = tuple(dict.fromkeys(("raw", "recorded", *_DIAL, "default+library", *PRESETS, "default+model", *PEERS)))


def contender(name: str, window: int) -> MakeContender:
    """Look up a contender. A name that ends with `+model` asks for (canned) summaries.

    `+library` is for a program that sets no cache breakpoints, and `+library-unmarked` for one that turns ours off too.
    All others run behind a client that sets its own.
    """
    if name == "raw":
        return RawContender
    if name == "recorded":
        return RecordedContender
    without_marks = name.removesuffix(UNMARKED).removesuffix(LIBRARY)
    policy_name = without_marks.removesuffix("+model")
    policy: Policy | str = PEERS.get(policy_name, policy_name)
    # Our default needs no model, as for a user who configures none. The other policies cannot do without.
    has_model = policy_name not in _OURS or without_marks != policy_name
    return lambda session: EngineContender(
        session,
        policy,
        window,
        has_model,
        can_recall=policy_name in _CAN_SEARCH,
        is_library=without_marks != name,
        marks=not name.endswith(UNMARKED),
    )
