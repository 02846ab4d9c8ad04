"""One pass tried on one real body, from the bytes a client gave to the bytes that would go out.

Passes run with eager settings: their own defaults speak of 200K windows, and a law that never sees an edit holds of
nothing. `test_passes` proves that each of them makes edits on every wire that gives it something to do.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from ebbtide.core.edit_rules import find_loop_start
from ebbtide.core.planner import Budget, Pass, Plan, PlanInput, Thresholds, make_plan
from ebbtide.core.stub import BlobNames
from ebbtide.core.stub import digest as blob_digest
from ebbtide.core.text.preview import essence
from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.core.types import Edit, Item
from ebbtide.core.view import View
from ebbtide.passes import (
    ARRIVAL,
    PASSES,
    budget_results,
    clear_media,
    clear_results,
    clear_to_target,
    drop_calls,
    evict,
    evict_messages,
    fold_regions,
    fold_to_fit,
    limit_output,
    offload_input,
    offload_results,
    prune_results,
    shorten_text,
    snip_results,
    strip_thinking,
    summarize,
    truncate_results,
)
from ebbtide.runtime.outgoing import Outgoing, write_outgoing
from ebbtide.wire import WIRES
from ebbtide.wire.reader import EchoedEdits, Reader, Request
from upstream.talks import bodies

Body = dict[str, Any]
KEYS = {name: wire.list_key for name, wire in WIRES.items()}
SHELF = "kept"
"""The folder that stubs name."""
Pins = tuple[int, int]
"""Every so-manieth item is pinned, from which on; (0, 0) for none."""
PINS: st.SearchStrategy[Pins] = st.one_of(
    st.just((0, 0)), st.tuples(st.sampled_from([2, 3, 5, 9, 20]), st.integers(0, 19))
)
"""A person who pins, or takes a batch back: what that brought stays from then on."""

EAGER: Mapping[str, Pass] = {
    "offload_results": partial(offload_results, limit=400),
    "offload_input": partial(offload_input, limit=40, preview=essence(40)),
    "limit_output": partial(limit_output, limit=300, only=frozenset(("Bash", "run_shell", "shell"))),
    "truncate_results": partial(truncate_results, limit=300),
    "strip_thinking": strip_thinking,
    "snip_results": partial(snip_results, keep_results=1, keep_each=1),
    "prune_results": partial(prune_results, keep_turns=1, keep_tokens=100, min_saved=0),
    "clear_to_target": partial(
        clear_to_target,
        target=50,
        min_saved=1,
        keep_results=1,
        only=frozenset(("Read", "Bash", "Grep", "read_file", "shell")),
    ),
    "clear_results": partial(clear_results, keep_results=1, min_tokens=40),
    "clear_media": partial(clear_media, keep=0),
    "drop_calls": partial(drop_calls, min_tokens=20, keep_results=1),
    "budget_results": partial(budget_results, tight=(0.7, 400)),
    "shorten_text": partial(shorten_text, min_tokens=3, lines=1, keep_turns=1),
    "fold_regions": partial(fold_regions, keep_turns=1, keep_tokens=0, min_tokens=20),
    "summarize": partial(summarize, keep_turns=1, keep_tokens=400, min_messages=2, ledger_tokens=150),
    "fold_to_fit": partial(fold_to_fit, ledger_tokens=150),
    "evict": partial(evict, keep=2),
    "evict_messages": partial(evict_messages, keep=2),
}
ARRIVING = frozenset(propose.__name__ for propose in ARRIVAL)  # type: ignore[attr-defined]


def names() -> list[str]:
    """Every pass there is: one without eager settings fails here, not silently."""
    known = [propose.__name__ for propose in PASSES]  # type: ignore[attr-defined]
    assert set(known) == set(EAGER), "a pass has no eager settings"
    return known


def nightly(examples: int, *, quick: int) -> settings:
    """So many examples in the nightly profile, and a few in CI's."""
    return settings(max_examples=examples if settings().max_examples >= _NIGHTLY else quick)


_NIGHTLY = 2_000


