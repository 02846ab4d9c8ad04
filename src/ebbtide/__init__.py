"""Ebbtide keeps an LLM agent's conversation inside the model's window, at the lowest bill, and loses nothing."""

from __future__ import annotations

from ebbtide.assembly import Conversation
from ebbtide.core.errors import BadConfig, BadEdit, BadRequest, Blocked, EbbtideError, StoreError, WontFit
from ebbtide.core.types import Edit, Item, Usage
from ebbtide.drive import Context, Event, Ready, Report, fit
from ebbtide.formats import Recording, load
from ebbtide.policy import PRESETS, Policy, preset

__all__ = [
    "PRESETS",
    "BadConfig",
    "BadEdit",
    "BadRequest",
    "Blocked",
    "Context",
    "Conversation",
    "EbbtideError",
    "Edit",
    "Event",
    "Item",
    "Policy",
    "Ready",
    "Recording",
    "Report",
    "StoreError",
    "Usage",
    "WontFit",
    "fit",
    "load",
    "preset",
]

__version__ = "0.1.0"
