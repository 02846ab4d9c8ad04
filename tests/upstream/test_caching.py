"""The simulated cache against sums done by hand.

A token is three characters of a unit. `user|{"type":"text","text":""}` has 30 and `system:{...}` 32, so a text block of
3n - 30 letters in a user's message is n tokens.
"""

from __future__ import annotations

import pytest

from upstream.caching import Cache, CacheBill
from upstream.finding import Body, Json

MARK: Body = {"cache_control": {"type": "ephemeral"}}
HOUR: Body = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
MODEL = "claude-sonnet-4-5"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> Cache:
    return Cache(clock)


def user(tokens: int, letter: str = "a", **more: Json) -> Body:
    return {"type": "text", "text": letter * (3 * tokens - 30), **more}


def system(tokens: int, **more: Json) -> Body:
    return {"type": "text", "text": "s" * (3 * tokens - 32), **more}


def body(*blocks: Body, **settings: Json) -> Body:
    return {"model": MODEL, "messages": [{"role": "user", "content": list(blocks)}], **settings}


def test_a_marked_prefix_is_written_once_and_then_read(cache: Cache) -> None:
    first, second = user(2000, **MARK), user(2000)

    assert cache.bill("anthropic", body(first)) == CacheBill(fresh=0, written_5m=2000)
    assert cache.bill("anthropic", body(second, user(600, **MARK))) == CacheBill(fresh=0, read=2000, written_5m=600)
    assert cache.bill("anthropic", body(second, user(600), user(40))) == CacheBill(fresh=2640)


def test_what_follows_the_last_breakpoint_is_paid_in_full(cache: Cache) -> None:
    request = body(user(2000, **MARK), user(77))

    assert cache.bill("anthropic", request) == CacheBill(fresh=77, written_5m=2000)
    assert cache.bill("anthropic", request) == CacheBill(fresh=77, read=2000)


@pytest.mark.parametrize(
    ("model", "least"),
    [("claude-sonnet-4-5", 1024), ("claude-fable-5", 2048), ("claude-opus-4-8", 4096), ("claude-3-5-haiku", 2048)],
)
def test_a_prefix_below_the_models_minimum_is_not_kept(cache: Cache, model: str, least: int) -> None:
    assert cache.bill("anthropic", body(user(least - 1, **MARK), model=model)) == CacheBill(fresh=least - 1)
    assert cache.bill("anthropic", body(user(least, **MARK), model=model)) == CacheBill(fresh=0, written_5m=least)


def test_an_entry_lives_five_minutes_from_its_last_use(cache: Cache, clock: Clock) -> None:
    request = body(user(2000, **MARK))
    cache.bill("anthropic", request)
    for clock.now in (299.0, 598.0):
        assert cache.bill("anthropic", request).read == 2000
    clock.now = 898.0

    assert cache.bill("anthropic", request) == CacheBill(fresh=0, written_5m=2000)


def test_an_hour_is_an_hour_and_is_billed_apart(cache: Cache, clock: Clock) -> None:
    request = body(user(600, **MARK), user(11), system=[system(1500, **HOUR)])

    assert cache.bill("anthropic", request) == CacheBill(fresh=11, written_1h=1500, written_5m=600)
    clock.now = 3599.0
    assert cache.bill("anthropic", request) == CacheBill(fresh=11, read=1500, written_5m=600)


def test_a_one_hour_entry_read_under_a_shorter_breakpoint_keeps_its_hour(cache: Cache, clock: Clock) -> None:
    cache.bill("anthropic", body(user(2000, **HOUR)))
    for clock.now in (100.0, 1000.0):
        assert cache.bill("anthropic", body(user(2000, **MARK))).read == 2000


@pytest.mark.parametrize(("between", "read"), [(20, 2000), (21, 0)])
def test_a_breakpoint_looks_back_at_most_twenty_blocks(cache: Cache, between: int, read: int) -> None:
    cache.bill("anthropic", body(user(2000, **MARK)))
    tail = [user(20)] * (between - 1)

    assert cache.bill("anthropic", body(user(2000), *tail, user(20, **MARK))).read == read


