"""What comes first when not everything fits: what was touched often and lately, and what is open."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ebbtide.facts.model import CommandFact, Failure, FileFact
from ebbtide.facts.outcome import is_probe


def rank_files(files: Iterable[FileFact], now: int) -> list[FileFact]:
    """Often and lately: twice as often weighs as much as a third of the way back."""
    return sorted(files, key=lambda fact: (-_activity_score(fact.touch_count, now - fact.last_touched), fact.path))


def rank_commands(commands: Iterable[CommandFact], now: int) -> list[CommandFact]:
    """Commands that only look at things are left out: what they showed is under files and names."""
    told = [command for command in commands if not is_probe(command.text)]
    return sorted(told, key=lambda one: (-_activity_score(one.run_count, now - one.order) - one.has_failed, one.order))


def rank_failures(troubles: Iterable[Failure]) -> list[Failure]:
    """Open before ended, newest first; each matter once. A failed tool call that then succeeded taught nothing."""
    newest = {trouble.about: trouble for trouble in troubles}
    opened = [one for one in newest.values() if one.resolved_at < 0]
    over = [one for one in newest.values() if one.resolved_at >= 0 and one.is_command]
    return sorted(opened, key=lambda one: -one.order) + sorted(over, key=lambda one: -one.resolved_at)


def _activity_score(times: int, age: int) -> float:
    return math.log1p(times) - 0.6 * math.log1p(age)
