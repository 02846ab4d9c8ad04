"""What holds of every preset: names, small windows, validity, quiet, and nothing lost."""

import json

import pytest

from ebbtide import PRESETS, Policy, fit, preset
from ebbtide.audit.replan import replan
from ebbtide.core.errors import BadConfig, WontFit
from ebbtide.policy.levels import single_threshold
from ebbtide.store import MemoryStore
from ebbtide.wire import WIRES
from ebbtide.wire.validity import violations
from policy.dialogue import Clock, Refusing, billed, body, chat_body, chat_step, context, said, step, user

NAMES = ("default", "claude-code", "opencode", "mini-claude", "sage", "region", "learn-v5", "keep-more", "spend-less")
SMALL = (4_096, 8_192, 32_768)
_COUNTING = Policy(
    name="counting", levels=lambda window, *_: single_threshold(lambda w, o: w)(window, 0), usable=lambda w, *_: w
)
"""Ours in counting, and in nothing else: it raises if a request does not fit."""
LINE = "src/tide/gauge.py:12: reading = level - datum\n"


def session(steps, lines, make=step):
    """An agent at work: reads, searches, and a user who speaks now and then."""
    messages = [user("fix the gauge")]
    for n in range(steps):
        tool, given = ("read_file", "file_path") if n % 3 else ("bash", "command")
        arguments = {given: f"f{n % 4}"}
        more = {"arguments": json.dumps(arguments)} if make is chat_step else arguments
        messages += make(n, tool, LINE * lines + str(n), **more)
        if n % 6 == 5:
            messages += [said(f"done {n}"), user(f"now {n}")]
    return messages


def requests(messages):
    return [messages[: n + 1] for n, message in enumerate(messages) if message["role"] in ("user", "tool")]


def test_the_names_are_fixed():
    assert tuple(PRESETS) == NAMES
    assert all(policy.name == name for name, policy in PRESETS.items())


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(BadConfig, match="learn-v5"):
        preset("claude")


@pytest.mark.parametrize("window", [*SMALL, 200_000, 1_000_000])
@pytest.mark.parametrize("name", NAMES)
def test_levels_are_positive_and_in_order(name, window):
    at = PRESETS[name].levels(window, 1_000)

    assert 0 < at.low <= at.auto
    assert at.warning <= at.soft <= at.auto <= at.hard <= window
    assert at.auto >= window // 2


@pytest.mark.parametrize("window", SMALL)
@pytest.mark.parametrize("name", NAMES)
def test_a_session_in_a_small_window_stays_valid_and_does_not_loop(name, window):
    """Where 200K rules would be negative: each request is valid, fits, and asked again is not changed again."""
    messages = session(18, window // 400)
    ctx = context(name, window=window)
    for sent in requests(messages):
        ready, again = ctx.prepare(body(sent)), ctx.prepare(body(sent))
        usage = {"input_tokens": len(json.dumps(ready.body)) // 4, "output_tokens": 1}
        ctx.record({"role": "assistant", "content": [{"type": "text", "text": "ok"}], "usage": usage})

        assert violations(WIRES["anthropic"], ready.body) == []
        assert again.report.edits == ()
        same = again.body["messages"] == ready.body["messages"]
        assert same
        assert ready.report.tokens_after <= window


@pytest.mark.parametrize("name", NAMES)
def test_openai_chat_stays_valid_in_a_small_window(name):
    messages = session(18, 20, chat_step)
    ctx = context(name, window=8_192)
    for sent in requests(messages):
        ready = billed(ctx, sent, wrap=chat_body)

        assert violations(WIRES["openai_chat"], ready.body) == []


@pytest.mark.parametrize("window", [*SMALL, 200_000])
@pytest.mark.parametrize("name", NAMES)
def test_fit_gives_a_valid_request_under_every_policy(name, window):
    ready = fit(body(session(18, window // 300)), window=window, policy=name)

    assert violations(WIRES["anthropic"], ready.body) == []
    assert ready.report.tokens_after <= window
    # Fitted again by our own count, which allows for error, it is found to fit.
    assert fit(ready.body, window=window, policy=_COUNTING).report.edits == ()


@pytest.mark.parametrize("name", NAMES)
def test_a_request_that_cannot_fit_is_refused_with_its_parts_and_what_would_help(name):
    with pytest.raises(WontFit) as refused:
        fit(body([user("word " * 40_000)]), window=8_192, policy=name)

    assert refused.value.made_of.messages["text"] > 8_192


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("last", ["result", "words"])
def test_when_the_newest_messages_are_too_large_they_are_reduced_too(name, last):
    """A fold, or the last resort: an old result first, then what the assistant said. The user's words stay."""
    large = "ab " * 6_000
    middle = [*step(0, "other", large), said("ok")] if last == "result" else [said(large)]
    messages = [user("begin"), *middle, user("next")]

    ready = context(name, window=4_096).prepare(body(messages))

    out = json.dumps(ready.body["messages"])
    assert ready.report.tokens_after <= PRESETS[name].levels(4_096, 1_000).hard
    assert (large in out) is False
    assert "begin" in out
    assert "next" in out
    if not any(edit.by == "summarize" for edit in ready.report.edits):
        assert ('"t0"' in out) is (last == "result"), "the call stays, so the model knows what it did"


@pytest.mark.parametrize("name", NAMES)
def test_if_nothing_can_be_saved_nothing_is_removed(name):
    """In any preset: where the store refuses, the request goes out whole."""
    clock = Clock()
    messages = [*session(30, 400), said("ok"), user("next")]
    ctx = context(name, clock=clock, store=Refusing(MemoryStore()), window=1_000_000)
    billed(ctx, messages, input=170_000)
    clock.at += 600

    ready = ctx.prepare(body([*messages, said("ok"), user("more")]))

    assert ready.report.edits == ()
    assert all(a == b for a, b in zip(ready.body["messages"], messages, strict=False))


@pytest.mark.parametrize("name", NAMES)
def test_every_plan_can_be_repeated_from_the_log(name):
    store = MemoryStore()
    ctx = context(name, window=20_000, store=store, session="s")
    for sent in requests(session(18, 150)):
        billed(ctx, sent)

    plan_count, differences = replan(store.open("s", now=0.0).read().records)

    assert plan_count
    assert differences == []


@pytest.mark.parametrize("name", NAMES)
def test_removed_content_is_complete_on_disk(name, tmp_path):
    messages = [*session(18, 300), said("ok"), user("next")]
    ctx = context(name, window=40_000, store=tmp_path, session="s")
    billed(ctx, messages, input=39_000)
    ready = ctx.prepare(body([*messages, said("ok"), user("more")]))

    out = json.dumps(ready.body)
    kept = "".join(path.read_text() for path in tmp_path.glob("projects/*/s/tool-results/*"))
    originals = [m["content"][0]["content"] for m in messages if isinstance(m["content"], list) and m["role"] == "user"]
    lost = [n for n, text in enumerate(originals) if json.dumps(text)[1:-1] not in out and text not in kept]
    assert ready.report.held
    assert lost == []
