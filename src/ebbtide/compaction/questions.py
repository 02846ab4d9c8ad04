"""Turns a plan's question into a request, and checks the answer against the conversation.

The log records the checked answer, so a plan that is repeated from the log uses the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ebbtide.compaction.answer_sources import response_content
from ebbtide.core.edit_binding import mark_history
from ebbtide.core.plan_input import CompactionInput
from ebbtide.core.types import USER, HistoryMark, Item, Question
from ebbtide.core.view import View
from ebbtide.effects import AskModel, RawAnswer
from ebbtide.state.session_state import SessionState, ebb_record, history_to_record
from ebbtide.store import Record
from ebbtide.summary.check import SummarySource, check_summary
from ebbtide.wire.protocol import Wire
from ebbtide.wire.reader import Request
from ebbtide.wire.summary_request import TextAnswer, read_answer, summary_of_transcript, summary_on_prefix
from ebbtide.wire.validity import repair

MAX_USELESS_ANSWERS = 3
"""Useless answers in a row after which no model is asked automatically (R251)."""
MAX_STALLED = 2
"""Compactions in a row without effect, after which none is made automatically below the hard level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualCompaction:
    """What a person wants from a compaction."""

    focus: str = ""
    summary: str = ""
    first: str = ""
    last: str = ""


_RECORDED_FIELDS = (
    "asks",
    "live",
    "focus",
    "instructions",
    "summary",
    "first",
    "last",
    "after",
    "stalled",
    "waiting",
    "way",
    "transcript",
    "tool",
)


def compaction_input_to_record(compaction: CompactionInput) -> Record:
    """Return the compaction input as a record, without answers and sub-agents, which have separate records."""
    return {name: getattr(compaction, name) for name in _RECORDED_FIELDS} | {
        "instructions": list(compaction.instructions)
    }


def compaction_input_from_record(record: Mapping[str, Any], state: SessionState) -> CompactionInput:
    """Read back what `compaction_input_to_record` wrote."""
    fields = {name: record[name] for name in _RECORDED_FIELDS if name in record}
    fields["instructions"] = tuple(map(str, record.get("instructions", ())))
    return CompactionInput(**fields, answers=state.answers, children=finished_children(state))


def finished_children(state: SessionState) -> tuple[tuple[str, str], ...]:
    """Return the finished sub-agents, each with its result."""
    return tuple((name, result) for name, result in state.children.items() if result is not None)


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
