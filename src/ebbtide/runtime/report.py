"""The report on one request, the errors for requests that are too large, and the events of a session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import Any, NamedTuple

from ebbtide.accounting.savings import Savings, compute_savings
from ebbtide.core.planner import Failure, Plan, PlanInput
from ebbtide.core.types import COMPACTION_PASSES, Composition, Edit, Item, Trigger
from ebbtide.core.view import View
from ebbtide.store import LogReader
from ebbtide.wire.protocol import Repair

_log = logging.getLogger("ebbtide")

Listener = Callable[["Event"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in a session. `fields` are those of the reference agents' telemetry, if they have it."""

    kind: str
    """`result_persisted` (R114), `microcompact` (R244), `edit`, `repair`, `fallback`, `store`, `warning`, `cache`."""
    session: str
    fields: Mapping[str, object]


class ReportBasis(NamedTuple):
    """What the larger figures of a report are computed from, when they are asked for."""

    plan_input: PlanInput
    view: View
    """As it was sent."""
    tokens: int
    """Its tokens, by the policy's size rule."""
    overhead: tuple[int, int]
    """Tokens of system prompt and tools."""
    ends: Sequence[int]
    """Estimated tokens up to and with each message."""
    unchanged_messages: int
    """Leading messages that this request's own edits did not change."""
    log: LogReader

    def bill(self) -> tuple[int, float, float]:
        """Return the cached tokens, the input bill, and the bill without any edits; see `Report`."""
        plan_input, tokens = self.plan_input, self.tokens
        prices, scale = plan_input.prices, plan_input.scale
        messages = min(self.unchanged_messages, plan_input.cached_entries)
        warm = min(tokens, round(self.ends[messages - 1] * scale)) if messages else 0
        new = sum(entry.tokens for entry in self.view.entries[plan_input.first_unsent :])
        untouched = self.tokens_untouched()
        cached = max(0, untouched - round(new * scale)) if plan_input.cached_entries else 0
        return (
            warm,
            warm * prices.read + (tokens - warm) * prices.write,
            cached * prices.read + (untouched - cached) * prices.write,
        )

    def tokens_untouched(self) -> int:
        """Return the tokens of the request without any edits."""
        view = self.view
        if not view.edits:
            return self.tokens
        return self.tokens + round((sum(item.tokens for item in view.originals) - view.tokens) * self.plan_input.scale)

    def composition(self) -> Composition:
        kinds: dict[str, int] = {}
        for entry in self.view.entries:
            kinds[entry.kind] = kinds.get(entry.kind, 0) + entry.tokens
        return Composition(system=self.overhead[0], tools=self.overhead[1], messages=kinds)

    def savings(self) -> Savings:
        return compute_savings(self.log.read().records)

    def figures(self) -> ReportFigures:
        return ReportFigures(self.bill(), self.tokens_untouched(), self.composition(), self.savings())


class ReportFigures(NamedTuple):
    """The computed figures. A pickled report holds these, because a log and its lock cannot be pickled."""

    billed: tuple[int, float, float]
    untouched: int
    made_of: Composition
    saved: Savings

    def bill(self) -> tuple[int, float, float]:
        return self.billed

    def tokens_untouched(self) -> int:
        return self.untouched

    def composition(self) -> Composition:
        return self.made_of

    def savings(self) -> Savings:
        return self.saved

    def figures(self) -> ReportFigures:
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One request, before and after."""

    tokens_before: int = 0
    tokens_after: int = 0
    level: str = "calm"
    """Before anything was done."""
    window: int = 0
    auto_at: int = 0
    """Tokens at which the policy acts."""
    edits: tuple[Edit, ...] = ()
    """Made for this request. Earlier ones that still hold are in `held`."""
    held: int = 0
    """Edits that apply to what was sent."""
    marks: tuple[str, ...] = ()
    """Cache breakpoints that we added, as in `messages.41.0`."""
    behind: ReportBasis | ReportFigures | None = field(default=None, repr=False, compare=False)
    """What all else follows from; None where the request was passed through."""
    repairs: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()
    """Files whose content the model no longer sees (R145): a reader should read them again before editing."""
    notes: tuple[str, ...] = ()

    @property
    def context_left(self) -> float:
        """Share left until the policy acts, never below zero (R051)."""
        return max(0.0, 1 - self.tokens_after / self.auto_at) if self.auto_at else 0.0

    @property
    def warm(self) -> int:
        """Tokens that the provider should still have cached."""
        return self.behind.bill()[0] if self.behind else 0

    @property
    def cost(self) -> float:
        """Expected input bill, in tokens at full price: cached ones count for what they cost."""
        return self.behind.bill()[1] if self.behind else 0.0

    @property
    def cost_untouched(self) -> float:
        """The same for the conversation had nothing ever been taken out of it, all but what is new still cached."""
        return self.behind.bill()[2] if self.behind else 0.0

    @property
    def tokens_untouched(self) -> int:
        """What this request would have been had nothing ever been taken out of it."""
        return self.behind.tokens_untouched() if self.behind else 0

    @property
    def savings(self) -> Savings:
        """Of each edit and of the whole session, closed against the bills that are there by now: all that the log says,
        also what was billed after the request was sent."""
        return self.behind.savings() if self.behind else compute_savings(())

    @property
    def made_of(self) -> Composition:
        """The tokens that were sent, by kind, as estimated."""
        return self.behind.composition() if self.behind else Composition()

    @property
    def saved(self) -> int:
        """Tokens that this request's own edits took out."""
        return max(0, self.tokens_before - self.tokens_after)

    # Answers of a wrapped client carry a report, and programs copy and pickle answers.
    def __deepcopy__(self, _: object) -> Report:
        return self

    def __reduce__(self) -> tuple[Callable[[], Report], tuple[()]]:
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return partial(Report, **{**values, "behind": self.behind and self.behind.figures()}), ()

    def as_dict(self) -> dict[str, object]:
        """All of it as plain values, for a log."""
        values: dict[str, object] = {
            item.name: getattr(self, item.name) for item in fields(self) if item.name != "behind"
        }
        values["made_of"] = asdict(self.made_of)
        values["edits"] = [
            {"by": edit.by, "reason": edit.reason, "saved": edit.saved, "first": edit.first, "last": edit.last}
            for edit in self.edits
        ]
        values |= {"warm": self.warm, "cost": self.cost, "cost_untouched": self.cost_untouched}
        return {**values, "context_left": self.context_left, "saved": self.saved}


