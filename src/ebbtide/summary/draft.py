"""One compaction: the edit that replaces a range of old entries by a summary, facts and the user's own messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from ebbtide.core import texts
from ebbtide.core.edit_layout import is_movable
from ebbtide.core.edit_rules import old_note_ids, protected_ids
from ebbtide.core.offload import HISTORY, Offloader, original_of
from ebbtide.core.planner import PlanInput
from ebbtide.core.stub import render as render_stub
from ebbtide.core.text.framing import GENERIC_TAG, TAG_BY_SOURCE, frame
from ebbtide.core.tool_calls import write_transcript
from ebbtide.core.types import HARNESS, OURS, QUOTED, Answer, Blob, Edit, Item, Question, SourceScope
from ebbtide.facts import CollectFacts, collect_facts, find_missing, render_facts, required_facts
from ebbtide.facts.model import to_one_line
from ebbtide.summary.layout import SummaryContent, SummaryLayout, carry_operator_notes, carry_user_messages
from ebbtide.summary.prompts import PromptInput, detect_language, quote_in_chunks, quote_items
from ebbtide.summary.ranges import (
    USER_MESSAGE_SHARE,
    CoveredRange,
    EntryRange,
    is_user_text,
    newest_user_message,
    to_estimate,
    total_tokens,
)
from ebbtide.summary.sections import merge_summaries

TARGET_TOKENS = 24_000
"""What a compaction leaves if it can: facts, the user's messages and the tail."""
_NOTE_SHARE = 0.1
"""Share of the window that old notes of the operator may take unchanged."""
_FRAME_TOKENS = 300
"""Of our text around a summary's parts."""
_LAST_RESORT_MESSAGE_SHARE = 0.6
"""Share of a last resort that the user's messages may take. With more, the next request would compact again."""
_MAX_WHOLE_RESULT = 300
"""Tokens of a result that stays whole before a report of what followed it."""
_MAX_REQUIRED_FACTS = 12
"""Changed files, open to-dos and errors that are listed even if the facts had no room for them."""

