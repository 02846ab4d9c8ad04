"""What holds of every pass on every wire. A promise looks at a trial and asserts; its docstring is the law.

Values are compared by digest or as booleans: pytest's diff of two long histories takes minutes.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Iterable

from ebbtide.core.edit_layout import is_movable
from ebbtide.core.stub import parse
from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.core.types import OURS, Item
from ebbtide.core.view import View
from ebbtide.runtime.outgoing import write_outgoing
from ebbtide.state.binding_records import ItemTable
from ebbtide.state.session_state import batch_from_record, edits_to_record
from ebbtide.wire import WIRES
from ebbtide.wire.validity import violations
from laws.trial import ARRIVING, SHELF, Trial, attempt, digest, planned
from upstream import signing
from upstream.check import refusals

Promise = Callable[[Trial], None]
JOINED = {"A5", "A3", "G7"}
"""Repairs that an edit may cause: neighbours of one role are joined, and operator text between them moves into them."""
SIGNED = {"G5"}
"""A pinned call whose signed neighbour left, and which is joined to an earlier message that called nothing: only the
request's model tells whether the API wants a signature there, so the hardener writes the placeholder."""
EVICTING = {"evict", "evict_messages"}


def edits_apply(trial: Trial) -> None:
    """Nothing that a pass proposes is refused, and what it proposes holds, is worth it, and is there once."""
    plan = trial.plan
    assert [why for _, why in plan.rejected] == []
    assert len(plan.after.active_edits) == len(plan.edits)
    assert len({edit.id for edit in plan.edits}) == len(plan.edits)
    assert bool(plan.edits) == (plan.after.entries != plan.before.entries)
    # Hidden thinking may count for nothing; all else that leaves makes room.
    worth = [edit for edit in plan.edits if edit.replacement]
    assert plan.after.tokens <= plan.before.tokens - len(worth)
    # An edit holds where all that it covers is. Fed back, one that notes something and keeps it all would note it again.
    kept = [(edit, {item.id for item in edit.replacement}) for edit in worth]
    assert [edit.by for edit, ids in kept if ids >= {"", *(item.id for item in trial.covered(edit))}] == []
    shown = Counter(entry.id for entry in plan.after.entries)
    assert [id for id, count in shown.items() if count > 1] == [], "an entry is there twice"


def pairs_stay_together(trial: Trial) -> None:
    """A call has its result after it, once, if it had one before; and no result stands without its call."""
    before, after = _pairs(trial.plan.before.entries), _pairs(trial.plan.after.entries)
    assert after <= before


def valid_in_valid_out(trial: Trial) -> None:
    """By our own rules, by the independent ones, and by the signatures; and the hardener had little to do."""
    tree = dict(trial.tree)
    assert [str(one) for one in violations(WIRES[trial.wire], tree)] == []  # type: ignore[arg-type]
    # A note behind results that are pinned: whether a turn begins there is read in two ways.
    ours_to_read = {"A37"} if trial.pinned and {edit.by for edit in trial.plan.edits} & EVICTING else set()
    assert [str(one) for one in refusals(trial.wire, tree) if one.rule not in ours_to_read] == []
    assert [str(one) for one in signing.refusals(trial.wire, tree)] == []
    assert trial.repaired <= (JOINED | SIGNED if trial.pinned else JOINED)


def stand_ins_count_what_they_will_count(trial: Trial) -> None:
    """What an edit put into the view has the tokens that it will have when a client feeds it back: its frame too."""
    view = trial.plan.after
    put = [entry for entry in view.entries if entry.id in view.edit_by_entry and entry.id not in view.index]
    assert [entry.kind for entry in put if entry.tokens != DEFAULT.block(entry.kind, entry.text)] == []


def stand_ins_go_out(trial: Trial) -> None:
    """What an edit put into the view is in the body: a note that the hardener drops would be a loss nobody hears of."""
    spelled = json.dumps(trial.out, ensure_ascii=False)
    for entry in trial.plan.after.entries:
        if entry.id in trial.plan.after.edit_by_entry and entry.id not in trial.plan.before.index and entry.text:
            assert json.dumps(entry.text, ensure_ascii=False)[1:-1] in spelled, f"lost: {entry.text[:80]!r}"


def what_left_is_not_in_the_body(trial: Trial) -> None:
    """The body has the items that the view shows, and no other: what left is not sent all the same."""
    shown = Counter(_identity(entry.id) for entry in trial.plan.after.entries if entry.id in trial.plan.before.index)
    sent = Counter(_identity(item.id) for item in trial.back.items)
    authored = {_identity(entry.id) for entry in trial.plan.after.entries}
    if "A3" not in trial.repaired:
        assert [id for id in shown if sent[id] < shown[id]] == [], "an item of the view did not go out"
    left = {_identity(item.id) for _, item in trial.gone()}
    assert [id for id in left if sent[id] > shown[id] and id not in authored - left] == [], "an item that left went out"


