"""Runs the effects that the core decides on, sync and async. `Context` and `fit` are the library's front doors."""

from __future__ import annotations

from ebbtide.compaction.answer_sources import Summarizer
from ebbtide.compaction.coordinator import Compaction, Hooks
from ebbtide.recall.search import Hit, Page
from ebbtide.runtime.context import Context
from ebbtide.runtime.ready import Ready
from ebbtide.runtime.report import Event, Report
from ebbtide.runtime.stateless import fit
from ebbtide.runtime.validation import Cache, Recall

__all__ = [
    "Cache", "Compaction", "Context", "Event", "Hit", "Hooks", "Page", "Ready", "Recall", "Report", "Summarizer", "fit",
]  # fmt: skip
