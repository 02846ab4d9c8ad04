"""Read from a session's log what each call and each edit cost, in billed tokens. Prices are applied in `savings`.

A call knows which earlier call it continues, what its prompt was expected to be before it was billed, and which edits
were active in it. An edit knows what it removed and what it made the provider write to its cache again.

How many billed tokens an estimated token is, we learn from how bills grow from call to call, not from their size: a
recorded client's system prompt is in every bill and not in the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ebbtide.core.cache.prefix import PrefixHashes, common_prefix_length, min_prefix_tokens
from ebbtide.core.records import float_in, int_in, list_in, str_in, strings_in, usage_from_record
from ebbtide.core.tokens.size import prior
from ebbtide.core.types import COMPACTION_PASSES, FIVE_MINUTES, Usage
from ebbtide.wire import WIRES

PRIOR_TOKENS = 2_000
"""Estimated tokens of growth that weigh as much as the ratio known for the model beforehand."""
MIN_RATIO, MAX_RATIO = 0.4, 2.5
"""Billed tokens for an estimated one. No tokenizer is outside of this range."""
LOOK_BACK = 64
"""How many calls back to search for the one that a call continues: titles and sub-agents lie between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditCost:
    """One edit, in billed tokens."""

    id: str
    batch: str
    by: str
    reason: str
    call: int
    """Number of the call that it was made for."""
    tokens: int
    """Removed, less the replacement."""
    rewritten_tokens: int = 0
    """Its share of the cached tokens behind the batch's first change that stay and are written again."""
    replacement_tokens: int = 0
    """Its share of the replacements of cached items."""
    is_free: bool = False
    """It changed nothing cached."""
    question_usage: Usage = field(default_factory=Usage)
    """The bill for asking a model for it."""

    @property
    def written_tokens(self) -> int:
        """What the provider had to write to its cache because of it."""
        return self.rewritten_tokens + self.replacement_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedBills:
    """What a provider with a prompt cache would have billed for one call of a replay."""

    sent: Usage
    """For the request as it was sent."""
    untouched: Usage
    """For the same request without edits, in a conversation that never had one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCost:
    """One request that was sent. Edits are given as indexes of `Ledger.edits`.

    It has 17 fields: the statement and the savings read them side by side, for each call.
    """

    number: int
    at: float
    model: str
    ttl: float
    cached: bool
    """Whether the provider caches it at all: it is long enough, and has breakpoints where they are needed."""
    expected: int
    """Prompt tokens, from the last bill and an estimate of what was added since."""
    source: int | None
    """Index of the call that it continues, whose prefix is still cached; None if there is none."""
    share: float
    """How much of that call it begins with, apart from edits made for this one."""
    new_edits: tuple[int, ...] = ()
    """Edits made for it."""
    activated: tuple[int, ...] = ()
    """Edits that are active in it and were not in the call before, its own included."""
    deactivated: tuple[int, ...] = ()
    """Edits that were active in the call before and are not in this one."""
    active_count: int = 0
    """How many edits are active. A list of them for each call would grow with the square of the calls."""
    removed_tokens: int = 0
    """Tokens that the active edits remove."""
    toggled: tuple[int, ...] = ()
    """Edits that a person undid or redid since the call before."""
    usage: Usage | None = None
    """Its bill."""
    recorded: Usage | None = None
    """In a replay: the bill for the same call without edits."""
    simulated: SimulatedBills | None = None
    """In a replay: what the provider would have billed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The calls and edits of a session."""

    calls: tuple[CallCost, ...] = ()
    edits: tuple[EditCost, ...] = ()
    undone: frozenset[str] = frozenset()
    """Ids of batches that are undone now."""
    unused_answers: Usage = field(default_factory=Usage)
    """The bill for answers that led to no compaction."""


def build_ledger(records: Iterable[Mapping[str, object]]) -> Ledger:
    """Read a session's records, in order."""
    builder = _LedgerBuilder()
    for record in records:
        builder.add(record)
    return builder.finish()


