"""Writes facts as text within a token limit.

Each section takes what it needs up to its share of the limit, most important section first; the assistant's sentences
and the index of names share the rest. Within a section, facts likely to be needed come first, whatever their age.
Facts that must not be lost are listed beside the summary if the text does not name them.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from ebbtide.core import texts
from ebbtide.core.text.framing import OUR_TAGS, neutral
from ebbtide.facts.model import (
    CommandFact,
    Failure,
    FileFact,
    LineRange,
    SessionFacts,
    base_name,
    group_by_directory,
    to_one_line,
)
from ebbtide.facts.names import NameIndex, list_names, name_set, rank_names, rank_words, reuse_probability
from ebbtide.facts.tool_calls import is_probe

_T = TypeVar("_T")

Count = Callable[[str], int]
"""Tokens of a text."""

_SENTENCE_SHARE = 0.55
"""Of what the facts leave, for the assistant's sentences; the index of names gets the rest. Measured by
`benchmarks/retention.py`."""
_WORD_SHARE = 0.1
"""Of the limit, for the words that the history can be searched with."""


def render_facts(
    facts: SessionFacts, *, max_tokens: int, count: Count, nearby_text: str = "", has_handles: bool = True
) -> str:
    """The facts in at most `max_tokens`. The user's messages are not in it: they are kept as they are.

    Names in `nearby_text`, which the model reads too, are not repeated. Without `has_handles` no item is named by its
    handle, because nothing was saved that the model could open.
    """
    if not has_handles:
        facts = replace(facts, handles=("",) * len(facts.handles))
    page = _Page(max_tokens, count)
    _add_sections(page, facts)
    known_names = name_set(nearby_text) | name_set(page.text)
    room, length = int(page.room * _SENTENCE_SHARE), len(page.lines)
    page.add(texts.ASSISTANT_SENTENCES, choose_sentences(facts, known_names, room, count), sentence_lines, room)
    known_names |= name_set("\n".join(page.lines[length:]))
    names, words = rank_names(facts, known_names), rank_words(facts, known_names)
    index = NameIndex(facts, names[: page.room])
    page.add(texts.NAMES_SEEN, names, lambda some: index.lines(len(some)), int(page.room * (1 - _WORD_SHARE)))
    page.add(texts.WORDS_USED, words, lambda some: [" ".join(some)], int(max_tokens * _WORD_SHARE))
    return page.finish()


class _Page:
    """Text that grows up to a token limit."""

    def __init__(self, max_tokens: int, count: Count) -> None:
        self.max_tokens, self.count = max_tokens, count
        self.lines: list[str] = []
        self.room = max_tokens
        self._line_tokens: dict[str, int] = {}

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def add(self, heading: str, entries: Sequence[_T], show: Callable[[Sequence[_T]], list[str]], room: int) -> None:
        """Add the heading and as many of the first entries as fit; nothing if none fits."""

        def section(entry_count: int) -> list[str]:
            is_partial = entry_count < len(entries)
            title = texts.partial_heading(heading, entry_count, len(entries)) if is_partial else heading
            return [title, *show(entries[:entry_count])]

        room = min(room, self.room)
        low, high = 0, len(entries)
        while low < high:
            # All of them first: mostly they fit.
            middle = (low + high + 1) // 2 if low or high < len(entries) else high
            # An entry takes at least one token. A long session has tens of thousands of names.
            fits = middle <= room and self._tokens(section(middle)) <= room
            low, high = (middle, high) if fits else (low, middle - 1)
        if low:
            self.lines += section(low)
            self.room -= self._tokens(section(low))

    def finish(self) -> str:
        text = _neutralize(self.text)
        # Lines counted apart may come to fewer tokens than the text as a whole.
        while self.lines and self.count(text) > self.max_tokens:
            self.lines.pop()
            text = _neutralize(self.text)
        return text

    def _tokens(self, lines: Sequence[str]) -> int:
        """Counts each line once: a search for the number that fits shows most lines again."""
        for line in lines:
            if line not in self._line_tokens:
                self._line_tokens[line] = self.count(line + "\n")
        return sum([self._line_tokens[line] for line in lines])


def _neutralize(text: str) -> str:
    """Quoted text must not open or close a frame of ours."""
    return neutral([text], OUR_TAGS)[0]


def _add_sections(page: _Page, facts: SessionFacts) -> None:
    now = len(facts.handles)
    files = _rank_files(facts.files.values(), now)
    constraints = list(reversed({fact.text: fact for fact in facts.constraints}.values()))

    def add(heading: str, share: float, entries: Sequence[_T], show: Callable[[Sequence[_T]], list[str]]) -> None:
        page.add(heading, entries, show, int(page.max_tokens * share))

    modified = [fact for fact in files if fact.is_modified]
    add(texts.FILES_CHANGED, 0.5, modified, lambda some: group_by_directory(map(_changed_file, some)))
    add(texts.STATE_OF_WORK, 0.15, _state_lines(facts), list)
    add(texts.USER_CONSTRAINTS, 0.12, constraints, lambda some: [f"- {fact.text}" for fact in reversed(some)])
    add(texts.ERRORS, 0.1, _rank_failures(facts.failures), lambda some: [_failure_line(facts, fact) for fact in some])
    only_read = [fact for fact in files if not fact.is_modified]
    add(texts.FILES_READ, 0.25, only_read, lambda some: group_by_directory(map(_read_file, some)))
    add(texts.COMMANDS_RUN, 0.1, _rank_commands(facts.commands.values(), now), _command_lines)


def _state_lines(facts: SessionFacts) -> list[str]:
    """Mode, running tasks, to-dos (open ones first) and the plan."""
    lines = [texts.PLAN_MODE] if facts.mode == "plan" else []
    for task in facts.running_tasks:
        lines.append(texts.running_task(task.kind, task.handle, to_one_line(task.description, 120)))
    todos = list(facts.todos.values())
    for todo in (*(todo for todo in todos if todo.is_open), *(todo for todo in reversed(todos) if not todo.is_open)):
        text = to_one_line(todo.text, 200 if todo.is_open else 80)
        lines.append(texts.todo(text, todo.status, is_open=todo.is_open))
    if facts.plan is not None and facts.plan.text.strip():
        lines.append(texts.proposed_plan(_handle(facts, facts.plan.order), to_one_line(facts.plan.text, 800)))
    return lines


def _changed_file(fact: FileFact) -> tuple[str, str]:
    change = "(deleted)" if fact.deleted_at == fact.last_touched else "(created)" if fact.created_at >= 0 else ""
    return fact.path, " ".join(filter(None, (change, *map(_range_text, fact.line_ranges[-2:]))))


def _read_file(fact: FileFact) -> tuple[str, str]:
    return fact.path, " ".join(map(_range_text, fact.line_ranges[-1:]))


def _range_text(lines: LineRange) -> str:
    return f"L{lines.first}-{lines.last}" if lines.last > lines.first else f"L{lines.first}"


def _failure_line(facts: SessionFacts, failure: Failure) -> str:
    text = f"{failure.about}: {failure.line}" if failure.line else failure.about
    if failure.resolved_at < 0:
        return texts.open_failure(_handle(facts, failure.order), text)
    return texts.resolved_failure(text, ", ".join(map(base_name, failure.changed_files)))


def _handle(facts: SessionFacts, order: int) -> str:
    """` (#1a2b3c4d)`, or nothing if the item has no handle."""
    return f" (#{facts.handles[order]})" if facts.handles[order] else ""


def _command_lines(commands: Sequence[CommandFact]) -> list[str]:
    return [
        texts.command_run(
            to_one_line(command.text, 160),
            status=command.status,
            run_count=command.run_count,
            last_line=command.key_lines[-1] if command.key_lines else "",
        )
        for command in sorted(commands, key=lambda command: command.order)
    ]


def _rank_files(files: Iterable[FileFact], now: int) -> list[FileFact]:
    return sorted(files, key=lambda fact: (-_activity(fact.touch_count, now - fact.last_touched), fact.path))


def _rank_commands(commands: Iterable[CommandFact], now: int) -> list[CommandFact]:
    """Without commands that only look at things: what they showed is among files and names."""
    working = [command for command in commands if not is_probe(command.text)]
    return sorted(
        working, key=lambda fact: (-_activity(fact.run_count, now - fact.order) - fact.has_failed, fact.order)
    )


def _rank_failures(failures: Iterable[Failure]) -> list[Failure]:
    """Open before resolved, newest first, each matter once. A tool call that failed and then worked teaches nothing."""
    newest = {failure.about: failure for failure in failures}
    open_ = [failure for failure in newest.values() if failure.resolved_at < 0]
    resolved = [failure for failure in newest.values() if failure.resolved_at >= 0 and failure.is_command]
    return sorted(open_, key=lambda fact: -fact.order) + sorted(resolved, key=lambda fact: -fact.resolved_at)


def _activity(times: int, age: int) -> float:
    """Higher for what was used often and lately: twice as often weighs as much as a third of the age."""
    return math.log1p(times) - 0.6 * math.log1p(age)


# --- sentences worth keeping ------------------------------------------------------------------------------------------


_CONSTRAINT_WORDS = re.compile(
    r"\b(?:must|never|always|don'?t|do not|should(?:n'?t| not)?|shall|only|instead|rather than|avoid|required?|"
    r"prefer(?:red|ably)?|requirement|ensure|make sure|needs? to|has to|have to|no longer|stop \w+ing|"
    r"keep (?:it|the|in mind)|let'?s|we(?:'ll| will) (?:use|go)|go with|decided?|agreed|important|remember|note that|"
    r"from now on|by default|without|not allowed|forbidden|at (?:most|least)|use \S+ (?:not|over|for))\b"
    r"|必须|不要|不能|不得|不许|别(?!的|人)|禁止|务必|只(?:能|用|要|需|有|在)|仅|改用|改成|换成|优先|应该|应当|不应|需要|"
    r"要求|一律|始终|总是|从现在起|记住|注意|避免|确保|保证|决定|同意|就用|使用|而不是|默认",
    re.IGNORECASE,
)
"""Words that rule something in or out."""
_CONSTRAINT_ENDS = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+")
_MAX_MESSAGE, _MAX_CONSTRAINT = 3_000, 240
"""Characters: a longer message holds a pasted document between the user's own words; a longer rule is an essay."""
_MIN_CONSTRAINT = 4
"""Characters: 不要动它 is a whole rule."""
_TAG = re.compile(r"</?[A-Za-z][\w-]*>")
_SENTENCE_ENDS = re.compile(r"\n+|(?<=[.!?])\s+|(?<=[。！？；])")
_MIN_SENTENCE, _MAX_SENTENCE = 16, 320
"""Characters: a shorter one says "Done."; a longer one is a table or a paste."""
_PLAIN_WORD = 0.5
"""What a plain word is worth, compared to a name."""