def digest(value: object) -> str:
    """Compared instead of the value: a diff of two long histories takes minutes."""
    return hashlib.sha256(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()


class ShortReprBody(dict[str, Any]):
    """A body whose repr is short: a failing example is found again by its digest, and pages of it help nobody."""

    def __repr__(self) -> str:
        messages = next((self[key] for key in KEYS.values() if key in self), ())
        return f"<{self.get('model')}, {len(messages)} messages, {digest(self)[:12]}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Hypothesis prints by this name, and a dict in full without it."""
        printer.text(repr(self))


def conversations(wire: str) -> st.SearchStrategy[ShortReprBody]:
    return bodies(wire).map(ShortReprBody)


def read(wire: str, body: Body, edits: tuple[Edit, ...] = (), pinned: frozenset[str] = frozenset()) -> Request:
    found = WIRES[wire]
    return Reader(DEFAULT, wire=found, echoes=EchoedEdits().learn(found, edits).by_fingerprint, pinned=pinned).read(
        body
    )


def situated(request: Request, view: View, new: int = 0, known: Sequence[Edit] = ()) -> PlanInput:
    """As full as can be: every level is reached, so that a pass holds nothing back. On the shelf is what left before:
    a name in use makes the next one longer, and a note may then not be worth it."""
    taken = {blob.name.lower(): blob_digest(blob.text) for edit in known for blob in edit.blobs}
    tokens = view.tokens + sum(request.overhead)
    levels = Thresholds(warning=1, soft=1, auto=1, hard=1, blocking=1, low=1)
    # 16,384: notes stand for an eighth of the window, so that a run of exchanges makes more than one.
    budget = Budget(window=16_384, levels=levels, overhead=sum(request.overhead))
    return PlanInput(
        budget=budget,
        tokens=tokens,
        utilisation=0.9,
        first_unsent=new,
        trigger="manual",
        target=1,
        count_tokens=DEFAULT.text,
        result_overhead=DEFAULT.per_result,
        blob_names=BlobNames(directory=SHELF, taken=taken),
        thinking_bound_to_prefix=request.thinking_bound_to_prefix,
    )


def planned(chosen: tuple[str, ...], request: Request, view: View, new: int = 0, known: Sequence[Edit] = ()) -> Plan:
    now = situated(request, view, new, known)
    arrival = [EAGER[name] for name in chosen if name in ARRIVING]
    return make_plan(view, [EAGER[name] for name in chosen if name not in ARRIVING], now.budget, now, arrival=arrival)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a law may look at."""

    chosen: tuple[str, ...]
    """The passes, by name."""
    wire: str
    body: Body
    before: str
    """Digest of the body before anything read it."""
    request: Request
    plan: Plan
    new: int
    pins: Pins
    made: Outgoing

    @property
    def arriving(self) -> bool:
        return any(name in ARRIVING for name in self.chosen)

    @property
    def tree(self) -> Mapping[str, Any]:
        return self.made.body

    @property
    def out(self) -> list[Any]:
        messages: list[Any] = self.made.body[KEYS[self.wire]]
        return messages

    @cached_property
    def back(self) -> Request:
        """The outcome as a client would feed it back, read by one who knows the edits."""
        return read(self.wire, copy.deepcopy(dict(self.tree)), self.plan.edits, self.pinned)

    @property
    def pinned(self) -> frozenset[str]:
        return frozenset(item.id for item in self.request.items if item.pinned)

    @cached_property
    def repaired(self) -> frozenset[str]:
        """Rules that the hardener had to mend because of the edits."""
        return frozenset(repair.rule for repair in self.made.repairs)

    def covered(self, edit: Edit) -> tuple[Item, ...]:
        index = self.plan.before.index
        return self.plan.before.originals[index[edit.first] : index[edit.last] + 1]

    def place(self, entry: Item) -> int:
        """Where an entry of the outcome stood, or what it stands for began, among the originals."""
        owner = self.plan.after.edit_by_entry.get(entry.id)
        return self.plan.before.index[owner.first if owner else entry.id]

    @property
    def reopened(self) -> bool:
        """Whether thinking of the open loop had to go, or some that was pinned: it is bound to what an edit changed."""
        held = {entry.id for entry in self.plan.before.entries[find_loop_start(self.plan.before) :]} | self.pinned
        return any(edit.by == "thinking" and edit.first in held for edit in self.plan.edits)

    def gone(self) -> list[tuple[Edit, Item]]:
        """Originals that the view does not show any more, each with an edit that covers it."""
        shown = {entry.id for entry in self.plan.after.entries}
        return [(edit, item) for edit in self.plan.edits for item in self.covered(edit) if item.id not in shown]


def attempt(chosen: tuple[str, ...], wire: str, body: Body, share: float = 0.0, pins: Pins = (0, 0)) -> Trial:
    """`share` of the entries were sent before: arrival passes look only at the rest."""
    before = digest(body)
    step, first = pins
    request = read(wire, body)
    if step:
        request = read(wire, body, pinned=frozenset(item.id for item in request.items[first::step]))
    view = View.of(request.items)
    new = int(share * len(view.entries))
    plan = planned(chosen, request, view, new)
    return Trial(
        chosen=chosen, wire=wire, body=body, before=before, request=request, plan=plan, new=new, pins=pins,
        made=write_outgoing(request, plan.after, None),
    )  # fmt: skip
