"""What edits saved, after cache prices, compared with the same conversation without edits. Never more than bills show.

The conversation without edits was never billed, so it is modelled: what the call before had is read from the cache, the
rest is written. Both sides are modelled in the same way, so an edit's gain in a call is the price of the tokens that it
removes, less what it made the provider write again. Then the bill is compared with the model: if it is higher, the
difference reduces the gain; if it is lower, nothing is added. In a replay a simulated provider bills both
sides, and its bills replace the model.

Three rules hold: the savings of all edits, less unused answers, are the session's; what was expected plus the drift is
what was billed; and a conversation without edits saves nothing, whatever its bills.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace

from ebbtide.accounting.attribution import Attribution, CallEffect
from ebbtide.accounting.calls import CallCost, EditCost, Ledger, build_ledger
from ebbtide.core.cache.prefix import Prices, calls_to_break_even, prices_for
from ebbtide.core.types import FIVE_MINUTES, HOUR, Usage

OUTPUT_PRICE = 5.0
"""Input tokens that an output token costs: five at Anthropic, four to eight elsewhere. Only answers use it."""

MIN_BILLS = 3
"""How many bills before the first edit it takes to measure how well this client's cache works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """What one token costs, in any currency."""

    input: float
    read: float
    write: float
    output: float
    write_1h: float = 0.0
    """To keep it for an hour; 0 if that costs what `write` does."""

    def prompt_cost(self, usage: Usage) -> float:
        """The price of the prompt. Replies cost the same with and without edits."""
        hour = usage.cache_write_1h if self.write_1h else 0
        written = self.write * (usage.cache_write - hour) + self.write_1h * hour
        return self.input * usage.input + self.read * usage.cache_read + written

    def without_cache(self) -> Tariff:
        return replace(self, read=self.input, write=self.input, write_1h=0.0)


Tariffs = Callable[[str, float, int], Tariff]
"""By model, TTL in seconds, and prompt tokens."""


