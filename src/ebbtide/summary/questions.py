"""What one compaction asks: a model for a summary, and the harness for files and notes as they are now.

First the whole range is asked about. If that was too much for the model, its parts are asked about. If no answer can be
used, the earlier summary and the facts are enough, so a compaction never depends on a model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from ebbtide.core.plan_input import PlanInput
from ebbtide.core.text.framing import GENERIC_TAG, TAG_BY_SOURCE, frame
from ebbtide.core.types import HARNESS, OURS, QUOTED, Answer, Item, Question
from ebbtide.summary.entry_range import CoveredRange, total_tokens
from ebbtide.summary.prompts import PromptInput, detect_language, quote_in_chunks, quote_items
from ebbtide.summary.sections import merge_summaries

RETRY_SMALLER = frozenset(("overflow", "cut", "too long"))
"""Failures that a smaller question may avoid."""
CHUNK_TOKENS = 24_000
"""Quoted history in a smaller question: with its answer it fits the smallest windows."""


class SummaryQuestions:
    """The questions of one compaction and the answers that are known."""

    def __init__(self, by: str, covered: CoveredRange, plan_input: PlanInput, max_summary_tokens: int) -> None:
        self._by, self._covered, self._plan_input = by, covered, plan_input
        self._compaction, self._answers = plan_input.compaction, plan_input.compaction.answers
        self._max_tokens = max_summary_tokens

    def unanswered(self) -> Iterator[Question]:
        """What must be answered before the compaction can be written."""
        if self._compaction.live and self._live_question.key not in self._answers:
            yield self._live_question
        if self._compaction.summary or not self._compaction.asks:
            return
        if self._main_question.key not in self._answers:
            yield self._main_question
        if self.main_answer is not None and self.main_answer.failed in RETRY_SMALLER:
            yield from (question for question in self._part_questions if question.key not in self._answers)

    @property
    def main_answer(self) -> Answer | None:
        """The answer about the whole range, if there is one."""
        return self._answers.get(self._main_question.key)

    def best_summary(self) -> Answer:
        """A person's summary, the whole answer, the answers to the parts, or else the earlier summary."""
        prior = self._covered.prior_summary
        unasked = Answer(key="", first="", last="", text=prior, failed="nobody was asked")
        if self._compaction.summary:
            return replace(unasked, text=self._compaction.summary, failed="")
        if not self._compaction.asks and not self._answers:
            return unasked
        main = self.main_answer
        if main is None:
            return unasked
        if not main.failed:
            return replace(main, text=self._merge([main.text]))
        if main.failed not in RETRY_SMALLER:
            return unasked
        parts = [self._answers.get(question.key) for question in self._part_questions]
        usable = [part for part in parts if part is not None and not part.failed]
        if not usable:
            return unasked
        analysis = "\n\n".join(part.analysis for part in usable if part.analysis)
        return replace(unasked, text=self._merge([part.text for part in usable]), analysis=analysis, failed="")

    def live_items(self) -> tuple[Item, ...]:
        """Files and notes as they are now. A file's text is data; a note comes from the harness."""
        answer = self._answers.get(self._live_question.key) if self._compaction.live else None
        rows = json.loads(answer.text or "[]") if answer else ()
        return tuple(self._live_item(str(row.get("source", "")), str(row.get("text", ""))) for row in rows)

    def _live_item(self, source: str, content: str) -> Item:
        body = content if source == "file" else f"{source}:\n{content}"
        text = frame(TAG_BY_SOURCE.get(source, GENERIC_TAG), body)
        trust = QUOTED if source == "file" else HARNESS
        tokens = self._plan_input.count_tokens(text)
        return Item(id="", message=-1, role="user", kind="text", text=text, tokens=tokens, trust=trust, source=OURS)

    def _merge(self, summaries: Sequence[str]) -> str:
        """The earlier summary followed by these, without rewording."""
        merged = self._covered.prior_summary
        for summary in summaries:
            limit = 2 * self._max_tokens
            merged = merge_summaries(merged, summary, max_tokens=limit, count=self._plan_input.count_tokens)
        return merged

    @cached_property
    def _main_question(self) -> Question:
        is_quoted = self._covered.layout.answer_mode == "transcript"
        count = self._plan_input.count_tokens
        return self._question(quote_items(self._covered.quotable, count=count) if is_quoted else "")

    @cached_property
    def _part_questions(self) -> list[Question]:
        tokens = min(CHUNK_TOKENS, self._plan_input.budget.window // 3)
        chunks = quote_in_chunks(self._covered.quotable, tokens=tokens, count=self._plan_input.count_tokens)
        return [self._question(chunk) for chunk in chunks]

    @cached_property
    def _live_question(self) -> Question:
        paths = [fact.path for fact in reversed(self._covered.facts.files_read)]
        first, last = self._covered.span
        return Question(
            by=self._by, first=first, last=last, prompt=json.dumps(paths, ensure_ascii=False), answer_mode="live"
        )

    def _question(self, quoted: str) -> Question:
        """Without a quotation the model is asked in the conversation itself."""
        covered = self._covered
        prompt = covered.layout.write_prompt(
            PromptInput(
                max_tokens=self._max_tokens,
                focus=self._compaction.focus,
                instructions=self._compaction.instructions,
                prior_summary=covered.prior_summary,
                tokens=total_tokens(covered.entries),
                language=detect_language(item.text[:2_000] for item in covered.user_texts),
            )
        )
        return Question(
            by=self._by,
            first=covered.span[0],
            last=covered.span[1],
            prompt=prompt,
            max_tokens=self._max_tokens,
            answer_mode="transcript" if quoted else "prefix",
            quoted=quoted,
        )
