"""The seeds' environment variables (R060-R066), as aliases under the presets of their seeds and nowhere else.

Whoever switched off Claude Code's compaction did not switch off ours. Nothing is read here: the edge hands the
variables in. A value that cannot be read changes nothing and is complained of.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from ebbtide.policy import claude_code, sage
from ebbtide.policy.model import Policy

T = TypeVar("T")
Environ = Mapping[str, str]

CLAUDE_CODE_VARIABLES = (
    "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE",
    "CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "DISABLE_AUTO_COMPACT",
    "DISABLE_COMPACT",
    "DISABLE_MICROCOMPACT",
)
SAGE_VARIABLES = ("AUTOCOMPACT_PCT_OVERRIDE",)

_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def apply_variables(policy: Policy, environ: Environ) -> tuple[Policy, tuple[str, ...]]:
    """The policy as these variables want it, and a complaint for each that could not be read."""
    told = _Told(environ)
    if policy.name == claude_code.claude_code.name:
        return _claude_code(policy, told), tuple(told.complaints)
    if policy.name == sage.sage.name:
        percent = told.read("AUTOCOMPACT_PCT_OVERRIDE", _percent)
        changed = policy if percent is None else replace(policy, levels=sage.levels(percent / 100))
        return changed, tuple(told.complaints)
    return policy, ()


def _claude_code(policy: Policy, told: _Told) -> Policy:
    percent = told.read("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", _percent)
    blocking = told.read("CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE", _tokens)
    reserved = told.read("CLAUDE_CODE_MAX_OUTPUT_TOKENS", _tokens)
    nothing = bool(told.read("DISABLE_COMPACT", _truth))
    manual = nothing or bool(told.read("DISABLE_AUTO_COMPACT", _truth))
    if nothing or told.read("DISABLE_MICROCOMPACT", _truth):
        policy = claude_code.without_microcompact(policy)
    if percent is None and blocking is None and reserved is None and not manual:
        return policy
    reserved = claude_code.OUTPUT_RESERVED if reserved is None else reserved
    rule = claude_code.levels(reserved=reserved, percent=percent, auto=not manual, blocking=blocking)
    policy = replace(policy, levels=rule, output_reserved=reserved)
    return claude_code.without_auto_compact(policy) if manual else policy


class _Told:
    """What the environment says, and what of it cannot be read."""

    def __init__(self, environ: Environ) -> None:
        self._environ = environ
        self.complaints: list[str] = []

    def read(self, name: str, parse: Callable[[str], T]) -> T | None:
        text = self._environ.get(name, "").strip()
        if not text:
            return None
        try:
            return parse(text)
        except ValueError as wrong:
            self.complaints.append(f"{name}={text[:40]!r} is ignored: {wrong}")
            return None


def _percent(text: str) -> float:
    """Clamped to 1-100 (E7): 0 would compact on every turn, 500 never."""
    try:
        percent = float(text)
    except ValueError:
        percent = math.nan
    if math.isnan(percent):
        raise ValueError("not a percentage from 1 to 100")
    return min(100.0, max(1.0, percent))


def _tokens(text: str) -> int:
    # Nine digits: no window is larger, and int() of a million digits takes its time.
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", text):
        raise ValueError("not a number of tokens above 0")
    return int(text)


def _truth(text: str) -> bool:
    if text.lower() not in _WORDS:
        raise ValueError("neither true nor false")
    return _WORDS[text.lower()]