@dataclass(slots=True)
class _ActiveEdits:
    """Which edits are active on the current branch: those not undone whose items are all present."""

    items_by_message: dict[str, list[str]] = field(default_factory=dict)
    path: list[str] = field(default_factory=list)
    """Uuids of the messages of the current call."""
    item_counts: Counter[str] = field(default_factory=Counter)
    """How often each item occurs on the path."""
    known_items: set[str] = field(default_factory=set)
    needs: list[frozenset[str]] = field(default_factory=list)
    """By edit: the items that must be present."""
    needed_by: dict[str, list[int]] = field(default_factory=dict)
    """By item: the edits that need it."""
    changed: set[int] = field(default_factory=set)
    """Edits to check again at the next call."""
    active: set[int] = field(default_factory=set)

    def add_message(self, uuid: str, item_ids: list[str]) -> None:
        self.items_by_message[uuid] = item_ids
        self.known_items.update(item_ids)

    def add_edit(self, record: Mapping[str, object]) -> None:
        index = len(self.needs)
        needs = frozenset(filter(None, (str_in(record, key) for key in _ITEM_KEYS))) & self.known_items
        self.needs.append(needs)
        self.changed.add(index)
        for id in needs:
            self.needed_by.setdefault(id, []).append(index)

    def move_to(self, base: int, added: Sequence[str]) -> None:
        """Go to the messages of the next call: the first `base` of this path, then `added`."""
        removed, self.path[base:] = self.path[base:], added
        for uuids, change in ((removed, -1), (added, 1)):
            for id in (id for uuid in uuids for id in self.items_by_message.get(uuid, ())):
                self.item_counts[id] += change
                self.changed.update(self.needed_by.get(id, ()))

    def update(self, toggled: Iterable[int], is_undone: Callable[[int], bool]) -> tuple[list[int], list[int]]:
        """Check the changed edits only. Return those that became active, and those that ceased to be."""
        changed = self.changed.union(toggled)
        now = {n for n in changed if not is_undone(n) and all(self.item_counts[id] > 0 for id in self.needs[n])}
        activated, deactivated = sorted(now - self.active), sorted((changed & self.active) - now)
        self.active |= now
        self.active.difference_update(deactivated)
        self.changed = set()
        return activated, deactivated


@dataclass(frozen=True, slots=True)
class _Request:
    """What later calls compare themselves with, besides the fields of `CallCost`."""

    key: tuple[str, str, str]
    """Model, system prompt and tools."""
    prefix: PrefixHashes
    estimated: int


