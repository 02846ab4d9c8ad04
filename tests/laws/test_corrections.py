"""What a client changes in its own history goes out, whatever was made of it before; what clients move about does not count.

A conversation is folded and cleared in a small window. Then it is sent with one change, in a window so wide that nothing
new is taken out: what is hidden then is hidden by an edit that was made before the change.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given

from ebbtide.core.preset_stubs import (
    claude_code_cleared,
    learn_cleared,
    mini_claude_cleared,
    mini_claude_snipped,
    opencode_cleared,
)
from ebbtide.core.stub import Stub
from ebbtide.policy import PRESETS
from ebbtide.runtime import Context
from ebbtide.wire import WIRES
from laws.canaries import Body, ExchangeWriter, Kind, Line, body_of, flat, marks, points
from laws.interleaving import Engine, Side
from laws.test_isolation import SEEDS, seeded

WIDE = 1_000_000
NARROW = 4_500
Lines = list[Line]
Change = Callable[[Lines, set[str], ExchangeWriter], Lines]
"""From the lines, the marks that edits hide and somebody who writes, to other lines."""


class CompactedSession:
    """A conversation that was sent request by request, and a wide context that goes on with its session."""

    def __init__(self, wire: str, policy: str, seed: int, *, notes: bool = False) -> None:
        chance = random.Random(f"{policy} {wire} {seed}")
        self.wire, self.scribe = wire, ExchangeWriter(chance, most_lines=60)
        self.engine = Engine(wire, policy, window=NARROW, has_summarizer=chance.random() < 0.5)
        self.lines = flat(self.scribe.exchange("a") for _ in range(9))
        if notes:
            self.lines = noted(self.lines, chance)
        side = Side("a", self.lines)
        while side.advance(chance.randint(1, 3)):
            self.engine.send(side)
        self.lines = self.lines[: points(self.lines)[-1]]
        self.wide: Context = self.engine.open(WIDE)
        self.hidden = self._hidden(self.lines)
        assert self.engine.edits, "nothing was ever taken out"

    def send(self, lines: Lines, body: Body | None = None) -> tuple[Body, str]:
        body = body or body_of(self.wire, lines)
        return body, json.dumps(self.wide.prepare(body).body, ensure_ascii=False)

    def _hidden(self, lines: Lines) -> set[str]:
        body, out = self.send(lines)
        return marks(body) - marks(out)

    def check_hidden(self, lines: Lines, body: Body | None = None) -> None:
        """Nothing came back that was out of sight, and nothing else was lost."""
        body, out = self.send(lines, body)
        assert marks(out) <= marks(body)
        back = self.hidden & marks(out)
        assert not back, f"edits were lost: {sorted(back)[:6]} came back"


def pick(lines: Lines, kind: Kind, hidden: set[str], scribe: ExchangeWriter) -> int:
    """An old line of that kind, as a rule one that is out of sight."""
    old = [n for n, line in enumerate(lines[:-4]) if line.kind == kind]
    unseen = [n for n in old if marks(lines[n].text) & hidden]
    return scribe.chance.choice(unseen if unseen and scribe.chance.random() < 0.8 else old)


def corrected(kind: Kind, lines: Lines, hidden: set[str], scribe: ExchangeWriter) -> Lines:
    n = pick(lines, kind, hidden, scribe)
    return [*lines[:n], scribe.rewrite(lines[n], "z"), *lines[n + 1 :]]


def removed(kind: Kind, lines: Lines, hidden: set[str], scribe: ExchangeWriter) -> Lines:
    """A result leaves with its call."""
    gone = lines[pick(lines, kind, hidden, scribe)]
    return [line for line in lines if line is not gone and (not gone.id or line.id != gone.id)]


def inserted(kind: Kind, lines: Lines, hidden: set[str], scribe: ExchangeWriter) -> Lines:
    """A line more, before the user's words: between two calls no wire takes one."""
    n = pick(lines, "user", hidden, scribe)
    return [*lines[:n], Line(kind, scribe.pen.text("z")), *lines[n:]]


def inserted_call(lines: Lines, hidden: set[str], scribe: ExchangeWriter) -> Lines:
    n = pick(lines, "call", hidden, scribe)
    call, result = lines[n], next(line for line in lines[n:] if line.kind == "result")
    more = [replace(scribe.rewrite(line, "z"), id="call_inserted_1") for line in (call, result)]
    after = lines.index(result) + 1
    return [*lines[:after], *more, *lines[after:]]


def swapped(kind: Kind, lines: Lines, hidden: set[str], scribe: ExchangeWriter) -> Lines:
    old = [n for n, line in enumerate(lines[:-4]) if line.kind == kind]
    one, other = scribe.chance.sample(old, 2)
    found = list(lines)
    found[one], found[other] = found[other], found[one]
    return found


