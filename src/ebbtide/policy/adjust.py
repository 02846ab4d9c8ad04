"""What a configuration may change in a policy: thresholds, settings of its passes, overflow, TTL.

Numbers, names and lists of names can be set; code, such as a preview, cannot. An error names the key and lists what is
known.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from types import MappingProxyType
from typing import Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from ebbtide.core.cache.breakpoints import LIMIT, BreakpointSlot, BreakpointStrategy
from ebbtide.core.errors import BadConfig
from ebbtide.core.planner import Pass, Thresholds
from ebbtide.facts import CollectFacts
from ebbtide.passes import fold_to_fit, summarize
from ebbtide.passes.when import ConditionalPass
from ebbtide.policy import claude_code, sage
from ebbtide.policy.combine import OnOriginals, PassGroup
from ebbtide.policy.levels import LevelRule
from ebbtide.policy.model import Overflow, Policy

OVERFLOWS: tuple[Overflow, ...] = get_args(Overflow)
_PLAIN = (int, float, frozenset[str], frozenset[str] | None, tuple[float, int], Mapping[str, int])
LEVEL_NAMES = tuple(field.name for field in fields(Thresholds) if field.name not in ("least", "patience", "inclusive"))


def with_levels(policy: Policy, values: Mapping[str, float]) -> Policy:
    """The policy with these thresholds: up to 1 a share of the window, above it tokens."""
    for name, value in values.items():
        if name not in LEVEL_NAMES:
            raise BadConfig(f"levels.{name}: unknown; there are {', '.join(LEVEL_NAMES)}")
        if not value > 0:
            raise BadConfig(f"levels.{name}: must be above 0: a share of the window up to 1, or tokens")
    return replace(policy, levels=_set_levels(policy.levels, values)) if values else policy


def _set_levels(rule: LevelRule, values: Mapping[str, float]) -> LevelRule:
    def with_values(window: int, output: int, overhead: int = 0) -> Thresholds:
        tokens = {name: int(value * window if value <= 1 else value) for name, value in values.items()}
        levels = replace(rule(window, output, overhead), **tokens)  # type: ignore[arg-type]
        # A low threshold above the one where it acts would act on every request. A threshold that a person chose is
        # where it acts, whatever prices say.
        patience = 0.0 if "auto" in values else levels.patience
        return replace(levels, low=min(levels.low, levels.auto), patience=patience)

    return with_values


def with_overflow(policy: Policy, overflow: str) -> Policy:
    """R010. With `error` the policy raises instead of changing history; new results are still shortened.

    `prune` makes room without a summary; `summarize` and `auto-compact` compact old turns after the gentler passes.
    """
    if overflow not in OVERFLOWS:
        raise BadConfig(f"overflow: {overflow!r} is not one of {', '.join(OVERFLOWS)}")
    chosen = replace(policy, overflow=overflow)
    if overflow != "error":
        return chosen
    return replace(chosen, always=(), pressure=(), last_resort=(), levels=_hard_at_auto(policy.levels))


def _hard_at_auto(rule: LevelRule) -> LevelRule:
    def with_hard_at_auto(window: int, output: int, overhead: int = 0) -> Thresholds:
        levels = rule(window, output, overhead)
        return replace(levels, hard=levels.auto)

    return with_hard_at_auto


def with_ttl(policy: Policy, seconds: float) -> Policy:
    """Our cache breakpoints ask the provider to keep the prefix for so long. A client's own ones stay as they are."""
    return policy if policy.marks is None else replace(policy, marks=_with_slot_ttl(policy.marks, seconds))


def _with_slot_ttl(strategy: BreakpointStrategy, seconds: float) -> BreakpointStrategy:
    def choose(slots: Sequence[BreakpointSlot], *, model: str, limit: int = LIMIT) -> tuple[BreakpointSlot, ...]:
        with_ttl = [slot if slot.has_breakpoint else slot._replace(ttl=seconds) for slot in slots]
        return strategy(with_ttl, model=model, limit=limit)

    return choose


Tables = Mapping[str, Mapping[str, object]]
"""From a pass's name to its settings."""


def with_passes(policy: Policy, tables: Tables) -> Policy:
    """The policy with these settings of its passes. The last resort keeps its own, because it must fit."""

    def set_values(propose: Pass) -> Pass:
        table = tables.get(pass_name(propose))
        return partial(propose, **table) if table else propose

    return replace(
        policy,
        arrival=_map(policy.arrival, set_values),
        always=_map(policy.always, set_values),
        pressure=_map(policy.pressure, set_values),
        folds=_map(policy.folds, set_values),
    )


