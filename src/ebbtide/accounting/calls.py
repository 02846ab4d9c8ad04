"""What a log says about calls and edits, as facts that money can be counted from. Nothing is looked up elsewhere.

A call knows which earlier one it goes on from, what it was expected to take before its bill was known, and which edits
held in it. An edit knows what it took out and what it made the provider write again, both in billed tokens.

Bills teach how many tokens an estimated one is: by how they grow from call to call, not by their height. What a file
does not hold, such as a recorded client's system prompt, is in every bill and says nothing about what was taken out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ebbtide.core.cache.breakpoints import min_prefix_tokens
from ebbtide.core.cache.prefix_hashes import PrefixHashes, common_prefix_length
from ebbtide.core.record_fields import float_in, int_in, list_in, str_in, strings_in
from ebbtide.core.tokens.calibration import prior
from ebbtide.core.types import COMPACTION_PASSES, FIVE_MINUTES, Usage
from ebbtide.state.session_state import Record, usage_from_record
from ebbtide.wire import WIRES

PRIOR_TOKENS = 2_000
"""Estimated tokens of growth that weigh as much as what is known of the model beforehand."""
MIN_RATIO, MAX_RATIO = 0.4, 2.5
"""Billed tokens for an estimated one, further from which no tokenizer is: a bill beyond says something else."""
LOOK_BACK = 64
"""Calls looked back on for the one that this goes on from: titles and sub-agents stand in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditCost:
    """One edit, in tokens as they are billed."""

    id: str
    batch: str
    by: str
    reason: str
    call: int
    """Number of the call that it was made for."""
    tokens: int
    """Taken out, less what stands in for it."""
    rewritten_tokens: int = 0
    """Kept warm tokens behind the first changed one, written again: its share of its batch's."""
    replacement_tokens: int = 0
    """Stand-ins written where something warm was, likewise."""
    is_free: bool = False
    """Changed nothing that was warm: free."""
    question_usage: Usage = field(default_factory=Usage)
    """What asking a model for it was billed."""

    @property
    def written_tokens(self) -> int:
        """What the provider had to write to its cache because of it."""
        return self.rewritten_tokens + self.replacement_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCost:
    """One request that went out."""

    number: int
    at: float
    model: str
    ttl: float
    cached: bool
    """Whether the provider caches it at all: it is long enough, and marked where that is needed."""
    expected: int
    """Prompt tokens, from the last bill and an estimate of what came since."""
    source: int | None
    """Place of the call that it goes on from, whose prefix is still kept; None where nothing is."""
    share: float
    """How much of that call it begins with, but for edits made for this one."""
    new_edits: tuple[int, ...] = ()
    """Places of the changes made for it."""
    activated: tuple[int, ...] = ()
    """Places of changes that hold in it and did not in the call before, its own included."""
    deactivated: tuple[int, ...] = ()
    """Places of changes that held in the call before and do not in this one."""
    active_count: int = 0
    """How many changes hold in it. Which ones they are follows from all calls up to it: told with each, the books of a
    long session would grow with its square."""
    removed_tokens: int = 0
    """Tokens that those keep out of it."""
    toggled: tuple[int, ...] = ()
    """Places of changes that a person undid, or brought back, since the call before."""
    usage: Usage | None = None
    """What was billed for it."""
    recorded: Usage | None = None
    """In a replay: what was billed for the same call as the client had sent it, untouched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    calls: tuple[CallCost, ...] = ()
    edits: tuple[EditCost, ...] = ()
    undone: frozenset[str] = frozenset()
    """Batches that are left out, as things stand."""
    unused_answers: Usage = field(default_factory=Usage)
    """What was paid for answers of which no fold came."""


def build_ledger(records: Iterable[Mapping[str, object]]) -> Ledger:
    """Read a session's records, in order."""
    clerk = _Clerk()
    for record in records:
        clerk.take(record)
    return clerk.closed()


@dataclass(frozen=True, slots=True)
class _Sent:
    """A call as the next one looks back on it."""

    key: tuple[str, str, str]
    at: float
    ttl: float
    chain: PrefixHashes
    estimated: int
    marked: bool
    """Or of a provider that needs no marks."""


