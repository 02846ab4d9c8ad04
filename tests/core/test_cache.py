"""What is warm, what a change costs, and why a cache broke."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ebbtide.core.cache import Prices, anchor, break_even, health, horizon, pays, prices_for, warmth
from ebbtide.core.types import Sent, Usage

CLAUDE, GPT = "claude-sonnet-4-5", "gpt-5"
ANTHROPIC = Prices(read=0.1, write=1.25)


def chain(*messages: str) -> tuple[str, ...]:
    return tuple(accumulate(messages, lambda before, message: f"{before}/{message}"))


TALK = [f"m{n}" for n in range(40)]


def call(
    messages: Sequence[str],
    *,
    at: float = 0,
    model: str = GPT,
    system: str = "s",
    tools: str = "t",
    usage: Usage | None = None,
    marks: tuple[int, ...] = (),
    ttl: float = 300,
) -> Sent:
    return Sent(
        at=at,
        model=model,
        system=system,
        tools=tools,
        prefix=chain(*messages),
        tokens=100 * len(messages),
        usage=usage,
        marks=marks,
        ttl=ttl,
    )


def cached(*, read: int = 0, write: int = 0, fresh: int = 10) -> Usage:
    return Usage(input=fresh, cache_read=read, cache_write=write, output=50)


def warm(sent: Sequence[Sent], messages: Sequence[str], *, now: float = 10, model: str = GPT) -> tuple[int, str]:
    found = warmth(sent, now=now, model=model, system="s", tools="t", prefix=chain(*messages))
    return found.messages, found.reason


class TestWarmth:
    @given(
        st.lists(st.lists(st.sampled_from("ab"), max_size=7), max_size=6), st.lists(st.sampled_from("ab"), max_size=7)
    )
    def test_is_the_longest_prefix_any_live_request_shares(self, histories: list[list[str]], now: list[str]) -> None:
        sent = [call(history) for history in histories]
        shared = [
            next((n for n, (a, b) in enumerate(zip(old, now, strict=False)) if a != b), min(len(old), len(now)))
            for old in histories
        ]

        assert warm(sent, now)[0] == max(shared, default=0)

    def test_a_longer_branch_sent_before_is_found_behind_a_shorter_one(self) -> None:
        assert warm([call(TALK[:9]), call([*TALK[:3], "aside"])], TALK[:12]) == (9, "message 9 is new")

    def test_ends_with_the_ttl(self) -> None:
        sent = [call(TALK[:9], at=0)]

        assert warm(sent, TALK[:9], now=299) == (9, "all of it is warm")
        assert warm(sent, TALK[:9], now=300) == (0, "expired: the last call was 300 s ago, and is kept for 300 s")

    def test_a_read_refreshes(self) -> None:
        """The second request read the first nine messages at 200 s: they live until 500 s."""
        sent = [call(TALK[:9], at=0), call(TALK[:11], at=200)]

        assert warm(sent, TALK[:9], now=450)[0] == 9

    def test_another_branch_is_not_refreshed_by_it(self) -> None:
        sent = [call(TALK[:9], at=0), call([*TALK[:4], "x"], at=200)]

        assert warm(sent, TALK[:9], now=450) == (4, "message 4 changed")

    @pytest.mark.parametrize(
        ("field", "reason"),
        [("model", "another model"), ("system", "another system prompt"), ("tools", "another tool list")],
    )
    def test_another_model_system_or_tool_set_is_cold(self, field: str, reason: str) -> None:
        key = {"model": GPT, "system": "s", "tools": "t"} | {field: "other"}

        found = warmth([call(TALK[:9])], now=10, prefix=chain(*TALK[:9]), **key)
        assert (found.messages, found.tokens, found.reason) == (0, 0, reason)

    def test_says_why_nothing_is_warm(self) -> None:
        assert warm([], TALK) == (0, "nothing was sent yet")
        assert warm([call(["other"])], TALK) == (0, "message 0 changed")

    def test_claude_keeps_only_what_lies_before_a_mark(self) -> None:
        sent = [call(TALK[:9], model=CLAUDE, marks=(3, 6), usage=cached(write=9000))]

        assert warm(sent, TALK[:12], model=CLAUDE) == (7, "no mark after message 6")
        assert warm(sent, [*TALK[:5], "x"], model=CLAUDE) == (4, "no mark after message 3")
        assert warm(sent, [*TALK[:3], "x"], model=CLAUDE) == (0, "message 3 changed, and no mark stood before it")

    def test_a_claude_call_that_neither_read_nor_wrote_left_nothing(self) -> None:
        unmarked = [call(TALK[:9], model=CLAUDE, usage=cached(fresh=9000))]
        too_short = [call(TALK[:9], model=CLAUDE, marks=(8,), usage=cached(fresh=900))]

        assert warm(unmarked, TALK[:9], model=CLAUDE) == (0, "the last call left no message in the cache")
        assert warm(too_short, TALK[:9], model=CLAUDE)[0] == 0

    def test_without_marked_messages_the_uncached_rest_tells_a_marked_system_from_the_automatic_mark(self) -> None:
        system_only = [call(TALK[:9], model=CLAUDE, usage=cached(read=9000, fresh=5000))]
        automatic = [call(TALK[:9], model=CLAUDE, usage=cached(read=14000, fresh=3))]

        assert warm(system_only, TALK[:9], model=CLAUDE)[0] == 0
        assert warm(automatic, TALK[:9], model=CLAUDE)[0] == 9

    def test_tokens_are_measured_where_a_request_ended_there_and_lie_between_elsewhere(self) -> None:
        sent = [call(TALK[:4], usage=cached(fresh=4000)), call(TALK[:8], usage=cached(fresh=10_000))]

        def tokens(messages: Sequence[str]) -> int:
            return warmth(sent, now=10, model=GPT, system="s", tools="t", prefix=chain(*messages)).tokens

        assert tokens(TALK[:10]) == 10_000
        assert tokens([*TALK[:4], "x"]) == 4000
        assert tokens([*TALK[:6], "x"]) == 7000
        assert tokens([*TALK[:2], "x"]) == 2500

    def test_tokens_of_a_call_under_way_are_our_estimate(self) -> None:
        found = warmth([call(TALK[:9])], now=10, model=GPT, system="s", tools="t", prefix=chain(*TALK[:9]))

        assert found.tokens == 900

    def test_compares_few_hashes_however_long_the_conversation(self) -> None:
        """Per turn, 5,000 messages, 100 records: bisection on one, a single comparison on the others."""
        compared = 0

        class Counted(str):
            __slots__ = ()
            __hash__ = str.__hash__

            def __eq__(self, other: object) -> bool:
                nonlocal compared
                compared += 1
                return str.__eq__(self, str(other))

            def __ne__(self, other: object) -> bool:
                return not self == other

        old = [f"{n}" for n in range(5000)]
        sent = [
            Sent(at=0, model=GPT, system="s", tools="t", prefix=tuple(old[: 4000 + n]), tokens=1) for n in range(100)
        ]
        prefix = [Counted(h) for h in [*old[:4050], *(f"x{n}" for n in range(950))]]

        assert warmth(sent, now=1, model=GPT, system="s", tools="t", prefix=prefix).messages == 4050
        assert compared < 400


class TestAnchor:
    def find(self, sent: Sequence[Sent], messages: Sequence[str]) -> tuple[int, Usage | None]:
        return anchor(sent, model=GPT, system="s", tools="t", prefix=chain(*messages))

    def test_is_the_longest_request_this_one_extends(self) -> None:
        sent = [call(TALK[:n], usage=cached(fresh=n)) for n in (2, 6, 4)]

        assert self.find(sent, TALK[:9]) == (6, cached(fresh=6))
        assert self.find(sent, TALK[:5]) == (4, cached(fresh=4))

    def test_after_an_edit_it_is_one_from_before_what_left(self) -> None:
        """R043: the newest usage still counts what an edit took out; the gauge must not."""
        sent = [call(TALK[:n], usage=cached(fresh=n)) for n in (2, 4, 6)]

        assert self.find(sent, [*TALK[:4], "stub", *TALK[5:8]]) == (4, cached(fresh=4))

    def test_needs_a_usage_and_the_same_model_system_and_tools(self) -> None:
        used = cached(fresh=4)
        sent = [call(TALK[:4]), call(TALK[:4], model=CLAUDE, usage=used), call(TALK[:4], system="x", usage=used)]

        assert self.find([*sent, call(TALK[:4], tools="x", usage=used)], TALK[:4]) == (0, None)

    def test_does_not_expire(self) -> None:
        assert self.find([call(TALK[:4], at=-1e6, usage=cached())], TALK[:4])[0] == 4


# ---- economics

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

        needed = break_even(
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
        found = break_even(removed=30_000, put=1000, after=20_000, prices=ANTHROPIC, ask_cost=5000)

        assert found == pytest.approx((1.15 * 21_000 + 5000) / (0.1 * 29_000))

    def test_is_infinite_when_nothing_is_saved(self) -> None:
        assert break_even(removed=500, put=500, after=0, prices=ANTHROPIC) == math.inf
        assert break_even(removed=500, put=100, after=50, prices=Prices(read=0.0, write=1.0)) == math.inf

    def test_a_cheaper_read_makes_an_edit_pay_later(self) -> None:
        dear, cheap = (break_even(removed=9000, put=0, after=9000, prices=Prices(read=r, write=1)) for r in (0.5, 0.1))

        assert dear < cheap


class TestPays:
    def test_a_warm_edit_pays_within_the_horizon_only(self) -> None:
        needed = break_even(removed=30_000, put=1000, after=20_000, prices=ANTHROPIC)

        for calls, good in [(needed - 0.1, False), (needed, False), (needed + 0.1, True)]:
            assert pays(removed=30_000, put=1000, after=20_000, prices=ANTHROPIC, horizon=calls) is good

    @given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 20_000), any_prices)
    def test_a_cold_edit_pays_if_the_summary_costs_less_than_writing_what_it_saves(
        self, removed: int, put: int, asked: int, prices: Prices
    ) -> None:
        saved = prices.write * (removed - put)
        assume(not math.isclose(asked, saved, rel_tol=1e-9))

        found = pays(removed=removed, put=put, after=0, unsent=removed, prices=prices, horizon=0, ask_cost=asked)
        assert found == (asked < saved)

    @given(st.integers(1, 10_000), st.integers(0, 10_000), any_prices)
    def test_what_was_never_sent_is_free_to_shorten(self, removed: int, put: int, prices: Prices) -> None:
        found = pays(removed=removed, put=put, after=0, unsent=removed, prices=prices, horizon=0)

        assert found == (put < removed)


class TestHorizon:
    def test_is_the_sooner_of_high_water_and_going_cold(self) -> None:
        assert horizon(tokens=60_000, high=80_000, growth=2000, calls=30) == 10
        assert horizon(tokens=60_000, high=80_000, growth=2000, calls=4) == 4

    def test_never_reaches_high_water_without_growth_and_is_never_negative(self) -> None:
        assert horizon(tokens=60_000, high=80_000, growth=0, calls=7) == 7
        assert horizon(tokens=90_000, high=80_000, growth=2000, calls=7) == 0


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


# ---- health


def steady(count: int = 4, *, model: str = CLAUDE) -> list[Sent]:
    """A conversation in which every call reads what the last one left."""
    return [
        call(
            TALK[: 2 * n + 1],
            at=60.0 * n,
            model=model,
            marks=(2 * n,),
            usage=cached(read=50_000 + 3000 * (n - 1) if n else 0, write=3000 if n else 50_000),
        )
        for n in range(count)
    ]


def after(sent: Sequence[Sent], **change: object) -> Sent:
    """The next call of that conversation, one that had to write everything again."""
    n = len(sent)
    usual: dict[str, object] = {
        "messages": TALK[: 2 * n + 1],
        "at": 60.0 * n,
        "model": CLAUDE,
        "marks": (2 * n,),
        "usage": cached(write=50_000 + 3000 * n),
    }
    return call(**(usual | change))  # type: ignore[arg-type]


class TestBreaks:
    def test_a_steady_conversation_has_none(self) -> None:
        assert health(steady()).breaks == ()

    @pytest.mark.parametrize(
        ("change", "cause", "words"),
        [
            ({"system": "x"}, "system", "the system prompt changed"),
            ({"tools": "x"}, "tools", "the tool list changed"),
            ({"tools": "x", "system": "x"}, "tools", "the tool list changed"),
            ({"model": "claude-opus-4-5"}, "model", "from claude-sonnet-4-5 to claude-opus-4-5"),
            ({"messages": [*TALK[:3], "x", *TALK[4:9]]}, "message", "message 3 changed"),
            ({"messages": ["x", *TALK[1:9]]}, "message", "message 0 changed"),
            ({"at": 480.0}, "expired", "300 s since the last call"),
            ({"at": 480.0, "messages": ["x", *TALK[1:9]]}, "expired", "kept for 300 s"),
            ({"messages": TALK[:30], "marks": (29,)}, "look-back", "within 20 blocks"),
            ({}, "provider", "the provider dropped it"),
        ],
    )
    def test_are_attributed(self, change: dict[str, object], cause: str, words: str) -> None:
        sent = steady()
        [found] = health([*sent, after(sent, **change)]).breaks

        assert (found.at, found.cause) == (4, cause)
        assert words in found.detail
        assert found.lost == 59_000

    def test_an_automatic_cache_has_no_marks_to_blame(self) -> None:
        sent = [*steady(2, model=GPT), call(TALK[:30], model=GPT, at=120, marks=(29,), usage=cached(fresh=60_000))]

        assert [found.cause for found in health(sent).breaks] == ["provider"]

    def test_one_within_the_ttl_and_the_look_back_is_no_fault_of_ours(self) -> None:
        sent = steady()
        [found] = health([*sent, after(sent, messages=TALK[:26], marks=(25,), at=479.0)]).breaks

        assert found.cause == "provider"

    @pytest.mark.parametrize(
        ("kept", "lost", "broken"),
        [(100_000, 5000, 0), (100_000, 5001, 1), (10_000, 2000, 0), (10_000, 2001, 1), (1000, 1000, 0)],
    )
    def test_are_more_than_five_percent_and_more_than_2000_tokens(self, kept: int, lost: int, broken: int) -> None:
        """R223."""
        sent = [call(TALK[:1], usage=cached(write=kept)), call(TALK[:3], usage=cached(read=kept - lost, write=lost))]

        assert len(health(sent).breaks) == broken

    def test_what_an_edit_took_out_is_not_lost(self) -> None:
        """From 150k to 30k, 29k of it read: nothing worth a word was written again."""
        sent = [
            call(TALK[:9], usage=cached(write=150_000)),
            call([*TALK[:3], "x"], usage=cached(read=29_000, fresh=1000)),
        ]

        assert health(sent).breaks == ()

    def test_side_calls_in_between_are_not_taken_for_breaks(self) -> None:
        """A title or a subagent has another system prompt and starts anew; the conversation goes on after it."""
        sent = steady()
        aside = call(["title"], at=200, system="titles", tools="", usage=cached(fresh=9000))

        assert health([*sent[:3], aside, sent[3]]).breaks == ()

    def test_calls_without_usage_are_passed_over(self) -> None:
        sent = steady()
        found = health([sent[0], call(TALK[:3]), *sent[1:], after(sent, system="x")])

        assert found.calls == 5
        assert [broken.at for broken in found.breaks] == [5]


class TestDiagnosis:
    def row(self, count: int, **change: object) -> list[Sent]:
        sent: list[Sent] = []
        for n in range(count):
            sent.append(after(sent, **{key: value(n) if callable(value) else value for key, value in change.items()}))
        return sent

    def test_three_misses_name_a_system_prompt_that_differs_each_time(self) -> None:
        """R224."""
        said = health(self.row(3, system=lambda n: f"now {n}")).diagnosis

        assert said is not None
        assert said.startswith("Cache thrashing detected: 3 calls in a row")
        assert "system prompt changed" in said
        assert "timestamp" in said

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"tools": lambda n: f"{n}"}, "the tool list changed"),
            ({"messages": lambda n: ["hi", f"{n}", "go"]}, "message 1 changed"),
            ({"at": lambda n: 400.0 * n}, "longer TTL"),
            ({"usage": cached(fresh=900)}, "900 tokens are below the 1024"),
            ({"usage": cached(fresh=90_000), "marks": ()}, "cache_control"),
            ({"messages": lambda n: TALK[: 12 * n + 1], "marks": lambda n: (12 * n,)}, "provider"),
        ],
    )
    def test_names_the_other_causes(self, change: dict[str, object], words: str) -> None:
        said = health(self.row(3, **change)).diagnosis

        assert said is not None
        assert words in said

    def test_names_the_look_back(self) -> None:
        long = [f"m{n}" for n in range(100)]
        said = health(self.row(4, messages=lambda n: long[: 25 * n + 1], marks=lambda n: (25 * n,))).diagnosis

        assert said is not None
        assert "no mark within 20 blocks" in said

    def test_two_misses_are_silent_and_a_hit_ends_the_row(self) -> None:
        bad = self.row(3, system=lambda n: f"{n}")

        assert health(bad[:2]).diagnosis is None
        assert health([*bad, after(bad, system="2", usage=cached(read=50_000))]).diagnosis is None
        assert health([*steady(), *bad[1:]]).diagnosis is None

    def test_unrelated_first_calls_are_only_cold(self) -> None:
        sent = [call([f"task {n}"], system=f"{n}", usage=cached(write=9000)) for n in range(5)]

        assert health(sent).diagnosis is None

    def test_the_commonest_cause_is_named(self) -> None:
        sent = self.row(5, system=lambda n: "same" if n == 4 else f"{n}", tools=lambda n: "new" if n == 4 else "t")
        said = health(sent).diagnosis

        assert said is not None
        assert "system prompt changed" in said


class TestHealth:
    def test_hit_rate_is_the_share_of_prompt_tokens_read(self) -> None:
        sent = [call(TALK[:1], usage=cached(write=900, fresh=100)), call(TALK[:3], usage=cached(read=900, fresh=100))]

        assert health(sent).hit_rate == pytest.approx(0.45)
        assert health([]).hit_rate == 0.0

    def test_logs_hit_rate_compactions_and_usage(self) -> None:
        """R247."""
        sent = [call(TALK[:1], usage=cached(write=900, fresh=100)), call(TALK[:3], usage=cached(read=900, fresh=100))]

        assert health(sent).as_dict(compact_count=2) == {
            "cache_hit_rate": 0.45,
            "compact_count": 2,
            "token_usage": {"input": 200, "cache_read": 900, "cache_write": 900, "output": 100},
        }
