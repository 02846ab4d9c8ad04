"""What is warm, and what a request goes on from."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.sent import CLAUDE, GPT, TALK, cached, call, chain
from ebbtide.core.cache.prefix import find_cached_prefix, find_usage_anchor
from ebbtide.core.types import FRONT, SentRequest, Usage


def warm(sent: Sequence[SentRequest], messages: Sequence[str], *, now: float = 10, model: str = GPT) -> tuple[int, str]:
    cached_prefix = find_cached_prefix(sent, now=now, model=model, system="s", tools="t", prefix=chain(*messages))
    return cached_prefix.messages, cached_prefix.reason


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

    def test_a_longer_branch_sent_earlier_is_found_after_a_shorter_one(self) -> None:
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

        cached_prefix = find_cached_prefix([call(TALK[:9])], now=10, prefix=chain(*TALK[:9]), **key)
        assert (cached_prefix.messages, cached_prefix.tokens, cached_prefix.reason) == (0, 0, reason)

    def test_says_why_nothing_is_cached(self) -> None:
        assert warm([], TALK) == (0, "nothing was sent yet")
        assert warm([call(["other"])], TALK) == (0, "message 0 changed")

    def test_claude_caches_only_what_precedes_a_breakpoint(self) -> None:
        sent = [call(TALK[:9], model=CLAUDE, marks=(3, 6), usage=cached(write=9000))]

        assert warm(sent, TALK[:12], model=CLAUDE) == (7, "no mark after message 6")
        assert warm(sent, [*TALK[:5], "x"], model=CLAUDE) == (4, "no mark after message 3")
        assert warm(sent, [*TALK[:3], "x"], model=CLAUDE) == (0, "message 3 changed, and no mark stood before it")

    def test_what_is_kept_for_an_hour_outlives_the_rest(self) -> None:
        sent = [call(TALK[:9], model=CLAUDE, marks=(3, 8), hour=(FRONT, 3))]

        assert warm(sent, TALK[:12], model=CLAUDE, now=299) == (9, "message 9 is new")
        assert warm(sent, TALK[:12], model=CLAUDE, now=300) == (4, "message 4 and what follows has expired")
        assert warm(sent, TALK[:12], model=CLAUDE, now=3599)[0] == 4
        assert warm(sent, [*TALK[:2], "x"], model=CLAUDE, now=900)[0] == 0
        assert warm(sent, TALK[:12], model=CLAUDE, now=3600)[0] == 0

    def test_a_front_kept_for_an_hour_is_no_message(self) -> None:
        sent = [call(TALK[:9], model=CLAUDE, marks=(8,), hour=(FRONT,))]

        assert warm(sent, TALK[:12], model=CLAUDE, now=900)[0] == 0

    def test_a_bill_without_cache_figures_is_no_cold_cache(self) -> None:
        """Gateways leave the fields out or fill them with zeros: warmth is then judged by time and prefix."""
        unmarked = [call(TALK[:9], model=CLAUDE, usage=cached(fresh=9000))]
        marked = [call(TALK[:9], model=CLAUDE, marks=(8,), usage=cached(fresh=900))]
        of_nothing = [call(TALK[:9], model=CLAUDE, usage=cached())]

        assert warm(unmarked, TALK[:12], model=CLAUDE) == (9, "message 9 is new")
        assert warm(marked, TALK[:12], model=CLAUDE) == (9, "message 9 is new")
        assert warm(of_nothing, TALK[:12], model=CLAUDE) == (9, "message 9 is new")

    def test_without_message_breakpoints_the_uncached_rest_distinguishes_a_system_breakpoint_from_the_automatic_one(
        self,
    ) -> None:
        system_only = [call(TALK[:9], model=CLAUDE, usage=cached(read=9000, fresh=5000))]
        automatic = [call(TALK[:9], model=CLAUDE, usage=cached(read=14000, fresh=3))]

        assert warm(system_only, TALK[:9], model=CLAUDE)[0] == 0
        assert warm(automatic, TALK[:9], model=CLAUDE)[0] == 9

    def test_tokens_are_measured_at_request_ends_and_interpolated_elsewhere(self) -> None:
        sent = [call(TALK[:4], usage=cached(fresh=4000)), call(TALK[:8], usage=cached(fresh=10_000))]

        def tokens(messages: Sequence[str]) -> int:
            return find_cached_prefix(sent, now=10, model=GPT, system="s", tools="t", prefix=chain(*messages)).tokens

        assert tokens(TALK[:10]) == 10_000
        assert tokens([*TALK[:4], "x"]) == 4000
        assert tokens([*TALK[:6], "x"]) == 7000
        assert tokens([*TALK[:2], "x"]) == 2500

    def test_the_tokens_of_a_pending_call_are_estimated(self) -> None:
        cached_prefix = find_cached_prefix(
            [call(TALK[:9])], now=10, model=GPT, system="s", tools="t", prefix=chain(*TALK[:9])
        )

        assert cached_prefix.tokens == 900

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
            SentRequest(at=0, model=GPT, system="s", tools="t", prefix=tuple(old[: 4000 + n]), tokens=1)
            for n in range(100)
        ]
        prefix = [Counted(h) for h in [*old[:4050], *(f"x{n}" for n in range(950))]]

        assert find_cached_prefix(sent, now=1, model=GPT, system="s", tools="t", prefix=prefix).messages == 4050
        assert compared < 400


class TestAnchor:
    def find(self, sent: Sequence[SentRequest], messages: Sequence[str]) -> tuple[int, Usage | None]:
        return find_usage_anchor(sent, model=GPT, system="s", tools="t", prefix=chain(*messages))

    def test_is_the_longest_request_this_one_extends(self) -> None:
        sent = [call(TALK[:n], usage=cached(fresh=n)) for n in (2, 6, 4)]

        assert self.find(sent, TALK[:9]) == (6, cached(fresh=6))
        assert self.find(sent, TALK[:5]) == (4, cached(fresh=4))

    def test_after_an_edit_it_is_a_request_from_before_the_removed_content(self) -> None:
        """R043: the newest usage still counts what an edit took out; the gauge must not."""
        sent = [call(TALK[:n], usage=cached(fresh=n)) for n in (2, 4, 6)]

        assert self.find(sent, [*TALK[:4], "stub", *TALK[5:8]]) == (4, cached(fresh=4))

    def test_needs_a_usage_and_the_same_model_system_and_tools(self) -> None:
        used = cached(fresh=4)
        sent = [call(TALK[:4]), call(TALK[:4], model=CLAUDE, usage=used), call(TALK[:4], system="x", usage=used)]

        assert self.find([*sent, call(TALK[:4], tools="x", usage=used)], TALK[:4]) == (0, None)

    def test_does_not_expire(self) -> None:
        assert self.find([call(TALK[:4], at=-1e6, usage=cached())], TALK[:4])[0] == 4
