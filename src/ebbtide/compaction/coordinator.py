"""Decides when a model is asked about a compaction, asks, and runs the hooks. A failing hook is only logged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ebbtide.compaction.answer_sources import response_content
from ebbtide.core.edit_layout import mark_history
from ebbtide.core.planner import Pass, Plan, PlanInput
from ebbtide.core.types import COMPACTION_PASSES, QUOTED, USER, Edit, HistoryMark, Item, Question
from ebbtide.core.view import View
from ebbtide.effects import AskModel, RawAnswer, Steps
from ebbtide.state.session_state import ebb_record, history_to_record
from ebbtide.store import Record
from ebbtide.summary.check import SummarySource, check_summary
from ebbtide.summary.layout import read_summary_text
from ebbtide.wire.protocol import Wire
from ebbtide.wire.reader import Request
from ebbtide.wire.summary_request import TextAnswer, read_answer, summary_of_transcript, summary_on_prefix
from ebbtide.wire.validity import repair

_log = logging.getLogger("ebbtide")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Called around every compaction, automatic or manual. An exception from a hook is logged and changes nothing."""

    before: Callable[[Mapping[str, object]], object] | None = None
    """False forbids the compaction this time; a text is added to its focus; anything else lets it go on."""
    after: Callable[[Mapping[str, object]], object] | None = None
    failed: Callable[[Mapping[str, object]], object] | None = None
    """Called when a model's answer could not be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """What a compaction did, or would do."""

    edits: tuple[Edit, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0
    applied: bool = False
    notes: tuple[str, ...] = ()
    again: Callable[[str], Compaction] = field(repr=False, compare=False)

    def apply(self, summary: str = "") -> Compaction:
        """Apply the compaction, with its own summary or with this one. No model is asked again."""
        return self if self.applied and not summary else self.again(summary)

    @property
    def text(self) -> str:
        """All of the replacement text, without the user's own messages."""
        texts = [
            item.text for edit in self.edits if edit.by in COMPACTION_PASSES for item in edit.replacement if not item.id
        ]
        return "\n\n".join(texts)

    @property
    def summary(self) -> str:
        """The model's summary, or the collected facts if no model was asked."""
        for edit in self.edits:
            for item in edit.replacement:
                parts = read_summary_text(item.text) if item.trust == QUOTED and not item.id else None
                if parts is not None:
                    return parts[0] or parts[1]
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualCompaction:
    """What a person wants from a compaction."""

    focus: str = ""
    summary: str = ""
    first: str = ""
    last: str = ""


class PlannedRequest(NamedTuple):
    """A request with its plan, which questions are about."""

    request: Request
    view: View
    plan_input: PlanInput
    plan: Plan
    body: Mapping[str, Any]
    """The request as it would be sent without the plan's edits."""


class CompactionResult(NamedTuple):
    """The plan of a manual compaction, and which of its edits were made or would be."""

    plan: Plan | None
    edits: tuple[Edit, ...]
    notes: tuple[str, ...]


def _questions_of(propose: Pass, view: View, plan_input: PlanInput) -> list[Question]:
    """Return what a compaction pass would ask; nothing if it fails, because the next plan reports the failure."""
    try:
        return [step for step in propose(view, plan_input) if isinstance(step, Question)]
    except Exception:  # noqa: BLE001 - the pass can be a user's
        return []


def _ignore_event(kind: str, **fields: object) -> None:
    """Used without a listener."""


@dataclass(slots=True)
class CompactionCoordinator:
    """The compactions of one session: what can be asked, and what is being asked."""

    can_summarize: bool = False
    """Whether there is a summarizer."""
    model: str = ""
    """The model to ask, if it is not the conversation's own."""
    can_read_live: bool = False
    """Whether files and notes can be read as they are now."""
    recall_mode: str = "path"
    """How the model can read removed content. A session keeps the mode of its first request."""
    is_asking: bool = False
    """Whether a model is being asked in the background."""
    background: PlannedRequest | None = None
    """What the background questions are about. Their answers are checked against it, not against later requests."""
    hooks: Hooks = field(default_factory=Hooks)
    emit: Callable[..., None] = _ignore_event

    def run_before_hook(
        self, plan: Plan, plan_input: PlanInput, manual: ManualCompaction | None
    ) -> tuple[ManualCompaction | None, bool]:
        """Run the `before` hook. Return the settings with its focus added, and whether it allows the compaction."""
        fields = {"trigger": plan_input.trigger, "tokens": plan_input.tokens, "asks": bool(plan.questions)}
        self.emit("fold_begins", **fields)
        reply = self._run_hook(self.hooks.before, fields)
        if isinstance(reply, str) and reply.strip():
            current = manual or ManualCompaction()
            manual = replace(current, focus="\n".join(filter(None, (current.focus, reply.strip()))))
        return manual, reply is not False

    def ask(self, planned: PlannedRequest) -> Steps[list[Record]]:
        """Ask every question of a plan, and return the answers as records."""
        request, view, plan_input, plan, body = planned
        count, now = plan_input.count_tokens, plan_input.now
        room = plan_input.budget.window - plan_input.tokens
        records: list[Record] = []
        for question in plan.questions:
            if question.answer_mode == "prefix" and count(question.prompt) + question.max_tokens > room:
                # It does not fit, so there is no need to ask: the next plan asks about less.
                records.append(unanswered_record(question, "overflow", now, request.items))
                continue
            effect = build_question(question, request, body, self.model)
            self.emit("fold_asks", way=question.answer_mode, first=question.first, last=question.last)
            answer = (yield effect) if effect else RawAnswer(failure="the request cannot be asked about")
            if not isinstance(answer, RawAnswer):
                answer = RawAnswer(failure="no answer")
            sent_question = effect or AskModel(question, {}, mark_history(request.items))
            records.append(check_answer(sent_question, answer, view, request.wire, count, now))
            if failure := records[-1].get("failed"):
                fields = {"way": question.answer_mode, "reason": failure}
                self.emit("fold_failed", **fields)
                self._run_hook(self.hooks.failed, fields)
        return records

    def background_questions(self, passes: Sequence[Pass], planned: PlannedRequest) -> list[AskModel]:
        """Return what the next compaction would ask, once the soft threshold is reached."""
        request, view, plan_input, plan, body = planned
        if plan.edits or not self.can_summarize or self.is_asking:
            return []
        if not plan_input.budget.levels.is_reached(plan.tokens_after, "soft"):
            return []
        forced = plan_input._replace(trigger="overflow", compaction=plan_input.compaction._replace(asks=True))
        questions = [question for propose in passes for question in _questions_of(propose, view, forced)]
        effects = [build_question(question, request, body, self.model) for question in questions]
        self.background = planned
        return [effect for effect in effects if effect is not None]

    def announce(self, plan: Plan, edits: Sequence[Edit]) -> None:
        compactions = [edit for edit in edits if edit.by in COMPACTION_PASSES]
        if compactions:
            fields = {
                "tokens_before": plan.tokens_before,
                "tokens_after": plan.tokens_after,
                "by": compactions[-1].reason,
            }
            self.emit("folded", **fields)
            self._run_hook(self.hooks.after, fields)

    def _run_hook(self, hook: Callable[[Mapping[str, object]], object] | None, fields: Mapping[str, object]) -> object:
        if hook is None:
            return None
        try:
            return hook(fields)
        except Exception:  # noqa: BLE001 - a listener that breaks must not break the session
            _log.exception("a hook failed")
            return None


