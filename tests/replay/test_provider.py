"""What a provider charges, computed by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.types import FIVE_MINUTES, HOUR, Usage
from ebbtide.replay.provider import Prefix, Provider

CLAUDE, GPT = "claude-sonnet-4-5", "gpt-5"  # both keep nothing below 1,024 tokens


def prefix(*messages, system=2_000, marks=None):
    """Messages of one block as (name, tokens), behind a system prompt. Clients mark the system prompt and the end."""
    chain, tokens = [hash((0, system))], [system]
    for name, amount in messages:
        chain.append(hash((chain[-1], hash(name) if isinstance(name, str) else name)))
        tokens.append(tokens[-1] + amount)
    chosen = {0: FIVE_MINUTES, len(messages): FIVE_MINUTES} if marks is None else marks
    return Prefix(hashes=chain, tokens=tokens, breakpoints=sorted(chosen.items()))


def bill(read=0, written=0, fresh=0, hour=0):
    return Usage(cache_read=read, cache_write=written, input=fresh, cache_write_1h=hour)


def test_the_first_request_is_written_and_the_next_reads_it():
    provider = Provider(model=CLAUDE)

    assert provider.send(prefix((1, 500)), 0.0) == bill(written=2_500)
    assert provider.send(prefix((1, 500), (2, 300)), 10.0) == bill(read=2_500, written=300)


def test_a_prefix_that_is_too_short_is_neither_written_nor_read():
    provider = Provider(model=CLAUDE)
    short = prefix((1, 23), system=1_000)

    assert [provider.send(short, at) for at in (0.0, 1.0)] == [bill(fresh=1_023)] * 2
    assert provider.send(prefix((1, 24), system=1_000), 2.0) == bill(written=1_024)


def test_the_minimum_is_the_models():
    assert Provider(model="claude-opus-4-5").send(prefix((1, 2_000)), 0.0) == bill(fresh=4_000)


def test_after_the_ttl_all_is_written_again_and_at_the_end_of_it_too():
    provider = Provider(model=CLAUDE)
    provider.send(prefix((1, 500)), 0.0)

    assert provider.send(prefix((1, 500)), 299.0) == bill(read=2_500)
    assert provider.send(prefix((1, 500)), 599.0) == bill(written=2_500)


def test_messages_are_cached_apart_with_and_without_thinking_and_the_front_is_shared():
    provider = Provider(model=CLAUDE)
    plain, longer = prefix((1, 500)), prefix((1, 500), (2, 300))
    provider.send(plain._replace(thinks=True), 0.0)

    assert provider.send(longer, 10.0) == bill(read=2_000, written=800)
    assert provider.send(longer._replace(thinks=True), 20.0) == bill(read=2_500, written=300)


def test_each_read_makes_it_last_longer():
    provider = Provider(model=CLAUDE)
    bills = [provider.send(prefix((1, 500)), at) for at in (0.0, 200.0, 400.0, 600.0)]

    assert bills == [bill(written=2_500), *[bill(read=2_500)] * 3]


def test_a_change_in_the_middle_keeps_the_system_prompt_cached_because_clients_mark_it():
    provider = Provider(model=CLAUDE)
    provider.send(prefix((1, 500), (2, 300), (3, 100)), 0.0)

    assert provider.send(prefix((1, 500), (9, 200), (3, 100)), 1.0) == bill(read=2_000, written=800)


def test_only_what_is_marked_is_cached():
    provider = Provider(model=CLAUDE)
    bare = prefix((1, 500), marks={})

    assert [provider.send(bare, at) for at in (0.0, 1.0)] == [bill(fresh=2_500)] * 2
    assert provider.send(prefix((1, 500), marks={0: FIVE_MINUTES}), 2.0) == bill(written=2_000, fresh=500)


def test_a_breakpoint_before_the_change_is_read_and_without_one_nothing_is():
    marked, unmarked = Provider(model=CLAUDE), Provider(model=CLAUDE)
    marked.send(prefix((1, 500), (2, 300), marks={0: FIVE_MINUTES, 1: FIVE_MINUTES, 2: FIVE_MINUTES}), 0.0)
    unmarked.send(prefix((1, 500), (2, 300)), 0.0)
    changed = prefix((1, 500), (9, 200), marks={0: FIVE_MINUTES, 1: FIVE_MINUTES, 2: FIVE_MINUTES})

    assert marked.send(changed, 1.0) == bill(read=2_500, written=200)
    assert unmarked.send(changed, 1.0) == bill(read=2_000, written=700)


def test_mixed_lifetimes_are_written_at_two_prices_and_expire_apart():
    """Read up to the longest cached prefix, an hour up to the last such mark, five minutes up to the last mark."""
    provider = Provider(model=CLAUDE)
    marks = {0: HOUR, 1: HOUR, 3: FIVE_MINUTES}
    sent = prefix((1, 500), (2, 300), (3, 100), marks=marks)

    assert provider.send(sent, 0.0) == bill(written=2_900, hour=2_500)
    assert provider.send(sent, 200.0) == bill(read=2_900)
    assert provider.send(sent, 600.0) == bill(read=2_500, written=400)
    assert provider.send(sent, 600.0 + HOUR) == bill(written=2_900, hour=2_500)


def test_an_hour_upgrades_nothing_that_is_cached_for_five_minutes():
    provider = Provider(model=CLAUDE)
    provider.send(prefix((1, 500)), 0.0)

    assert provider.send(prefix((1, 500), (2, 300), marks={1: HOUR, 2: HOUR}), 1.0) == bill(
        read=2_500, written=300, hour=300
    )
    assert provider.send(prefix((1, 500), (2, 300), marks={1: HOUR, 2: HOUR}), 302.0).cache_read == 0


@pytest.mark.parametrize(("more", "read"), [(20, 2_500), (21, 2_000)])
def test_a_provider_looks_back_at_most_twenty_blocks_from_a_breakpoint(more, read):
    provider = Provider(model=CLAUDE)
    provider.send(prefix((1, 500)), 0.0)

    usage = provider.send(prefix((1, 500), *[(10 + n, 10) for n in range(more)]), 1.0)

    assert usage == bill(read=read, written=2_500 + 10 * more - read)


def test_openai_reads_in_steps_of_128_without_breakpoints_and_writes_for_free():
    provider = Provider(model=GPT)

    assert provider.send(prefix((1, 500)), 0.0) == bill(fresh=2_500)
    # 19 * 128 = 2,432
    assert provider.send(prefix((1, 500), (2, 300)), 1.0) == bill(read=2_432, fresh=368)


def test_openai_reads_nothing_below_1024():
    provider = Provider(model=GPT)
    provider.send(prefix((1, 500), system=1_000), 0.0)

    assert provider.send(prefix((2, 500), system=1_000), 1.0) == bill(fresh=1_500)


_REQUESTS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4_000)), max_size=8),
        st.sets(st.integers(1, 8), max_size=4),
        st.floats(0.0, 400.0),
    ),
    min_size=1,
    max_size=8,
)


@given(_REQUESTS, st.sampled_from([CLAUDE, GPT, "claude-opus-4-5"]))
def test_read_written_and_fresh_are_together_the_prompt(requests, model):
    provider, now = Provider(model=model), 0.0
    for messages, marks, pause in requests:
        now += pause
        chosen = {mark: (FIVE_MINUTES, HOUR)[mark % 2] for mark in marks if mark <= len(messages)}
        sent = prefix(*messages, system=500, marks=chosen)
        usage = provider.send(sent, now)

        assert usage.prompt == sent.tokens[-1]
        assert min(usage.cache_read, usage.cache_write - usage.cache_write_1h, usage.cache_write_1h, usage.input) >= 0


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 900)), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 900)), min_size=1, max_size=15),
    st.floats(0.0, 299.0),
)
def test_a_request_that_extends_the_last_within_the_ttl_reads_all_of_it(messages, more, pause):
    provider = Provider(model=CLAUDE)
    first = prefix(*messages)
    provider.send(first, 0.0)

    assert provider.send(prefix(*messages, *more), pause).cache_read == first.tokens[-1]
