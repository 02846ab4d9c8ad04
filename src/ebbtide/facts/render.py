"""The ledger as text within a cap. A fact's place is decided by how likely it is needed again, never by age alone.

Sections take what they need, up to their share, in order of what hurts most when it is lost; the assistant's own words
and the index of names share what is left. What stands beside the text (`near`) is not said again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ebbtide.core.text.framing import OUR_TAGS, neutral
from ebbtide.facts.identifiers import name_set
from ebbtide.facts.lines import to_one_line
from ebbtide.facts.model import CommandFact, Failure, FileFact, LineRange, SessionFacts
from ebbtide.facts.name_index import NameIndex, rank_names, rank_words
from ebbtide.facts.name_rank import rank_commands, rank_failures, rank_files
from ebbtide.facts.paths import base_name, group_by_directory
from ebbtide.facts.sentences import choose_sentences, sentence_lines

_T = TypeVar("_T")

Count = Callable[[str], int]
"""Tokens of a text."""

_NOTES = 0.55
"""Of what the facts leave, to the assistant's words; the rest is the index. Measured: `benchmarks/retention.py`."""

_WORDS = 0.1
"""Of the cap, to the words that tell what recall can be asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """Lines under a heading; the entries that do not fit are the last."""

    heading: str
    share: float
    """Of the cap, at the most."""
    lines: tuple[Callable[[int], list[str]], int]
    """What the first n entries look like, and how many entries there are."""


def render_facts(
    ledger: SessionFacts, *, max_tokens: int, count: Count, nearby_text: str = "", has_handles: bool = True
) -> str:
    """At most `cap` tokens by `count`. User messages are not in it: they are carried as they are.

    Without `handles` no item is named by its own: nobody could open it.
    """
    if not has_handles:
        ledger = replace(ledger, handles=("",) * len(ledger.handles))
    page = _Page(max_tokens, count)
    for section in _sections(ledger):
        page.add(section.heading, *section.lines, room=min(page.room, int(max_tokens * section.share)))
    known = name_set(nearby_text) | name_set(page.text)
    room, above = int(page.room * _NOTES), len(page.lines)
    kept = choose_sentences(ledger, known, room, count)
    page.add("What the assistant said, in its words:", lambda n: sentence_lines(kept[:n]), len(kept), room=room)
    known |= name_set("\n".join(page.lines[above:]))
    names, spoken = rank_names(ledger, known), rank_words(ledger, known)
    rest = int(page.room * (1 - _WORDS))
    page.add("Names seen, by where:", NameIndex(ledger, names).lines, len(names.short), room=rest)
    page.add(
        "Words used:", lambda n: [" ".join(spoken[:n])], len(spoken), room=min(page.room, int(max_tokens * _WORDS))
    )
    return page.close()


class _Page:
    """Text that grows to a cap."""

    def __init__(self, cap: int, count: Count) -> None:
        self.cap, self.count = cap, count
        self.lines: list[str] = []
        self.room = cap
        self._counted: dict[str, int] = {}

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def add(self, heading: str, show: Callable[[int], list[str]], most: int, *, room: int) -> None:
        """The heading and as many entries as fit the room; nothing where none does."""
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2 if low or high < most else high
            fits = self._tokens(_headed(heading, show, middle, most)) <= room
            low, high = (middle, high) if fits else (low, middle - 1)
        if low == 0:
            return
        lines = _headed(heading, show, low, most)
        self.lines += lines
        self.room -= self._tokens(lines)

    def close(self) -> str:
        # A counter need not add up: what lines cost apart they may exceed together.
        text = _safe(self.text)
        while self.lines and self.count(text) > self.cap:
            self.lines.pop()
            text = _safe(self.text)
        return text

    def _tokens(self, lines: Sequence[str]) -> int:
        """Most lines are there again when more or fewer are tried: each is counted once."""
        counted = self._counted
        for line in lines:
            if line not in counted:
                counted[line] = self.count(line + "\n")
        return sum([counted[line] for line in lines])


def _safe(text: str) -> str:
    """Quoted text opens and closes no frame of ours."""
    return neutral([text], OUR_TAGS)[0]


def _headed(heading: str, show: Callable[[int], list[str]], shown: int, most: int) -> list[str]:
    partly = f"{heading.removesuffix(':')} ({shown} of {most}):" if shown < most else heading
    return [partly, *show(shown)]


def _sections(ledger: SessionFacts) -> Iterator[_Section]:
    now = len(ledger.handles)
    files = rank_files(ledger.files.values(), now)
    touched = [fact for fact in files if fact.is_modified]
    merely_read = [fact for fact in files if not fact.is_modified]
    yield _section("Files changed:", 0.5, touched, lambda some: group_by_directory(map(_changed, some)))
    yield _section("State of the work:", 0.15, _state(ledger), list)
    stated = list(reversed({fact.text: fact for fact in ledger.constraints}.values()))
    yield _section("The user said:", 0.12, stated, lambda some: [f"- {one.text}" for one in reversed(some)])
    troubles = rank_failures(ledger.failures)
    yield _section("Errors:", 0.1, troubles, lambda some: [_trouble(ledger, one) for one in some])
    yield _section("Files read:", 0.25, merely_read, lambda some: group_by_directory(map(_read, some)))
    commands = rank_commands(ledger.commands.values(), now)
    yield _section("Commands run:", 0.1, commands, lambda some: list(map(_command, _in_order(some))))


def _section(heading: str, share: float, entries: list[_T], show: Callable[[list[_T]], list[str]]) -> _Section:
    return _Section(heading=heading, share=share, lines=(lambda n: show(entries[:n]), len(entries)))


def _state(ledger: SessionFacts) -> list[str]:
    """Mode, what is running, to-dos, plan: the open before the finished."""
    lines = ["- mode: planning only, until the user agrees"] if ledger.mode == "plan" else []
    for one in ledger.running_tasks:
        lines.append(f"- running {one.kind} {one.handle}: {to_one_line(one.description, 120)}".replace(" :", ":"))
    opened = [todo for todo in ledger.todos.values() if todo.is_open]
    lines += [
        f"- [{'~' if 'progress' in todo.status.lower() else ' '}] {to_one_line(todo.text, 200)}" for todo in opened
    ]
    finished = [to_one_line(todo.text, 80) for todo in ledger.todos.values() if not todo.is_open]
    lines += [f"- [x] {text}" for text in reversed(finished)]
    if ledger.plan is not None and ledger.plan.text.strip():
        at = _handle(ledger, ledger.plan.order)
        lines.append(f"- plan put to the user{at}: {to_one_line(ledger.plan.text, 800)}")
    return lines


def _changed(fact: FileFact) -> tuple[str, str]:
    done = "deleted" if fact.deleted_at == fact.last_touched else "created" if fact.created_at >= 0 else ""
    return fact.path, " ".join(filter(None, (f"({done})" if done else "", *map(_lines, fact.line_ranges[-2:]))))


def _read(fact: FileFact) -> tuple[str, str]:
    return fact.path, " ".join(map(_lines, fact.line_ranges[-1:]))


def _lines(lines: LineRange) -> str:
    return f"L{lines.first}-{lines.last}" if lines.last > lines.first else f"L{lines.first}"


def _trouble(ledger: SessionFacts, trouble: Failure) -> str:
    what = f"{trouble.about}: {trouble.line}" if trouble.line else trouble.about
    if trouble.resolved_at < 0:
        return f"- open{_handle(ledger, trouble.order)}: {what}"
    return f"- over: {what}" + (
        f" (after changing {', '.join(map(base_name, trouble.changed_files))})" if trouble.changed_files else ""
    )


def _handle(ledger: SessionFacts, order: int) -> str:
    """` (#1a2b3c4d)`; nothing where an item has no handle."""
    return f" (#{ledger.handles[order]})" if ledger.handles[order] else ""


def _in_order(commands: Sequence[CommandFact]) -> list[CommandFact]:
    return sorted(commands, key=lambda command: command.order)


def _command(command: CommandFact) -> str:
    ended = [f"exit {command.status}"] if command.status else []
    ended += [f"{command.run_count} times"] if command.run_count > 1 else []
    beside = f" ({', '.join(ended)})" if ended else ""
    said = f": {command.key_lines[-1]}" if command.key_lines else ""
    return f"- {to_one_line(command.text, 160)}{beside}{said}"
