"""Two conversations by turns through one engine, and what must be true of everything that goes out.

Nothing goes out that is not in the request as it came in, and nothing of it is lost. This says both that no
conversation reaches another and that a change is obeyed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ebbtide import Recall, WontFit
from ebbtide.policy import Policy
from ebbtide.recall.inject import RecallExchange
from ebbtide.recall.search import RecallSearch
from ebbtide.runtime import Context, Ready
from ebbtide.store import MemoryStore
from ebbtide.wire.recall_tools import READ_TOOL, SEARCH_TOOL
from laws.canaries import (
    SYSTEM,
    Body,
    ExchangeWriter,
    Line,
    body_of,
    flat,
    marks,
    messages,
    next_reply,
    points,
    reply_of,
    topic_of,
)
from runtime.sessions import Clock
from upstream.check import refusals

WINDOW = 6_000
CLEARED = "[Old tool result content cleared]"
OPERATIONS = ("undo", "redo", "compact", "recall", "rewind", "fork", "correct", "remove", "insert", "swap", "clear")


@dataclass
class Side:
    """One client: what it has said and heard, and how much of it was sent."""

    label: str
    lines: list[Line]
    system: str = SYSTEM
    sent: int = 0
    """Lines of the newest request."""
    cleared: set[str] = field(default_factory=set)
    """Marks of results that this client cleared itself: what was made of them before may stay."""
    ever: set[str] = field(default_factory=set)
    """Marks of all its requests: whoever searches finds what the same client has since changed or left behind."""

    def advance(self, steps: int = 1) -> bool:
        further = [point for point in points(self.lines) if point > self.sent]
        if further:
            self.sent = further[min(steps, len(further)) - 1]
        return bool(further)

    @property
    def now(self) -> list[Line]:
        return self.lines[: self.sent]


def summary(request: dict[str, Any]) -> str:
    """A summarizer that repeats every mark it was shown, as the worst of models would."""
    shown = sorted(marks(request))
    return (
        "<summary>\n## Done\n" + "\n".join(f"- it read {mark} of {topic_of(mark)}" for mark in shown) + "\n</summary>"
    )


class Engine:
    """One `Context` given the requests of several clients by turns."""

    def __init__(self, wire: str, policy: str | Policy, *, window: int = WINDOW, has_summarizer: bool = False) -> None:
        self.wire, self.store, self.clock = wire, MemoryStore(), Clock()
        self.edits, self.refused = 0, 0
        self.open = lambda size: Context(
            model="",
            window=size,
            policy=policy,
            store=self.store,
            wire=wire,
            clock=self.clock,
            recall=Recall(scope="conversation"),
            summarizer=summary if has_summarizer else None,
        )
        self.context = self.open(window)

    def send(self, side: Side) -> Body | None:
        """What went out, after it was looked at; None where the policy refused."""
        body = body_of(self.wire, side.now, side.system)
        side.ever |= marks(body)
        try:
            ready = self.context.prepare(body)
        except WontFit:
            self.refused += 1
            return None
        self.edits += len(ready.report.edits)
        self.clock.tick(5.0)
        self.check(side, body, ready)
        ready.record(reply_of(self.wire, next_reply(side.lines, side.sent)))
        return dict(ready.body)

    def check(self, side: Side, body: Body, ready: Ready) -> None:
        foreign = marks(ready.body) - marks(body) - side.cleared
        assert not foreign, f"{side.label} sends what is not in its request: {sorted(foreign)[:6]}"
        assert [str(refusal) for refusal in refusals(self.wire, dict(ready.body))] == []

    def check_recall(self, side: Side, others: Sequence[str]) -> None:
        """After a request of this side: all of its own can be found, and nothing of the others."""
        body = body_of(self.wire, side.now, side.system)
        try:
            out = self.context.prepare(body).body
        except WontFit:
            return
        own, shown = marks(body), marks(out)
        found = {topic: self.search(topic) for topic in {topic_of(mark) for mark in own - shown}}
        lost = {mark for mark in own - shown if mark not in found[topic_of(mark)] and not self.reads(mark)}
        assert not lost, f"{side.label} lost {sorted(lost)[:6]}"
        theirs = [mark for mark in others if mark not in side.ever]
        for topic in {topic_of(mark) for mark in theirs}:
            foreign = marks(self.search(topic)) - side.ever
            assert not foreign, f"{side.label} searches {topic} and finds {sorted(foreign)[:6]}"
        for handle in self.handles(theirs):
            foreign = marks(self.read(handle)) - side.ever
            assert not foreign, f"{side.label} reads {handle} and finds {sorted(foreign)[:6]}"

    def search(self, query: str) -> str:
        return self.context.recall_answer(SEARCH_TOOL, {"query": query})

    def read(self, handle: str) -> str:
        return self.context.recall_answer(READ_TOOL, {"handle": handle})

    def reads(self, mark: str) -> bool:
        """Whether the whole text behind a hit has the mark: a snippet is only a part of it."""
        hits = self.context.recall(topic_of(mark))
        return any(mark in self.read(hit.handle) for hit in hits)

    def handles(self, wanted: Sequence[str]) -> list[str]:
        """What the owner of the store knows of these texts, and every file that an edit wrote."""
        owner = RecallSearch(log=self.store.peek("default"), store=self.store)
        hits = [hit.handle for mark in wanted if mark.startswith("reef") for hit in owner.search(topic_of(mark))]
        files = [blob.name for edit in self.context.edits() for blob in edit.blobs]
        return list(dict.fromkeys([*hits, *files]))

    def recall(self, side: Side, chance: random.Random) -> None:
        """The model looks for something of its own behind the client's back; the answer stands in later requests."""
        body = body_of(self.wire, side.now, side.system)
        try:
            self.context.prepare(body)
        except WontFit:
            return
        query = topic_of(chance.choice(sorted(marks(body))))
        reply = next_reply(side.lines, side.sent)
        told = RecallExchange(
            f"call_recall_{chance.randrange(10**8):08}", SEARCH_TOOL, json.dumps({"query": query}), self.search(query)
        )
        self.context.insert_recalled([told], messages(self.wire, reply))