def relative_tariff(model: str, ttl: float, prompt: int) -> Tariff:  # noqa: ARG001 - in this currency length costs no extra
    """Return prices in uncached input tokens, so that no price list is needed."""
    prices = prices_for(model, ttl)
    hour = prices_for(model, HOUR).write
    return Tariff(input=1.0, read=prices.read, write=prices.write, output=OUTPUT_PRICE, write_1h=hour)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSavings:
    """What edits saved in one call."""

    call: CallCost
    tariff: Tariff
    tokens: int
    """Prompt tokens: billed if known, else expected."""
    is_touched: bool
    """Whether edits are active in it or were just undone."""
    cached_tokens: float
    """How many of its expected tokens the provider should still have cached."""
    expected: float
    """What it should cost; in a replay, what it would have been billed."""
    untouched: float
    """What it should cost without edits."""
    gain: float
    """What edits save in it as expected; negative where they cost more than they save."""
    billed: float | None = None
    saved: float | None = None
    """The gain less what the bill exceeds the model by; None while there is no bill."""
    recorded: float | None = None
    """In a replay: what the untouched call was billed."""
    correction: float | None = None
    """In a replay: by how much the simulated bills differ from the model of what edits save."""

    @property
    def removed_tokens(self) -> int:
        return self.call.removed_tokens

    @property
    def untouched_tokens(self) -> int:
        """Prompt tokens of the call without edits."""
        bills = self.call.simulated
        return bills.untouched.prompt if bills else self.tokens + self.removed_tokens

    @property
    def drift(self) -> float | None:
        """What was billed over what was expected."""
        return None if self.billed is None else self.billed - self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class EditSavings:
    """What one edit saved."""

    edit: EditCost
    is_undone: bool
    calls: int
    """How many requests it was active in."""
    expected: float
    """Its gains so far."""
    billed: float
    """The gains in billed calls, less its share of what their bills exceed the model by."""
    claimed: float
    """What may be claimed."""
    break_even_calls: float
    """After how many calls it has paid for itself, as expected when it was made; infinite if never."""
    paid_since: int | None
    """Number of the call since which it has paid for itself; None if it has not yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """What the edits of a session saved."""

    calls: tuple[CallSavings, ...]
    edits: tuple[EditSavings, ...]
    unused_answers: float
    """Spent on answers that led to no compaction."""
    expected: float
    """All gains, less `unused_answers`."""
    billed: float | None
    """Savings as the bills have them; None where no call with an edit in it was billed."""
    claimed: float
    """What may be claimed: of the billed calls the lower of both; where none was billed, what is expected."""
    pending: float
    """Expected from calls without a bill, and not in `claimed`, if others were billed."""
    billed_calls: int
    """How many calls have both edits and a bill."""
    cache_hit_share: float
    """Share of the readable tokens that the cache served before the first edit; 1 if unknown."""

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
    def is_simulated(self) -> bool:
        """Whether a simulated provider billed the calls, as in a replay."""
        return any(line.correction is not None for line in self.calls)

    @property
    def drift(self) -> float:
        """Billed over expected, summed over the calls that were billed."""
        return sum(line.drift or 0.0 for line in self.calls)

    @property
    def cost_without_edits(self) -> float:
        """What the untouched conversation would have cost."""
        return self.total_cost + self.claimed + self.pending

    @property
    def saved_share(self) -> float:
        return self.claimed / self.cost_without_edits if self.cost_without_edits > 0 else 0.0


def compute_savings(records: Iterable[Mapping[str, object]], tariffs: Tariffs = relative_tariff) -> Savings:
    """Compute the savings of a session from its records."""
    return savings_from_ledger(build_ledger(records), tariffs)


def savings_from_ledger(ledger: Ledger, tariffs: Tariffs = relative_tariff) -> Savings:
    tariffs_by_call = [_tariff(call, tariffs) for call in ledger.calls]
    cache_hit_share = _measure_cache_hits(ledger)
    calls, attribution = list[CallSavings](), Attribution(ledger.edits)
    for call, tariff in zip(ledger.calls, tariffs_by_call, strict=True):
        was_active = {n for n in call.toggled if attribution.holds(n)}
        is_active = {*was_active, *call.activated}.difference(call.deactivated)
        own_gains = _own_gains(ledger, call, tariff, was_active, is_active)
        rest_tokens = call.removed_tokens - sum(ledger.edits[n].tokens for n in own_gains if n in is_active)
        saved_call = _call_savings(ledger, call, tariff, own_gains, rest_tokens, cache_hit_share)
        calls.append(_apply_simulated_bills(saved_call, tariffs))
        attribution.take(_call_effect(ledger, calls[-1], own_gains))
    unused_answers = _answer_cost(ledger.unused_answers, tariffs_by_call[-1]) if tariffs_by_call else 0.0
    expected = sum(saved_call.gain for saved_call in calls) - unused_answers
    billed_calls = [saved_call for saved_call in calls if saved_call.saved is not None and saved_call.is_touched]
    billed_gain = sum(saved_call.gain for saved_call in billed_calls) - unused_answers
    billed = sum(saved_call.saved or 0.0 for saved_call in billed_calls) - unused_answers if billed_calls else None
    uses_bill = billed is not None and billed < billed_gain
    claimed = expected if billed is None else min(billed, billed_gain)
    is_simulated = any(saved_call.correction is not None for saved_call in calls)
    return Savings(
        calls=tuple(calls),
        edits=tuple(
            _edit_savings(
                ledger,
                attribution,
                tariffs_by_call,
                has_bills=bool(billed_calls) or is_simulated,
                uses_bill=uses_bill or is_simulated,
            )
        ),
        unused_answers=unused_answers,
        expected=expected,
        billed=billed,
        claimed=claimed,
        pending=sum(saved_call.gain for saved_call in calls if saved_call.saved is None) if billed_calls else 0.0,
        billed_calls=len(billed_calls),
        cache_hit_share=cache_hit_share,
    )


def _tariff(call: CallCost, tariffs: Tariffs) -> Tariff:
    if call.simulated is not None:
        return tariffs(call.model, FIVE_MINUTES, call.simulated.sent.prompt)
    tariff = tariffs(call.model, call.ttl, call.usage.prompt if call.usage else call.expected)
    return tariff if call.cached else tariff.without_cache()


def _answer_cost(usage: Usage, tariff: Tariff) -> float:
    return tariff.prompt_cost(usage) + tariff.output * usage.output


def _price_per_token(call: CallCost, tariff: Tariff) -> float:
    """What a removed token saves in this call, if it was removed in the call before too."""
    return tariff.read if call.source is not None else tariff.write


def _own_gains(
    ledger: Ledger, call: CallCost, tariff: Tariff, was_active: Set[int], is_active: Set[int]
) -> dict[int, float]:
    """Return what the edits made, undone or redone for this call save in it, by the index of the edit.

    `was_active` are those active in the call before, `is_active` those active in this one.
    """
    gains = dict[int, float]()
    for n in call.new_edits:
        edit = ledger.edits[n]
        price = tariff.write if edit.is_free else _price_per_token(call, tariff)
        gains[n] = edit.tokens * price * (n in is_active) - _answer_cost(edit.question_usage, tariff)
        if call.source is not None and not edit.is_free:
            gains[n] -= (tariff.write - tariff.read) * edit.written_tokens
    if call.toggled and call.source is not None:
        # After an undo or redo everything behind it is written to the cache again.
        before = _tokens(ledger.calls[call.number - 2]) + sum(ledger.edits[n].tokens for n in was_active)
        loss = (tariff.write - tariff.read) * max(0.0, before - call.share * _tokens(ledger.calls[call.source]))
        for n in call.toggled:
            gain = ledger.edits[n].tokens * _price_per_token(call, tariff) * (n in is_active)
            gains[n] = gain - loss / len(call.toggled)
    return gains


def _call_effect(ledger: Ledger, saved_call: CallSavings, own_gains: Mapping[int, float]) -> CallEffect:
    call = saved_call.call
    return CallEffect(
        each=_price_per_token(call, saved_call.tariff),
        own=own_gains,
        drift=saved_call.correction if saved_call.saved is None else saved_call.saved - saved_call.gain,
        # The edits that changed the prefix for this call bear what its bill exceeds the model by; else all active ones.
        blamed=[n for n in call.new_edits if not ledger.edits[n].is_free],
        entered=call.activated,
        left=call.deactivated,
    )


def _tokens(call: CallCost) -> int:
    return call.usage.prompt if call.usage else call.expected


def _readable(ledger: Ledger, call: CallCost, tokens: int) -> float:
    """How many of the call's `tokens` the provider should still have cached."""
    if call.source is None:
        return 0.0
    source_tokens = _tokens(ledger.calls[call.source])
    rewriting = [ledger.edits[n] for n in call.new_edits if not ledger.edits[n].is_free]
    if rewriting:
        return min(max(0.0, source_tokens - sum(edit.tokens + edit.written_tokens for edit in rewriting)), tokens)
    return min(max(0.0, source_tokens * call.share), tokens)


