"""What is looked up in a long session is read once, however many batches ask for it."""

from collections import Counter

import pytest

from bytecode_count import count_bytecodes
from ebbtide.audit.history import build_history
from ebbtide.audit.replan import count_plans, replan, replan_each
from ebbtide.store import open_store
from runtime.sessions import EARLY, Clock, body, context, loop


class CountingMessage(dict):
    """A message that counts how often its content is taken."""

    taken: Counter

    def get(self, key, default=None):
        self.taken[id(self)] += key == "content"
        return super().get(key, default)

    def __getitem__(self, key):
        self.taken[id(self)] += key == "content"
        return super().__getitem__(key)


def watched(records):
    """The same records, and how often each message was read."""
    taken = Counter()
    for record in records:
        if "message" in record:
            record["message"] = CountingMessage(record["message"])
            record["message"].taken = taken
    return taken


def driven(place, calls, undone=()):
    """Calls in a window that eight of them fill: a batch every few turns."""
    clock, messages = Clock(), loop(calls)
    ctx = context(store=place, clock=clock, window=20_000)
    for n in range(1, len(messages) + 1, 2):
        clock.tick()
        ctx.prepare(body(messages[:n]))
        if n in undone:
            ctx.undo()
    return place


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return driven(tmp_path_factory.mktemp("store"), 40, undone=(31, 61))


@pytest.fixture
def records(place):
    return open_store(place).peek("default").read().records


def test_repeating_all_plans_reads_each_message_a_few_times_and_not_for_every_plan(records):
    plans, taken = count_plans(records), watched(records)

    plan_count, differences = replan(records, {"early": EARLY})

    assert (plan_count, differences) == (plans, [])
    assert plans > 12
    # Anew after each undo, and the reader itself looks more than once.
    assert max(taken.values()) < plans


def test_only_the_plan_that_was_changed_in_the_log_is_reported(records):
    plans = [one for one in records if one.get("kind") == "plan"]
    changed = plans[len(plans) // 2]
    changed["edits"][0]["reason"] = "because"

    found = list(replan_each(records, {"early": EARLY}))

    assert len(found) == len(plans)
    assert [one.plan for one in found if one] == [changed["id"]]


def test_everything_that_edits_removed_is_found_in_one_read(records):
    taken = watched(records)
    history = build_history(records, session="default")

    covered = [step.covered_items(edit) for step in history.steps for edit in step.batch.edits]
    calls = [
        step.find_call(items[0])
        for step in history.steps
        for edit in step.batch.edits
        for items in [step.covered_items(edit)]
    ]

    assert all(covered)
    assert all(items[0].call_id == call.call_id for items, call in zip(covered, calls, strict=True) if call)
    assert len(history.steps) > 12
    assert history.steps[0].covered_items(history.steps[-1].batch.edits[-1]) == (), "it was not there yet"
    assert max(taken.values()) < 4


def test_a_step_sees_its_own_branch_and_no_later_item(tmp_path):
    """The client goes back and says something else: what an edit covers is looked for where it was made."""
    first, clock = loop(12), Clock()
    other = [*first[:19], *loop(8, first=100)[1:]]
    ctx = context(store=tmp_path, clock=clock, window=20_000)
    for messages in (first, other):
        for n in range(1, len(messages) + 1, 2):
            clock.tick()
            ctx.prepare(body(messages[:n]))
    history = build_history(open_store(tmp_path).peek("default").read().records, session="default")

    for step in history.steps:
        ids = {item.id for item in history.sent_request(step.turn.number)[0].items}
        for edit in step.batch.edits:
            assert {item.id for item in step.covered_items(edit)} <= ids
            assert [step.covered_items(edit)[0].id, step.covered_items(edit)[-1].id] == [edit.first, edit.last]


def test_walking_all_requests_of_a_long_session_costs_its_length_and_not_its_square(tmp_path):
    def steps(calls):
        records = open_store(driven(tmp_path / str(calls), calls)).peek("default").read().records
        history = build_history(records, session="default")
        assert len(history.steps) > calls / 8
        return count_bytecodes(lambda: list(history.walk()))

    assert steps(160) < 8 * steps(40)  # each of its batches lays out all edits anew


def test_every_request_walked_is_what_that_turn_sent(records):
    """A view that grew from the one before it shows the same as one that is made at once; with what a person undid."""
    history = build_history(records, session="default")

    for turn, request, view in history.walk():
        alone, sent = history.sent_request(turn.number)
        assert [item.id for item in request.items] == [item.id for item in alone.items]
        assert [entry.id for entry in view.entries] == [entry.id for entry in sent.entries]
        assert view.edits == sent.edits
