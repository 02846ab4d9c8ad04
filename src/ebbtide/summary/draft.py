"""One fold in the making: what it asks, and what it writes down. Pure; the passes decide which run it is about.

The ladder never ends without a fold: a whole answer, answers to its parts, what an earlier fold said, and the ledger's
facts, which need nobody.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from math import inf

from ebbtide.core.cuts import covered_range
from ebbtide.core.edit_binding import is_movable
from ebbtide.core.edit_rules import old_note_ids, protected_ids
from ebbtide.core.offload import HISTORY, Offloader, original_of
from ebbtide.core.planner import PlanInput
from ebbtide.core.stub import render as stub_of
from ebbtide.core.text.framing import GENERIC_TAG, TAG_BY_SOURCE, frame
from ebbtide.core.texts import SUMMARY_ACKNOWLEDGEMENT
from ebbtide.core.types import (
    COMPACTION_PASSES,
    HARNESS,
    OURS,
    QUOTED,
    USER,
    Answer,
    Blob,
    Edit,
    Item,
    Question,
    SourceScope,
)
from ebbtide.core.view import View
from ebbtide.facts import SessionFacts, collect_facts, find_missing, render_facts, required_facts
from ebbtide.facts.text import to_one_line
from ebbtide.summary.layout import SummaryContent, SummaryLayout
from ebbtide.summary.prompts import PromptInput, detect_language, quote_in_chunks, quote_items, write_transcript
from ebbtide.summary.sections import merge_summaries
from ebbtide.summary.user_messages import carry_operator_notes, carry_user_messages

SMALLER = frozenset(("overflow", "cut", "too long"))
"""Failures that a smaller question may cure."""
CHUNK = 24_000
"""Tokens of quoted history in a smaller question: it fits the smallest windows that are sold, with its answer."""
ALTOGETHER = 24_000
"""Tokens that a fold leaves where it can: facts, the user's words and the tail. With the frame about it 25,000."""
WORDS = 0.5
"""Share of the window that the user's words may take as they are."""
NOTES = 0.1
"""Share of the window that old notes of the operator may take as they are: less than a fold's own facts."""
GO_ON = "Go on from there."
"""Between a summary in the assistant's own words and a step of the loop that is still open."""
FRAME = 300
"""Tokens of the words around a fold's parts."""
PICTURES = ("image", "document")
_OF_WORDS = 0.6
"""Share of a last resort that the user's words may take: what comes next must find room, or all folds again."""
_BRIEF = 300
"""Tokens of a result that stays whole beside a report of what came after it."""
_MUST = 12
"""Changed files, open to-dos and errors that are told even where the facts had no room for them: the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRange:
    """Entries that fold: from, and up to."""

    start: int
    stop: int
    inside: int = 0
    """For steps of an open loop: how many entries at the beginning stay. The first is a result, and takes up what
    stands for the steps: the assistant's turn must open with its thinking (A37), so no message may come between."""


def is_summary_entry(view: View, entry: Item) -> bool:
    """Whether a fold left this here, in this view or in one that the client feeds back."""
    owner = view.edit_by_entry.get(entry.id)
    if owner is not None:
        return owner.by in COMPACTION_PASSES
    return entry.source == OURS and entry.kind == "text"


def estimated(situation: PlanInput, level: int) -> int:
    """A level of the gauge, in estimated tokens of the view."""
    return max(0, round(level / (situation.scale or 1.0)) - situation.budget.overhead)


