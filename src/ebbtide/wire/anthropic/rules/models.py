"""What a model is known to accept. A name we cannot read is treated as the newest: never refuse what we do not know."""

from __future__ import annotations

import re

_FAMILY_FIRST = re.compile(r"claude-(opus|sonnet|haiku|fable|mythos)-(\d{1,2})(?:-(\d{1,2}))?(?!\d)")
"""`claude-sonnet-4-5-20250929`, also inside `anthropic.claude-...-v1:0` and `anthropic/claude-opus-4.8`."""
_VERSION_FIRST = re.compile(r"claude-(\d)(?:-(\d{1,2}))?(?:-(opus|sonnet|haiku))?(?!\d)")
"""`claude-3-5-sonnet-20241022`, `claude-2.1`."""


def takes_system_turns(model: str) -> bool:
    """A2: mid-conversation `system` arrived with Opus 4.8 and is taken by version 5 and by names we do not know."""
    family_and_version = _version(model)
    if family_and_version is None:
        return True
    family, version = family_and_version
    return version >= ((4, 8) if family == "opus" else (5, 0))


def takes_prefill(model: str) -> bool:
    """A6: a trailing assistant message is refused by Opus and Sonnet from 4.6 on and by every family of version 5."""
    family_and_version = _version(model)
    if family_and_version is None:
        return True
    family, version = family_and_version
    return version < ((4, 6) if family in ("opus", "sonnet") else (5, 0))


def _version(model: str) -> tuple[str, tuple[int, int]] | None:
    name = model.lower().replace(".", "-")
    if match := _FAMILY_FIRST.search(name):
        return match[1], (int(match[2]), int(match[3] or 0))
    if match := _VERSION_FIRST.search(name):
        return match[3] or "", (int(match[1]), int(match[2] or 0))
    return None
