"""How much of one sequence another begins with."""

from __future__ import annotations

from collections.abc import Sequence
from operator import eq


def common_prefix_length(old: Sequence[object], new: Sequence[object]) -> int:
    """Count the leading elements that are equal in both."""
    same = list(map(eq, old, new))
    return same.index(False) if False in same else len(same)
