"""Runs the effects that the core decides on, sync and async. `Context` and `fit` are the library's front doors."""

from __future__ import annotations

from ebbtide.drive.compaction import Compaction, Hooks
from ebbtide.drive.context import Context, Ready, fit
from ebbtide.drive.recalling import Hit, Page
from ebbtide.drive.report import Event, Report

__all__ = ["Compaction", "Context", "Event", "Hit", "Hooks", "Page", "Ready", "Report", "fit"]