@dataclass(kw_only=True)
class CompactionDraft:
    """One fold of one pass."""

    leaving: Offloader
    """Of the pass: what folds in one plan shares no name on the shelf."""
    shape: SummaryLayout
    run: EntryRange
    facts: int
    """Tokens that the ledger's facts may have."""
    cap: int
    """Tokens that the summary may have."""
    fixed: bool = False
    """Whether these hold whatever room there is: the run is one of many."""
    most: int | None = None
    """Tokens that the whole fold may take, where it is made as a last resort; None for what its parts are worth."""

    @property
    def tokens(self) -> int:
        """What leaves, as it is now."""
        return sum(entry.tokens for entry in self._entries)

    @property
    def answer(self) -> Answer | None:
        """What was said of the whole run, if somebody was asked."""
        return self.situation.compaction.answers.get(self._ask(self.shape.answer_mode).key)

    @property
    def by(self) -> str:
        return self.leaving.by

    @property
    def view(self) -> View:
        return self.leaving.view

    @property
    def situation(self) -> PlanInput:
        return self.leaving.plan_input

    def open_questions(self) -> Iterator[Question]:
        """What somebody must answer before the fold can be written."""
        answers = self.situation.compaction.answers
        if self.situation.compaction.live and self._live_ask.key not in answers:
            yield self._live_ask
        yield from (ask for ask in self._ladder() if ask.key not in answers)

    @cached_property
    def edit(self) -> Edit:
        """The fold, with the answers there are."""
        written = self._written()
        # The fold may stand where other reminders are. The log has them.
        lasting = [item for item in self._unfolded if not is_movable(item)]
        path, blobs = self.leaving.save_blob(HISTORY, write_transcript(lasting))
        front = self._front
        words, more = self._words()
        operator, listed = self._operator()
        live = tuple(self._live())
        first, last = self._turns()
        fold = SummaryContent(
            summary=written.text if self.situation.count_tokens(written.text) <= self._share(4) else "",
            analysis=written.analysis,
            facts=self._digest,
            project_instructions=front,
            user_messages=words,
            live_content=live,
            kept_items=operator,
            first_turn=first,
            last_turn=last,
            user_count=len({item.message for item in self._covered if item.role == "user"}),
            assistant_count=len({item.message for item in self._covered if item.role == "assistant"}),
            is_automatic=self.situation.trigger != "manual",
            transcript_path=self.situation.compaction.transcript,
            history_path="" if self.situation.compaction.way == "off" else path,
            is_saved=bool(path) or self.situation.compaction.way == "off",
            recall_tool=self.situation.compaction.tool,
            next_is_user=self._next_is_user(),
            count=self.situation.count_tokens,
        )
        put = self._fitted_in(self.shape.write_summary(fold), fold)
        if self.run.inside:
            put, blobs = self._joined(put, blobs)
        by = "the ledger's facts" if written.failed or not written.text else "a model's summary"
        by = "a person's summary" if self.situation.compaction.summary else by
        return Edit(
            by=self.by,
            first=self._span[0],
            last=self._span[1],
            replacement=put,
            reason=f"old turns folded into {by}",
            saved=self.tokens - sum(item.tokens for item in put),
            blobs=(*blobs, *more, *listed),
            made_of=self._made_of(written, live),
        )

    def _made_of(self, summary: Answer, live: Sequence[Item]) -> SourceScope:
        """A model may say what stands behind the run. Facts and the user's words are of the run alone."""
        if summary.text:
            return "all"
        return "lasting" if live or self.situation.compaction.children else "covered"

    def _fitted_in(self, put: tuple[Item, ...], fold: SummaryContent) -> tuple[Item, ...]:
        """With what must stand between the fold and what follows it: the wire would have to mend it on every turn."""
        after = next(iter(self.view.entries[self.run.stop : self.run.stop + 1]), None)
        if after is not None and after.kind == "thinking" and put[-1].role in ("assistant", "tool"):
            # In one turn with what follows, it would stand before the thinking that must open it (A37).
            answer = () if put[-1].role == "assistant" else (fold.make_item(SUMMARY_ACKNOWLEDGEMENT, role="assistant"),)
            return (*put, *answer, fold.make_item(GO_ON))
        # A note of the operator follows the user's side and precedes the assistant's (A3).
        if after is not None and after.role == "system" and put[-1].role == "assistant":
            return (*put, fold.make_item(GO_ON))
        if put[-1].role == "system" and self._next_is_user():
            return (*put, fold.make_item(SUMMARY_ACKNOWLEDGEMENT, role="assistant"))
        return put

    def _joined(self, put: Sequence[Item], blobs: tuple[Blob, ...]) -> tuple[tuple[Item, ...], tuple[Blob, ...]]:
        """The result before the steps, and in it the report of them. A long one shows its stub."""
        result, *stay = self._entries[: self.run.inside]
        result = original_of(self.view, result)
        told, more = result.text, tuple[Blob, ...]()
        if result.tokens > _BRIEF:
            stub = self.leaving.stub_result(result, stub_of, "")
            told, more = stub.replacement[0].text, stub.blobs
        text = "\n\n".join((told, *(item.text for item in put)))
        tokens = self.leaving.count_tokens(result, text)
        joined = replace(result, id="", message=-1, text=text, tokens=tokens, source=OURS, raw=None)
        kept = (entry if entry.id in self.view.index else replace(entry, id="") for entry in stay)
        return (joined, *kept), (*blobs, *more)

    # Asking.

    def _ladder(self) -> Iterator[Question]:
        """The whole run first; where that was too much, its parts."""
        folding = self.situation.compaction
        if folding.summary or not folding.asks:
            return
        whole = self._ask(self.shape.answer_mode)
        yield whole
        answer = folding.answers.get(whole.key)
        if answer is not None and answer.failed in SMALLER:
            yield from self._parts

    def _ask(self, way: str, quoted: str = "") -> Question:
        folding = self.situation.compaction
        prompt = self.shape.write_prompt(
            PromptInput(
                max_tokens=self._summary_cap,
                focus=folding.focus,
                instructions=folding.instructions,
                prior_summary=self._prior,
                tokens=self.tokens,
                language=detect_language(item.text[:2_000] for item in self._covered if _speaks(item)),
            )
        )
        if way == "transcript" and not quoted:
            quoted = quote_items(self._told, count=self.situation.count_tokens)
        first, last = self._span
        return Question(
            by=self.by,
            first=first,
            last=last,
            prompt=prompt,
            max_tokens=self._summary_cap,
            answer_mode="transcript" if quoted else "prefix",
            quoted=quoted,
        )

    @cached_property
    def _parts(self) -> list[Question]:
        tokens = min(CHUNK, self.situation.budget.window // 3)
        quoted = quote_in_chunks(self._told, tokens=tokens, count=self.situation.count_tokens)
        return [self._ask("transcript", one) for one in quoted]

    def _written(self) -> Answer:
        """The best there is: a person's words, a whole answer, the answers to its parts, what an earlier fold had."""
        folding = self.situation.compaction
        none = Answer(key="", first="", last="", text=self._prior, failed="nobody was asked")
        if folding.summary:
            return replace(none, text=folding.summary, failed="")
        if not folding.asks and not folding.answers:
            return none
        whole = self.answer
        if whole is None:
            return none
        if not whole.failed:
            return replace(whole, text=self._merged([whole.text]))
        found = [folding.answers.get(ask.key) for ask in self._parts] if whole.failed in SMALLER else []
        good = [one for one in found if one is not None and not one.failed]
        if not good:
            return none
        thought = "\n\n".join(one.analysis for one in good if one.analysis)
        return replace(none, text=self._merged([one.text for one in good]), analysis=thought, failed="")

    def _merged(self, texts: Sequence[str]) -> str:
        """The earlier summary and what came after it, none of it said anew."""
        told = self._prior
        for text in texts:
            told = merge_summaries(told, text, max_tokens=2 * self._summary_cap, count=self.situation.count_tokens)
        return told

    # What there is to show.

    @cached_property
    def _entries(self) -> Sequence[Item]:
        return self.view.entries[self.run.start : self.run.stop]

    @cached_property
    def _span(self) -> tuple[str, str]:
        span = covered_range(self.view, self.run.start, self.run.stop)
        assert span is not None, "a run with something new has originals under it"
        return span

    @cached_property
    def _covered(self) -> Sequence[Item]:
        """The originals that leave."""
        index = self.view.index
        return self.view.originals[index[self._span[0]] : index[self._span[1]] + 1]

    @cached_property
    def _unfolded(self) -> Sequence[Item]:
        """Of these, what no recorded fold wrote down already. One of the same plan goes, and its blobs with it."""
        index, view = self.view.index, self.view
        folds = {id(edit): edit for edit in view.edit_by_entry.values() if edit.by in COMPACTION_PASSES}
        kept = [edit for edit in folds.values() if not any(blob.text for blob in edit.blobs)]
        spans = [span for edit in kept if (span := view.span(edit)) is not None]
        done = {n for first, last in spans for n in range(first, last + 1)}
        return [item for item in self._covered if index[item.id] not in done]

    @property
    def _told(self) -> Sequence[Item]:
        """What a question quotes: a summary that a client feeds back is handed on, not summarised again."""
        return [item for item in self._unfolded if not (item.source == OURS and self.shape.read_summary(item.text))]

    @cached_property
    def _prior(self) -> str:
        if self.shape.merge_mode != "fold":
            return ""
        texts = [e.text for e in self._entries if is_summary_entry(self.view, e) and e.source == OURS]
        return next((told for text in texts if (told := self.shape.read_summary(text))), "")

    @cached_property
    def _ledger(self) -> SessionFacts:
        return collect_facts(self._covered)

    @cached_property
    def _room(self) -> int:
        """Estimated tokens that the fold may take, so that the request comes down to low water."""
        tail = sum(entry.tokens for entry in self.view.entries[self.run.stop :])
        front = sum(item.tokens for item in self._front)
        return max(0, estimated(self.situation, self.situation.budget.levels.low) - tail - front)

    def _share(self, parts: int) -> float:
        """What one of so many parts of a last resort may take; elsewhere parts have limits of their own."""
        return inf if self.most is None else max(0, self.most // parts)

    @property
    def _summary_cap(self) -> int:
        # Part of the question, so it must not follow the tail: an answer given ahead would not be known again. A
        # twelfth of the window is a sixth of low water, which the tail, the facts and the user's words share.
        return self.cap if self.fixed else max(100, min(self.cap, self.situation.budget.window // 12))

    @cached_property
    def _digest(self) -> str:
        tail = self.view.entries[self.run.stop :]
        near = "\n".join(one.text[-20_000:] for one in (*tail, *(item for item in self._covered if _speaks(item))))
        # Where there is hardly any room a thirty-second of the window still names the files.
        least = max(150, self.situation.budget.window // 32)
        cap = self.facts if self.fixed else max(least, min(self._facts_beside(tail), self._room // 3))
        if self.most is not None:
            cap = min(cap, self.most // 4)
            return (
                render_facts(self._ledger, max_tokens=cap, count=self.situation.count_tokens, nearby_text=near)
                if cap >= least
                else ""
            )
        brought = "\n".join(
            f"sub-agent {name}: {to_one_line(result, 600)}" for name, result in self.situation.compaction.children
        )
        is_kept = self.situation.blob_names is not None
        facts = render_facts(
            self._ledger, max_tokens=cap, count=self.situation.count_tokens, nearby_text=near, has_handles=is_kept
        )
        absent = find_missing(required_facts(self._ledger), f"{facts}\n{near}")[:_MUST]
        if absent:
            facts += "\nAlso:\n" + "\n".join(f"- {fact.kind}: {fact.text}" for fact in absent)
        parts = [facts, f"What sub-agents brought:\n{brought}" if brought else ""]
        return "\n\n".join(part for part in parts if part)

    def _facts_beside(self, tail: Sequence[Item]) -> int:
        """Fewer facts where much else stays, but at least half of them. Instructions are not the fold's to weigh."""
        said = [*tail, *(item for item in self._covered if _speaks(item))]
        return max(self.facts // 2, min(self.facts, ALTOGETHER - sum(item.tokens for item in said)))

    @cached_property
    def _front(self) -> tuple[Item, ...]:
        """What the harness said before the assistant first spoke, unless it fills a quarter of the window."""
        found: list[Item] = []
        for item in self._covered:
            if item.role == "assistant":
                break
            if item.role == "user" and item.kind == "text" and item.trust == HARNESS and item.source != OURS:
                found.append(item)
        whole = sum(item.tokens for item in found) <= min(self.situation.budget.window // 4, self._share(4))
        return tuple(found) if whole else ()

    def _operator(self) -> tuple[tuple[Item, ...], tuple[Blob, ...]]:
        """What stays whatever folds: the operator's words, and what is pinned or locked, with what belongs to it.

        Those on the user's side come first: they stand in the message that the fold begins.
        """
        aged = [item for item in self._covered if item.id in old_note_ids(self.view)]
        limit = int(min(round(self.situation.budget.window * NOTES), self._share(8)))
        stay, listed, blobs = carry_operator_notes(
            aged, limit=limit, count=self.situation.count_tokens, keep=self.leaving.save_blob
        )
        carried = {item.id for item in stay}
        ids = (protected_ids(self.view) | carried) - {item.id for item in self._front}
        held = [item for item in self._covered if item.id in ids]
        first, then = (tuple(one for one in held if (one.role == "user") is side) for side in (True, False))
        return (*listed, *first, *then), blobs

    def _words(self) -> tuple[tuple[Item, ...], tuple[Blob, ...]]:
        live = self._newest
        said = [item for item in self._covered if (_speaks(item) and not item.pinned) or item.id in live]
        if not said:
            return (), ()
        shortened = {
            edit.first: edit.replacement[0]
            for edit in self.view.active_edits
            if edit.first == edit.last and len(edit.replacement) == 1 and edit.replacement[0].kind == "text"
        }
        shown = [replace(shortened[one.id], id="") if one.id in shortened else one for one in said]
        return carry_user_messages(
            said, shown, limit=self._words_limit, count=self.situation.count_tokens, keep=self.leaving.save_blob,
            live=sum(item.id in live for item in said), shorten=self.most is None,
        )  # fmt: skip

    @property
    def _words_limit(self) -> int:
        half = round(self.situation.budget.window * WORDS)
        front = sum(item.tokens for item in self._front)
        if self.most is not None:
            rest = (
                front
                + self.situation.count_tokens(self._digest)
                + sum(item.tokens for item in self._operator()[0])
                + FRAME
            )
            return max(0, min(half, round(self.most * _OF_WORDS), self.most - rest))
        hard = estimated(self.situation, self.situation.budget.levels.hard)
        tail = sum(entry.tokens for entry in self.view.entries[self.run.stop :])
        rest = front + self.situation.count_tokens(self._digest) + self._summary_cap
        return max(100, min(half, hard - tail - rest))

    @cached_property
    def _newest(self) -> frozenset[str]:
        """The newest message of the user, where it is in the run and must stay whole."""
        ids = newest_user_message(self.view) if self.shape.keeps_newest_message else frozenset[str]()
        return frozenset(item.id for item in self._covered if item.id in ids) if ids else ids

    @cached_property
    def _live_ask(self) -> Question:
        first, last = self._span
        paths = [one.path for one in reversed(self._ledger.files_read)]
        return Question(
            by=self.by, first=first, last=last, prompt=json.dumps(paths, ensure_ascii=False), answer_mode="live"
        )

    def _live(self) -> Iterator[Item]:
        """Files and notes as they are now: a file's text is data, a note comes from the harness."""
        answer = self.situation.compaction.answers.get(self._live_ask.key) if self.situation.compaction.live else None
        for told in json.loads(answer.text or "[]") if answer else ():
            source, text = str(told.get("source", "")), str(told.get("text", ""))
            named = text if source == "file" else f"{source}:\n{text}"
            framed = frame(TAG_BY_SOURCE.get(source, GENERIC_TAG), named)
            tier = QUOTED if source == "file" else HARNESS
            tokens = self.situation.count_tokens(framed)
            yield Item(id="", message=-1, role="user", kind="text", text=framed, tokens=tokens, trust=tier, source=OURS)

    def _turns(self) -> tuple[int, int]:
        """Numbers of the turns in the run, the first of the conversation being 1."""
        turn, numbers = 0, list[int]()
        lo, hi = (self.view.index[id] for id in self._span)
        before = None
        for n, item in enumerate(self.view.originals[: hi + 1]):
            turn += _speaks(item) and not (before is not None and _speaks(before))
            before = item
            if n >= lo:
                numbers.append(turn)
        return max(1, numbers[0]), max(1, numbers[-1])

    def _next_is_user(self) -> bool:
        after = self.view.entries[self.run.stop : self.run.stop + 1]
        return bool(after) and after[0].role in ("user", "tool")


def newest_user_message(view: View) -> frozenset[str]:
    """The words and pictures of the newest message that the user wrote."""
    newest = next((item for item in reversed(view.originals) if _speaks(item)), None)
    if newest is None:
        return frozenset()
    near = takewhile(lambda item: item.message >= newest.message, reversed(view.originals))
    return frozenset(
        item.id for item in near if item.message == newest.message and (_speaks(item) or item.kind in PICTURES)
    )


def _speaks(item: Item) -> bool:
    return item.role == "user" and item.kind == "text" and item.trust <= USER and item.source != OURS