@dataclass(slots=True)
class _LedgerBuilder:
    calls: list[CallCost] = field(default_factory=list)
    requests: list[_Request] = field(default_factory=list)
    """One for each call."""
    edits: list[EditCost] = field(default_factory=list)
    active: _ActiveEdits = field(default_factory=_ActiveEdits)
    removed_tokens: int = 0
    """By the active edits."""
    plans: list[Mapping[str, object]] = field(default_factory=list)
    """Made since the last call."""
    toggled: list[str] = field(default_factory=list)
    """Batches undone or redone since the last call."""
    undone: set[str] = field(default_factory=set)
    growth: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By model: how much bills grew, and how much estimates did."""
    unused_answers: Usage = field(default_factory=Usage)
    has_cache: bool = False
    """A bill has shown that the provider caches."""

    def add(self, record: Mapping[str, object]) -> None:
        ids = record.get("ebbids")
        if record.get("uuid") and isinstance(ids, list):
            self.active.add_message(str(record["uuid"]), [str(id) for id in ids])
        if record.get("type") != "ebb":
            return
        kind, batch = record.get("kind"), str(record.get("batch"))
        if kind == "plan":
            self.plans.append(record)
        elif kind == "turn":
            self._add_call(record)
        elif kind in ("usage", "recorded"):
            self._add_bill(record, is_recorded=kind == "recorded")
        elif kind == "simulated":
            self._add_simulated(record)
        elif kind == "undo":
            self.undone.add(batch)
            self.toggled.append(batch)
        elif kind == "redo":
            self.undone.discard(batch)
            self.toggled.append(batch)
        elif kind == "answer" and isinstance(bill := record.get("usage"), Mapping):
            self.unused_answers = add_usage(self.unused_answers, usage_from_record(bill))

    def finish(self) -> Ledger:
        # A provider caches or it does not: what one bill shows is true of the calls before it.
        calls = [replace(call, cached=_is_long(call) and (call.cached or self.has_cache)) for call in self.calls]
        return Ledger(
            calls=tuple(calls),
            edits=tuple(self.edits),
            undone=frozenset(self.undone),
            unused_answers=self.unused_answers,
        )

    def _add_call(self, record: Mapping[str, object]) -> None:
        self.active.move_to(int_in(record, "base"), strings_in(record, "add"))
        last_prefix = self.requests[-1].prefix if self.requests else PrefixHashes()
        request = _Request(
            key=(str_in(record, "model"), str_in(record, "system"), str_in(record, "tools")),
            prefix=last_prefix.extend_from(int_in(record, "out_base"), strings_in(record, "out_add")),
            estimated=int_in(record, "estimated") or int_in(record, "tokens"),
        )
        at, is_warm = float_in(record, "at"), not self.plans or any(_is_warm(plan) for plan in self.plans)
        source = self._find_source(request, at, is_changed=bool(self.plans or self.toggled)) if is_warm else None
        new_edits = self._add_edits(request)
        toggled = {n for n, edit in enumerate(self.edits) if edit.batch in self.toggled} if self.toggled else set[int]()
        activated, deactivated = self.active.update(toggled, lambda n: self.edits[n].batch in self.undone)
        self.removed_tokens += sum(self.edits[n].tokens for n in activated)
        self.removed_tokens -= sum(self.edits[n].tokens for n in deactivated)
        self.calls.append(
            CallCost(
                number=len(self.calls) + 1,
                at=at,
                model=request.key[0],
                ttl=float_in(record, "ttl") or FIVE_MINUTES,
                cached=bool(record.get("marks")) or not _needs_breakpoints(record),
                expected=self._expected_tokens(request),
                source=source,
                share=1.0 if new_edits else self._shared_part(request, source),
                new_edits=tuple(new_edits),
                activated=tuple(activated),
                deactivated=tuple(deactivated),
                active_count=len(self.active.active),
                removed_tokens=self.removed_tokens,
                toggled=tuple(sorted(toggled.difference(new_edits))),
            )
        )
        self.requests.append(request)
        self.plans, self.toggled = [], []

    def _add_edits(self, request: _Request) -> range:
        """Add the edits of the plans for this call."""
        start, ratio = len(self.edits), self._ratio(request.key[0])
        for plan in self.plans:
            records = [edit for edit in list_in(plan, "edits") if isinstance(edit, Mapping)]
            costs = _edit_costs(plan, records, len(self.calls) + 1, ratio, request.estimated)
            compaction = next((n for n, cost in enumerate(costs) if cost.by in COMPACTION_PASSES), None)
            if compaction is not None and self.unused_answers.total:
                costs[compaction] = replace(costs[compaction], question_usage=self.unused_answers)
                self.unused_answers = Usage()
            self.edits += costs
            for record in records:
                self.active.add_edit(record)
        return range(start, len(self.edits))

    def _find_source(self, request: _Request, at: float, *, is_changed: bool) -> int | None:
        """Find the newest call with the longest common prefix. After edits only tools and system may be common."""
        source, longest = None, 0
        for i in self._recent_calls():
            other, call = self.requests[i], self.calls[i]
            if other.key != request.key or at - call.at >= call.ttl or not (call.cached or self.has_cache):
                continue
            if min(len(other.prefix), len(request.prefix)) + is_changed <= longest:
                continue
            length = common_prefix_length(other.prefix, request.prefix) + is_changed
            if length > longest:
                source, longest = i, length
        return source

    def _recent_calls(self) -> range:
        """Indexes of the last calls, the newest first."""
        return range(len(self.requests) - 1, max(-1, len(self.requests) - 1 - LOOK_BACK), -1)

    def _shared_part(self, request: _Request, source: int | None) -> float:
        prefix = self.requests[source].prefix if source is not None else ()
        return common_prefix_length(prefix, request.prefix) / len(prefix) if len(prefix) else 0.0

    def _expected_tokens(self, request: _Request) -> int:
        """Estimate from the last bill of the same model, system prompt and tools, however old."""
        ratio = self._ratio(request.key[0])
        for i in self._recent_calls():
            billed = _billed_tokens(self.calls[i]) if self.requests[i].key == request.key else None
            if billed is not None:
                return max(0, billed + round((request.estimated - self.requests[i].estimated) * ratio))
        return round(request.estimated * ratio)

    def _add_bill(self, record: Mapping[str, object], *, is_recorded: bool) -> None:
        i, usage = int_in(record, "turn") - 1, usage_from_record(record)
        if not 0 <= i < len(self.calls):
            return
        call = replace(self.calls[i], recorded=usage) if is_recorded else replace(self.calls[i], usage=usage)
        self.calls[i] = call
        self.has_cache |= usage.cache_read + usage.cache_write > 0
        if call.source is not None and call.share == 1 and not call.new_edits:
            self._learn_ratio(i, call.source)

    def _add_simulated(self, record: Mapping[str, object]) -> None:
        i, sent, untouched = int_in(record, "turn") - 1, record.get("sent"), record.get("untouched")
        if 0 <= i < len(self.calls) and isinstance(sent, Mapping) and isinstance(untouched, Mapping):
            bills = SimulatedBills(sent=usage_from_record(sent), untouched=usage_from_record(untouched))
            self.calls[i] = replace(self.calls[i], simulated=bills)

    def _learn_ratio(self, newer: int, older: int) -> None:
        """Learn from two bills of one conversation, the second of which only grew."""
        new, old = _billed_tokens(self.calls[newer]), _billed_tokens(self.calls[older])
        added = self.requests[newer].estimated - self.requests[older].estimated
        if new is None or old is None or added <= 0 or new < old:
            return
        model = self.calls[newer].model
        billed, estimated = self.growth.get(model, (0, 0))
        self.growth[model] = (billed + new - old, estimated + added)

    def _ratio(self, model: str) -> float:
        billed, estimated = self.growth.get(model, (0, 0))
        return min(MAX_RATIO, max(MIN_RATIO, (billed + PRIOR_TOKENS * prior(model)) / (estimated + PRIOR_TOKENS)))


def _billed_tokens(call: CallCost) -> int | None:
    """Prompt tokens of what was sent. In a replay: of the call without edits, less what the edits removed."""
    if call.usage is not None:
        return call.usage.prompt
    return None if call.recorded is None else max(0, call.recorded.prompt - call.removed_tokens)


def _is_long(call: CallCost) -> bool:
    if call.usage is None:
        return call.expected >= min_prefix_tokens(call.model)
    return call.usage.cache_read + call.usage.cache_write > 0 or call.usage.prompt >= min_prefix_tokens(call.model)


_ITEM_KEYS = ("first", "last", "head", "after")
"""Keys of an edit's record that name items."""


