"""Counting at the edges: streams, usage as providers write it, exact counters from outside."""

from __future__ import annotations

import math
import sys
import threading
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.tokens.counters import StreamingCounter, Vocabulary, prime_tool_tokens, tiktoken_counter
from ebbtide.core.tokens.estimator import DEFAULT, OPENCODE, REGION, sage
from ebbtide.core.tokens.usage import usage_from
from ebbtide.core.types import Usage

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=200)
ESTIMATORS = [DEFAULT, OPENCODE, REGION, sage("google")]


# Streams


def test_a_hundred_chunks_of_a_character_are_25_tokens():
    """E8: rounding every chunk up gave 100."""
    counter = StreamingCounter(sage("anthropic"))
    for _ in range(100):
        counter.record_output("x")
    counter.record_input("x" * 10)

    assert (counter.stats().output, counter.stats().input, counter.stats().total) == (25, 3, 28)


@given(st.lists(ANY_TEXT))
def test_a_stream_counts_as_its_full_text_however_it_is_cut(chunks):
    for estimator in ESTIMATORS:
        counter = StreamingCounter(estimator)
        for chunk in chunks:
            counter.record_output(chunk)

        assert counter.stats().output == estimator.text("".join(chunks))
        assert counter.stats().input == 0


def test_two_thirds_of_a_token_three_times_are_two_tokens():
    """9 characters at 4.5: the parts add up to 2.0000000000000004, which is no third token."""
    counter = StreamingCounter(sage("google"))
    for _ in range(9):
        counter.record_output("x")

    assert counter.stats().output == 2


def test_no_chunk_is_lost_between_threads():
    counter = StreamingCounter(OPENCODE)
    sys.setswitchinterval(1e-6)
    try:
        threads = [
            threading.Thread(target=lambda: [counter.record_output("abcd") for _ in range(2000)]) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(0.005)

    assert counter.stats().output == 16_000


# Usage


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param(
            {"input_tokens": 3, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 7, "output_tokens": 5},
            Usage(input=3, cache_read=90, cache_write=7, output=5),
            id="anthropic",
        ),
        pytest.param(
            {
                "cache_creation_input_tokens": 7,
                "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 5},
            }
            | {"input_tokens": 3, "output_tokens": 5},
            Usage(input=3, cache_write=7, output=5, cache_write_1h=5),
            id="anthropic, two lifetimes",
        ),
        pytest.param(
            {"input_tokens": 3, "cache_read_input_tokens": None, "output_tokens": 5},
            Usage(input=3, output=5),
            id="nulls",
        ),
        pytest.param(
            {"prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 64}},
            Usage(input=36, cache_read=64, output=9),
            id="chat",
        ),
        pytest.param(
            {"prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": None},
            Usage(input=100, output=9),
            id="chat without details",
        ),
        pytest.param(
            {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 30}, "output_tokens": 2},
            Usage(input=70, cache_read=30, output=2),
            id="responses",
        ),
        pytest.param(
            {"input_tokens": 100, "cached_input_tokens": 30, "output_tokens": 2},
            Usage(input=70, cache_read=30, output=2),
            id="codex",
        ),
        pytest.param(
            {"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 64}},
            Usage(input=0, cache_read=10, output=1),
            id="more cached than sent",
        ),
        pytest.param(
            {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": -4}}, Usage(input=10), id="negative cached"
        ),
        pytest.param({"input_tokens": -5, "output_tokens": "7"}, Usage(), id="negative and text"),
        pytest.param({"input_tokens": True, "output_tokens": math.nan}, Usage(), id="neither is a number"),
        pytest.param({"input_tokens": 10**400, "output_tokens": 2.0}, Usage(input=1 << 40, output=2), id="huge"),
        pytest.param({"input_tokens": 1, "output_tokens": math.inf}, Usage(input=1, output=1 << 40), id="infinite"),
    ],
)
def test_usage_is_read_and_brought_into_range(usage, expected):
    assert usage_from(usage) == expected
    assert usage_from({"id": "msg", "usage": usage}) == expected
    assert usage_from(SimpleNamespace(model_dump=lambda: usage)) == expected
    assert usage_from(SimpleNamespace(usage=SimpleNamespace(model_dump=lambda: usage))) == expected


@pytest.mark.parametrize("nothing", [None, {}, [], "usage", 5, {"usage": None}, {"usage": []}, {"id": "x"}, object()])
def test_without_usage_there_is_none(nothing):
    assert usage_from(nothing) is None


# Exact counters


class CharacterVocabulary:
    """A vocabulary of single characters."""

    def encode_ordinary(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]


def test_a_vocabulary_counts_text_and_leaves_bytes_alone():
    body = {
        "model": "claude-sonnet-5",
        "system": "12345",
        "messages": [
            {"role": "user", "content": [{"type": "image", "source": {"data": "A" * 1000, "type": "base64"}}]},
            {"role": "user", "content": "1234567890"},
        ],
    }
    with_tools = {**body, "tools": [{"name": "read"}]}
    counter = Vocabulary(CharacterVocabulary())

    assert 15 + 2 * 3 <= counter.count(body) < 100
    assert counter.count(with_tools) - counter.count(body) == len('[{"name":"read"}]')


def test_tool_tokens_are_asked_for_once_with_the_shortest_message():
    asked = []

    class Provider:
        def count(self, body):
            asked.append(body)
            return 16148

    assert prime_tool_tokens(Provider(), model="claude-opus-4-6", tools=[{"name": "read"}]) == 16148
    assert asked == [
        {"model": "claude-opus-4-6", "messages": [{"role": "user", "content": "foo"}], "tools": [{"name": "read"}]}
    ]


def test_without_tiktoken_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tiktoken", None)

    with pytest.raises(ImportError, match=r"ebbtide\[tiktoken\]"):
        tiktoken_counter()


def test_tiktokens_own_encoding_is_a_vocabulary():
    tiktoken = pytest.importorskip("tiktoken")
    encoding = tiktoken.Encoding(
        "bytes", pat_str=r"\w+|\W", mergeable_ranks={bytes([n]): n for n in range(256)}, special_tokens={}
    )

    assert Vocabulary(encoding).count({"messages": [{"content": "éa"}]}) == 3 + 3
