"""Why a cache broke, and what to look at."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from core.sent import CLAUDE, GPT, TALK, cached, call
from ebbtide.core.cache.diagnosis import diagnose_cache
from ebbtide.core.types import SentRequest


def steady(count: int = 4, *, model: str = CLAUDE) -> list[SentRequest]:
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


def after(sent: Sequence[SentRequest], **change: object) -> SentRequest:
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
        assert diagnose_cache(steady()).breaks == ()

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
            ({"at": 79_778.0}, "expired", "22 h since the last call"),
            ({"at": 480.0, "messages": ["x", *TALK[1:9]]}, "expired", "kept for 300 s"),
            ({"messages": TALK[:30], "marks": (29,)}, "look-back", "within 20 blocks"),
            ({}, "provider", "the provider dropped it"),
        ],
    )
    def test_are_attributed(self, change: dict[str, object], cause: str, words: str) -> None:
        sent = steady()
        [cache_break] = diagnose_cache([*sent, after(sent, **change)]).breaks

        assert (cache_break.at, cache_break.cause) == (4, cause)
        assert words in cache_break.detail
        assert cache_break.lost == 59_000

    def test_an_automatic_cache_has_no_breakpoints_to_blame(self) -> None:
        sent = [*steady(2, model=GPT), call(TALK[:30], model=GPT, at=120, marks=(29,), usage=cached(fresh=60_000))]

        assert [cache_break.cause for cache_break in diagnose_cache(sent).breaks] == ["provider"]

    def test_a_miss_within_the_ttl_and_the_look_back_is_not_our_fault(self) -> None:
        sent = steady()
        [cache_break] = diagnose_cache([*sent, after(sent, messages=TALK[:26], marks=(25,), at=479.0)]).breaks

        assert cache_break.cause == "provider"

    @pytest.mark.parametrize(
        ("kept", "lost", "broken"),
        [(100_000, 5000, 0), (100_000, 5001, 1), (10_000, 2000, 0), (10_000, 2001, 1), (1000, 1000, 0)],
    )
    def test_are_more_than_five_percent_and_more_than_2000_tokens(self, kept: int, lost: int, broken: int) -> None:
        """R223."""
        sent = [call(TALK[:1], usage=cached(write=kept)), call(TALK[:3], usage=cached(read=kept - lost, write=lost))]

        assert len(diagnose_cache(sent).breaks) == broken

    def test_what_an_edit_removed_does_not_count_as_lost(self) -> None:
        """From 150k to 30k, 29k of it read: nothing worth a word was written again."""
        sent = [
            call(TALK[:9], usage=cached(write=150_000)),
            call([*TALK[:3], "x"], usage=cached(read=29_000, fresh=1000)),
        ]

        assert diagnose_cache(sent).breaks == ()

    def test_side_calls_in_between_are_not_mistaken_for_breaks(self) -> None:
        """A title or a subagent has another system prompt and starts anew; the conversation goes on after it."""
        sent = steady()
        aside = call(["title"], at=200, system="titles", tools="", usage=cached(fresh=9000))

        assert diagnose_cache([*sent[:3], aside, sent[3]]).breaks == ()

    def test_calls_without_usage_are_passed_over(self) -> None:
        sent = steady()
        diagnosis = diagnose_cache([sent[0], call(TALK[:3]), *sent[1:], after(sent, system="x")])

        assert diagnosis.calls == 5
        assert [broken.at for broken in diagnosis.breaks] == [5]


class TestDiagnosis:
    def row(self, count: int, **change: object) -> list[SentRequest]:
        sent: list[SentRequest] = []
        for n in range(count):
            sent.append(after(sent, **{key: value(n) if callable(value) else value for key, value in change.items()}))
        return sent

    def test_three_misses_name_a_system_prompt_that_differs_each_time(self) -> None:
        """R224."""
        diagnosis = diagnose_cache(self.row(3, system=lambda n: f"now {n}")).diagnosis

        assert diagnosis is not None
        assert diagnosis.startswith("Cache thrashing detected: 3 calls in a row")
        assert "system prompt changed" in diagnosis
        assert "timestamp" in diagnosis

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
        diagnosis = diagnose_cache(self.row(3, **change)).diagnosis

        assert diagnosis is not None
        assert words in diagnosis

    def test_names_the_look_back(self) -> None:
        long = [f"m{n}" for n in range(100)]
        diagnosis = diagnose_cache(
            self.row(4, messages=lambda n: long[: 25 * n + 1], marks=lambda n: (25 * n,))
        ).diagnosis

        assert diagnosis is not None
        assert "no mark within 20 blocks" in diagnosis

    def test_two_misses_are_silent_and_a_hit_ends_the_row(self) -> None:
        bad = self.row(3, system=lambda n: f"{n}")

        assert diagnose_cache(bad[:2]).diagnosis is None
        assert diagnose_cache([*bad, after(bad, system="2", usage=cached(read=50_000))]).diagnosis is None
        assert diagnose_cache([*steady(), *bad[1:]]).diagnosis is None

    def test_unrelated_first_calls_are_only_cold(self) -> None:
        sent = [call([f"task {n}"], system=f"{n}", usage=cached(write=9000)) for n in range(5)]

        assert diagnose_cache(sent).diagnosis is None

    def test_the_commonest_cause_is_named(self) -> None:
        sent = self.row(5, system=lambda n: "same" if n == 4 else f"{n}", tools=lambda n: "new" if n == 4 else "t")
        diagnosis = diagnose_cache(sent).diagnosis

        assert diagnosis is not None
        assert "system prompt changed" in diagnosis


class TestHealth:
    def test_hit_rate_is_the_share_of_prompt_tokens_read(self) -> None:
        sent = [call(TALK[:1], usage=cached(write=900, fresh=100)), call(TALK[:3], usage=cached(read=900, fresh=100))]

        assert diagnose_cache(sent).hit_rate == pytest.approx(0.45)
        assert diagnose_cache([]).hit_rate == 0.0

    def test_logs_hit_rate_compactions_and_usage(self) -> None:
        """R247."""
        sent = [call(TALK[:1], usage=cached(write=900, fresh=100)), call(TALK[:3], usage=cached(read=900, fresh=100))]

        assert diagnose_cache(sent).as_dict(compact_count=2) == {
            "cache_hit_rate": 0.45,
            "compact_count": 2,
            "token_usage": {"input": 200, "cache_read": 900, "cache_write": 900, "output": 100},
        }