def find_constraints(text: str) -> Iterator[str]:
    """The user's sentences that constrain the work, in order. Markup, code and quoted lines are not theirs."""
    if text.lstrip().startswith("<"):
        return
    third = _MAX_MESSAGE // 3
    typed = text if len(text) <= _MAX_MESSAGE else f"{text[:third]}\n{text[-third:]}"
    in_code = False
    for part in _CONSTRAINT_ENDS.split(typed):
        line = part.strip()
        if line.startswith("```"):
            in_code = not in_code
        elif in_code or len(line) < _MIN_CONSTRAINT or line.startswith(("|", ">", "+", "@@")) or _TAG.search(line):
            continue
        elif _CONSTRAINT_WORDS.search(line):
            yield to_one_line(line.lstrip("-* "), _MAX_CONSTRAINT)


class Sentence(NamedTuple):
    """A sentence of the assistant, on one line."""

    order: int
    position: int
    """Among the sentences of its message."""
    text: str


def choose_sentences(
    facts: SessionFacts, known_names: Set[str], max_tokens: int, count: Callable[[str], int]
) -> list[Sentence]:
    """The assistant's sentences that say most beyond `known_names` for their tokens, best first.

    A sentence is worth the names in it that are likely needed and that no sentence chosen before it has. Its worth only
    falls as others are chosen: if the top of the heap is still the best at its new worth, it is the best of all.
    """
    covered = set(known_names)
    worth: dict[str, float] = {}

    def rate(names: list[str], tokens: int) -> float:
        # A set has no order and a sum of floats depends on it: `fsum` does not.
        return math.fsum([worth[name] for name in names if name not in covered]) / tokens

    heap: list[tuple[float, Sentence, list[str], int]] = []
    for sentence in _unique_sentences(facts):
        names = [name for name in set(list_names(sentence.text)) if name in facts.names]
        for name in names:
            if name not in worth:
                is_word = not facts.name_costs[name]
                probability = reuse_probability(name, facts.names[name], facts.tokens, is_word=is_word)
                worth[name] = probability * (_PLAIN_WORD if is_word else 1.0)
        if any(name not in covered for name in names):
            tokens = count(sentence.text + "\n")
            heap.append((-rate(names, tokens), sentence, names, tokens))
    heapq.heapify(heap)
    chosen: list[Sentence] = []
    while heap and max_tokens > 0:
        _, best, names, tokens = heapq.heappop(heap)
        best_rate = rate(names, tokens)
        if best_rate <= 0:
            continue
        if heap and -best_rate > heap[0][0]:
            heapq.heappush(heap, (-best_rate, best, names, tokens))
            continue
        max_tokens -= tokens
        covered.update(names)
        chosen.append(best)
    return chosen


