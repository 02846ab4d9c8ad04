"""The session that ships with the package: what the script records is what is there, and every pass finds work in it."""

import gzip
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
from scripts.record_example import record

import ebbtide
from ebbtide.example import path
from ebbtide.policy import default


@pytest.fixture(scope="module")
def recording():
    return ebbtide.load(path())


def test_the_script_records_exactly_the_session_that_is_shipped():
    assert gzip.decompress(path().read_bytes()).decode() == "".join(f"{line}\n" for line in record())


def test_it_is_small_and_names_no_place_on_the_machine():
    text = gzip.decompress(path().read_bytes()).decode()

    assert path().stat().st_size < 300_000
    assert not [place for place in ("/tmp", "/root", "/work", "/usr", "pyenv", "site-packages") if place in text]


def test_it_loads_without_a_problem_and_claims_no_bill(recording):
    calls = list(recording.requests())

    assert recording.format == "claude-code"
    assert recording.problems == ()
    assert 60 <= len(calls) <= 90
    assert all(call.usage is None for call in calls)


def _named(propose):
    inner = getattr(propose, "propose", propose)
    return inner.func.__name__ if isinstance(inner, partial) else inner.__name__


def test_every_pass_of_the_default_policy_has_something_to_do_in_it(recording):
    """At 32K, as somebody with a local model would run it."""
    made = Counter()

    def watched(propose):
        def watching(view, situation):
            for edit in propose(view, situation):
                made[_named(propose)] += 1
                yield edit

        return watching

    groups = ("arrival", "always", "pressure", "folds")
    policy = replace(default, **{group: tuple(map(watched, getattr(default, group))) for group in groups})
    now = [0.0]
    context = ebbtide.Context(window=32_000, policy=policy, clock=lambda: now[0])
    for call in recording.requests():
        now[0] = call.at
        context.prepare(call.request)
        context.record(call.response)

    assert set(made) == {_named(propose) for group in groups for propose in getattr(default, group)}


def test_each_request_fits_as_the_conversation_grows(recording):
    context = ebbtide.Context(window=64_000)
    reports = [context.prepare(call.request).report for call in recording.requests()]

    assert max(report.tokens_before for report in reports) > 20_000
    assert all(report.tokens_after + 32_000 <= 64_000 for report in reports)
