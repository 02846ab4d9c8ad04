"""Prices per million tokens, from a table on disk; never from the network.

The table is the package `genai-prices` (extra `replay`). Results depend only on its version: the newest price is used,
whatever the date. An unknown name is matched more loosely step by step (without a suffix,
without a provider, then the nearest version of the same family), and `basis` says which row was used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

from ebbtide.core.errors import BadConfig
from ebbtide.core.types import FIVE_MINUTES, HOUR, Usage

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo, ModelPrice, Provider, TieredPrices

# After every start date in the table; at noon, because some providers are cheaper at night.
_NEWEST = datetime(9999, 1, 1, 12, tzinfo=UTC)

# `[1m]` is Claude Code's long window, `-v1:0` Bedrock's version, `:free` OpenRouter's tier.
_SUFFIX = re.compile(r"\[[^\[\]]*\]$|-v\d+(?::\d+)?$|:[a-z]+$")
_DOTTED = re.compile(r"^(?:[a-z-]+\.)*(anthropic|openai|amazon|meta|mistral|deepseek|cohere)\.")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}|\d{8}")
_NUMBER = re.compile(r"\d{1,3}")
_NO_VERSION = {"latest", "preview", "exp", "experimental"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Dollars per million tokens."""

    input: float
    read: float
    write: float
    output: float
    write_1h: float = 0.0
    """For tokens that are kept for an hour; 0 if that costs what `write` does."""
    basis: str
    """The row used, and why, if it is not the model asked for."""

    def prompt_cost(self, usage: Usage) -> float:
        """Dollars for the input alone."""
        hour = usage.cache_write_1h if self.write_1h else 0
        written = (usage.cache_write - hour) * self.write + hour * self.write_1h
        return (usage.cache_read * self.read + written + usage.input * self.input) / 1e6

    def cost(self, usage: Usage) -> float:
        """Dollars for input and output."""
        return self.prompt_cost(usage) + usage.output * self.output / 1e6


@lru_cache(maxsize=256)
def find_rates(model: str, *, ttl: float = FIVE_MINUTES, prompt: int = 0) -> Rates | None:
    """Look up a model's prices; None if the table knows neither it nor its family.

    Some models cost more if the request is long: `prompt` is its size in tokens, and 0 gives the price of a short one.
    Without a price for cached tokens there is no discount.
    """
    match = _find(_table(), model)
    if match is None:
        return None
    provider, row, note = match
    price = row.get_prices(_NEWEST)
    whole = _dollars(price, "input_mtok", prompt)
    if whole is None:
        return None
    read, output = _dollars(price, "cache_read_mtok", prompt), _dollars(price, "output_mtok", prompt)
    return Rates(
        input=whole,
        read=whole if read is None else read,
        write=_write_price(price, whole, ttl, prompt, claude="claude" in row.id),
        output=output or 0.0,
        write_1h=_write_price(price, whole, HOUR, prompt, claude="claude" in row.id),
        basis=f"{provider.id} {row.id}{note}",
    )


def _table() -> DataSnapshot:
    try:
        from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415
    except ImportError as error:
        raise BadConfig("there are no prices without an extra: pip install 'ebbtide[replay]'") from error
    return get_snapshot()


def _write_price(price: ModelPrice, whole: float, ttl: float, prompt: int, *, claude: bool) -> float:
    short = _dollars(price, "cache_write_mtok", prompt)
    if short is None:
        return whole
    # Claude charges the one-hour price for anything longer.
    if ttl <= FIVE_MINUTES:
        return short
    long = _dollars(price, "cache_write_1h_mtok", prompt)
    if long is not None:
        return long
    # Claude's rule if the table lacks the price. Others have one price.
    return 2.0 * whole if claude else short


def _dollars(price: ModelPrice, name: str, prompt: int) -> float | None:
    value: Decimal | TieredPrices | None = getattr(price, name, None)
    if value is None or isinstance(value, Decimal):
        return None if value is None else float(value)
    tiers = [tier.price for tier in value.tiers if prompt > tier.start]
    return float(tiers[-1] if tiers else value.base)


def _find(table: DataSnapshot, model: str) -> tuple[Provider, ModelInfo, str] | None:
    for name, provider in _candidate_names(model):
        try:
            owner, row = table.find_provider_model(name, None, provider, None)
        except LookupError:
            continue
        return owner, row, "" if name == model.lower() else f" (for {model})"
    return _find_nearest(table, model) or _find_host(table, model)


def _candidate_names(model: str) -> Iterator[tuple[str, str | None]]:
    """The name itself, then without prefixes and suffixes; with the provider that it names, if any."""
    name = model.lower().strip()
    yield name, None
    bare = _strip_name(name)
    yield bare, None
    vendors = name.split("/")[:-1]
    for vendor in reversed(vendors):
        yield bare, vendor
    if vendors:
        yield _SUFFIX.sub("", "/".join((vendors[-1], name.rsplit("/", 1)[-1]))), "openrouter"


def _strip_name(name: str) -> str:
    last = _DOTTED.sub("", name.rsplit("/", 1)[-1])
    while (shorter := _SUFFIX.sub("", last)) != last:
        last = shorter
    return last.replace("@", "-")


def _find_nearest(table: DataSnapshot, model: str) -> tuple[Provider, ModelInfo, str] | None:
    """The newest version of its family that is not newer: a new model costs about as much as the one before."""
    name = _strip_name(model.lower().strip())
    try:
        provider = table.find_provider(name, None, None)
    except LookupError:
        return None
    words, version = _family(name)
    family = sorted(
        ((_family(row.id)[1], row.id, row) for row in provider.models if _family(row.id)[0] == words),
        key=lambda version: version[:2],
    )
    priced = [
        entry for entry in family if entry[0] and _dollars(entry[2].get_prices(_NEWEST), "input_mtok", 0) is not None
    ]
    older = [row for known, _, row in priced if known <= version]
    return (provider, older[-1], f" (nearest to {model}, which the table does not know)") if older else None


def _find_host(table: DataSnapshot, model: str) -> tuple[Provider, ModelInfo, str] | None:
    """The first host in the table that sells an open model under this name."""
    name = _strip_name(model.lower().strip())
    for provider in table.providers:
        for row in provider.models:
            if row.id.lower().rsplit("/", 1)[-1] == name:
                return provider, row, f" (for {model}, as sold there)"
    return None


def _family(name: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The sorted words of a name, and its version: `claude-4.5-opus` equals `claude-opus-4-5`."""
    parts = [part for part in re.split(r"[-._:@]", _DATE.sub("", name)) if part]
    words = sorted(part for part in parts if not _NUMBER.fullmatch(part) and part not in _NO_VERSION)
    return tuple(words), tuple(int(part) for part in parts if _NUMBER.fullmatch(part))