def quiet_on_its_own_output(trial: Trial) -> None:
    """Run again on the view with its edits, a pass has nothing more to say.

    Its own edits: with the bound thinking that the engine drops beside them (A63) an open loop may be cut anew.
    """
    own = [edit for edit in trial.plan.edits if edit.by != "thinking"]
    again = planned(trial.chosen, trial.request, View.of(trial.request.items, own), trial.new)
    assert [(edit.by, edit.reason) for edit in again.edits] == []
    assert [why for _, why in again.rejected] == []


def our_output_fed_back_is_a_no_op(trial: Trial) -> None:
    """A client that takes our body for its history gets the same body again, and no new edit."""
    request = trial.back
    view = View.of(request.items)
    arrived = [entry for entry in trial.plan.after.entries if trial.place(entry) >= trial.new]
    again = planned(trial.chosen, request, view, len(view.entries) - len(arrived), trial.plan.edits)
    # An open loop whose bound thinking had to go (A63) may be cut anew, and operator text that moved may be evicted.
    # What left inside a run is not counted: of equals that come back another is then the pinned one.
    left = {_identity(item.id) for _, item in trial.gone()}
    astray = any(_identity(id) in left for id in trial.pinned)
    if not trial.reopened and not astray and "A3" not in trial.repaired:
        assert [(edit.by, edit.reason) for edit in again.edits] == []
    # See `test_an_item_removed_without_a_replacement_cannot_be_distinguished_from_its_equal`.
    silent = {_identity(item.id) for edit, item in trial.gone() if not edit.replacement}
    if not any(_identity(item.id) in silent for item in request.items):
        assert digest(write_outgoing(request, View.of(request.items, trial.plan.edits), None).body) == digest(
            trial.tree
        )


def equal_input_gives_equal_bytes(trial: Trial) -> None:
    """The same body read anew, as another process would, goes out with the same bytes."""
    again = attempt(
        trial.chosen,
        trial.wire,
        copy.deepcopy(trial.body),
        trial.new / max(1, len(trial.plan.before.entries)),
        trial.pins,
    )
    assert [edit.id for edit in again.plan.edits] == [edit.id for edit in trial.plan.edits]
    assert digest(again.tree) == digest(trial.tree)
    assert again.plan.before.originals == trial.plan.before.originals == trial.plan.after.originals, (
        "items were changed"
    )


def originals_are_unchanged(trial: Trial) -> None:
    """The client's body is as it was."""
    assert digest(trial.body) == trial.before


def untouched_messages_are_the_same_objects(trial: Trial) -> None:
    """Identity is what lets bytes go out verbatim."""
    touched = {item.message for edit in trial.plan.edits for item in trial.covered(edit)}
    # Where a whole message went, or was repaired, its neighbours of one side are joined.
    left = {entry.message for entry in trial.plan.after.entries}
    joined = trial.repaired or not touched <= left
    near = touched if not joined else {n + d for n in touched for d in range(-3, 4)}
    there = {id(message) for message in trial.out}
    missing = [n for n, one in enumerate(trial.request.messages) if n not in near and id(one) not in there]
    assert missing == []


def what_is_pinned_stays(trial: Trial) -> None:
    """Thinking alone goes all the same where what it is bound to changed, as it would be refused (A63)."""
    left = [(edit.by, item.kind) for edit, item in trial.gone() if item.id in trial.pinned]
    assert [(by, kind) for by, kind in left if kind != "thinking" or by == "strip_thinking"] == []


def unseen_results_stay(trial: Trial) -> None:
    """What the model has not read is only ever offloaded on arrival."""
    pass_names = [edit.by for edit, item in trial.gone() if item.id in trial.plan.before.unseen_ids]
    assert sorted(set(pass_names) - ARRIVING) == []


def arrival_passes_leave_alone_what_was_sent(trial: Trial) -> None:
    sent = {entry.id for entry in trial.plan.before.entries[: trial.new]}
    touched = {item.id for edit in trial.plan.edits for item in trial.covered(edit)}
    assert not trial.arriving or not (sent & touched)


