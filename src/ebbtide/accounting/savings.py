"""What edits saved, after cache prices, against the same conversation untouched. No more is told than the bill shows.

An untouched conversation was never billed, so it is modelled: all that the call before it carried is read from the
cache, the rest is written. Both sides are modelled alike, so that an edit's gain in a call is simply the price of the
tokens that it keeps out, less what it made the provider write again. Then comes the bill. What it exceeds the model by,
for the tokens it was for, is taken off the gain; what it is lower by is not added.

Three laws: the savings of all edits, less answers that came to nothing, are the session's; what was expected and the
drift make up what was billed; and a conversation without edits saves nothing, whatever its bills.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace

from ebbtide.accounting.attribution import Attribution, CallEffect
from ebbtide.accounting.calls import CallCost, EditCost, Ledger, build_ledger
from ebbtide.core.cache.economics import Prices, calls_to_break_even, prices_for
from ebbtide.core.types import Usage

OUTPUT_PRICE = 5.0
"""Input tokens that one of output costs: five at Anthropic, four to eight elsewhere. Only answers are counted by it."""

MIN_BILLS = 3
"""Bills before the first edit from which it is learned how well this client's cache works. Fewer say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """What one token costs, in the currency that a sum is wanted in."""

    input: float
    read: float
    write: float
    output: float

    def prompt_cost(self, usage: Usage) -> float:
        """Of the prompt: replies are the same with and without edits."""
        return self.input * usage.input + self.read * usage.cache_read + self.write * usage.cache_write

    def uncached(self) -> Tariff:
        return replace(self, read=self.input, write=self.input)


Tariffs = Callable[[str, float, int], Tariff]
"""By model, TTL in seconds, and prompt tokens."""


