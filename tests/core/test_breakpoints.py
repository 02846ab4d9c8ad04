"""A mark is a scarce thing: four to a request, and a wrong one is refused or silently ignored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.cache.breakpoints import (
    LOOK_BACK,
    STRIDE,
    BreakpointSlot,
    Section,
    choose_by_value,
    first2_last2,
    static_plus_last,
)
from ebbtide.core.cache.prefix import min_prefix_tokens

SONNET = "claude-sonnet-4-5"
HOUR, MINUTES = 3600.0, 300.0
STRATEGIES = [choose_by_value, first2_last2, static_plus_last]
Chosen = Callable[..., tuple[BreakpointSlot, ...]]


def replace(slot: BreakpointSlot, **changes: Any) -> BreakpointSlot:
    return slot._replace(**changes)


def request(*messages: int, tools: int = 2, system: int = 2, each: int = 500) -> list[BreakpointSlot]:
    """Places of a request: so many tools, system blocks, and messages with so many blocks, `each` tokens a block."""
    keys: list[tuple[Section, int, int]] = [("tools", n, 0) for n in range(tools)]
    keys += [("system", n, 0) for n in range(system)]
    keys += [("messages", m, b) for m, blocks in enumerate(messages) for b in range(blocks)]
    return [
        BreakpointSlot(section=section, index=index, block=block, tokens_before=each * (at + 1))
        for at, (section, index, block) in enumerate(keys)
    ]


def where(places: Sequence[BreakpointSlot]) -> list[tuple[str, int, int]]:
    return [(place.section, place.index, place.block) for place in places]


def given_marks(places: Sequence[BreakpointSlot], marks: Sequence[BreakpointSlot]) -> list[BreakpointSlot]:
    """The same request coming back with these marks as the client's own."""
    by_key = {(mark.section, mark.index, mark.block): mark for mark in marks}
    found = ((place, by_key.get((place.section, place.index, place.block))) for place in places)
    return [replace(mark, has_breakpoint=True) if mark else place for place, mark in found]


def _cycle(*values: float) -> st.SearchStrategy[list[float]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=7)


@st.composite
def places_of(draw: st.DrawFn) -> list[BreakpointSlot]:
    """Any request; what varies from block to block repeats, each at its own period, to keep drawing cheap."""
    bare = request(*draw(st.lists(st.integers(1, 25), max_size=6)), tools=draw(st.integers(0, 3)))
    marked = draw(st.sets(st.integers(0, len(bare) - 1), max_size=draw(st.sampled_from([0, 2, 6]))))
    own, stable = draw(_cycle(0, 10, 300, 2500)), draw(_cycle(1.0, 1.0, 0.9, 0.3, 0.0))
    refused, ttl = draw(_cycle(0, 0, 1)), draw(_cycle(MINUTES, HOUR))
    tokens, out = 0, []
    for at, place in enumerate(bare):
        tokens += int(own[at % len(own)])
        out.append(
            replace(
                place,
                tokens_before=tokens,
                eligible=not refused[at % len(refused)],
                has_breakpoint=at in marked,
                ttl=ttl[at % len(ttl)],
                stable=stable[at % len(stable)],
            )
        )
    return out


any_strategy = st.sampled_from(STRATEGIES)
any_model = st.sampled_from([SONNET, "claude-opus-4-5", "gpt-5"])