def with_fact_collector(policy: Policy, collect: CollectFacts) -> Policy:
    """The policy whose compactions collect facts with this function. A session's remembers those of earlier items."""

    settings: Mapping[str, object] = {"collect": collect}

    def bind(propose: Pass) -> Pass:
        return partial(propose, **settings) if _function(propose) in (summarize, fold_to_fit) else propose

    return replace(policy, folds=_map(policy.folds, bind), last_resort=_map(policy.last_resort, bind))


def pass_settings(policies: Mapping[str, Policy]) -> Mapping[str, Mapping[str, object]]:
    """From the name of every pass in these policies to its settings and their types."""
    return {
        pass_name(simple): _types(simple)
        for policy in policies.values()
        for propose in (*policy.arrival, *policy.always, *policy.pressure, *policy.folds)
        for simple in simple_passes(propose)
    }


def check_pass_settings(tables: Mapping[str, object], policies: Mapping[str, Policy]) -> Tables:
    """Convert settings from a file to the types that the passes take. Passes not in use are checked too."""
    settings = pass_settings(policies)
    checked: dict[str, Mapping[str, object]] = {}
    for name, table in tables.items():
        if name not in settings:
            raise BadConfig(f"passes.{name}: unknown; there are {', '.join(sorted(settings))}")
        if not isinstance(table, Mapping):
            raise BadConfig(f"passes.{name}: must be a table of settings")
        checked[name] = {
            key: _convert(f"passes.{name}.{key}", key, value, settings[name]) for key, value in table.items()
        }
    return checked


def simple_passes(propose: Pass) -> Iterator[Pass]:
    """The passes inside a combination, or the pass itself."""
    if isinstance(propose, ConditionalPass | OnOriginals):
        yield from simple_passes(propose.propose)
    elif isinstance(propose, PassGroup):
        for inner in propose.passes:
            yield from simple_passes(inner)
    else:
        yield propose


def pass_name(propose: Pass) -> str:
    return str(getattr(_function(propose), "__name__", ""))


def _function(propose: Pass) -> Pass:
    return cast(Pass, propose.func) if isinstance(propose, partial) else propose


def _map(passes: tuple[Pass, ...], change: Callable[[Pass], Pass]) -> tuple[Pass, ...]:
    """The passes with this change made to each, also inside combinations."""
    return tuple(_changed(propose, change) for propose in passes)


def _changed(propose: Pass, change: Callable[[Pass], Pass]) -> Pass:
    if isinstance(propose, ConditionalPass | OnOriginals):
        return replace(propose, propose=_changed(propose.propose, change))
    return PassGroup(_map(propose.passes, change)) if isinstance(propose, PassGroup) else change(propose)


def _types(propose: Pass) -> Mapping[str, object]:
    function = _function(propose)
    hints = get_type_hints(function)
    parameters = inspect.signature(function).parameters.values()
    names = (parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY)
    return {name: hints[name] for name in names if hints[name] in _PLAIN or get_origin(hints[name]) is Literal}


def _convert(key: str, name: str, value: object, types: Mapping[str, object]) -> object:
    if name not in types:
        raise BadConfig(f"{key}: unknown; there are {', '.join(sorted(types)) or 'no settings'}")
    hint = types[name]
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise BadConfig(f"{key}: {value!r} is not one of {', '.join(get_args(hint))}")
        return value
    if hint in (frozenset[str], frozenset[str] | None):
        return frozenset(_strings(key, value))
    if hint == tuple[float, int]:
        return _pair(key, value)
    if hint == Mapping[str, int]:
        return _amounts(key, value)
    return _number(key, value, hint)


def _strings(key: str, value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise BadConfig(f"{key}: must be a list of names")
    return value


def _pair(key: str, value: object) -> tuple[object, object]:
    if not isinstance(value, list) or len(value) != 2:
        raise BadConfig(f"{key}: must be a list of two numbers, a share and an amount")
    return _number(f"{key}.0", value[0], float), _number(f"{key}.1", value[1], int)


def _amounts(key: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise BadConfig(f"{key}: must be a table from names to numbers")
    return MappingProxyType({str(name): _number(f"{key}.{name}", amount, int) for name, amount in value.items()})


def _number(key: str, value: object, kind: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise BadConfig(f"{key}: must be a number of 0 or more, not {value!r}")
    if kind is int and value != int(value):
        raise BadConfig(f"{key}: must be a whole number, not {value!r}")
    return int(value) if kind is int else float(value)


# --- variables of the reference agents --------------------------------------------------------------------------------


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
