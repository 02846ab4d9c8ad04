"""What changing a cached prefix costs, and after how many calls an edit has paid for it. A token of input costs 1."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ebbtide.core.cache.prefix import leading_matches, needs_breakpoints
from ebbtide.core.cuts import covered_range
from ebbtide.core.types import Edit
from ebbtide.core.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Of a token, where an uncached one of input costs 1."""

    read: float
    write: float


_READ: tuple[tuple[str, float], ...] = (
    (r"fable-5[-.]1(?!\d)", 0.025),
    (r"(opus|sonnet)-5[-.]5|gpt-6[-.]1(?!\d)", 0.05),
    (r"gpt-4o|gpt-4-turbo|gpt-4\.5|\bo1|o3-mini", 0.5),
    (r"gpt-4\.1|\bo3|\bo4", 0.25),
    # The newest of every vendor. For a model we do not know it is also the careful guess: where reading is cheap, an
    # edit has to save more before it is worth breaking the cache.
    (r"", 0.1),
)
_CHARGED = re.compile(r"gpt-5[-.]6|gpt-6")
"""OpenAI's that charge for writing, as Claude does. A test holds all of these against the price table."""


@lru_cache(maxsize=64)
def prices_for(model: str, ttl: float) -> Prices:
    """Claude charges for writing, more for an hour than for five minutes; most others write at the price of input."""
    name = model.lower()
    read = next(read for pattern, read in _READ if re.search(pattern, name))
    if needs_breakpoints(model):
        return Prices(read=read, write=1.25 if ttl <= 300 else 2.0)
    return Prices(read=read, write=1.25 if _CHARGED.search(name) else 1.0)


def calls_to_break_even(
    *, removed: int, put: int, after: int, prices: Prices, ask_cost: float = 0.0, unsent: int = 0
) -> float:
    """After how many calls, the first counted, an edit has paid for itself; infinite when it saves nothing.

    `after` are kept warm tokens behind the first changed one: they are written again. `unsent` of the removed tokens
    were not warm, so the first call saves writing them. `ask_cost` in uncached input tokens.
    """
    if removed <= put:
        return float("inf")
    paid = (prices.write - prices.read) * (after + put - unsent) + ask_cost
    saved = prices.read * (removed - put)
    if paid <= 0:
        return 0.0
    return paid / saved if saved else float("inf")


def calls_ahead(*, tokens: int, high: int, growth: float) -> float:
    """Return how many calls will profit from an edit: those until high water forces a rewrite anyway.

    `growth` is in tokens per call.
    """
    return max(0.0, (high - tokens) / growth) if growth > 0 else float("inf")


def rewrite_cost(
    before: View, after: View, edits: Sequence[Edit], cached_entries: int, *, safety: float = 1.0
) -> dict[str, object]:
    """Return what a batch of edits changes in the cached prefix, in estimated tokens, as the plan record has it.

    `out`: tokens that the view lost. `after`: cached tokens behind the first change that stay, so are written again.
    `put`: replacements of cached items. `fresh`: indexes of the edits that changed nothing cached. `safety` is the
    policy's factor on each token.
    """
    covered = covered_range(before, 0, cached_entries)
    first_uncached = before.index[covered[1]] + 1 if covered else 0
    fresh = [n for n, edit in enumerate(edits) if before.index[edit.insert_after or edit.first] >= first_uncached]
    cost = {"out": round((before.tokens - after.tokens) * safety), "after": 0, "put": 0, "fresh": fresh}
    cached_edits = {edit.id for n, edit in enumerate(edits) if n not in set(fresh)}
    if not cached_edits:
        return cost
    old_ids, new_ids = [entry.id for entry in before.entries], [entry.id for entry in after.entries]
    first_change, kept_ids, known_ids = leading_matches(old_ids, new_ids), set(new_ids), set(old_ids)
    rewritten = sum(entry.tokens for entry in before.entries[first_change:cached_entries] if entry.id in kept_ids)
    added = sum(
        entry.tokens
        for entry in after.entries
        if entry.id not in known_ids
        and entry.id in after.edit_by_entry
        and after.edit_by_entry[entry.id].id in cached_edits
    )
    return {**cost, "after": round(rewritten * safety), "put": round(added * safety)}