def _edit_costs(
    plan: Mapping[str, object], edits: Sequence[Mapping[str, object]], call: int, ratio: float, estimated: int
) -> list[EditCost]:
    moved = plan.get("moved")
    cost: Mapping[str, object] = moved if isinstance(moved, Mapping) else {}
    # An old log does not say what was written again. Assume the worst: all of the request.
    after = int_in(cost, "after") if cost else estimated * _is_warm(plan)
    free = {int(str(n)) for n in list_in(cost, "fresh")} if cost else set[int]()
    saved = [max(0, int_in(edit, "saved")) for edit in edits]
    # What a pass says it saved is an estimate of its own; the view knows what the batch saved.
    total = int_in(cost, "out") if "out" in cost else sum(saved)
    weights = [0 if n in free else tokens for n, tokens in enumerate(saved)]
    removed = _split(round(total * ratio), saved)
    rewritten = _split(round(after * ratio), weights)
    replacements = _split(round(int_in(cost, "put") * ratio), weights)
    return [
        EditCost(
            id=str_in(edit, "id"),
            batch=str_in(plan, "id"),
            by=str_in(edit, "by"),
            reason=str_in(edit, "reason"),
            call=call,
            tokens=removed[n],
            rewritten_tokens=rewritten[n],
            replacement_tokens=replacements[n],
            is_free=n in free,
        )
        for n, edit in enumerate(edits)
    ]


def _split(amount: int, weights: Sequence[int]) -> list[int]:
    """Split an amount into whole parts by weight. The parts add up to the amount."""
    rest, rest_weight, parts = amount, sum(weights), list[int]()
    for weight in weights:
        part = round(rest * weight / rest_weight) if rest_weight else 0
        parts.append(part)
        rest, rest_weight = rest - part, rest_weight - weight
    return parts


def _is_warm(plan: Mapping[str, object]) -> bool:
    plan_input = plan.get("situation")
    return isinstance(plan_input, Mapping) and int_in(plan_input, "warm") > 0


def _needs_breakpoints(record: Mapping[str, object]) -> bool:
    """Whether the provider of a request caches nothing without a breakpoint."""
    wire = WIRES.get(str(record.get("wire")))
    return wire is not None and wire.cache.is_explicit


def add_usage(first: Usage, second: Usage) -> Usage:
    return Usage(
        input=first.input + second.input,
        cache_read=first.cache_read + second.cache_read,
        cache_write=first.cache_write + second.cache_write,
        output=first.output + second.output,
        cache_write_1h=first.cache_write_1h + second.cache_write_1h,
    )
