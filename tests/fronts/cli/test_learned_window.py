"""A window that a refusal taught is shown wherever the window is, and a person can have it forgotten."""

import json

from ebbtide.runtime import Context
from runtime.sessions import Clock, body, loop

TALK = loop(40, lines=60)


def refused(store, *, window=200_000):
    """A session whose provider said that it takes 30,000 tokens."""
    context = Context(model="claude-opus-4-5", window=window, store=store, session="nightly", clock=Clock(1.75e9))
    context.prepare(body(TALK[:41]))
    context.overflowed(ValueError("prompt is too long: 41000 tokens > 30000 maximum"))
    context.prepare(body(TALK[:43]))
    return context


def test_it_is_shown_with_its_day_and_the_command_that_forgets_it(ebb, tmp_path):
    refused(tmp_path)

    result = ebb("context", "nightly", "--store", str(tmp_path))
    data = json.loads(ebb("context", "nightly", "--store", str(tmp_path), "--json").text)
    report = ebb("report", "nightly", "--store", str(tmp_path))

    sentence = "window 30k, learned from the provider's refusal on 2025-06-15"
    assert sentence in result.text
    assert "ebb undo SESSION --window" in result.err
    assert data["window"] == 30_000
    assert data["window_learned"].startswith("2025-06-15")
    assert sentence in report.text


def test_a_window_that_was_set_is_not_called_learned(ebb, tmp_path):
    refused(tmp_path)

    result = ebb("context", "nightly", "--store", str(tmp_path), "--window", "100k")

    assert "learned" not in result.text


def test_a_person_can_forget_the_window_and_the_edits_stay(ebb, tmp_path):
    context = refused(tmp_path)
    edits = context.edits()

    result = ebb("undo", "nightly", "--window", "--store", str(tmp_path), "--json")
    again = ebb("undo", "nightly", "--window", "--store", str(tmp_path))

    assert json.loads(result.text) == {"forgotten": {"claude-opus-4-5": 30_000}}
    assert "no window was learned" in again.err
    assert context.edits() == edits
    assert context.prepare(body(TALK[:45])).report.window == 200_000
    assert "learned" not in ebb("context", "nightly", "--store", str(tmp_path)).text


def test_a_batch_and_the_window_are_not_undone_together(ebb, tmp_path):
    refused(tmp_path)

    assert ebb("undo", "nightly", "p2", "--window", "--store", str(tmp_path)).code == 2