def test_an_intermediate_breakpoint_bridges_the_look_back(cache: Cache) -> None:
    cache.bill("anthropic", body(user(2000, **MARK)))
    tail = [user(20)] * 14

    longer = body(user(2000), *tail, user(20, **MARK), *tail, user(20, **MARK))

    assert cache.bill("anthropic", longer) == CacheBill(fresh=0, read=2000, written_5m=600)


@pytest.mark.parametrize(
    "changed",
    [
        body(user(2000, "b", **MARK)),
        body({"text": "a" * 5970, "type": "text", **MARK}),
        body(user(2000, **MARK), model="claude-sonnet-4"),
        body(user(2000, **MARK), thinking={"type": "enabled", "budget_tokens": 1024}),
        body(user(2000, **MARK), tools=[{"name": "Read"}]),
        body(user(2000, **MARK), system="s"),
    ],
    ids=["a byte", "key order", "model", "thinking", "tools", "system"],
)
def test_any_change_before_the_breakpoint_misses(cache: Cache, changed: Body) -> None:
    cache.bill("anthropic", body(user(2000, **MARK)))

    assert cache.bill("anthropic", changed).read == 0


def test_breakpoints_and_the_bare_string_are_not_part_of_the_bytes(cache: Cache) -> None:
    cache.bill("anthropic", {**body(), "messages": [{"role": "user", "content": "a" * 5970}], **MARK})

    assert cache.bill("anthropic", body(user(2000, **HOUR), user(50))) == CacheBill(fresh=50, read=2000)


def test_another_thinking_budget_leaves_tools_and_system_warm(cache: Cache) -> None:
    cache.bill("anthropic", body(user(2000, **MARK), system=[system(1500, **MARK)]))
    thinking = {"type": "enabled", "budget_tokens": 1024}

    again = cache.bill("anthropic", body(user(2000, **MARK), system=[system(1500, **MARK)], thinking=thinking))

    assert again == CacheBill(fresh=0, read=1500, written_5m=2000)


def chat(*tokens: int) -> Body:
    """`{"role":"user","content":""}` has 28 characters."""
    return {"model": "gpt-5", "messages": [{"role": "user", "content": "a" * (3 * each - 28)} for each in tokens]}


def test_openai_keeps_every_prefix_in_steps_of_128_from_1024_tokens_on(cache: Cache, clock: Clock) -> None:
    """1100 tokens are eight whole steps: 1024. 1100 + 200 are ten: 1280."""
    assert cache.bill("openai_chat", chat(1100)) == CacheBill(fresh=1100)
    assert cache.bill("openai_chat", chat(1100, 200)) == CacheBill(fresh=276, read=1024)
    assert cache.bill("openai_chat", chat(1100, 200)) == CacheBill(fresh=20, read=1280)
    clock.now = 300.0
    assert cache.bill("openai_chat", chat(1100, 200)) == CacheBill(fresh=1300)


def test_openai_keeps_nothing_shorter(cache: Cache) -> None:
    for _ in range(2):
        assert cache.bill("openai_chat", chat(1023)) == CacheBill(fresh=1023)


def test_openai_reads_no_shared_prefix_shorter_than_1024_tokens(cache: Cache) -> None:
    cache.bill("openai_chat", chat(1000, 1000))

    assert cache.bill("openai_chat", chat(900, 2000)) == CacheBill(fresh=2900)


def test_openai_reads_up_to_the_step_before_the_first_changed_byte(cache: Cache) -> None:
    asked = chat(3000)
    cache.bill("openai_chat", asked)
    words = asked["messages"][0]["content"]
    changed = {**asked, "messages": [{"role": "user", "content": words[:6000] + "b" + words[6001:]}]}

    # Character 26 + 6000 lies in the sixteenth step of 384 characters: fifteen whole ones come before it.
    assert cache.bill("openai_chat", changed).read == 15 * 128


def test_responses_bills_instructions_tools_and_input_in_this_order(cache: Cache) -> None:
    asked = {"model": "gpt-5", "instructions": "i" * 6000, "tools": [{"type": "web_search"}], "input": "go"}
    cache.bill("openai_responses", asked)

    assert cache.bill("openai_responses", {**asked, "input": "stop"}).read >= 1920
    assert cache.bill("openai_responses", {**asked, "tools": []}).read == 0
