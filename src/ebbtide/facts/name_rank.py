"""What comes first when not everything fits: what was touched often and lately, and what is open."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ebbtide.facts.model import Command, FileFact, Trouble
from ebbtide.facts.outcome import is_probe


def files_by_need(files: Iterable[FileFact], now: int) -> list[FileFact]:
    """Often and lately: twice as often weighs as much as a third of the way back."""
    return sorted(files, key=lambda fact: (-_often_and_lately(fact.times, now - fact.newest), fact.path))


def commands_by_need(commands: Iterable[Command], now: int) -> list[Command]:
    """Commands that only look at things are left out: what they showed is under files and names."""
    told = [command for command in commands if not is_probe(command.text)]
    return sorted(told, key=lambda one: (-_often_and_lately(one.times, now - one.order) - one.failed, one.order))


def troubles_by_need(troubles: Iterable[Trouble]) -> list[Trouble]:
    """Open before ended, newest first; each matter once. A failed tool call that then succeeded taught nothing."""
    newest = {trouble.about: trouble for trouble in troubles}
    opened = [one for one in newest.values() if one.ended < 0]
    over = [one for one in newest.values() if one.ended >= 0 and one.command]
    return sorted(opened, key=lambda one: -one.order) + sorted(over, key=lambda one: -one.ended)


def _often_and_lately(times: int, age: int) -> float:
    return math.log1p(times) - 0.6 * math.log1p(age)
