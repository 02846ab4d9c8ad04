"""What a million tokens costs, in dollars: asked of a maintained table that lies on disk, never of a network.

The table is `genai-prices` (extra `replay`). Equal names give equal rates for one version of it: where a price changed
over time the newest is taken, whatever the clock says. A name that it does not know is read more loosely, step by step
(without a suffix, without a provider, then the nearest version of the same family), and `basis` says which row it was.
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
from ebbtide.core.types import FIVE_MINUTES, Usage

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo, ModelPrice, Provider, TieredPrices

# After every start date that a table can hold; at noon, because some providers are cheaper at night.
_NEWEST = datetime(9999, 1, 1, 12, tzinfo=UTC)

# `[1m]` asks Claude Code for the long window; `-v1:0` is Bedrock's, `:free` OpenRouter's.
_SUFFIX = re.compile(r"\[[^\[\]]*\]$|-v\d+(?::\d+)?$|:[a-z]+$")
_DOTTED = re.compile(r"^(?:[a-z-]+\.)*(anthropic|openai|amazon|meta|mistral|deepseek|cohere)\.")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}|\d{8}")
_NUMBER = re.compile(r"\d{1,3}")
_SAID_FOR_NOTHING = {"latest", "preview", "exp", "experimental"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Dollars per million tokens."""

    input: float
    read: float
    write: float
    output: float
    basis: str
    """The row used, and why, if it is not the model asked for."""

    def prompt_cost(self, usage: Usage) -> float:
        """Dollars for the input alone."""
        return (usage.cache_read * self.read + usage.cache_write * self.write + usage.input * self.input) / 1e6

    def cost(self, usage: Usage) -> float:
        """Dollars for input and output."""
        return self.prompt_cost(usage) + usage.output * self.output / 1e6


@lru_cache(maxsize=256)
def find_rates(model: str, *, ttl: float = FIVE_MINUTES, prompt: int = 0) -> Rates | None:
    """None where the table does not know the model, nor one of its family.

    Some models cost more in a long request, and then all of it does: `prompt` is its tokens, and 0 gives the price of a
    short one. A provider that does not tell a price for cached tokens gives no discount.
    """
    found = _find(_table(), model)
    if found is None:
        return None
    provider, row, how = found
    price = row.get_prices(_NEWEST)
    whole = _dollars(price, "input_mtok", prompt)
    if whole is None:
        return None
    read, output = _dollars(price, "cache_read_mtok", prompt), _dollars(price, "output_mtok", prompt)
    return Rates(
        input=whole,
        read=whole if read is None else read,
        write=_write(price, whole, ttl, prompt, claude="claude" in row.id),
        output=output or 0.0,
        basis=f"{provider.id} {row.id}{how}",
    )


def _table() -> DataSnapshot:
    try:
        from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415
    except ImportError as error:
        raise BadConfig("prices in dollars need the extra: pip install 'ebbtide[replay]'") from error
    return get_snapshot()


def _write(price: ModelPrice, whole: float, ttl: float, prompt: int, *, claude: bool) -> float:
    short = _dollars(price, "cache_write_mtok", prompt)
    if short is None:
        return whole
    # What Claude keeps longer than that is written at the price of the hour.
    if ttl <= FIVE_MINUTES:
        return short
    long = _dollars(price, "cache_write_1h_mtok", prompt)
    if long is not None:
        return long
    # Claude's rule where the table leaves it out. Others have one cache and one price.
    return 2.0 * whole if claude else short


def _dollars(price: ModelPrice, name: str, prompt: int) -> float | None:
    value: Decimal | TieredPrices | None = getattr(price, name, None)
    if value is None or isinstance(value, Decimal):
        return None if value is None else float(value)
    reached = [tier.price for tier in value.tiers if prompt > tier.start]
    return float(reached[-1] if reached else value.base)


def _find(table: DataSnapshot, model: str) -> tuple[Provider, ModelInfo, str] | None:
    for name, provider in _readings(model):
        try:
            found, row = table.find_provider_model(name, None, provider, None)
        except LookupError:
            continue
        return found, row, "" if name == model.lower() else f" (for {model})"
    return _nearest(table, model) or _hosted(table, model)


def _readings(model: str) -> Iterator[tuple[str, str | None]]:
    """The name as it stands, then with less and less around it; with the provider it names, if it names one."""
    name = model.lower().strip()
    yield name, None
    bare = _bare(name)
    yield bare, None
    vendors = name.split("/")[:-1]
    for vendor in reversed(vendors):
        yield bare, vendor
    if vendors:
        yield _SUFFIX.sub("", "/".join((vendors[-1], name.rsplit("/", 1)[-1]))), "openrouter"


def _bare(name: str) -> str:
    last = _DOTTED.sub("", name.rsplit("/", 1)[-1])
    while (shorter := _SUFFIX.sub("", last)) != last:
        last = shorter
    return last.replace("@", "-")


def _nearest(table: DataSnapshot, model: str) -> tuple[Provider, ModelInfo, str] | None:
    """The newest version of its family that is not newer than this one: a new model costs about as its last."""
    name = _bare(model.lower().strip())
    try:
        provider = table.find_provider(name, None, None)
    except LookupError:
        return None
    words, version = _family(name)
    kin = sorted(
        ((_family(row.id)[1], row.id, row) for row in provider.models if _family(row.id)[0] == words),
        key=lambda one: one[:2],
    )
    priced = [one for one in kin if one[0] and _dollars(one[2].get_prices(_NEWEST), "input_mtok", 0) is not None]
    older = [row for known, _, row in priced if known <= version]
    return (provider, older[-1], f" (nearest to {model}, which the table does not know)") if older else None


def _hosted(table: DataSnapshot, model: str) -> tuple[Provider, ModelInfo, str] | None:
    """An open model has no provider of its own: the first host in the table that sells it under this very name."""
    name = _bare(model.lower().strip())
    for provider in table.providers:
        for row in provider.models:
            if row.id.lower().rsplit("/", 1)[-1] == name:
                return provider, row, f" (for {model}, as sold there)"
    return None


def _family(name: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The words of a name, in any order, and its version: `claude-4.5-opus` is `claude-opus-4-5`."""
    parts = [part for part in re.split(r"[-._:@]", _DATE.sub("", name)) if part]
    words = sorted(part for part in parts if not _NUMBER.fullmatch(part) and part not in _SAID_FOR_NOTHING)
    return tuple(words), tuple(int(part) for part in parts if _NUMBER.fullmatch(part))