def operate(engine: Engine, side: Side, name: str, scribe: ExchangeWriter) -> None:
    """Something other than one more request."""
    if name in ("undo", "redo"):
        getattr(engine.context, name)()
    elif name == "compact":
        try:
            engine.context.compact(body_of(engine.wire, side.now, side.system))
        except WontFit:
            engine.refused += 1
    elif name == "recall":
        engine.recall(side, scribe.chance)
    elif name == "rewind":
        earlier = [point for point in points(side.lines) if point <= side.sent]
        side.sent = scribe.chance.choice(earlier) if earlier else side.sent
    elif name == "fork":
        start = max((n for n in range(side.sent) if side.lines[n].kind == "user"), default=0)
        label = chr(ord(side.label) + 3)
        side.lines = [*side.lines[:start], *flat([scribe.exchange(label), scribe.exchange(label)])]
        side.sent = start + 1
    else:
        CHANGES[name](side, scribe)


def _change(side: Side, scribe: ExchangeWriter) -> None:
    """An old line gets other words."""
    n = scribe.chance.randrange(max(1, side.sent))
    side.lines[n] = scribe.rewrite(side.lines[n], side.label)


def _remove(side: Side, scribe: ExchangeWriter) -> None:
    """A call and its result are gone, or one line that is neither."""
    n = scribe.chance.randrange(1, max(2, side.sent))
    if n >= side.sent - 2 or side.lines[n].kind == "user":
        return
    gone = {n}
    if side.lines[n].id:
        gone = {k for k, line in enumerate(side.lines) if line.id == side.lines[n].id}
    side.lines = [line for k, line in enumerate(side.lines) if k not in gone]
    side.sent -= sum(k < side.sent for k in gone)


def _insert(side: Side, scribe: ExchangeWriter) -> None:
    """The user says something more, before words of theirs that are old."""
    old = [n for n in range(1, side.sent) if side.lines[n].kind == "user"]
    if old:
        side.lines.insert(scribe.chance.choice(old), Line("user", scribe.pen.text(side.label)))
        side.sent += 1


def _swap(side: Side, scribe: ExchangeWriter) -> None:
    """Two lines of one kind, neither a call nor a result, change places."""
    kind = scribe.chance.choice(("user", "say"))
    old = [n for n in range(side.sent) if side.lines[n].kind == kind]
    if len(old) > 1:
        one, other = scribe.chance.sample(old, 2)
        side.lines[one], side.lines[other] = side.lines[other], side.lines[one]


def _clear(side: Side, scribe: ExchangeWriter) -> None:
    """The client clears a result itself, in the words of a known client. One that only this conversation could have."""
    old = [n for n in range(side.sent) if side.lines[n].kind == "result" and "topicc" in side.lines[n].text]
    if old:
        n = scribe.chance.choice(old)
        side.cleared |= marks(side.lines[n].text)
        side.lines[n] = replace(side.lines[n], text=CLEARED)


CHANGES: dict[str, Callable[[Side, ExchangeWriter], None]] = {
    "correct": _change,
    "remove": _remove,
    "insert": _insert,
    "swap": _swap,
    "clear": _clear,
}