class TestLaws:
    @given(places_of(), any_strategy, any_model, st.integers(0, 5))
    def test_never_more_than_the_limit_nor_in_a_refused_slot(
        self, places: list[BreakpointSlot], strategy: Chosen, model: str, limit: int
    ) -> None:
        added = strategy(places, model=model, limit=limit)

        theirs = sum(place.has_breakpoint for place in places)
        assert len(added) <= max(0, min(4, limit) - theirs)
        assert all(place.eligible and not place.has_breakpoint for place in added)
        assert all(place.tokens_before >= min_prefix_tokens(model) for place in added)
        assert set(where(added)) <= set(where(places))
        assert len(set(where(added))) == len(added)

    @given(places_of(), any_strategy)
    def test_added_breakpoints_keep_ttls_in_order(self, places: list[BreakpointSlot], strategy: Chosen) -> None:
        """Whatever the client's own order is, every pair that one of ours is in is right."""
        added = set(where(strategy(places, model=SONNET)))
        together = [p for p in given_marks(places, strategy(places, model=SONNET)) if p.has_breakpoint]

        for at, early in enumerate(together):
            for late in together[at + 1 :]:
                if added & set(where([early, late])):
                    assert early.ttl >= late.ttl

    @given(places_of(), st.integers(0, 9), st.sampled_from([0.0, 280.0]))
    def test_ranked_adds_nothing_to_its_own_output(self, places: list[BreakpointSlot], warm: int, idle: float) -> None:
        again = given_marks(places, choose_by_value(places, model=SONNET, warm=warm, idle=idle))

        assert choose_by_value(again, model=SONNET, warm=warm, idle=idle) == ()

    @given(places_of(), st.sampled_from([first2_last2, static_plus_last]))
    def test_the_presets_add_nothing_to_their_own_output(self, places: list[BreakpointSlot], strategy: Chosen) -> None:
        again = given_marks(places, strategy(places, model=SONNET))

        assert strategy(again, model=SONNET) == ()

    @given(places_of(), any_strategy)
    def test_equal_slots_give_equal_breakpoints_in_wire_order(
        self, places: list[BreakpointSlot], strategy: Chosen
    ) -> None:
        added = strategy(places, model=SONNET)

        assert added == strategy(tuple(places), model=SONNET)
        assert where(added) == [key for key in where(places) if key in set(where(added))]

    @given(places_of(), any_strategy)
    def test_while_breakpoints_remain_none_in_the_messages_is_further_than_a_stride_from_the_next(
        self, places: list[BreakpointSlot], strategy: Chosen
    ) -> None:
        places = [replace(place, eligible=True, ttl=MINUTES, tokens_before=5000 + n) for n, place in enumerate(places)]
        added = strategy(places, model=SONNET)
        marked = [at for at, place in enumerate(given_marks(places, added)) if place.has_breakpoint]
        if len(marked) >= 4 or not marked:
            return
        first = next((at for at, place in enumerate(places) if place.section == "messages"), len(places))

        reach = [at for at in marked if at >= first]
        assert all(late - early <= STRIDE for early, late in pairwise(reach))
        assert not reach or reach[0] - first <= STRIDE

    @given(places_of(), st.integers(1, 6))
    def test_while_a_breakpoint_remains_cached_content_can_be_found(
        self, places: list[BreakpointSlot], warm: int
    ) -> None:
        """Some mark stands within the look-back of the end of the last request."""
        places = [
            replace(place, eligible=True, ttl=MINUTES, tokens_before=5000 + 100 * at) for at, place in enumerate(places)
        ]
        kept = max((at for at, p in enumerate(places) if p.section == "messages" and p.index < warm), default=-1)
        if kept < 0 or sum(place.has_breakpoint for place in places) >= 4:
            return
        sent = given_marks(places, choose_by_value(places, model=SONNET, warm=warm))

        assert any(place.has_breakpoint for place in sent[kept : kept + LOOK_BACK])


