"""What an edit is worth after cache pricing, in input tokens at full price. Dollars only if somebody tells a price.

Taking S tokens out saves their price in every request from then on: the read price while the cache is warm, the write
price when it is not. Against it stands the rewrite: what follows the first changed item, and was cached, is written
again once. All of it is an estimate: from our token counts and the times of the requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ebbtide.core.cache import Prices, prices_for
from ebbtide.drive.history import History, Step, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    calls: int
    """Requests that carried the batch: a client that compacts or goes back leaves its edits behind."""
    gains: tuple[float, ...]
    """Of each edit, in order."""
    rewrite: float
    """Paid once for the batch."""

    @property
    def net(self) -> float:
        return sum(self.gains) - self.rewrite


def worth_of(history: History, step: Step) -> Worth:
    changed = step.changed
    turns = [turn for turn in history.turns[step.turn.number - 1 :] if _holds(step, turn, changed)]
    later = sum(_price(history.turns, turn) for turn in turns if turn.number > step.turn.number)
    prices, warm = _prices(step.turn), bool(step.situation().get("warm"))
    fresh, places = _first_new(step), _places(step)
    now = {True: prices.write, False: prices.read if warm else prices.write}
    changes = zip(step.batch.edits, places, strict=True)
    gains = tuple(edit.saved * (now[place >= fresh] + later) for edit, place in changes)
    kept = _kept_after(step, fresh, places) if warm else 0
    return Worth(calls=len(turns), gains=gains, rewrite=(prices.write - prices.read) * kept)


def dollars(tokens: float, price: float) -> str:
    """`price` is dollars for a million input tokens."""
    amount = tokens * price / 1_000_000
    sign = "-" if amount < 0 else ""
    return f"{sign}${abs(amount):.2f}" if abs(amount) >= 1 else f"{sign}${abs(amount):.4f}"


def _prices(turn: Turn) -> Prices:
    # Without marks Anthropic caches nothing, and every token costs what input costs.
    cached = turn.marked or turn.wire != "anthropic"
    return prices_for(turn.model, turn.ttl) if cached else Prices(read=1.0, write=1.0)


def _price(turns: Sequence[Turn], turn: Turn) -> float:
    """Of a token near the beginning of this request."""
    before, prices = turns[turn.number - 2], _prices(turn)
    return prices.read if turn.at - before.at < before.ttl and before.model == turn.model else prices.write


def _holds(step: Step, turn: Turn, place: int) -> bool:
    """A message's uuid follows from all before it: the same one at the newest changed place is the same history."""
    return step.batch.id not in turn.undone and turn.path[place : place + 1] == step.turn.path[place : place + 1]


def _first_new(step: Step) -> int:
    """Place in `before.entries` of the first entry never sent."""
    new = step.situation().get("new")
    return new if isinstance(new, int) else 0


def _places(step: Step) -> list[int]:
    """Of the first entry that each edit changes."""
    known = {entry.id: n for n, entry in reversed(list(enumerate(step.before.entries)))}
    return [known.get(edit.first or edit.after, len(step.before.entries)) for edit in step.batch.edits]


def _kept_after(step: Step, fresh: int, places: Sequence[int]) -> int:
    """Tokens that were sent before, stay, and stand after the first change."""
    old = [(place, edit.saved) for place, edit in zip(places, step.batch.edits, strict=True) if place < fresh]
    if not old:
        return 0
    first = min(place for place, _ in old)
    after = sum(entry.tokens for entry in step.before.entries[first:fresh])
    return max(0, after - sum(saved for _, saved in old))
