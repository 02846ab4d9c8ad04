"""sage, seed 002: R009-R014, R033-R034, R058, R182, R200, R257."""

import pytest

from ebbtide.core.errors import WontFit
from ebbtide.policy import preset
from ebbtide.policy.adjust import OVERFLOWS, with_overflow
from ebbtide.policy.sage import ContextConfig, config_for, for_provider
from ebbtide.runtime import Context
from policy.dialogue import body, chat_body, context, said, user
from runtime.sessions import unmarked

_FRAMING = 4 + 8
"""Tokens of a message besides its text, Anthropic (R033, R034)."""


def talk(tokens, messages=40):
    """So many messages that come to exactly so many tokens."""
    each, rest = divmod(tokens - messages * _FRAMING, messages)
    sizes = [each + (1 if n < rest else 0) for n in range(messages)]
    pairs = enumerate("ab" * (2 * size) for size in sizes)
    return [user(text) if n % 2 == 0 else said(text) for n, text in pairs]


@pytest.mark.parametrize(
    ("provider", "model", "window", "ratio"),
    [
        ("anthropic", "claude-3-opus", 200_000, 0.80),
        ("anthropic", "claude-3.5-sonnet", 200_000, 0.80),
        ("anthropic", "claude-3-haiku", 128_000, 0.75),
        ("openai", "gpt-4o-mini", 128_000, 0.75),
        ("openai", "gpt-4-0613", 8_192, 0.70),
        ("openai", "o3", 128_000, 0.75),
        ("mistral", "sonnet", 128_000, 0.75),
    ],
)
def test_a_configuration_is_found_by_provider_and_model_in_sages_order(provider, model, window, ratio):
    """R011: gpt-4o is asked before gpt-4; another provider's sonnet is nobody's."""
    config = config_for(provider, model)

    assert (config.window, config.ratio) == (window, ratio)


def test_the_threshold_is_the_share_of_the_window_rounded_down():
    """R012."""
    assert ContextConfig(window=8_192, ratio=0.70).threshold == 5_734
    assert for_provider("openai", "gpt-4").levels(8_192, 0).auto == 5_734


def test_the_threshold_is_reached_at_exactly_its_value():
    """R014, R058, D21; at the latest 13,000 before the end of 200,000."""
    at = preset("sage").levels(200_000, 1000)

    assert (at.auto, at.hard, at.low) == (160_000, 187_000, 100_000)
    assert at.is_reached(160_000, "auto")
    assert not at.is_reached(159_999, "auto")


@pytest.mark.parametrize(("tokens", "acts"), [(159_999, False), (160_000, True)])
def test_at_the_threshold_the_oldest_messages_are_removed_and_the_newest_stay(tokens, acts):
    """R200, R236: down to half the window, the last 15 untouched."""
    messages = talk(tokens, 81)

    ready = context("sage").prepare(body(messages))

    assert ready.report.tokens_before == tokens
    assert bool(ready.report.edits) is acts
    assert unmarked(ready.body["messages"][-14:]) == unmarked(messages[-14:])
    if acts:
        assert ready.report.tokens_after <= 100_000


def test_the_newest_messages_stay_even_if_that_is_not_enough():
    """R200: 15 of them hold nearly everything."""
    old, new = talk(30_000, 30), talk(150_000, 15)
    messages = [*old, *new]

    ready = context("sage").prepare(body(messages))

    # The note of what went stands in the same message as the oldest that stayed.
    assert ready.report.edits
    assert unmarked(ready.body["messages"][-14:]) == unmarked(new[1:])


def test_pruned_content_is_saved(tmp_path):
    messages = talk(160_000, 81)
    context("sage", store=tmp_path, session="s").prepare(body(messages))

    kept = "".join(path.read_text() for path in tmp_path.glob("projects/*/s/tool-results/*"))
    assert messages[0]["content"][:2_000] in kept


def test_text_is_counted_in_utf8_bytes_rounded_up_and_messages_are_framed():
    """R032-R034."""
    ready = context("sage").prepare(body([user("é" * 4 + "x")]))

    assert ready.report.tokens_before == 3 + _FRAMING


@pytest.mark.parametrize(
    ("provider", "framing", "chars"), [("anthropic", 12, 4), ("openai", 8, 4), ("google", 10, 4.5)]
)
def test_each_provider_has_its_own_overhead(provider, framing, chars):
    """R034."""
    estimator = for_provider(provider).estimator

    assert (estimator.per_message, estimator.per_token) == (framing, chars)


def test_tools_count_and_the_system_prompt_does_not():
    """R033: the seed's request is its messages and its tools."""
    tool = {"name": "t", "input_schema": {"type": "object"}}
    bare = context("sage").prepare(body([user("go")])).report.tokens_before

    with_tools = context("sage").prepare(body([user("go")], tools=[tool])).report.tokens_before
    with_system = context("sage").prepare(body([user("go")], system="s" * 400)).report.tokens_before

    assert with_tools > bare
    assert with_system == bare


def test_the_model_name_selects_the_provider_and_openai_chat_is_counted_as_such():
    """R011, R034."""
    ctx = _openai()

    assert ctx.prepare(chat_body([user("abcd")])).report.tokens_before == 1 + 4 + 4


def _openai():
    return Context(model="gpt-4o", policy="sage", clock=lambda: 0.0)


def test_on_openai_chat_the_system_message_stays_when_the_oldest_messages_are_removed():
    """R200, R279."""
    system = {"role": "system", "content": "be brief"}
    messages = [system, *talk(110_000, 61)]

    ready = _openai().prepare(chat_body(messages))

    assert ready.report.edits
    assert ready.body["messages"][0] == system


def test_overflow_error_raises_at_the_threshold_and_changes_nothing():
    """R010, R257."""
    policy = with_overflow(preset("sage"), "error")
    below = context(policy).prepare(body(talk(159_999, 81)))

    with pytest.raises(WontFit) as refused:
        context(policy).prepare(body(talk(160_000, 81)))

    assert below.report.edits == ()
    assert "text" in refused.value.made_of.messages
    assert "What would help" in str(refused.value)
    assert refused.value.limit == 160_000


@pytest.mark.parametrize("overflow", [one for one in OVERFLOWS if one != "error"])
def test_every_other_strategy_reduces_the_size(overflow):
    """R010, R202."""
    ready = context(with_overflow(preset("sage"), overflow)).prepare(body(talk(160_000, 81)))

    assert ready.report.tokens_after <= 100_000


def test_the_boundary_text_is_sages():
    """R172, R182."""
    texts = preset("sage").templates

    assert texts.summary_assistant.format(summary="S") == "[Previous conversation summary]\n\nS\n\n[End of summary]"
    assert texts.summary_counted.format(users=2, assistants=3) == (
        "Previous conversation with 2 user messages and 3 assistant responses."
    )
