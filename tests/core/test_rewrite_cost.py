"""What a change costs, and when it has paid for itself."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ebbtide.core.cache.prefix import Prices, calls_ahead, calls_to_break_even, cheapest_spread, prices_for

ANTHROPIC = Prices(read=0.1, write=1.25)


Segment = tuple[str, int]


def bill(requests: Sequence[Sequence[Segment]], known: Sequence[Segment], prices: Prices) -> float:
    """Money for these calls, by the only rule there is: the longest prefix seen before is read, the rest is written."""
    seen, total = [list(known)], 0.0
    for request in requests:
        read = max(
            sum(tokens for n, (_, tokens) in enumerate(request) if list(request[: n + 1]) == old[: n + 1])
            for old in seen
        )
        total += prices.read * read + prices.write * (sum(tokens for _, tokens in request) - read)
        seen.append(list(request))
    return total


some = st.integers(0, 60_000)
any_prices = st.sampled_from([ANTHROPIC, Prices(read=0.1, write=2.0), Prices(read=0.5, write=1.0)])


class TestBreakEven:
    @given(some, some, some, some, some, any_prices, st.integers(0, 20_000), st.integers(1, 30))
    @example(1000, 30_000, 0, 1000, 20_000, ANTHROPIC, 0, 9)
    def test_is_where_the_bills_cross(
        self, before: int, removed: int, unsent: int, put: int, after: int, prices: Prices, asked: int, calls: int
    ) -> None:
        """Both bills are summed call by call as the talk grows: the edit is cheaper after n* calls, and not before."""
        old: list[Segment] = [("before", before), ("warm", removed), ("unsent", unsent), ("after", after)]
        new: list[Segment] = [("before", before), ("put", put), ("after", after)]
        assume(removed + unsent > put)
        # What follows an unsent block was not sent either.
        known = old[:2] if unsent else old
        growth: list[Segment] = [(f"turn{n}", 700) for n in range(calls)]

        raw = bill([old + growth[: n + 1] for n in range(calls)], known, prices)
        edited = asked + bill([new + growth[: n + 1] for n in range(calls)], known, prices)

        needed = calls_to_break_even(
            removed=removed + unsent,
            put=put,
            after=0 if unsent else after,
            prices=prices,
            ask_cost=asked,
            unsent=unsent,
        )
        assume(not math.isclose(needed, calls, rel_tol=1e-9))
        assume(not math.isclose(raw, edited, rel_tol=1e-12))
        assert (edited < raw) == (calls > needed)

    def test_is_the_designs_formula_on_a_warm_prefix(self) -> None:
        found = calls_to_break_even(removed=30_000, put=1000, after=20_000, prices=ANTHROPIC, ask_cost=5000)

        assert found == pytest.approx((1.15 * 21_000 + 5000) / (0.1 * 29_000))

    def test_is_infinite_when_nothing_is_saved(self) -> None:
        assert calls_to_break_even(removed=500, put=500, after=0, prices=ANTHROPIC) == math.inf
        assert calls_to_break_even(removed=500, put=100, after=50, prices=Prices(read=0.0, write=1.0)) == math.inf

    def test_a_cheaper_read_makes_an_edit_pay_later(self) -> None:
        dear, cheap = (
            calls_to_break_even(removed=9000, put=0, after=9000, prices=Prices(read=r, write=1)) for r in (0.5, 0.1)
        )

        assert dear < cheap


class TestHorizon:
    def test_ends_at_the_high_threshold(self) -> None:
        assert calls_ahead(tokens=60_000, high=80_000, growth=2000) == 10

    def test_never_reaches_the_high_threshold_without_growth_and_is_never_negative(self) -> None:
        assert calls_ahead(tokens=60_000, high=80_000, growth=0) == math.inf
        assert calls_ahead(tokens=90_000, high=80_000, growth=2000) == 0


@pytest.mark.parametrize(
    ("model", "ttl", "read", "write"),
    [
        ("claude-opus-4-5", 300, 0.1, 1.25),
        ("us.anthropic.claude-haiku-4-5", 3600, 0.1, 2.0),
        ("gpt-5.1-codex", 300, 0.1, 1.0),
        ("openai/gpt-4o-mini", 300, 0.5, 1.0),
        ("gpt-4.1", 300, 0.25, 1.0),
        ("o3", 300, 0.25, 1.0),
        ("o3-mini", 300, 0.5, 1.0),
        ("qwen3-coder", 300, 0.1, 1.0),
    ],
)
def test_prices_follow_the_vendor(model: str, ttl: float, read: float, write: float) -> None:
    assert prices_for(model, ttl) == Prices(read=read, write=write)


@pytest.mark.parametrize("growth", [200, 1_000, 5_000])
@pytest.mark.parametrize("prices", [ANTHROPIC, Prices(read=0.5, write=1.0)])
def test_no_other_spread_between_batches_costs_less(prices, growth):
    """Per call: a share of what a batch writes again, and reading half of the spread."""

    def cost(spread):
        batch = (prices.write - prices.read) * 60_000
        return batch * growth / spread + prices.read * spread / 2

    best = cheapest_spread(rewritten=60_000, growth=growth, prices=prices)

    assert cost(best) < min(cost(0.9 * best), cost(1.1 * best))
    assert cost(best) == pytest.approx(prices.read * best)