Content = tuple[tuple[Item, ...], tuple[Blob, ...]]
"""Items, and the blobs that must be saved for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLimits:
    """Tokens that the parts of a compaction may take."""

    facts: int
    summary: int
    is_fixed: bool = False
    """Whether these hold whatever room there is, because the range is one of many."""
    total: int | None = None
    """Of the whole compaction, if it is a last resort."""

    def max_summary(self, window: int) -> int:
        # Part of the question, so it must not depend on the tail, or an answer asked for ahead would not fit. A
        # twelfth of the window is a sixth of the low threshold, which tail, facts and messages share.
        return self.summary if self.is_fixed else max(100, min(self.summary, window // 12))

    def share(self, parts: int) -> float:
        """What one of so many parts of a last resort may take; without a total, parts have their own limits."""
        return inf if self.total is None else max(0, self.total // parts)


class CompactionDraft:
    """One compaction of one pass: its questions, and its edit with the answers that are known."""

    def __init__(
        self,
        *,
        offloader: Offloader,
        layout: SummaryLayout,
        entry_range: EntryRange,
        limits: TokenLimits,
        collect: CollectFacts = collect_facts,
    ) -> None:
        self.offloader, self.layout, self.limits = offloader, layout, limits
        self.view, self.plan_input = offloader.view, offloader.plan_input
        self.covered = CoveredRange(self.view, entry_range, layout, collect)
        self._window, self._count = self.plan_input.budget.window, self.plan_input.count_tokens
        self._max_summary = limits.max_summary(self._window)
        self.questions = SummaryQuestions(offloader.by, self.covered, self.plan_input, self._max_summary)

    @property
    def tokens(self) -> int:
        """Of the entries that it replaces."""
        return total_tokens(self.covered.entries)

    @cached_property
    def edit(self) -> Edit:
        summary = self.questions.best_summary()
        # The client may move or drop its reminders while the compaction stays. The log has them.
        lasting = [item for item in self.covered.uncompacted if not is_movable(item)]
        path, blobs = self.offloader.save_blob(HISTORY, write_transcript(lasting))
        content, content_blobs = self._content(summary, path)
        replacement = self._fit_to_next_entry(self.layout.write_summary(content), content)
        if self.covered.entry_range.stay_count:
            replacement, blobs = self._append_to_result(replacement, blobs)
        return Edit(
            by=self.offloader.by,
            first=self.covered.span[0],
            last=self.covered.span[1],
            replacement=replacement,
            reason=f"old turns replaced by {self._author(summary)}",
            saved=self.tokens - total_tokens(replacement),
            blobs=(*blobs, *content_blobs),
            made_of=self._source_scope(summary, content.live_content),
        )

    def _content(self, summary: Answer, history_path: str) -> tuple[SummaryContent, tuple[Blob, ...]]:
        user_messages, message_blobs = self._user_messages()
        kept_items, note_blobs = self._items_that_stay()
        compaction = self.plan_input.compaction
        first_turn, last_turn = self.covered.turn_numbers()
        is_off = compaction.way == "off"
        content = SummaryContent(
            summary=summary.text if self._count(summary.text) <= self.limits.share(4) else "",
            analysis=summary.analysis,
            facts=self._facts,
            project_instructions=self._project_instructions,
            user_messages=user_messages,
            live_content=self.questions.live_items(),
            kept_items=kept_items,
            first_turn=first_turn,
            last_turn=last_turn,
            user_count=self.covered.message_count("user"),
            assistant_count=self.covered.message_count("assistant"),
            is_automatic=self.plan_input.trigger != "manual",
            transcript_path=compaction.transcript,
            history_path="" if is_off else history_path,
            is_saved=bool(history_path) or is_off,
            recall_tool=compaction.tool,
            next_is_user=self.covered.next_is_user,
            count=self._count,
        )
        return content, (*message_blobs, *note_blobs)

    def _author(self, summary: Answer) -> str:
        if self.plan_input.compaction.summary:
            return "a person's summary"
        return "collected facts" if summary.failed or not summary.text else "a model's summary"

    def _source_scope(self, summary: Answer, live_content: Sequence[Item]) -> SourceScope:
        """A model may mention what follows the range. Facts and the user's messages are of the range alone."""
        if summary.text:
            return "all"
        return "lasting" if live_content or self.plan_input.compaction.children else "covered"

    def _fit_to_next_entry(self, items: tuple[Item, ...], content: SummaryContent) -> tuple[Item, ...]:
        """Add what must stand between the summary and the next entry, or the wire would repair it on every request."""
        next_entry = self.covered.tail[0] if self.covered.tail else None
        answer = content.make_item(texts.SUMMARY_ACKNOWLEDGEMENT, role="assistant")
        last_role = items[-1].role
        if next_entry is not None and next_entry.kind == "thinking" and last_role in ("assistant", "tool"):
            # In one turn with the next entry it would precede the thinking, which must come first (A37).
            return (*items, *(() if last_role == "assistant" else (answer,)), content.make_item(texts.GO_ON))
        # A note of the operator follows a user message and precedes an assistant message (A3).
        if next_entry is not None and next_entry.role == "system" and last_role == "assistant":
            return (*items, content.make_item(texts.GO_ON))
        if last_role == "system" and self.covered.next_is_user:
            return (*items, answer)
        return items

    def _append_to_result(self, items: Sequence[Item], blobs: tuple[Blob, ...]) -> Content:
        """Append the report of an open loop's steps to the result before them. A long result shows its stub."""
        result, *others = self.covered.entries[: self.covered.entry_range.stay_count]
        result = original_of(self.view, result)
        result_text = result.text
        if result.tokens > _MAX_WHOLE_RESULT:
            stub = self.offloader.stub_result(result, render_stub, "")
            result_text, blobs = stub.replacement[0].text, (*blobs, *stub.blobs)
        text = "\n\n".join((result_text, *(item.text for item in items)))
        tokens = self.offloader.count_tokens(result, text)
        report = replace(result, id="", message=-1, text=text, tokens=tokens, source=OURS, raw=None)
        return (report, *(entry if entry.id in self.view.index else replace(entry, id="") for entry in others)), blobs

    @cached_property
    def _room(self) -> int:
        """Estimated tokens that the compaction may take for the request to come down to the low threshold."""
        low = to_estimate(self.plan_input, self.plan_input.budget.levels.low)
        return max(0, low - total_tokens(self.covered.tail) - total_tokens(self._project_instructions))

    @property
    def _max_user_messages(self) -> int:
        half = round(self._window * USER_MESSAGE_SHARE)
        used = total_tokens(self._project_instructions) + self._count(self._facts)
        total = self.limits.total
        if total is not None:
            used += total_tokens(self._items_that_stay()[0]) + _FRAME_TOKENS
            return max(0, min(half, round(total * _LAST_RESORT_MESSAGE_SHARE), total - used))
        hard = to_estimate(self.plan_input, self.plan_input.budget.levels.hard)
        return max(100, min(half, hard - total_tokens(self.covered.tail) - used - self._max_summary))

    @property
    def _max_facts(self) -> int:
        """Fewer facts if much else stays, but at least half of them."""
        if self.limits.is_fixed:
            return self.limits.facts
        beside = total_tokens(self.covered.tail) + total_tokens(self.covered.user_texts)
        wanted = max(self.limits.facts // 2, min(self.limits.facts, TARGET_TOKENS - beside))
        return max(self._min_facts, min(wanted, self._room // 3))

    @property
    def _min_facts(self) -> int:
        """Even with hardly any room, a thirty-second of the window still names the files."""
        return max(150, self._window // 32)

    @cached_property
    def _facts(self) -> str:
        nearby = "\n".join(item.text[-20_000:] for item in (*self.covered.tail, *self.covered.user_texts))
        facts, limit = self.covered.facts, self._max_facts
        if self.limits.total is not None:
            limit = min(limit, self.limits.total // 4)
            if limit < self._min_facts:
                return ""
            return render_facts(facts, max_tokens=limit, count=self._count, nearby_text=nearby)
        has_handles = self.plan_input.blob_names is not None
        text = render_facts(facts, max_tokens=limit, count=self._count, nearby_text=nearby, has_handles=has_handles)
        absent = find_missing(required_facts(facts), f"{text}\n{nearby}")[:_MAX_REQUIRED_FACTS]
        if absent:
            text += "\n" + "\n".join((texts.REQUIRED_FACTS, *(f"- {fact.kind}: {fact.text}" for fact in absent)))
        children = self.plan_input.compaction.children
        results = [texts.sub_agent_result(name, to_one_line(result, 600)) for name, result in children]
        sub_agents = "\n".join((texts.SUB_AGENT_RESULTS, *results)) if results else ""
        return "\n\n".join(part for part in (text, sub_agents) if part)

    @cached_property
    def _project_instructions(self) -> tuple[Item, ...]:
        """What the harness wrote before the assistant's first message, unless it fills a quarter of the window."""
        items: list[Item] = []
        for item in self.covered.originals:
            if item.role == "assistant":
                break
            if item.role == "user" and item.kind == "text" and item.trust == HARNESS and item.source != OURS:
                items.append(item)
        return tuple(items) if total_tokens(items) <= min(self._window // 4, self.limits.share(4)) else ()

    def _items_that_stay(self) -> Content:
        """What stays in any case: the operator's messages, pinned and locked items, with what belongs to them.

        User messages come first, because they join the message that the summary begins.
        """
        old_ids = old_note_ids(self.view)
        notes = [item for item in self.covered.originals if item.id in old_ids]
        limit = int(min(round(self._window * _NOTE_SHARE), self.limits.share(8)))
        recent, listed, blobs = carry_operator_notes(
            notes, limit=limit, count=self._count, save_blob=self.offloader.save_blob
        )
        ids = protected_ids(self.view) | {item.id for item in recent}
        ids -= {item.id for item in self._project_instructions} | self._newest_ids
        items = [item for item in self.covered.originals if item.id in ids]
        return (*listed, *sorted(items, key=lambda item: item.role != "user")), blobs

    def _user_messages(self) -> Content:
        newest = self._newest_ids
        messages = [
            item for item in self.covered.originals if (is_user_text(item) and not item.pinned) or item.id in newest
        ]
        if not messages:
            return (), ()
        shortened = {
            edit.first: edit.replacement[0]
            for edit in self.view.active_edits
            if edit.first == edit.last and len(edit.replacement) == 1 and edit.replacement[0].kind == "text"
        }
        current = [replace(shortened[item.id], id="") if item.id in shortened else item for item in messages]
        return carry_user_messages(
            messages,
            current,
            limit=self._max_user_messages,
            count=self._count,
            save_blob=self.offloader.save_blob,
            whole_count=sum(item.id in newest for item in messages),
            may_shorten=self.limits.total is None,
        )

    @property
    def _newest_ids(self) -> frozenset[str]:
        """The user's newest message, which goes with the user's other messages whether or not it is pinned."""
        return newest_user_message(self.view) if self.layout.keeps_newest_message else frozenset()


# --- questions --------------------------------------------------------------------------------------------------------


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
        unasked = Answer(key="", first="", last="", text=prior, failed="not asked")
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