@dataclass(slots=True)
class _Clerk:
    calls: list[CallCost] = field(default_factory=list)
    sent: list[_Sent] = field(default_factory=list)
    changes: list[EditCost] = field(default_factory=list)
    needs: list[frozenset[str]] = field(default_factory=list)
    """For each change the items without which it does not hold."""
    plans: list[Mapping[str, object]] = field(default_factory=list)
    """Made since the last call."""
    undone: dict[str, None] = field(default_factory=dict)
    flipped: list[str] = field(default_factory=list)
    items: dict[str, list[str]] = field(default_factory=dict)
    """Of each message, by uuid."""
    path: list[str] = field(default_factory=list)
    present: Counter[str] = field(default_factory=Counter)
    known: set[str] = field(default_factory=set)
    batches: dict[str, list[int]] = field(default_factory=dict)
    """Places of the changes of each."""
    needed: dict[str, list[int]] = field(default_factory=dict)
    """By item: places of the changes that do not hold without it."""
    doubted: set[int] = field(default_factory=set)
    """Places of changes that may have come to hold since the last call, or ceased to."""
    standing: set[int] = field(default_factory=set)
    out: int = 0
    """Tokens that the standing changes keep out."""
    grown: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By model: what bills grew by, and what estimates did."""
    asked: Usage = field(default_factory=Usage)
    caches: bool = False
    """A bill has shown the cache at work."""

    def take(self, record: Mapping[str, object]) -> None:
        ids = record.get("ebbids")
        if record.get("uuid") and isinstance(ids, list):
            self.items[str(record["uuid"])] = [str(one) for one in ids]
            self.known.update(self.items[str(record["uuid"])])
        if record.get("type") != "ebb":
            return
        kind = str(record.get("kind"))
        if kind == "plan":
            self.plans.append(record)
        elif kind == "turn":
            self._turn(record)
        elif kind in ("usage", "recorded"):
            self._usage(record, kind)
        elif kind == "undo":
            self.undone[str(record.get("batch"))] = None
            self.flipped.append(str(record.get("batch")))
        elif kind == "redo":
            self.undone.pop(str(record.get("batch")), None)
            self.flipped.append(str(record.get("batch")))
        elif kind == "answer":
            bill = record.get("usage")
            self.asked = add_usage(self.asked, usage_from_record(bill)) if isinstance(bill, Mapping) else self.asked

    def closed(self) -> Ledger:
        undone = frozenset(self.undone)
        # A provider caches or it does not: what one bill shows is true of the calls before it.
        calls = [replace(one, cached=self._long(one) and (one.cached or self.caches)) for one in self.calls]
        return Ledger(calls=tuple(calls), edits=tuple(self.changes), undone=undone, unused_answers=self.asked)

    @staticmethod
    def _long(call: CallCost) -> bool:
        if call.usage is None:
            return call.expected >= min_prefix_tokens(call.model)
        return call.usage.cache_read + call.usage.cache_write > 0 or call.usage.prompt >= min_prefix_tokens(call.model)

    def _usage(self, record: Mapping[str, object], kind: str) -> None:
        nth, usage = int_in(record, "turn") - 1, usage_from_record(record)
        if not 0 <= nth < len(self.calls):
            return
        bill = replace(self.calls[nth], recorded=usage) if kind == "recorded" else replace(self.calls[nth], usage=usage)
        self.calls[nth] = bill
        self.caches |= usage.cache_read + usage.cache_write > 0
        if bill.source is not None and bill.share == 1 and not bill.new_edits:
            self._learn(bill, self.calls[bill.source])

    def _learn(self, call: CallCost, before: CallCost) -> None:
        """From two bills of one conversation, the second of which only grew."""
        now, then = self._billed(call), self._billed(before)
        if now is None or then is None:
            return
        more = self.sent[call.number - 1].estimated - self.sent[before.number - 1].estimated
        if more > 0 and now >= then:
            billed, estimated = self.grown.get(call.model, (0, 0))
            self.grown[call.model] = (billed + now - then, estimated + more)

    def _billed(self, call: CallCost) -> int | None:
        """Prompt tokens of what went out: of a bill for the same untouched, less what edits kept out."""
        if call.usage is not None:
            return call.usage.prompt
        if call.recorded is None:
            return None
        return max(0, call.recorded.prompt - call.removed_tokens)

    def _ratio(self, model: str) -> float:
        billed, estimated = self.grown.get(model, (0, 0))
        return min(MAX_RATIO, max(MIN_RATIO, (billed + PRIOR_TOKENS * prior(model)) / (estimated + PRIOR_TOKENS)))

    def _turn(self, record: Mapping[str, object]) -> None:
        self._walk(int_in(record, "base"), strings_in(record, "add"))
        before = self.sent[-1].chain if self.sent else PrefixHashes()
        now = _Sent(
            key=(str_in(record, "model"), str_in(record, "system"), str_in(record, "tools")),
            at=float_in(record, "at"),
            ttl=float_in(record, "ttl") or FIVE_MINUTES,
            chain=before.extend_from(int_in(record, "out_base"), strings_in(record, "out_add")),
            estimated=int_in(record, "estimated") or int_in(record, "tokens"),
            marked=bool(record.get("marks")) or not _needs_breakpoints(record),
        )
        warm = not self.plans or any(_warm(plan) for plan in self.plans)
        source = self._source(now, changed=bool(self.plans or self.flipped)) if warm else None
        made = self._enter(now)
        flipped = {n for batch in self.flipped for n in self.batches.get(batch, ())}
        entered, left = self._stand(self.doubted | flipped)
        self.calls.append(
            CallCost(
                number=len(self.calls) + 1,
                at=now.at,
                model=now.key[0],
                ttl=now.ttl,
                cached=now.marked,
                expected=self._expected(now),
                source=source,
                share=self._share(now, source) if not made else 1.0,
                new_edits=made,
                activated=entered,
                deactivated=left,
                active_count=len(self.standing),
                removed_tokens=self.out,
                toggled=tuple(sorted(flipped.difference(made))),
            )
        )
        self.sent.append(now)
        self.plans, self.flipped = [], []

    def _walk(self, base: int, add: Sequence[str]) -> None:
        """Go to the messages of the next call."""
        left, self.path[base:] = self.path[base:], add
        for uuid, more in (*((one, -1) for one in left), *((one, 1) for one in add)):
            for id in self.items.get(uuid, ()):
                self.present[id] += more
                self.doubted.update(self.needed.get(id, ()))

    def _stand(self, doubted: Iterable[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Look again at these changes alone. Those that hold from now on, and those that no longer do."""
        now = {n for n in doubted if self._holds(n)}
        entered, left = sorted(now - self.standing), sorted((set(doubted) & self.standing) - now)
        self.standing |= now
        self.standing.difference_update(left)
        self.out += sum(self.changes[n].tokens for n in entered) - sum(self.changes[n].tokens for n in left)
        self.doubted = set()
        return tuple(entered), tuple(left)

    def _source(self, now: _Sent, *, changed: bool) -> int | None:
        """The newest of those that it shares most with. An edit may leave nothing in common but tools and system."""
        best, most = None, 0
        for nth in range(len(self.sent) - 1, max(-1, len(self.sent) - 1 - LOOK_BACK), -1):
            one = self.sent[nth]
            if one.key != now.key or now.at - one.at >= one.ttl or not (one.marked or self.caches):
                continue
            if min(len(one.chain), len(now.chain)) + changed <= most:
                continue
            alike = common_prefix_length(one.chain, now.chain) + changed
            if alike > most:
                best, most = nth, alike
        return best

    def _share(self, now: _Sent, source: int | None) -> float:
        if source is None:
            return 0.0
        chain = self.sent[source].chain
        return common_prefix_length(chain, now.chain) / len(chain) if len(chain) else 0.0

    def _expected(self, now: _Sent) -> int:
        """From the last bill of the same model, system prompt and tools, however long ago."""
        ratio = self._ratio(now.key[0])
        for nth in range(len(self.sent) - 1, max(-1, len(self.sent) - 1 - LOOK_BACK), -1):
            billed = self._billed(self.calls[nth]) if self.sent[nth].key == now.key else None
            if billed is not None:
                return max(0, billed + round((now.estimated - self.sent[nth].estimated) * ratio))
        return round(now.estimated * ratio)

    def _enter(self, now: _Sent) -> tuple[int, ...]:
        """The edits of the plans for this call."""
        first, ratio = len(self.changes), self._ratio(now.key[0])
        for plan in self.plans:
            edits = [edit for edit in list_in(plan, "edits") if isinstance(edit, Mapping)]
            self.changes += _changes(plan, edits, len(self.calls) + 1, ratio, now.estimated)
            self.needs += [frozenset(filter(None, (str_in(one, key) for key in _ENDS))) & self.known for one in edits]
            self._charge(len(self.changes) - len(edits))
        made = range(first, len(self.changes))
        for n in made:
            self.batches.setdefault(self.changes[n].batch, []).append(n)
            for id in self.needs[n]:
                self.needed.setdefault(id, []).append(n)
        self.doubted.update(made)
        return tuple(made)

    def _charge(self, first: int) -> None:
        """A fold pays for the answers before it."""
        folds = [n for n in range(first, len(self.changes)) if self.changes[n].by in COMPACTION_PASSES]
        if folds and self.asked.total:
            self.changes[folds[0]] = replace(self.changes[folds[0]], question_usage=self.asked)
            self.asked = Usage()

    def _holds(self, n: int) -> bool:
        return self.changes[n].batch not in self.undone and all(self.present[id] > 0 for id in self.needs[n])