class TestRanked:
    def test_marks_the_ends_of_the_system_prompt_the_older_messages_and_the_newest_message(self) -> None:
        """R218; the tools end below the minimum, so no mark is spent on them."""
        chosen = choose_by_value(request(1, 1, 2, 1, 2), model=SONNET)

        assert where(chosen) == [("system", 1, 0), ("messages", 3, 0), ("messages", 4, 1)]

    def test_marks_the_newest_large_block_before_the_last_two_messages(self) -> None:
        """The third message and the fifth, the newest, are large."""
        places = request(1, 1, 1, 1, 1, each=400)
        large = [
            replace(place, tokens_before=place.tokens_before + 9000 * (at >= 6) + 9000 * (at >= 8))
            for at, place in enumerate(places)
        ]

        assert ("messages", 2, 0) in where(choose_by_value(large, model=SONNET))
        assert ("messages", 2, 0) not in where(choose_by_value(places, model=SONNET))

    def test_the_last_breakpoint_is_placed_where_size_times_probability_is_largest(self) -> None:
        """R219: the end of the request, unless it is likely to change."""
        places = request(1, 1, 1)
        shaky = [*places[:-1], replace(places[-1], stable=0.1)]

        assert where(choose_by_value(places, model=SONNET, limit=1)) == [("messages", 2, 0)]
        assert where(choose_by_value(shaky, model=SONNET, limit=1)) == [("messages", 1, 0)]

    def test_a_block_after_an_unstable_one_is_as_unstable(self) -> None:
        places = request(1, 1, 1)
        shaky = [*places[:4], replace(places[4], stable=0.1), *places[5:]]

        assert where(choose_by_value(shaky, model=SONNET, limit=1)) == [("system", 1, 0)]

    def test_no_breakpoint_is_spent_on_what_is_certain_to_change(self) -> None:
        places = request(1, 1, 1)
        certain = [*places[:-1], replace(places[-1], stable=0.0)]

        assert ("messages", 2, 0) not in where(choose_by_value(certain, model=SONNET))

    def test_it_is_not_relied_on_to_find_the_cached_prefix_either(self) -> None:
        places = request(1, 1, 1)
        certain = [*places[:-1], replace(places[-1], stable=0.0)]

        assert where(choose_by_value(certain, model=SONNET, warm=1, limit=1)) == [("messages", 0, 0)]

    def test_no_breakpoint_is_spent_on_what_adds_no_tokens(self) -> None:
        places = request(1, 1, 1)
        empty = [*places[:-1], replace(places[-1], tokens_before=places[-2].tokens_before)]

        assert where(choose_by_value(empty, model=SONNET)) == [("system", 1, 0), ("messages", 2, 0)]

    def test_a_client_that_marked_four_gets_none(self) -> None:
        places = [replace(place, has_breakpoint=at >= 3) for at, place in enumerate(request(1, 1, 1))]

        assert sum(place.has_breakpoint for place in places) == 4
        assert choose_by_value(places, model=SONNET) == ()

    def test_a_breakpoint_beside_the_clients_own_is_worth_only_what_it_adds(self) -> None:
        """The client marked the end: one more goes to the steady half, not one block before."""
        places = request(*[1] * 20)
        theirs = [*places[:-1], replace(places[-1], has_breakpoint=True)]

        assert where(choose_by_value(theirs, model=SONNET, limit=2)) == [("system", 1, 0)]

    def test_the_cached_end_stays_within_the_look_back_even_with_one_breakpoint_left(self) -> None:
        """A turn of 50 blocks: without a mark near the last one the whole prefix is written again."""
        places = request(1, *(1, 2) * 20, 25, 25)

        assert where(choose_by_value(places, model=SONNET, warm=41, limit=1)) == [("messages", 40, 1)]
        assert ("messages", 42, 24) in where(choose_by_value(places, model=SONNET, warm=41, limit=2))

    def test_a_short_turn_needs_no_second_breakpoint_to_be_read(self) -> None:
        places = request(1, *(1, 2) * 20, 5, 8)

        assert where(choose_by_value(places, model=SONNET, warm=41, limit=1)) == [("messages", 42, 7)]

    def test_a_clients_breakpoint_within_the_look_back_is_used(self) -> None:
        places = request(1, *(1, 2) * 20, 25, 25)
        theirs = [replace(p, has_breakpoint=(p.index, p.block) == (41, 5)) for p in places]

        assert where(choose_by_value(theirs, model=SONNET, warm=41, limit=2)) == [("messages", 42, 24)]

    def test_nothing_is_marked_that_will_have_expired_when_it_is_needed(self) -> None:
        """R219: close to the TTL."""
        places = request(1, 1, 1)
        hours = [replace(p, ttl=HOUR) if p.section == "system" else p for p in places]

        assert choose_by_value(places, model=SONNET, idle=280) == ()
        assert where(choose_by_value(hours, model=SONNET, idle=280)) == [("system", 1, 0)]

    def test_an_empty_request_has_no_breakpoints(self) -> None:
        assert [strategy([], model=SONNET) for strategy in STRATEGIES] == [(), (), ()]


