"""Writes facts as text within a token limit.

Each section takes what it needs up to its share of the limit, most important section first; the assistant's sentences
and the index of names share the rest. Within a section, facts likely to be needed come first, whatever their age.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from ebbtide.core import texts
from ebbtide.core.text.framing import OUR_TAGS, neutral
from ebbtide.facts.model import CommandFact, Failure, FileFact, LineRange, SessionFacts
from ebbtide.facts.names import NameIndex, name_set, rank_names, rank_words
from ebbtide.facts.sentences import choose_sentences, sentence_lines
from ebbtide.facts.text import base_name, group_by_directory, to_one_line
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
