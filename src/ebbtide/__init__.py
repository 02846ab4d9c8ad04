"""Ebbtide keeps an LLM agent's conversation inside the model's window, at the lowest bill, and loses nothing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ebbtide.core.errors import BadConfig, BadEdit, BadRequest, Blocked, EbbtideError, StoreError, WontFit
from ebbtide.core.types import Edit, Item, Usage
from ebbtide.drive import Context, Event, Ready, Report, fit
from ebbtide.policy import PRESETS, Policy, preset

if TYPE_CHECKING:
    from ebbtide.assembly import Conversation
    from ebbtide.formats import Recording, load

_LATER = {"Conversation": "ebbtide.assembly", "Recording": "ebbtide.formats", "load": "ebbtide.formats"}
"""A quarter of the time to import, for those who only prepare requests: loaded when first asked for."""

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


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