class Prepared(NamedTuple):
    """A request, ready to be sent."""

    body: Any
    report: Report
    turn: int
    """Which request of the session it is; 0 where nothing was recorded."""
    model: str = ""
    estimated: int = 0
    """Tokens as the estimator counts them, no ratio applied: what the usage will be held against."""
    retried: bool = False
    """Written again after the provider refused it for its size."""
    items: tuple[Item, ...] = ()
    """Its originals: the ids of its reply depend on them, not on requests sent in between."""
    has_cache_fields: bool = False
    """Whether it has a lifetime or a cache key of ours, which some gateways refuse."""
    has_signatures: bool = False
    """Whether it may have signatures that can be left out if they are refused."""


NOTE_OF_FAILURE = "the pass"
"""How a note begins that names a pass which broke."""


def busy_message(report: Report) -> str:
    return (
        f"{report.tokens_after:,} tokens do not fit the window of {report.window:,}, and nothing could be taken out: "
        "the session's log could not be locked. Another process is at work on it, or its store refuses: try again. "
        "`ebb doctor` names a lock that hangs."
    )


def too_large_message(report: Report, limit: int) -> str:
    composition = report.made_of
    parts = {"system": composition.system, "tools": composition.tools, **composition.messages}
    breakdown = ", ".join(
        f"{name} {tokens:,}" for name, tokens in sorted(parts.items(), key=lambda one: -one[1]) if tokens
    )
    # The parts are estimates; the sum rests on a bill, or leaves room for error.
    rest = report.tokens_after - sum(parts.values())
    breakdown += f", as estimated, and {rest:,} that were billed besides or are allowed for error" if rest > 0 else ""
    failed = "".join(f" Besides, {note}." for note in report.notes if note.startswith(NOTE_OF_FAILURE))
    return (
        f"{report.tokens_after:,} tokens do not fit a limit of {limit:,}. They are made of: {breakdown}. "
        "What would help: a larger window, fewer tools, a shorter system prompt, or less in the newest message."
        f"{failed}"
    )


@dataclass(slots=True, kw_only=True)
class EventEmitter:
    """Sends the events of one session to its listener."""

    session: str
    listener: Listener | None = None
    _logged: set[str] = field(default_factory=set)

    def emit(self, kind: str, **fields: object) -> None:
        if self.listener is not None:
            self.listener(Event(kind=kind, session=self.session, fields=fields))

    def emit_request(
        self,
        plan: Plan | None,
        edits: Sequence[Edit],
        notes: Sequence[str],
        repairs: Sequence[Repair],
        trigger: Trigger,
    ) -> None:
        """Emit what happened to one request, with the fields that the reference agents' telemetry has."""
        if self.listener is None:
            return
        if plan is not None and edits:
            for fields in _persisted_fields(plan, edits):
                self.emit("result_persisted", **fields)
            self.emit("microcompact", **_microcompact_fields(plan, edits, trigger))
        for edit in edits:
            self.emit("edit", by=edit.by, reason=edit.reason, saved=edit.saved, id=edit.id)
        for repair in repairs:
            self.emit("repair", rule=repair.rule, path=repair.path)
        for note in notes:
            self.emit("store", message=note)

    def report_failures(self, failures: Sequence[Failure]) -> None:
        """Emit an event for each pass that failed, at every request."""
        for failure in failures:
            self.log_failure(f"the pass {failure.name}", "it is left out", failure.error)
            self.emit("pass_failed", by=failure.name, reason=failure.reason)

    def log_failure(self, name: str, outcome: str, error: Exception) -> None:
        """Log a failure with its traceback, once a session."""
        if name not in self._logged:
            self._logged.add(name)
            _log.error("%s failed; %s", name, outcome, exc_info=error)


def _persisted_fields(plan: Plan, edits: Sequence[Edit]) -> Iterator[dict[str, object]]:
    """R114, for each result whose content was saved to disk."""
    for edit in edits:
        if not edit.blobs or not edit.replacement or edit.by in COMPACTION_PASSES:
            continue
        item, replacement = plan.before.originals[plan.before.index[edit.first]], edit.replacement[0]
        yield {
            "toolName": item.name,
            "originalSizeBytes": len(item.text),
            "persistedSizeBytes": len(replacement.text),
            "estimatedOriginalTokens": item.tokens,
            "estimatedPersistedTokens": replacement.tokens,
        }


def _microcompact_fields(plan: Plan, edits: Sequence[Edit], trigger: Trigger) -> dict[str, object]:
    """R244, once a batch; with what R147 wants in a boundary."""
    replacements = [edit.replacement[0] for edit in edits if edit.replacement]
    return {
        "toolsCompacted": sum(1 for item in replacements if item.kind == "result"),
        "totalUncompactedTokens": plan.tokens_before,
        "tokensAfterCompaction": plan.tokens_after,
        "tokensSaved": sum(edit.saved for edit in edits),
        "triggerType": "manual" if trigger == "manual" else "auto",
        "compactedToolIds": [item.call_id for item in replacements if item.call_id],
    }
