"""The peers of `replay_peers.py` with their settings: the real code of three packages.

This needs their environment (requirements/bench.txt).
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from functools import partial
from typing import Any

from langchain.agents.middleware import ClearToolUsesEdit
from peers_harness import Tiered, file_key
from peers_langchain import Editing, Summarization
from pydantic_ai_harness.compaction import (
    ClearToolResults,
    DeduplicateFileReads,
    SummarizingCompaction,
    TieredCompaction,
)

from ebbtide.replay.contenders import MakeContender

ENDLESS = 10**9
"""A window that is never full."""
PACKAGES = ("langchain", "langchain-core", "pydantic-ai-harness", "pydantic-ai-slim")


def _tiered(window: int) -> TieredCompaction[Any]:
    """The example in its README. There a tier's own trigger is ignored."""
    del window
    tiers = [
        DeduplicateFileReads(file_key=file_key),
        ClearToolResults(max_tokens=1, keep_pairs=3),
        SummarizingCompaction(max_messages=1, keep_messages=20),
    ]
    return TieredCompaction(tiers=tiers, target_tokens=120_000)


def _tiered_for(window: int) -> TieredCompaction[Any]:
    """By a fraction of an explicit window, as its README recommends if the price table has a wrong one."""
    tiers = [
        DeduplicateFileReads(file_key=file_key),
        ClearToolResults(max_tokens=1, keep_pairs=3),
        SummarizingCompaction(max_messages=1, keep_tokens=window // 10),
    ]
    return TieredCompaction(tiers=tiers, target_fraction=0.8, context_window=window)


SETTINGS: dict[str, tuple[str, Callable[..., Any]]] = {
    "langchain-summary": (
        "SummarizationMiddleware(trigger=('fraction', 0.8)): else as by default, keep=('messages', 20), "
        "trim_tokens_to_summarize=4000. Without a trigger, its default, it never acts.",
        partial(Summarization, settings={"trigger": ("fraction", 0.8)}),
    ),
    "langchain-summary-tuned": (
        "trigger=('fraction', 0.85), keep=('fraction', 0.1), trim_tokens_to_summarize=None: "
        "what deepagents sets where the model's window is known",
        partial(
            Summarization,
            settings={"trigger": ("fraction", 0.85), "keep": ("fraction", 0.1), "trim_tokens_to_summarize": None},
        ),
    ),
    "langchain-editing": (
        "ContextEditingMiddleware(): ClearToolUsesEdit(trigger=100_000, keep=3)",
        partial(Editing, edits=lambda _: [ClearToolUsesEdit()]),
    ),
    "langchain-editing-tuned": (
        "ClearToolUsesEdit(trigger=80 % of the window, keep=10)",
        partial(Editing, edits=lambda window: [ClearToolUsesEdit(trigger=window * 4 // 5, keep=10)]),
    ),
    "harness-tiered": (
        "TieredCompaction([DeduplicateFileReads, ClearToolResults(keep_pairs=3), "
        "SummarizingCompaction(keep_messages=20)], target_tokens=120_000)",
        partial(Tiered, made=_tiered),
    ),
    "harness-tiered-tuned": (
        "the same tiers, SummarizingCompaction(keep_tokens=a tenth of the window), target_fraction=0.8",
        partial(Tiered, made=_tiered_for),
    ),
}


def makings(window: int) -> dict[str, MakeContender]:
    return {name: partial(made, window=window) for name, (_, made) in SETTINGS.items()}


def idle() -> dict[str, MakeContender]:
    """The same peers in a window that is never full: they must return their input."""
    return {name: made for name, made in makings(ENDLESS).items() if name.endswith("-tuned")}


def versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in PACKAGES}
