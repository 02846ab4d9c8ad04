"""Runs the effects that the core decides on, sync and async. `Context` and `fit` are the library's front doors."""

from __future__ import annotations

from ebbtide.drive.context import Context, Ready, fit
from ebbtide.drive.report import Event, Report

__all__ = ["Context", "Event", "Ready", "Report", "fit"]
