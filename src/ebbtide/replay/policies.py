"""Other people's rules, written with our passes, so that they run on the same sessions.

Rules only: what a peer's code does besides (its prompts, its bugs) is in `benchmarks/`, where the real packages run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from ebbtide.core.planner import Levels, Situation
from ebbtide.core.stub import Stub
from ebbtide.core.types import Ask, Edit
from ebbtide.core.view import View
from ebbtide.passes import clear_results, summarize
from ebbtide.policy import PRESETS, Policy
from ebbtide.policy.levels import LevelRule, beside_reply, shares
from ebbtide.replay.contenders import Arm, Engine, Making, Recorded, Untouched
from ebbtide.replay.recorded_session import Tape

_NEVER = 10**9


def _masked(stub: Stub) -> str:
    return f"Old environment output: ({stub.lines} lines omitted)"


def _cleared(_: Stub) -> str:
    return "[cleared to save context]"


def _only_by_hand(window: int, _output: int, _overhead: int = 0) -> Levels:
    """Levels for rules that do not look at the window."""
    return Levels(warning=_NEVER, soft=_NEVER, auto=_NEVER, hard=_NEVER, blocking=_NEVER, low=window)


def _at(tokens: int, low: int) -> LevelRule:
    """Act above so many tokens, in a small window above half of it."""

    def rule(window: int, _output: int, _overhead: int = 0) -> Levels:
        auto = min(tokens, window // 2)
        return Levels(warning=auto, soft=auto, auto=auto, hard=_NEVER, blocking=_NEVER, low=min(low, auto))

    return rule


masking = Policy(
    name="masking",
    levels=_only_by_hand,
    usable=beside_reply,
    always=(partial(clear_results, keep_results=10, min_tokens=0, never=frozenset(), stub=_masked),),
)
"""JetBrains and SWE-agent (arXiv 2508.21433, M=10): all results but the newest 10 are masked, on every turn.

SWE-agent spares the first observation too; there that is the task, which here is the user's and never masked.
"""


def _every_43(view: View, situation: Situation) -> Iterable[Edit | Ask]:
    """A summary of all but the newest 10 turns, once 43 more have gathered (N=43, M=10): it looks at no level.

    A turn is an answer and what came back for it. No tokens are asked to stay, so the tail is the 20 messages. The
    user's words stay, as the task does there; of ours, the ledger, nothing is added.
    """
    answered = {entry.message for entry in view.entries if entry.role == "assistant"}
    if len(answered) < 43 + 10:
        return ()
    levels = replace(situation.budget.levels, soft=0, auto=0)
    folding = replace(situation.folding, after=None)
    due = replace(situation, budget=replace(situation.budget, levels=levels), folding=folding)
    return summarize(view, due, keep_messages=20, keep_turns=_NEVER, keep_tokens=0, ledger_tokens=0)


hybrid = Policy(
    name="hybrid",
    levels=_only_by_hand,
    usable=beside_reply,
    always=(*masking.always, _every_43),
    overflow="summarize",
)
"""Masking, and a summary every 43 turns (the same paper)."""

clear_tool_uses = Policy(
    name="clear-tool-uses",
    levels=_at(100_000, 0),
    usable=beside_reply,
    pressure=(partial(clear_results, keep_results=3, min_tokens=0, never=frozenset(), stub=_cleared),),
)
"""Anthropic's context editing with its defaults: above 100,000 tokens all results but the newest 3 are cleared.

It runs at the provider, from the whole history on each request, and is read here in its favour: what was cleared stays
so, and the next clear comes when the rest has grown to 100,000 again. Its documentation says that requests after a
clear read the new prefix, and no more. Read the other way it is LangChain's copy of it (benchmarks/replay_peers.py).
"""


def _hermes(window: int, output: int, _overhead: int = 0) -> Levels:
    """At half of a large window; windows below 512,000 are filled to three quarters first."""
    auto = 0.75 if window < 512_000 else 0.5
    # Low water leaves room for the tail of 25,000 tokens: a fold keeps at most half of it.
    return shares(warning=auto, soft=auto, auto=auto, hard=0.95, low=0.3)(window, output)


lean = Policy(
    name="lean",
    levels=_hermes,
    usable=beside_reply,
    folds=(partial(summarize, keep_tokens=25_000, keep_turns=_NEVER),),
    overflow="summarize",
)
"""Hermes with a lean tail: all but 25,000 tokens becomes a summary, an index of names and the user's words.

What left can be searched. Its first three messages and its pass over old results before a fold are left out: the first
are the user's mostly, and of the second nothing is left after the fold.
"""

PEERS = {policy.name: policy for policy in (masking, hybrid, clear_tool_uses, lean)}

_SEARCHED = frozenset({"default", "lean"})
"""Those whose model can search what left."""

NAMES = ("raw", "recorded", *PRESETS, "default+model", *PEERS)


def arm(name: str, window: int) -> Making:
    """An arm by its name. A name may end with `+model`: then summaries are asked for, from the stand-in."""
    if name == "raw":
        return Untouched
    if name == "recorded":
        return Recorded
    plain = name.removesuffix("+model")
    policy: Policy | str = PEERS.get(plain, plain)
    # Our own default folds without a model, as it does for a user who gives it none. The others cannot.
    asks = plain != "default" or name != plain
    return engine(policy, window, asks=asks, recall=plain in _SEARCHED)


def engine(policy: Policy | str, window: int, *, asks: bool = False, recall: bool = True) -> Callable[[Tape], Arm]:
    return lambda tape: Engine(tape, policy, window, asks, recall)