def sentence_lines(sentences: Sequence[Sentence]) -> list[str]:
    """The sentences in the order they were said, one line for each message."""
    lines: dict[int, list[str]] = {}
    for sentence in sorted(sentences):
        lines.setdefault(sentence.order, []).append(sentence.text)
    return [f"- {' '.join(texts)}" for texts in lines.values()]


def _unique_sentences(facts: SessionFacts) -> Iterator[Sentence]:
    seen_lines: set[str] = set()
    for message in facts.assistant_texts:
        for position, part in enumerate(_SENTENCE_ENDS.split(message.text)):
            line = to_one_line(part.strip(" \t-*#|>"), _MAX_SENTENCE)
            if len(line) >= _MIN_SENTENCE and line not in seen_lines:
                seen_lines.add(line)
                yield Sentence(message.order, position, line)


# --- facts that must not be lost --------------------------------------------------------------------------------------


_MAX_FAILURES = 5
"""Newest open errors. Older ones were mostly given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredFact:
    """A fact, and the names by which a text may mention it."""

    kind: str
    """`changed`, `deleted`, `todo`, `error` or `running`."""
    text: str
    names: tuple[str, ...]
    """The fact is present where any of these is, ignoring case."""


def required_facts(facts: SessionFacts) -> tuple[RequiredFact, ...]:
    """Modified files, open to-dos, the newest open errors, running tasks."""
    modified = [fact for fact in facts.files.values() if fact.is_modified]
    bases = [base_name(fact.path) for fact in modified]
    base_counts = Counter(bases)
    required: list[RequiredFact] = []
    for fact, base in zip(modified, bases, strict=True):
        kind = "deleted" if fact.deleted_at == fact.last_touched else "changed"
        names = (fact.path,) if base_counts[base] > 1 else (fact.path, base)
        required.append(RequiredFact(kind=kind, text=fact.path, names=names))
    required += [_required("todo", todo.text, todo.text) for todo in facts.todos.values() if todo.is_open]
    for failure in [failure for failure in facts.failures if failure.resolved_at < 0][-_MAX_FAILURES:]:
        required.append(_required("error", f"{failure.about}: {failure.line}", failure.line, failure.about))
    for task in facts.running_tasks:
        required.append(_required("running", task.description, task.handle, task.description))
    return tuple(required)


def find_missing(required: Iterable[RequiredFact], text: str) -> tuple[RequiredFact, ...]:
    """The facts that the text does not mention."""
    lowered = text.casefold()
    return tuple(fact for fact in required if not any(name.casefold() in lowered for name in fact.names))


def _required(kind: str, text: str, *names: str) -> RequiredFact:
    # In full, and shortened as `render_facts` shows it.
    spellings = dict.fromkeys(form for name in names if name.strip() for form in (name, to_one_line(name, 120)))
    return RequiredFact(kind=kind, text=to_one_line(text, 240), names=tuple(spellings) or (text,))