CHANGES: dict[str, Change] = {
    **{f"{kind} corrected": partial(corrected, kind) for kind in ("user", "say", "call", "result")},
    **{f"{kind} removed": partial(removed, kind) for kind in ("user", "say", "result")},
    **{f"{kind} inserted": partial(inserted, kind) for kind in ("user", "say")},
    "call and result inserted": inserted_call,
    **{f"{kind}s swapped": partial(swapped, kind) for kind in ("user", "say")},
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("policy", PRESETS)
@seeded(300, quick=1)
@given(seed=SEEDS)
def test_a_change_at_any_position_is_sent(policy: str, wire: str, seed: int) -> None:
    """The new words are seen, the old ones are not, and what changed places stands in its new order."""
    folded = CompactedSession(wire, policy, seed)
    for name, change in CHANGES.items():
        lines = change(folded.lines, folded.hidden, folded.scribe)
        _, out = folded.send(lines)
        new, old = (marks(str(lines)) - marks(str(folded.lines)), marks(str(folded.lines)) - marks(str(lines)))
        assert new <= marks(out), f"{name}: {sorted(new - marks(out))} is not seen"
        assert not old & marks(out), f"{name}: {sorted(old & marks(out))} goes out still"
        if name.endswith("swapped"):
            moved = [one for one, before in zip(lines, folded.lines, strict=True) if one is not before]
            places = [out.find(min(marks(line.text), key=out.find)) for line in moved]
            # The preset `region` takes single lines out: each takes its own stub along.
            assert -1 not in places or policy == "region", f"{name}: they are not seen"
            assert -1 in places or places == sorted(places), f"{name}: they stand in the old order"


def dropped_reminders(lines: Lines) -> Lines:
    return [line for line in lines if line.kind != "reminder"]


def gathered_reminders(lines: Lines) -> Lines:
    """All behind the newest words, as clients do that say everything once more."""
    return [*dropped_reminders(lines), *(line for line in lines if line.kind == "reminder")]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("policy", PRESETS)
@seeded(300, quick=1)
@given(seed=SEEDS)
def test_reminders_that_move_or_disappear_cost_no_edit(policy: str, wire: str, seed: int) -> None:
    folded = CompactedSession(wire, policy, seed)
    reminders = marks(str([line for line in folded.lines if line.kind == "reminder"]))
    folded.hidden -= reminders
    folded.check_hidden(dropped_reminders(folded.lines))
    folded.check_hidden(gathered_reminders(folded.lines))
    folded.check_hidden([*folded.lines, Line("reminder", folded.scribe.reminder("z"))])


@pytest.mark.parametrize("policy", PRESETS)
@seeded(300, quick=1)
@given(seed=SEEDS)
def test_cache_breakpoints_that_move_cost_no_edit(policy: str, seed: int) -> None:
    folded = CompactedSession("anthropic", policy, seed)
    body = copy.deepcopy(body_of("anthropic", folded.lines))
    for message in folded.scribe.chance.sample(body["messages"], 3):
        message["content"][-1]["cache_control"] = {"type": "ephemeral"}
    folded.check_hidden(folded.lines, body)


def noted(lines: Lines, chance: random.Random) -> Lines:
    """The operator tells the tokens left after each result, as Claude Code does."""
    found: Lines = []
    for line, following in zip(lines, [*lines[1:], Line("say", "")], strict=True):
        found.append(line)
        # No wire takes one before the user's side: behind a reminder, where one follows the result.
        if line.kind in ("result", "reminder") and following.kind != "reminder":
            found.append(Line("note", f"Token usage: {chance.randrange(10**5)} of 200000 used."))
    return found


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("policy", PRESETS)
@seeded(300, quick=1)
@given(seed=SEEDS)
def test_repeated_notes_that_disappear_cost_no_edit(policy: str, wire: str, seed: int) -> None:
    """Only the newest of them holds. A client that drops the others has changed nothing."""
    folded = CompactedSession(wire, policy, seed, notes=True)
    notes = [n for n, line in enumerate(folded.lines) if line.kind == "note"]
    folded.check_hidden([line for n, line in enumerate(folded.lines) if n not in notes[:-1]])
    folded.check_hidden([line for n, line in enumerate(folded.lines) if n not in notes[: len(notes) // 2]])


CLEARINGS = {
    opencode_cleared(Stub(kind="result")),
    claude_code_cleared(Stub(kind="result")),
    mini_claude_cleared(Stub(kind="result")),
    mini_claude_snipped(Stub(kind="result")),
    learn_cleared(Stub(kind="result")),
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("policy", PRESETS)
@seeded(300, quick=1)
@given(seed=SEEDS)
def test_results_that_a_known_client_clears_cost_no_edit(policy: str, wire: str, seed: int) -> None:
    folded = CompactedSession(wire, policy, seed)
    for text in sorted(CLEARINGS):
        n = pick(folded.lines, "result", folded.hidden, folded.scribe)
        lines = [*folded.lines[:n], replace(folded.lines[n], text=text), *folded.lines[n + 1 :]]
        _, out = folded.send(lines)
        back = (folded.hidden & marks(out)) - marks(folded.lines[n].text)
        assert not back, f"edits were lost: {sorted(back)[:6]} came back"
