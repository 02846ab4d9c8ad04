"""Context windows by model name. The table will be wrong for some model tomorrow: `window=` overrides it."""

from __future__ import annotations

import re

_WINDOWS = (
    (r"gpt-4o|gpt-4-turbo|o1-mini", 128_000),
    (r"gpt-4\.1|gemini", 1_000_000),
    (r"gpt-4", 8_192),
    (r"gpt-5|codex", 272_000),
    (r"o[134]", 200_000),
    (r"claude", 200_000),
)
"""First match wins, so `gpt-4o` comes before `gpt-4` (R011)."""
FALLBACK_WINDOW = 200_000


def known_window(model: str) -> int | None:
    """The window, or None if the name is not known."""
    return next((window for pattern, window in _WINDOWS if re.search(pattern, model.lower())), None)


def window_for_model(model: str) -> int:
    return known_window(model) or FALLBACK_WINDOW
