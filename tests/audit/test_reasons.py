"""The reason that people read says how old a removed result was, and whether anybody used it since."""

from ebbtide.audit.history import build_history
from ebbtide.audit.reasons import explain_reason, explain_reasons
from ebbtide.store import open_store
from runtime.sessions import body, call, context, loop, result, run

LINES = 100
"""Of a result: too few for it to be moved to disk on arrival."""


def reasons(place, messages):
    """Return the reason of every cleared result by the file that was read, and the call that removed it."""
    run(context(store=place, window=20_000), messages)
    history = build_history(open_store(place).peek("default").read().records, session="default")
    found = {}
    for step in history.steps:
        for edit in step.batch.edits:
            if edit.by == "clear_results":
                item = step.covered_items(edit)[0]
                found[step.find_call(item).text.split('"')[3]] = explain_reason(history, step, edit), step.turn.number
    return found


def test_a_file_that_no_later_call_names_was_not_used(tmp_path):
    found = reasons(tmp_path, loop(24, LINES))

    assert len(found) > 5
    for path, (reason, number) in found.items():
        nth = int(path.removeprefix("src/f").removesuffix(".py"))
        # The result of call n is in the request of call n + 2 at the earliest, counted from 1.
        assert reason == f"not used for {number - nth - 2} call{'s' * (number - nth - 2 != 1)}", path


def test_a_file_that_was_used_again_is_only_old(tmp_path):
    messages = loop(3, LINES)
    messages += [call(3, "Grep", pattern="datum", path="src/f0.py"), result(3, LINES)]
    messages += loop(20, LINES, first=4)[1:]

    found = reasons(tmp_path, messages)

    assert found["src/f0.py"][0].endswith(" old")
    assert found["src/f1.py"][0].startswith("not used for ")


def test_several_edits_share_a_range_of_ages(tmp_path):
    run(context(store=tmp_path, window=20_000), loop(24, LINES))
    history = build_history(open_store(tmp_path).peek("default").read().records, session="default")
    step = next(step for step in history.steps if sum(edit.by == "clear_results" for edit in step.batch.edits) > 1)
    edits = [edit for edit in step.batch.edits if edit.by == "clear_results"]

    ages = [int(explain_reason(history, step, edit).split()[3]) for edit in edits]
    assert explain_reasons(history, step, edits) == f"not used for {min(ages)} to {max(ages)} calls"


def test_a_reason_of_its_own_is_kept(tmp_path):
    ctx = context(store=tmp_path, window=20_000)
    ctx.prepare(body([*loop(1, lines=600)]))
    history = build_history(open_store(tmp_path).peek("default").read().records, session="default")

    for step in history.steps:
        for edit in step.batch.edits:
            assert edit.by != "clear_results"
            assert explain_reason(history, step, edit) == edit.reason
    assert history.steps
