"""Environment variables of the reference agents (R060-R066), honoured under their own presets only.

A person who turned off Claude Code's compaction did not turn off ours. The caller passes the variables in. A malformed
value changes nothing and gives a warning.
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
    """The policy with these variables applied, and a warning for each that cannot be read."""
    reader = _VariableReader(environ)
    if policy.name == claude_code.claude_code.name:
        return _claude_code(policy, reader), tuple(reader.warnings)
    if policy.name == sage.sage.name:
        percent = reader.read("AUTOCOMPACT_PCT_OVERRIDE", _percent)
        changed = policy if percent is None else replace(policy, levels=sage.levels(percent / 100))
        return changed, tuple(reader.warnings)
    return policy, ()


def _claude_code(policy: Policy, reader: _VariableReader) -> Policy:
    percent = reader.read("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", _percent)
    blocking = reader.read("CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE", _tokens)
    reserved = reader.read("CLAUDE_CODE_MAX_OUTPUT_TOKENS", _tokens)
    is_off = bool(reader.read("DISABLE_COMPACT", _flag))
    is_manual = is_off or bool(reader.read("DISABLE_AUTO_COMPACT", _flag))
    if is_off or reader.read("DISABLE_MICROCOMPACT", _flag):
        policy = claude_code.without_microcompact(policy)
    if percent is None and blocking is None and reserved is None and not is_manual:
        return policy
    reserved = claude_code.OUTPUT_RESERVED if reserved is None else reserved
    rule = claude_code.levels(reserved=reserved, percent=percent, auto=not is_manual, blocking=blocking)
    policy = replace(policy, levels=rule, output_reserved=reserved)
    return claude_code.without_auto_compact(policy) if is_manual else policy


class _VariableReader:
    """Reads variables and collects a warning for each that is malformed."""

    def __init__(self, environ: Environ) -> None:
        self._environ = environ
        self.warnings: list[str] = []

    def read(self, name: str, parse: Callable[[str], T]) -> T | None:
        text = self._environ.get(name, "").strip()
        if not text:
            return None
        try:
            return parse(text)
        except ValueError as error:
            self.warnings.append(f"{name}={text[:40]!r} is ignored: {error}")
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
    # Nine digits are enough for any window, and int() of a million digits is slow.
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", text):
        raise ValueError("not a number of tokens above 0")
    return int(text)


def _flag(text: str) -> bool:
    if text.lower() not in _WORDS:
        raise ValueError("neither true nor false")
    return _WORDS[text.lower()]
