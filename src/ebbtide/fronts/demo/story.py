"""Plays the session that comes with Ebbtide through the real engine. All numbers are measured on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from ebbtide import example
from ebbtide.audit.history import Step, build_history
from ebbtide.core.errors import BadConfig
from ebbtide.core.text.preview import pluralize
from ebbtide.core.types import Edit
from ebbtide.display import short_number
from ebbtide.formats import RecordedCall, load
from ebbtide.money import SessionFigures, session_cost, session_figures
from ebbtide.policy import Policy
from ebbtide.policy.adjust import with_passes
from ebbtide.replay.billing import SessionBiller
from ebbtide.runtime import Context, Ready
from ebbtide.store import Record, open_store
from ebbtide.wire import WIRES
from ebbtide.wire.protocol import Wire

WINDOW = 80_000
"""Tokens. The session ends at 161k and asks for replies of 32k, so that everything the engine does happens once."""
MIN_SAVINGS = 2_000
"""What a compaction must free in the demo (R284). Policies for long sessions require ten times that."""
QUERY = "no station"
"""Mentioned once, early, in an unimportant error."""
_SESSION = "demo"

Kind = Literal["overflow", "offload", "removed", "summary", "recall"]

_NAMES = {
    "clear_results": "result",
    "snip_results": "result",
    "prune_results": "result",
    "truncate_results": "result",
    "limit_output": "result",
    "drop_calls": "call",
    "clear_media": "image",
    "shorten_text": "text",
    "strip_thinking": "thought",
    "thinking": "thought",
    "evict": "run of message",
    "evict_messages": "run of message",
}
_SUMMARIZERS = ("summarize", "fold_regions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of the story."""

    kind: Kind
    call: int
    text: str
    saved: int = 0
    """Tokens removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """The cost of all calls so far, with and without Ebbtide."""

    without_ebbtide: float
    with_ebbtide: float
    saved_share: float
    """Of the cost without Ebbtide."""
    dollars: bool
    """Otherwise in input tokens at full price."""
    model: str
    """Whose prices these are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One call, and what happened before it was sent."""

    call: int
    calls: int
    window: int
    acts_at: int
    raw: int
    """Tokens of the request without Ebbtide."""
    before: int
    """Tokens of the request without the edits made for this call."""
    sent: int
    parts: tuple[tuple[str, int], ...]
    """Tokens of the request by kind of item."""
    bill: Bill
    events: tuple[Event, ...]


def play_story(policy: Policy, *, window: int = WINDOW) -> Iterator[Moment]:
    """Play call by call, at the recorded times, with a store in memory. Nothing is written."""
    recording = load(example.path())
    return _Player(policy, window, list(recording.requests()), WIRES[recording.wire]).play()


class _Player:
    def __init__(self, policy: Policy, window: int, calls: Sequence[RecordedCall], wire: Wire) -> None:
        self._calls, self._now, self._has_overflowed = calls, 0.0, False
        self._biller, self._bills = SessionBiller(wire, calls, "claude-code"), list[Record]()
        self._store = open_store(None)
        self._context = Context(
            model=calls[0].model,
            window=window,
            policy=with_demo_savings(policy),
            store=self._store,
            session=_SESSION,
            marks=False,
            clock=lambda: self._now,
        )

    def play(self) -> Iterator[Moment]:
        for number, call in enumerate(self._calls, 1):
            self._now = call.at if call.at is not None else self._now + 1.0
            request = self._biller.with_breakpoints(call)
            ready = self._context.prepare(request)
            assert isinstance(ready.body, dict), "the request was one"
            self._bills.append(self._biller.record(number, call, request, ready.body, self._now))
            figures = session_figures(session_cost([*self._store.peek(_SESSION).read().records, *self._bills]))
            events = [*self._overflow(number, ready, figures.tokens_without), *self._events(number, ready)]
            if number == len(self._calls):
                events += self._recall(number, ready)
            yield self._moment(number, ready, figures, events)

    def _moment(self, number: int, ready: Ready, figures: SessionFigures, events: list[Event]) -> Moment:
        report = ready.report
        return Moment(
            call=number,
            calls=len(self._calls),
            window=report.window,
            acts_at=report.auto_at,
            raw=figures.tokens_without,
            before=report.tokens_before,
            sent=figures.tokens,
            parts=tuple(report.made_of.messages.items()),
            bill=Bill(
                without_ebbtide=figures.cost_without,
                with_ebbtide=figures.cost,
                saved_share=figures.saved_share,
                dollars=figures.in_dollars,
                model=self._calls[0].model,
            ),
            events=tuple(events),
        )

    def _overflow(self, number: int, ready: Ready, untouched: int) -> Iterator[Event]:
        if self._has_overflowed or untouched <= ready.report.window:
            return
        self._has_overflowed = True
        size = f"{short_number(untouched)} tokens"
        yield Event(kind="overflow", call=number, text=f"without Ebbtide {size}: the provider refuses from here on")

    def _events(self, number: int, ready: Ready) -> Iterator[Event]:
        if not ready.report.edits:
            return
        step = build_history(self._store.peek(_SESSION).read().records, session=_SESSION).steps[-1]
        groups: dict[Kind, list[Edit]] = {}
        for edit in ready.report.edits:
            groups.setdefault(_kind(edit), []).append(edit)
        for kind, edits in groups.items():
            saved = sum(edit.saved for edit in edits)
            yield Event(kind=kind, call=number, text=_DESCRIBE[kind](step, edits), saved=saved)

    def _recall(self, number: int, ready: Ready) -> Iterator[Event]:
        hit = next((hit for hit in self._context.recall(QUERY) if hit.message >= 0), None)
        if hit is None:
            return
        answer = self._context.read(hit.handle).text.strip().splitlines()[-1]
        where = "still there" if answer in str(ready.body) else "found again"
        yield Event(kind="recall", call=number, text=f"{where}: “{answer}”")


def with_demo_savings(policy: Policy) -> Policy:
    """Lower what a compaction must free, if the policy has such a setting."""
    with suppress(BadConfig):
        return with_passes(policy, {"summarize": {"min_savings": MIN_SAVINGS}})
    return policy


def _kind(edit: Edit) -> Kind:
    if edit.by in _SUMMARIZERS:
        return "summary"
    return "offload" if edit.by.startswith("offload") else "removed"


def _describe_offload(step: Step, edits: Sequence[Edit]) -> str:
    items = [item for edit in edits for item in step.covered_items(edit)]
    before, after = sum(item.tokens for item in items), sum(item.tokens for edit in edits for item in edit.replacement)
    results = f"a result of {items[0].name}" if len(items) == 1 and items[0].name else pluralize(len(items), "result")
    return f"{results}, {short_number(before)} tokens, moved to disk; {short_number(after)} stay"


def _describe_removal(_: Step, edits: Sequence[Edit]) -> str:
    (first, count), *others = Counter(_NAMES.get(edit.by, edit.by) for edit in edits).most_common()
    rest = "".join(f", {pluralize(number, name)}" for name, number in others)
    return f"{pluralize(count, f'old {first}')}{rest}"


def _describe_summary(step: Step, edits: Sequence[Edit]) -> str:
    messages = len({item.message for edit in edits for item in step.covered_items(edit)})
    summary = sum(item.tokens for edit in edits for item in edit.replacement if not item.id)
    return f"{messages} messages become a summary of {short_number(summary)}; yours stay"


_DESCRIBE = {"offload": _describe_offload, "removed": _describe_removal, "summary": _describe_summary}