# --- questions and answers --------------------------------------------------------------------------------------------


def build_question(question: Question, request: Request, tree: Mapping[str, Any], model: str) -> AskModel | None:
    """Build a valid request that asks the question, on the cached prefix if possible. None if that cannot be done."""
    history = mark_history(request.items)
    if question.answer_mode == "live":
        return AskModel(question, {}, history)
    if question.answer_mode == "transcript":
        body = summary_of_transcript(
            request.wire,
            model=model or request.model,
            prompt=question.prompt,
            quoted=question.quoted,
            max_tokens=question.max_tokens,
        )
    else:
        prefix_body = summary_on_prefix(request.wire, tree, question.prompt, question.max_tokens)
        if prefix_body is None:
            return None
        body = {**prefix_body, "model": model} if model else prefix_body
    return AskModel(question, dict(repair(request.wire, body)[0]), history)


def check_answer(
    sent_question: AskModel, raw_answer: RawAnswer, view: View, wire: Wire, count: Callable[[str], int], now: float
) -> Record:
    """Return the answer as a record: its usable text, or why there is none."""
    question = sent_question.question
    fields = _question_fields(question, sent_question.history)
    if raw_answer.failure:
        return ebb_record("answer", at=now, **fields, failed=raw_answer.failure)
    answer = response_content(raw_answer.response)
    if question.answer_mode == "live":
        return ebb_record("answer", at=now, **fields, text=answer if isinstance(answer, str) else "[]")
    reply = TextAnswer(text=answer, stopped="end", usage=None) if isinstance(answer, str) else read_answer(wire, answer)
    stopped = _STOP_REASONS.get(reply.stopped, reply.stopped)
    checked = check_summary(
        reply.text, summary_source(question, view), stop_reason=stopped, max_tokens=question.max_tokens, count=count
    )
    usage = reply.usage
    bill = {"input": usage.input, "output": usage.output, "cache_read": usage.cache_read} if usage else {}
    dropped = [[part.text, part.reason] for part in checked.dropped]
    return ebb_record(
        "answer", at=now, **fields, text=checked.text, analysis=checked.analysis, struck=dropped,
        failed=checked.faults[0] if checked.faults else "", usage=bill,
    )  # fmt: skip


def unanswered_record(question: Question, reason: str, now: float, items: Sequence[Item]) -> Record:
    """Record that a question was not asked. It does not count as a failure of the summarizer."""
    return ebb_record("answer", at=now, **_question_fields(question, mark_history(items)), failed=reason, asked=False)


def _question_fields(question: Question, history: HistoryMark | None) -> dict[str, object]:
    """Say which question a record answers, and about which conversation."""
    fields = {
        "key": question.key,
        "by": question.by,
        "way": question.answer_mode,
        "first": question.first,
        "last": question.last,
    }
    return {**fields, "history": history_to_record(history)}


_STOP_REASONS = {"tool": "tool_use"}


def summary_source(question: Question, view: View) -> SummarySource:
    """Return what the question is about: the originals, and the texts of earlier compactions."""
    start, end = view.index.get(question.first), view.index.get(question.last)
    items = view.originals[start : end + 1] if start is not None and end is not None else ()
    return SummarySource(
        texts=[
            *(item.text for item in items),
            *(entry.text for entry in view.entries if entry.id in view.edit_by_entry),
        ],
        user_texts=[item.text for item in items if item.role == "user" and item.trust <= USER],
        tool_outputs=[item.text for item in items if item.kind == "result"],
        tokens=sum(item.tokens for item in items),
    )