def what_left_can_be_read_back(trial: Trial) -> None:
    """Word for word in a blob of an edit that covers it. Thinking and reminders are in the log alone, and no stub claims
    otherwise: a fold may stand where a client has other reminders.
    """
    for edit, item in trial.gone():
        # A transcript of a run has its words; what is not words is in the log.
        if is_movable(item) and edit.first != edit.last:
            continue
        if item.kind in ("thinking", "opaque") or not (item.text or (item.media and edit.first == edit.last)):
            continue
        covering = [one for one in trial.plan.edits if item in trial.covered(one)]
        texts = [blob.text for one in covering for blob in one.blobs]
        assert any(item.text == text or _inside(item, text) for text in texts), f"{edit.by} lost {item.kind}"


def every_stub_names_what_is_kept(trial: Trial) -> None:
    """P7: no marker without a key, and no key for two contents."""
    kept: dict[str, str] = {}
    for blob in (blob for edit in trial.plan.edits for blob in edit.blobs):
        assert kept.setdefault(blob.name.lower(), blob.text) == blob.text, f"{blob.name} has two contents"
    authored = [item for edit in trial.plan.edits for item in edit.replacement if not item.id]
    stubs = [stub for item in authored for line in item.text.split("\n") if (stub := parse(line)) and item.text]
    for stub in stubs:
        # A tool may print such a line; then it names no file of this shelf, or one that is there.
        assert not stub.path.startswith(f"{SHELF}/") or stub.path.removeprefix(f"{SHELF}/").lower() in kept


def trust_never_rises(trial: Trial) -> None:
    """A stand-in is trusted no more than the least trusted text it shows, here and when a client feeds it back."""
    for edit in trial.plan.edits:
        covered = trial.covered(edit)
        for item in (item for item in edit.replacement if not item.id):
            sources = [one.trust for one in covered if _shows(item, one)]
            assert item.trust >= max(sources, default=min(one.trust for one in covered))
    authored = {
        entry.text: entry.trust for entry in trial.plan.after.entries if entry.id in trial.plan.after.edit_by_entry
    }
    ours = [item for item in trial.back.items if item.source == OURS and item.text in authored]
    assert [item.text[:60] for item in ours if item.trust < min(authored[item.text], 2)] == []


def the_log_gives_the_same_body(trial: Trial) -> None:
    """An edit written down and read again does what it did."""
    record = json.loads(json.dumps({"id": "p1", **edits_to_record(trial.plan.edits, ItemTable())}))
    again = batch_from_record(record, ItemTable())[0].edits
    assert [edit.binding for edit in again] == [edit.binding for edit in trial.plan.edits]
    assert [edit.id for edit in again] == [edit.id for edit in trial.plan.edits]
    view = View.of(trial.request.items, again)
    assert digest(write_outgoing(trial.request, view, None).body) == digest(trial.tree)


ALONE: tuple[Promise, ...] = (
    quiet_on_its_own_output,
    our_output_fed_back_is_a_no_op,
    arrival_passes_leave_alone_what_was_sent,
)
"""Of one pass: after others had their say, a pass may well find more."""

TOGETHER: tuple[Promise, ...] = (
    edits_apply,
    pairs_stay_together,
    valid_in_valid_out,
    stand_ins_count_what_they_will_count,
    stand_ins_go_out,
    what_left_is_not_in_the_body,
    equal_input_gives_equal_bytes,
    originals_are_unchanged,
    untouched_messages_are_the_same_objects,
    what_is_pinned_stays,
    unseen_results_stay,
    what_left_can_be_read_back,
    every_stub_names_what_is_kept,
    trust_never_rises,
    the_log_gives_the_same_body,
)


def _pairs(entries: Iterable[Item]) -> set[tuple[str, str]]:
    """Call ids with the order of their halves: `call result` is a whole pair."""
    halves: dict[str, list[str]] = {}
    for entry in entries:
        if entry.kind in ("call", "result"):
            halves.setdefault(entry.call_id, []).append(entry.kind)
    return {(call_id, " ".join(kinds)) for call_id, kinds in halves.items()}


def _inside(item: Item, text: str) -> bool:
    """In a transcript of an exchange, in a list of parts, or as the provider's own block."""
    if item.text and item.text in text:
        return True
    try:
        parts = json.loads(text)
    except ValueError:
        return False
    raw = item.raw if isinstance(item.raw, dict) else {}
    return bool(parts == item.raw or parts in (raw.get("content"), raw.get("output")))


def _identity(id: str) -> str:
    """Without the occurrence number: when one of two equals left, the other is the first."""
    return id.rpartition("-")[0]


def _shows(stand_in: Item, item: Item) -> bool:
    lines = Counter(line.strip() for line in item.text.split("\n") if len(line.strip()) > 20)
    return any(line in lines for line in (one.strip() for one in stand_in.text.split("\n")))