class TestPresets:
    def test_opencode_marks_the_first_two_system_blocks_and_the_last_two_messages(self) -> None:
        chosen = first2_last2(request(1, 2, 3, 2, system=4, each=2000), model=SONNET)

        assert where(chosen) == [("system", 0, 0), ("system", 1, 0), ("messages", 2, 2), ("messages", 3, 1)]

    def test_opencode_with_one_message_and_one_system_block_marks_both_once(self) -> None:
        chosen = first2_last2(request(2, tools=0, system=1, each=2000), model=SONNET)

        assert where(chosen) == [("system", 0, 0), ("messages", 0, 1)]

    def test_static_plus_last_leaves_the_dynamic_tail_of_the_system_prompt_out(self) -> None:
        places = request(1, 2, system=3, each=2000)
        dynamic = [*places[:3], replace(places[3], stable=0.5), *places[4:]]

        chosen = static_plus_last(dynamic, model=SONNET)
        assert where(chosen) == [("tools", 1, 0), ("system", 0, 0), ("messages", 1, 1)]

    def test_many_tools_are_no_long_turn(self) -> None:
        chosen = static_plus_last(request(1, tools=40, each=2000), model=SONNET)

        assert where(chosen) == [("tools", 39, 0), ("system", 1, 0), ("messages", 0, 0)]

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_the_last_breakpoint_is_placed_at_the_end(self, strategy: Chosen) -> None:
        assert where(strategy(request(1, 2, each=2000), model=SONNET, limit=1)) == [("messages", 1, 1)]


@pytest.mark.parametrize("strategy", STRATEGIES)
class TestEveryStrategy:
    def test_walks_back_from_a_block_that_may_not_be_marked(self, strategy: Chosen) -> None:
        """A46: a message that ends in thinking is marked on the block before it."""
        places = request(1, 1, 4, each=2000)
        thinking = [*places[:-2], *(replace(place, eligible=False) for place in places[-2:])]

        assert ("messages", 2, 1) in where(strategy(thinking, model=SONNET))

    def test_matches_the_lowest_ttl_before_it(self, strategy: Chosen) -> None:
        """A48: ours wants an hour behind the client's five minutes, and gets five minutes."""
        places = [replace(place, ttl=HOUR) for place in request(1, 1, 1, each=2000)]
        theirs = [replace(places[0], has_breakpoint=True, ttl=MINUTES), *places[1:]]

        added = strategy(theirs, model=SONNET)
        assert added
        assert {place.ttl for place in added} == {MINUTES}

    def test_rises_to_the_ttl_of_the_clients_later_breakpoint(self, strategy: Chosen) -> None:
        places = request(1, 1, 1, each=2000)
        theirs = [*places[:-1], replace(places[-1], has_breakpoint=True, ttl=HOUR)]

        added = strategy(theirs, model=SONNET)
        assert added
        assert {place.ttl for place in added} == {HOUR}

    def test_adds_none_between_two_of_the_clients_that_are_themselves_out_of_order(self, strategy: Chosen) -> None:
        """No TTL would be right there; before the two and behind them one is."""
        places = request(1, 1, 1, each=2000)
        marks = {1: MINUTES, 5: HOUR}
        theirs = [replace(p, has_breakpoint=at in marks, ttl=marks.get(at, MINUTES)) for at, p in enumerate(places)]

        assert where(strategy(theirs, model=SONNET)) == [("messages", 2, 0)]

    def test_no_limit_is_above_the_providers(self, strategy: Chosen) -> None:
        assert len(strategy(request(90, each=2000), model=SONNET, limit=9)) == 4

    def test_puts_breakpoints_into_a_long_turn_a_stride_apart(self, strategy: Chosen) -> None:
        """A51, where marks remain."""
        added = strategy(request(40, tools=0, system=0, each=2000), model=SONNET)

        assert where(added) == [("messages", 0, 9), ("messages", 0, 24), ("messages", 0, 39)]

    def test_spends_none_below_the_models_minimum(self, strategy: Chosen) -> None:
        """A50."""
        short = request(1, 1, each=800)

        assert strategy(short, model="claude-haiku-4-5")[0].tokens_before >= 4096
        assert strategy(short[:4], model="claude-haiku-4-5") == ()


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("claude-opus-4-5-20251101", 4096),
        ("claude-opus-4-8", 4096),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", 4096),
        ("claude-fable-5", 2048),
        ("anthropic/claude-sonnet-4.6", 2048),
        ("claude-3-haiku-20240307", 2048),
        ("claude-3-5-haiku-latest", 2048),
        ("claude-sonnet-4-5-20250929", 1024),
        ("claude-sonnet-4-20250514", 1024),
        ("claude-opus-4-1", 1024),
        ("claude-3-7-sonnet", 1024),
        ("claude-some-day-9", 4096),
        ("gpt-5", 1024),
        ("gemini-2.5-pro", 2048),
        ("gemini-3-pro-preview", 4096),
    ],
)
def test_the_shortest_cached_prefix_depends_on_the_model(model: str, tokens: int) -> None:
    assert min_prefix_tokens(model) == tokens
