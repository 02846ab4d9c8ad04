"""What a program hands in by mistake is answered at the door, by name and with what was expected."""

import copy
import pickle
import re

import pytest

import ebbtide
from ebbtide.store import open_store
from runtime.sessions import body, loop

REQUEST = {"model": "claude-sonnet-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("model", 3, "a model's name"),
        ("window", "32k", "a number of tokens"),
        ("window", -1, "a number of tokens"),
        ("window", 1000.5, "a number of tokens"),
        ("window", True, "a number of tokens"),
        ("window", False, "a number of tokens"),
        ("window", 0, "a number of tokens"),
        ("window", float("nan"), "a number of tokens"),
        ("window", float("inf"), "a number of tokens"),
        ("session", None, "a name"),
        ("session", 3, "a name"),
        ("project", 3, "a path"),
        ("store", 3, "a directory"),
        ("summarizer", "claude-haiku", "a function"),
        ("workspace", 3, "a directory"),
        ("live", ["notes"], "a dict"),
        ("recall", "yes", "'path', 'tool', 'off'"),
        ("hooks", [print], "ebbtide.Hooks"),
        ("on_event", "log", "a function"),
        ("clock", 0.0, "a function"),
    ],
)
def test_a_setting_of_the_wrong_kind_is_refused_by_its_name_before_anything_is_done(name, value, expected):
    with pytest.raises(ebbtide.BadConfig) as refused:
        ebbtide.Context(**{name: value})

    assert str(refused.value).startswith(f"{name} must be ")
    assert expected in str(refused.value)
    assert type(value).__name__ in str(refused.value)


@pytest.mark.parametrize("window", ["32k", None, 0, False, -1, 1000.5, float("nan"), float("inf")])
def test_fit_accepts_a_number_of_tokens(window):
    with pytest.raises(ebbtide.BadConfig, match="window must be a number of tokens"):
        ebbtide.fit(REQUEST, window=window)


@pytest.mark.parametrize("now", [float("nan"), float("inf"), -1.0, 884_541_600_000.0, 10**400, None, "1", True])
def test_a_clock_that_returns_no_date_is_refused_with_a_sentence(now):
    """From the first look on, and when it goes wrong later: then the request before it stands."""
    with pytest.raises(ebbtide.BadConfig, match=r"clock\(\) must be seconds since 1970"):
        ebbtide.Context(clock=lambda: now)

    times = [1.0, 2.0]
    context = ebbtide.Context(clock=lambda: times.pop(0) if times else now)
    context.prepare(REQUEST)
    with pytest.raises(ebbtide.BadConfig, match=r"clock\(\) must be seconds since 1970"):
        context.prepare(REQUEST)


JUMPS = (1.7e9, 1.7e9 + 5, 1.2e9, 1.2e9 + 1, 4.1e9, 0.0, 2.5e11, 1.7e9, 1.7e9 - 400, 1.7e9 + 10)


@pytest.mark.parametrize("policy", sorted(ebbtide.policy.PRESETS))
def test_a_clock_that_jumps_by_years_either_way_breaks_no_plan_and_no_log(policy, tmp_path):
    times = list(JUMPS)
    now = [times[0]]
    told = []
    options = {"policy": policy, "window": 40_000, "store": tmp_path, "clock": lambda: now[0], "on_event": told.append}
    context = ebbtide.Context(**options)
    messages = []

    for n, now[0] in enumerate(times):
        messages = [*messages, *loop(3, 900, first=3 * n)]
        sent = context.prepare(body(messages)).body
        context.record({"content": [{"type": "text", "text": "ok"}], "usage": {"input_tokens": 9, "output_tokens": 9}})
        if n % 4 == 3:
            assert ebbtide.Context(**options).prepare(body(messages)).body == sent
            context = ebbtide.Context(**options)

    assert context.edits(), "nothing was planned"
    assert [event for event in told if event.kind == "fallback"] == []
    assert open_store(tmp_path).peek("default").read().damage == ()


def test_a_float_without_a_fraction_is_a_window():
    assert ebbtide.Context(window=2e5).window == 200_000
    assert ebbtide.fit(REQUEST, window=2e5).body is REQUEST


@pytest.mark.parametrize(
    ("request_", "told"), [(None, "NoneType"), (REQUEST["messages"], "messages alone"), (3, "int")], ids=str
)
def test_an_invalid_request_is_answered_with_what_a_valid_one_is(request_, told):
    for ask in (ebbtide.fit, ebbtide.Context().prepare):
        with pytest.raises(ebbtide.BadRequest, match="a request is a dict") as refused:
            ask(request_)
        assert told in str(refused.value)


def test_a_query_or_error_of_the_wrong_type_is_refused():
    context = ebbtide.Context()
    context.prepare(REQUEST)

    with pytest.raises(ebbtide.BadRequest, match="a string, not int"):
        context.recall(3)
    with pytest.raises(ebbtide.BadRequest, match="the exception that was raised, not str"):
        context.overflowed("prompt is too long")


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda way: way.__name__)
def test_a_context_is_not_copied_and_says_what_to_do_instead(way):
    with pytest.raises(TypeError, match="make another with the same store and session"):
        way(ebbtide.Context())


def test_the_repr_of_a_context_identifies_it():
    told = repr(ebbtide.Context(model="claude-sonnet-5", window=9_000, session="nightly"))

    assert told == "Context(session='nightly', model='claude-sonnet-5', window=9000)"


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_report_survives_copies_and_pickles_with_all_of_its_figures(way):
    context = ebbtide.Context(model="claude-opus-4-5", window=30_000)
    report = context.prepare(body(loop(24))).report
    assert report.edits

    again = way(report)

    assert again == report
    assert again.as_dict() == report.as_dict()
    assert again.tokens_untouched == report.tokens_untouched
    assert again.savings.claimed == report.savings.claimed
    assert way(again).as_dict() == report.as_dict()


def test_the_parts_of_what_does_not_fit_add_up_to_it():
    with pytest.raises(ebbtide.WontFit) as refused:
        ebbtide.fit({**REQUEST, "system": "Be brief. " * 500}, window=100)

    whole, _, told = str(refused.value).partition(" tokens do not fit a limit of 100. They are made of: ")
    parts = re.findall(r"\b[\d,]+\b", told.partition(". What would help")[0])
    number = [int(one.replace(",", "")) for one in (whole, *parts)]
    assert number[0] == sum(number[1:])
