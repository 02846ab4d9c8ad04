"""The settings: each key, how its value is checked, and whether a project file may set it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from ebbtide.core.errors import BadConfig
from ebbtide.core.types import FIVE_MINUTES, HOUR
from ebbtide.policy import PRESETS, preset
from ebbtide.policy.adjust import OVERFLOWS, check_pass_settings, with_levels

Value = object
Tables = Mapping[str, Mapping[str, Value]]

TTLS = {"5m": FIVE_MINUTES, "1h": HOUR}
"""Cache lifetimes that providers offer, in seconds."""
_SIZE = re.compile(r"([0-9][0-9_,]*(?:\.[0-9]+)?)\s*([kKmM]?)")


def parse_tokens(value: Value) -> int:
    """Read a number of tokens: `200000`, `200_000`, `"200k"`, `"1.5M"`. k is a thousand."""
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) and len(value) <= 40 else None
    amount = value
    if match is not None:
        scale = {"": 1, "k": 1_000, "m": 1_000_000}[match[2].lower()]
        amount = float(re.sub("[_,]", "", match[1])) * scale
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not 1 <= amount < 1e12 or amount % 1:
        raise BadConfig(f"{value!r} is not a number of tokens; write it like 200000, 200k or 1M")
    return int(amount)


def _name(value: Value) -> str:
    if not isinstance(value, str) or not value or not value.isprintable() or len(value) > 200:
        raise BadConfig("must be a name")
    return value


def _policy_name(value: Value) -> str:
    return preset(_name(value)).name


def _directory(value: Value) -> str:
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or not text or "\0" in text:
        raise BadConfig("must be a directory, or postgresql://USER@HOST/DATABASE")
    return text


def _bool(value: Value) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    parsed = words.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(parsed, bool):
        raise BadConfig("must be true or false")
    return parsed


def _ttl(value: Value) -> float:
    seconds = TTLS.get(value) if isinstance(value, str) else value
    if seconds not in TTLS.values():
        raise BadConfig(f"must be {' or '.join(TTLS)}")
    return float(cast(float, seconds))


def _one_of(*names: str) -> Callable[[Value], str]:
    def parse(value: Value) -> str:
        if value not in names:
            raise BadConfig(f"{value!r} is not one of {', '.join(names)}")
        return str(value)

    return parse


def _table(value: Value) -> Mapping[str, Value]:
    if not isinstance(value, Mapping):
        raise BadConfig("must be a table")
    return value


def _windows(value: Value) -> Mapping[str, int]:
    return {_name(model): parse_tokens(amount) for model, amount in _table(value).items()}


def _levels(value: Value) -> Mapping[str, float]:
    levels = {name: _level(name, amount) for name, amount in _table(value).items()}
    with_levels(PRESETS["default"], levels)
    return levels


def _level(name: str, amount: Value) -> float:
    if isinstance(amount, float) and 0 < amount <= 1:
        return amount
    try:
        return parse_tokens(amount)
    except BadConfig as error:
        raise BadConfig(f"levels.{name}: {amount!r} is neither a share of the window nor tokens") from error


def _passes(value: Value) -> Tables:
    return check_pass_settings(_table(value), PRESETS)


def parse_port(value: Value) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 16:
        raise BadConfig(f"{value!r} is not a port; ports are 0 to 65535")
    return value


def _names(value: Value) -> tuple[str, ...]:
    return tuple(_name(name) for name in (value if isinstance(value, list | tuple) else [value]))


def _addresses(value: Value) -> Mapping[str, str]:
    return {_name(name): _name(address) for name, address in _table(value).items()}


_PROXY: Mapping[str, Callable[[Value], Value]] = {
    "upstreams": _addresses,
    "port": parse_port,
    "token": _name,
    "recall": _one_of("path", "tool", "off"),
    "summarizer": _name,
    "raise_lifetimes": _bool,
    "allow_hosts": _names,
    "allow_origins": _names,
}


def _proxy(value: Value) -> Mapping[str, Value]:
    options: dict[str, Value] = {}
    for name, option in _table(value).items():
        if name not in _PROXY:
            raise BadConfig(f"proxy.{name}: unknown; there are {', '.join(_PROXY)}")
        try:
            options[name] = _PROXY[name](option)
        except BadConfig as error:
            raise BadConfig(f"proxy.{name}: {error}") from error
    return options


@dataclass(frozen=True, slots=True)
class Key:
    field: str
    parse: Callable[[Value], Value]
    safe: bool = True
    """Whether a project file may set it (reliability 24)."""


KEYS: Mapping[str, Key] = {
    "policy": Key("preset", _policy_name),
    "model": Key("model", _name),
    "window": Key("window", parse_tokens),
    "windows": Key("windows", _windows),
    "levels": Key("levels", _levels),
    "passes": Key("passes", _passes),
    "overflow": Key("overflow", _one_of(*OVERFLOWS)),
    "ttl": Key("ttl", _ttl),
    # The owner of a conversation decides where and how safely it is written, not a repository.
    "store": Key("store", _directory, safe=False),
    "durable": Key("durable", _bool, safe=False),
    # This decides where API keys are sent (reliability 8).
    "proxy": Key("proxy", _proxy, safe=False),
}
PROJECT_KEYS = tuple(name for name, key in KEYS.items() if key.safe)
KEY_BY_VARIABLE = {
    "EBB_POLICY": "policy",
    "EBB_MODEL": "model",
    "EBB_WINDOW": "window",
    "EBB_OVERFLOW": "overflow",
    "EBB_TTL": "ttl",
    "EBB_HOME": "store",
    "EBB_DURABLE": "durable",
}
VARIABLES = (*KEY_BY_VARIABLE, "EBB_PROXY_TOKEN", "EBB_CONFIG")
