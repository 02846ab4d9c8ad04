"""Ebbtide keeps an LLM agent's conversation inside the model's window, at the lowest cost, and loses nothing.

Public names are loaded on first use, so that `import ebbtide` is fast.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
"""As in `typing`, which takes longer to load than `ebb --version` runs."""
if TYPE_CHECKING:
    from ebbtide.assembly import Conversation
    from ebbtide.core.errors import BadConfig, BadEdit, BadRequest, Blocked, Busy, EbbtideError, StoreError, WontFit
    from ebbtide.core.types import Edit, Item, Usage
    from ebbtide.formats import Recording, load
    from ebbtide.fronts.sdk import session, wrap
    from ebbtide.policy import PRESETS, Policy, preset
    from ebbtide.runtime import (
        Cache,
        Compaction,
        Context,
        Event,
        Hit,
        Hooks,
        Page,
        Ready,
        Recall,
        Report,
        Summarizer,
        fit,
    )
    from ebbtide.wire.recall_tools import recall_tools

__version__ = "0.1.0"

__all__ = [
    "PRESETS", "BadConfig", "BadEdit", "BadRequest", "Blocked", "Busy", "Cache", "Compaction", "Context",
    "Conversation", "EbbtideError", "Edit", "Event", "Hit", "Hooks", "Item", "Page", "Policy", "Ready", "Recall",
    "Recording", "Report", "StoreError", "Summarizer", "Usage", "WontFit", "fit", "load", "preset", "recall_tools",
    "session", "wrap",
]  # fmt: skip

_HOMES = {
    "ebbtide.assembly": ("Conversation",),
    "ebbtide.core.errors": (
        *("BadConfig", "BadEdit", "BadRequest", "Blocked", "Busy", "EbbtideError", "StoreError", "WontFit"),
    ),
    "ebbtide.core.types": ("Edit", "Item", "Usage"),
    "ebbtide.runtime": (
        *("Cache", "Compaction", "Context", "Event", "Hit", "Hooks", "Page", "Ready", "Recall", "Report"),
        *("Summarizer", "fit"),
    ),
    "ebbtide.formats": ("Recording", "load"),
    "ebbtide.fronts.sdk": ("session", "wrap"),
    "ebbtide.policy": ("PRESETS", "Policy", "preset"),
    "ebbtide.wire.recall_tools": ("recall_tools",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