_ENDS = ("first", "last", "head", "after")


def _changes(
    plan: Mapping[str, object], edits: Sequence[Mapping[str, object]], call: int, ratio: float, stayed: int
) -> list[EditCost]:
    told = plan.get("moved")
    facts: Mapping[str, object] = told if isinstance(told, Mapping) else {}
    # A log that does not say: as careful as can be, all that stayed was written again.
    after = int_in(facts, "after") if facts else stayed * _warm(plan)
    fresh = {int(str(n)) for n in list_in(facts, "fresh")} if facts else set[int]()
    saved = [max(0, int_in(edit, "saved")) for edit in edits]
    # What a pass says it saved is its own estimate; the view knows what they saved together.
    outs = _parted(round(int_in(facts, "out") * ratio) if "out" in facts else round(sum(saved) * ratio), saved)
    weights = [0 if n in fresh else one for n, one in enumerate(saved)]
    afters, puts = _parted(round(after * ratio), weights), _parted(round(int_in(facts, "put") * ratio), weights)
    return [
        EditCost(
            id=str_in(edit, "id"),
            batch=str_in(plan, "id"),
            by=str_in(edit, "by"),
            reason=str_in(edit, "reason"),
            call=call,
            tokens=outs[n],
            rewritten_tokens=afters[n],
            replacement_tokens=puts[n],
            is_free=n in fresh,
        )
        for n, edit in enumerate(edits)
    ]


def _parted(amount: int, weights: Sequence[int]) -> list[int]:
    """Whole parts by weight that add up: each gets what is left times its share of the weights left."""
    left, weight, parts = amount, sum(weights), list[int]()
    for one in weights:
        part = round(left * one / weight) if weight else 0
        parts.append(part)
        left, weight = left - part, weight - one
    return parts


def _warm(plan: Mapping[str, object]) -> bool:
    situation = plan.get("situation")
    return isinstance(situation, Mapping) and int_in(situation, "warm") > 0


def add_usage(one: Usage, other: Usage) -> Usage:
    return Usage(
        input=one.input + other.input,
        cache_read=one.cache_read + other.cache_read,
        cache_write=one.cache_write + other.cache_write,
        output=one.output + other.output,
    )


__all__ = ["CallCost", "EditCost", "Ledger", "Record", "add_usage", "build_ledger"]


def _needs_breakpoints(record: Mapping[str, object]) -> bool:
    """Tell whether the provider of a request caches nothing without a breakpoint."""
    wire = WIRES.get(str(record.get("wire")))
    return wire is not None and wire.cache.is_explicit