def _measure_cache_hits(ledger: Ledger) -> float:
    """Return how much of the readable tokens the cache served before the first edit."""
    first = min((edit.call for edit in ledger.edits), default=math.inf)
    before = [call for call in ledger.calls if call.number < first and call.usage and call.source is not None]
    readable = sum(_readable(ledger, call, _tokens(call)) for call in before)
    if len(before) < MIN_BILLS or readable <= 0:
        return 1.0
    read = sum(min(call.usage.cache_read, _readable(ledger, call, _tokens(call))) for call in before if call.usage)
    # None at all means a client without cache breakpoints, which `CallCost.cached` says already.
    return read / readable if read else 1.0


def _call_savings(
    ledger: Ledger,
    call: CallCost,
    tariff: Tariff,
    own_gains: Mapping[int, float],
    rest_tokens: int,
    cache_hit_share: float,
) -> CallSavings:
    """`rest_tokens` are removed by the edits that are not in `own_gains`."""
    # The price of an answer reduces the gain, and is no part of what this call costs.
    answer_cost = sum(_answer_cost(ledger.edits[n].question_usage, tariff) for n in call.new_edits)
    gain = rest_tokens * _price_per_token(call, tariff) + sum(own_gains.values())
    read = _readable(ledger, call, call.expected)
    expected = tariff.read * read + tariff.write * (call.expected - read)
    saved_call = CallSavings(
        call=call,
        tariff=tariff,
        tokens=_tokens(call),
        is_touched=bool(call.active_count or own_gains),
        cached_tokens=read,
        expected=expected,
        untouched=expected + gain + answer_cost,
        gain=gain,
        recorded=None if call.recorded is None else tariff.prompt_cost(call.recorded),
    )
    if call.usage is None:
        return saved_call
    billed = tariff.prompt_cost(call.usage)
    if not saved_call.is_touched:
        return replace(saved_call, billed=billed, saved=0.0)
    read = cache_hit_share * _readable(ledger, call, call.usage.prompt)
    modelled = tariff.read * read + tariff.write * (call.usage.prompt - read)
    return replace(saved_call, billed=billed, saved=gain - (billed - modelled))


def _apply_simulated_bills(saved_call: CallSavings, tariffs: Tariffs) -> CallSavings:
    """Replace the model's costs by the simulated bills of a replay. Each side has the price tier of its own length."""
    call, bills = saved_call.call, saved_call.call.simulated
    if bills is None:
        return saved_call
    answer_cost = saved_call.untouched - saved_call.expected - saved_call.gain
    sent = saved_call.tariff.prompt_cost(bills.sent)
    untouched = tariffs(call.model, FIVE_MINUTES, bills.untouched.prompt).prompt_cost(bills.untouched)
    gain = untouched - sent - answer_cost if saved_call.is_touched else 0.0
    return replace(
        saved_call,
        tokens=bills.sent.prompt,
        cached_tokens=bills.sent.cache_read,
        expected=sent,
        untouched=untouched,
        gain=gain,
        billed=None,
        saved=None,
        correction=gain - saved_call.gain,
    )


def _edit_savings(
    ledger: Ledger, attribution: Attribution, tariffs_by_call: list[Tariff], *, has_bills: bool, uses_bill: bool
) -> Iterator[EditSavings]:
    for edit, row in zip(ledger.edits, attribution.finish(), strict=True):
        yield EditSavings(
            edit=edit,
            is_undone=edit.batch in ledger.undone,
            calls=row.calls,
            expected=row.expected,
            billed=row.billed,
            claimed=row.expected if not has_bills else row.billed if uses_bill else row.sure,
            break_even_calls=_breaks_even(edit, tariffs_by_call[edit.call - 1]),
            paid_since=row.paid,
        )


def _breaks_even(edit: EditCost, tariff: Tariff) -> float:
    """Return after how many calls an edit has paid for itself, the first included."""
    prices = Prices(read=tariff.read, write=tariff.write)
    replaced = 0 if edit.is_free else edit.replacement_tokens
    return calls_to_break_even(
        removed=edit.tokens + replaced,
        put=replaced,
        after=0 if edit.is_free else edit.rewritten_tokens,
        prices=prices,
        ask_cost=_answer_cost(edit.question_usage, tariff),
        unsent=edit.tokens if edit.is_free else 0,
    )
