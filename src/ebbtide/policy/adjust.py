"""What a person may change in a policy without writing one: levels, the settings of its passes, overflow, TTL.

Numbers, names and lists of names can be set; what is code, a preview or a text, cannot. Everything unknown is refused
with the list of what is known, and the message names the key.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from types import MappingProxyType
from typing import Literal, cast, get_args, get_origin, get_type_hints

from ebbtide.core.cache.breakpoints import LIMIT, BreakpointSlot, BreakpointStrategy
from ebbtide.core.errors import BadConfig
from ebbtide.core.planner import Pass, Thresholds
from ebbtide.passes.when import ConditionalPass
from ebbtide.policy.combine import OnOriginals, PassGroup
from ebbtide.policy.levels import LevelRule
from ebbtide.policy.model import Overflow, Policy

OVERFLOWS: tuple[Overflow, ...] = get_args(Overflow)
_PLAIN = (int, float, frozenset[str], frozenset[str] | None, tuple[float, int], Mapping[str, int])
LEVEL_NAMES = tuple(field.name for field in fields(Thresholds) if field.name not in ("least", "inclusive"))


def with_levels(policy: Policy, told: Mapping[str, float]) -> Policy:
    """Levels set by hand: up to 1 a share of the window, above it tokens."""
    for name, value in told.items():
        if name not in LEVEL_NAMES:
            raise BadConfig(f"levels.{name}: unknown; there are {', '.join(LEVEL_NAMES)}")
        if not value > 0:
            raise BadConfig(f"levels.{name}: must be above 0: a share of the window up to 1, or tokens")
    return replace(policy, levels=_leveled(policy.levels, told)) if told else policy


def _leveled(rule: LevelRule, told: Mapping[str, float]) -> LevelRule:
    def leveled(window: int, output: int, overhead: int = 0) -> Thresholds:
        was = rule(window, output, overhead)

        def level(name: str) -> int:
            value = told.get(name)
            kept: int = getattr(was, name)
            return kept if value is None else int(value * window if value <= 1 else value)

        return Thresholds(
            warning=level("warning"),
            soft=level("soft"),
            auto=level("auto"),
            hard=level("hard"),
            blocking=level("blocking"),
            # Low water above where it acts would act on every request.
            low=min(level("low"), level("auto")),
            least=was.least,
            inclusive=was.inclusive,
        )

    return leveled


def with_overflow(policy: Policy, overflow: str) -> Policy:
    """R010. `error` raises where the policy would act, instead of changing history; what arrives is still kept short.

    `prune` makes room without a summary; `summarize` and `auto-compact` fold old turns after the gentler passes.
    """
    if overflow not in OVERFLOWS:
        raise BadConfig(f"overflow: {overflow!r} is not one of {', '.join(OVERFLOWS)}")
    chosen = replace(policy, overflow=overflow)
    if overflow != "error":
        return chosen
    return replace(chosen, always=(), pressure=(), last_resort=(), levels=_hard_at_auto(policy.levels))


def _hard_at_auto(rule: LevelRule) -> LevelRule:
    def strict(window: int, output: int, overhead: int = 0) -> Thresholds:
        levels = rule(window, output, overhead)
        return replace(levels, hard=levels.auto)

    return strict


def with_ttl(policy: Policy, seconds: float) -> Policy:
    """Marks that we add ask the provider to keep the prefix for so long. A client's own marks stay as they are."""
    return policy if policy.marks is None else replace(policy, marks=_lasting(policy.marks, seconds))


def _lasting(strategy: BreakpointStrategy, seconds: float) -> BreakpointStrategy:
    def lasting(places: Sequence[BreakpointSlot], *, model: str, limit: int = LIMIT) -> tuple[BreakpointSlot, ...]:
        asked = [place if place.has_breakpoint else replace(place, ttl=seconds) for place in places]
        return strategy(asked, model=model, limit=limit)

    return lasting


Tables = Mapping[str, Mapping[str, object]]
"""From a pass's name to its settings."""


def with_passes(policy: Policy, tables: Tables) -> Policy:
    """The policy with its passes set otherwise, wherever they stand but in the last resort, which must fit."""
    if not tables:
        return policy
    return replace(
        policy,
        arrival=_all_set(policy.arrival, tables),
        always=_all_set(policy.always, tables),
        pressure=_all_set(policy.pressure, tables),
        folds=_all_set(policy.folds, tables),
    )


def pass_settings(policies: Mapping[str, Policy]) -> Mapping[str, Mapping[str, object]]:
    """From the name of every pass in these policies to its settings and their types."""
    found = (
        leaf
        for one in policies.values()
        for group in (one.arrival, one.always, one.pressure, one.folds)
        for leaf in group
    )
    return {pass_name(leaf): _types(leaf) for propose in found for leaf in simple_passes(propose)}


def check_pass_settings(tables: Mapping[str, object], policies: Mapping[str, Policy]) -> Tables:
    """Tables as read from a file, in the types that the passes want. Tables of passes not in use are checked too."""
    known = pass_settings(policies)
    checked: dict[str, Mapping[str, object]] = {}
    for name, table in tables.items():
        if name not in known:
            raise BadConfig(f"passes.{name}: unknown; there are {', '.join(sorted(known))}")
        if not isinstance(table, Mapping):
            raise BadConfig(f"passes.{name}: must be a table of settings")
        checked[name] = {key: _checked(f"passes.{name}.{key}", key, value, known[name]) for key, value in table.items()}
    return checked


def simple_passes(propose: Pass) -> Iterator[Pass]:
    """The passes inside a combination; the pass itself where it is none."""
    if isinstance(propose, ConditionalPass | OnOriginals):
        yield from simple_passes(propose.propose)
    elif isinstance(propose, PassGroup):
        for one in propose.passes:
            yield from simple_passes(one)
    else:
        yield propose


def pass_name(propose: Pass) -> str:
    return str(getattr(_function(propose), "__name__", ""))


def _function(propose: Pass) -> Pass:
    return cast(Pass, propose.func) if isinstance(propose, partial) else propose


def _all_set(passes: tuple[Pass, ...], tables: Tables) -> tuple[Pass, ...]:
    return tuple(_set(one, tables) for one in passes)


def _set(propose: Pass, tables: Tables) -> Pass:
    if isinstance(propose, ConditionalPass | OnOriginals):
        return replace(propose, propose=_set(propose.propose, tables))
    if isinstance(propose, PassGroup):
        return PassGroup(_all_set(propose.passes, tables))
    table = tables.get(pass_name(propose))
    return partial(propose, **table) if table else propose


def _types(propose: Pass) -> Mapping[str, object]:
    function = _function(propose)
    hints = get_type_hints(function)
    named = (name for name, one in inspect.signature(function).parameters.items() if one.kind is one.KEYWORD_ONLY)
    return {name: hints[name] for name in named if _plain(hints[name])}


def _plain(hint: object) -> bool:
    """Whether a file can say it."""
    return hint in _PLAIN or get_origin(hint) is Literal


def _checked(key: str, name: str, value: object, known: Mapping[str, object]) -> object:
    if name not in known:
        raise BadConfig(f"{key}: unknown; there are {', '.join(sorted(known)) or 'no settings'}")
    hint = known[name]
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
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
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