def relative_tariff(model: str, ttl: float, prompt: int) -> Tariff:  # noqa: ARG001 - in this currency length costs no extra
    """In uncached input tokens, which no price list is needed for."""
    prices = prices_for(model, ttl)
    return Tariff(input=1.0, read=prices.read, write=prices.write, output=OUTPUT_PRICE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSavings:
    """One call in the books."""

    call: CallCost
    tariff: Tariff
    tokens: int
    """Prompt tokens: billed where that is known, else expected."""
    is_touched: bool
    """Whether edits have to do with it: they hold in it, or were just taken back."""
    removed_tokens: int
    """Tokens that edits kept out of it."""
    cached_tokens: float
    """Of its expected tokens, those that the provider should still have."""
    expected: float
    """What it should cost."""
    untouched: float
    """What it should cost had nothing been taken out."""
    gain: float
    """What edits save in it as expected; negative where they cost more than they save."""
    billed: float | None = None
    saved: float | None = None
    """The gain less what the bill exceeds the model by; None while there is no bill."""
    recorded: float | None = None
    """In a replay: what the untouched call was billed."""

    @property
    def drift(self) -> float | None:
        """What was billed over what was expected."""
        return None if self.billed is None else self.billed - self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class EditSavings:
    """One edit in the books."""

    edit: EditCost
    is_undone: bool
    calls: int
    """Requests that it held in."""
    expected: float
    """Its gains so far."""
    billed: float
    """The same over the calls that were billed, less its share of what their bills exceed the model by."""
    claimed: float
    """What may be claimed."""
    break_even_calls: float
    """After how many calls it has paid for itself, as expected when it was made; infinite if never."""
    paid_since: int | None
    """Number of the call from which on it has; None if it has not yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """A session's books, closed."""

    calls: tuple[CallSavings, ...]
    edits: tuple[EditSavings, ...]
    unused_answers: float
    """Spent on answers of which no fold came."""
    expected: float
    """All gains, less `vain`."""
    billed: float | None
    """Savings as the bills have them; None where no call with an edit in it was billed."""
    claimed: float
    """What may be claimed: of the billed calls the lower of both; where none was billed, what is expected."""
    pending: float
    """Expected of the other calls and not in `told`, where some were billed."""
    billed_calls: int
    """Calls that have both edits and a bill."""
    cache_hit_share: float
    """Share of what could be read from the cache that was, before the first edit; 1 where that is not known."""

    @property
    def removed_tokens(self) -> int:
        return sum(entry.edit.tokens for entry in self.edits if not entry.is_undone)

    @property
    def rewritten_tokens(self) -> int:
        return sum(entry.edit.rewritten_tokens for entry in self.edits)

    @property
    def bill_count(self) -> int:
        return sum(line.billed is not None for line in self.calls)

    @property
    def total_cost(self) -> float:
        """Of all calls: as billed, else as expected."""
        return sum(line.expected if line.billed is None else line.billed for line in self.calls)

    @property
    def drift(self) -> float:
        """Billed over expected, summed over the calls that were billed."""
        return sum(line.drift or 0.0 for line in self.calls)

    @property
    def saved_share(self) -> float:
        """Of what the untouched conversation would have cost."""
        whole = self.total_cost + self.claimed + self.pending
        return self.claimed / whole if whole > 0 else 0.0


def compute_savings(records: Iterable[Mapping[str, object]], tariffs: Tariffs = relative_tariff) -> Savings:
    """The books of a session's records."""
    return savings_from_ledger(build_ledger(records), tariffs)


def savings_from_ledger(kept: Ledger, tariffs: Tariffs = relative_tariff) -> Savings:
    priced = [_tariff(call, tariffs) for call in kept.calls]
    served = _served(kept)
    lines, tally = list[CallSavings](), Attribution(kept.edits)
    for call, tariff in zip(kept.calls, priced, strict=True):
        held = {n for n in call.toggled if tally.holds(n)}
        holds = {*held, *call.activated}.difference(call.deactivated)
        own = _own(kept, call, tariff, held, holds)
        rest = call.removed_tokens - sum(kept.edits[n].tokens for n in own if n in holds)
        lines.append(_line(kept, call, tariff, own, rest, served))
        tally.take(_step(kept, lines[-1], own))
    vain = _asked(kept.unused_answers, priced[-1]) if priced else 0.0
    expected = sum(line.gain for line in lines) - vain
    known = [line for line in lines if line.saved is not None and line.is_touched]
    sure = sum(line.gain for line in known) - vain
    billed = sum(line.saved or 0.0 for line in known) - vain if known else None
    by_bill = billed is not None and billed < sure
    told = expected if billed is None else min(billed, sure)
    return Savings(
        calls=tuple(lines),
        edits=tuple(_entries(kept, tally, priced, settled=bool(known), by_bill=by_bill)),
        unused_answers=vain,
        expected=expected,
        billed=billed,
        claimed=told,
        pending=sum(line.gain for line in lines if line.saved is None) if known else 0.0,
        billed_calls=len(known),
        cache_hit_share=served,
    )


def _tariff(call: CallCost, tariffs: Tariffs) -> Tariff:
    found = tariffs(call.model, call.ttl, call.usage.prompt if call.usage else call.expected)
    return found if call.cached else found.uncached()


def _asked(usage: Usage, tariff: Tariff) -> float:
    return tariff.prompt_cost(usage) + tariff.output * usage.output


def _each(call: CallCost, tariff: Tariff) -> float:
    """What a token saves that is kept out of this call, and was of the one before."""
    return tariff.read if call.source is not None else tariff.write


def _own(kept: Ledger, call: CallCost, tariff: Tariff, held: Set[int], holds: Set[int]) -> dict[int, float]:
    """By place of the change: what those save in this call that were made for it, taken back, or brought back.

    `held` are the latter that did in the call before; all that hold in this one and were made or returned are in
    `holds`.
    """
    found = dict[int, float]()
    for n in call.new_edits:
        change = kept.edits[n]
        again = (
            0.0
            if change.is_free
            else (tariff.write - tariff.read) * (change.rewritten_tokens + change.replacement_tokens)
        )
        price = tariff.write if change.is_free else _each(call, tariff)
        found[n] = (
            change.tokens * price * (n in holds)
            - again * (call.source is not None)
            - _asked(change.question_usage, tariff)
        )
    if call.toggled and call.source is not None:
        # Somebody took a batch back, or brought it back: from there on all is written again.
        whole = _tokens(kept.calls[call.number - 2]) + sum(kept.edits[n].tokens for n in held)
        lost = (tariff.write - tariff.read) * max(0.0, whole - call.share * _tokens(kept.calls[call.source]))
        for n in call.toggled:
            found[n] = kept.edits[n].tokens * _each(call, tariff) * (n in holds) - lost / len(call.toggled)
    return found


def _step(kept: Ledger, line: CallSavings, own: Mapping[int, float]) -> CallEffect:
    call = line.call
    return CallEffect(
        each=_each(call, line.tariff),
        own=own,
        drift=None if line.saved is None else line.saved - line.gain,
        # Who changed the prefix for this call answers for what its bill exceeds the model by; else all that hold.
        blamed=[n for n in call.new_edits if not kept.edits[n].is_free],
        entered=call.activated,
        left=call.deactivated,
    )


def _tokens(call: CallCost) -> int:
    return call.usage.prompt if call.usage else call.expected


def _readable(kept: Ledger, call: CallCost, tokens: int) -> float:
    """Tokens of this call, which has so many, that the provider should still have."""
    if call.source is None:
        return 0.0
    had = _tokens(kept.calls[call.source])
    old = [kept.edits[n] for n in call.new_edits if not kept.edits[n].is_free]
    left = had - sum(change.tokens + change.written_tokens for change in old) if old else had * call.share
    return min(max(0.0, left), tokens)


def _served(kept: Ledger) -> float:
    """How well the cache works for this client by itself, from the calls before the first edit."""
    first = min((change.call for change in kept.edits), default=math.inf)
    before = [call for call in kept.calls if call.number < first and call.usage is not None and call.source is not None]
    could = sum(_readable(kept, call, _tokens(call)) for call in before)
    if len(before) < MIN_BILLS or could <= 0:
        return 1.0
    did = sum(min(call.usage.cache_read, _readable(kept, call, _tokens(call))) for call in before if call.usage)
    # None at all is a client without marks, which `cached` says already.
    return did / could if did else 1.0


def _line(
    kept: Ledger, call: CallCost, tariff: Tariff, own: Mapping[int, float], rest: int, served: float
) -> CallSavings:
    """`rest` tokens are kept out of it by changes that have no gain of their own."""
    # An answer's price is a gain lost, and no part of what this call costs.
    asked = sum(_asked(kept.edits[n].question_usage, tariff) for n in call.new_edits)
    gain = rest * _each(call, tariff) + sum(own.values())
    read = _readable(kept, call, call.expected)
    expected = tariff.read * read + tariff.write * (call.expected - read)
    line = CallSavings(
        call=call,
        tariff=tariff,
        tokens=_tokens(call),
        is_touched=bool(call.active_count or own),
        removed_tokens=call.removed_tokens,
        cached_tokens=read,
        expected=expected,
        untouched=expected + gain + asked,
        gain=gain,
        recorded=None if call.recorded is None else tariff.prompt_cost(call.recorded),
    )
    if call.usage is None:
        return line
    billed = tariff.prompt_cost(call.usage)
    if not line.is_touched:
        return replace(line, billed=billed, saved=0.0)
    read = served * _readable(kept, call, call.usage.prompt)
    model = tariff.read * read + tariff.write * (call.usage.prompt - read)
    return replace(line, billed=billed, saved=gain - (billed - model))


def _entries(
    kept: Ledger, tally: Attribution, priced: list[Tariff], *, settled: bool, by_bill: bool
) -> Iterator[EditSavings]:
    for change, row in zip(kept.edits, tally.closed(), strict=True):
        yield EditSavings(
            edit=change,
            is_undone=change.batch in kept.undone,
            calls=row.calls,
            expected=row.expected,
            billed=row.billed,
            claimed=row.expected if not settled else row.billed if by_bill else row.sure,
            break_even_calls=_breaks_even(change, priced[change.call - 1]),
            paid_since=row.paid,
        )


def _breaks_even(change: EditCost, tariff: Tariff) -> float:
    """In calls, the first counted."""
    prices = Prices(read=tariff.read, write=tariff.write)
    put = 0 if change.is_free else change.replacement_tokens
    return calls_to_break_even(
        removed=change.tokens + put,
        put=put,
        after=0 if change.is_free else change.rewritten_tokens,
        prices=prices,
        ask_cost=_asked(change.question_usage, tariff),
        unsent=change.tokens if change.is_free else 0,
    )
