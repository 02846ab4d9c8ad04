"""The ledger as text within a cap. A fact's place is decided by how likely it is needed again, never by age alone.

Sections take what they need, up to their share, in order of what hurts most when it is lost; the assistant's own words
and the index of names share what is left. What stands beside the text (`near`) is not said again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ebbtide.core.text.framing import OUR_TAGS, neutral
from ebbtide.facts.identifiers import names_of
from ebbtide.facts.lines import one_line
from ebbtide.facts.model import Command, FileFact, Ledger, Lines, Trouble
from ebbtide.facts.name_index import Index, ranked_names, ranked_words
from ebbtide.facts.name_rank import commands_by_need, files_by_need, troubles_by_need
from ebbtide.facts.paths import base_name, by_directory
from ebbtide.facts.sentences import chosen_notes, note_lines

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


def render(ledger: Ledger, *, cap: int, count: Count, near: str = "", handles: bool = True) -> str:
    """At most `cap` tokens by `count`. User messages are not in it: they are carried as they are.

    Without `handles` no item is named by its own: nobody could open it.
    """
    if not handles:
        ledger = replace(ledger, handles=("",) * len(ledger.handles))
    page = _Page(cap, count)
    for section in _sections(ledger):
        page.add(section.heading, *section.lines, room=min(page.room, int(cap * section.share)))
    known = names_of(near) | names_of(page.text)
    room, above = int(page.room * _NOTES), len(page.lines)
    kept = chosen_notes(ledger, known, room, count)
    page.add("What the assistant said, in its words:", lambda n: note_lines(kept[:n]), len(kept), room=room)
    known |= names_of("\n".join(page.lines[above:]))
    names, spoken = ranked_names(ledger, known), ranked_words(ledger, known)
    rest = int(page.room * (1 - _WORDS))
    page.add("Names seen, by where:", Index(ledger, names).lines, len(names.short), room=rest)
    page.add("Words used:", lambda n: [" ".join(spoken[:n])], len(spoken), room=min(page.room, int(cap * _WORDS)))
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


def _sections(ledger: Ledger) -> Iterator[_Section]:
    now = len(ledger.handles)
    files = files_by_need(ledger.files.values(), now)
    touched = [fact for fact in files if fact.touched]
    merely_read = [fact for fact in files if not fact.touched]
    yield _section("Files changed:", 0.5, touched, lambda some: by_directory(map(_changed, some)))
    yield _section("State of the work:", 0.15, _state(ledger), list)
    stated = list(reversed({fact.text: fact for fact in ledger.stated}.values()))
    yield _section("The user said:", 0.12, stated, lambda some: [f"- {one.text}" for one in reversed(some)])
    troubles = troubles_by_need(ledger.troubles)
    yield _section("Errors:", 0.1, troubles, lambda some: [_trouble(ledger, one) for one in some])
    yield _section("Files read:", 0.25, merely_read, lambda some: by_directory(map(_read, some)))
    commands = commands_by_need(ledger.commands.values(), now)
    yield _section("Commands run:", 0.1, commands, lambda some: list(map(_command, _in_order(some))))


def _section(heading: str, share: float, entries: list[_T], show: Callable[[list[_T]], list[str]]) -> _Section:
    return _Section(heading=heading, share=share, lines=(lambda n: show(entries[:n]), len(entries)))


def _state(ledger: Ledger) -> list[str]:
    """Mode, what is running, to-dos, plan: the open before the finished."""
    lines = ["- mode: planning only, until the user agrees"] if ledger.mode == "plan" else []
    for one in ledger.running:
        lines.append(f"- running {one.kind} {one.handle}: {one_line(one.what, 120)}".replace(" :", ":"))
    opened = [todo for todo in ledger.todos.values() if todo.open]
    lines += [f"- [{'~' if 'progress' in todo.status.lower() else ' '}] {one_line(todo.text, 200)}" for todo in opened]
    finished = [one_line(todo.text, 80) for todo in ledger.todos.values() if not todo.open]
    lines += [f"- [x] {text}" for text in reversed(finished)]
    if ledger.plan is not None and ledger.plan.text.strip():
        at = _handle(ledger, ledger.plan.order)
        lines.append(f"- plan put to the user{at}: {one_line(ledger.plan.text, 800)}")
    return lines


def _changed(fact: FileFact) -> tuple[str, str]:
    done = "deleted" if fact.deleted == fact.newest else "created" if fact.created >= 0 else ""
    return fact.path, " ".join(filter(None, (f"({done})" if done else "", *map(_lines, fact.lines[-2:]))))


def _read(fact: FileFact) -> tuple[str, str]:
    return fact.path, " ".join(map(_lines, fact.lines[-1:]))


def _lines(lines: Lines) -> str:
    return f"L{lines.first}-{lines.last}" if lines.last > lines.first else f"L{lines.first}"


def _trouble(ledger: Ledger, trouble: Trouble) -> str:
    what = f"{trouble.about}: {trouble.line}" if trouble.line else trouble.about
    if trouble.ended < 0:
        return f"- open{_handle(ledger, trouble.order)}: {what}"
    return f"- over: {what}" + (f" (after changing {', '.join(map(base_name, trouble.by))})" if trouble.by else "")


def _handle(ledger: Ledger, order: int) -> str:
    """` (#1a2b3c4d)`; nothing where an item has no handle."""
    return f" (#{ledger.handles[order]})" if ledger.handles[order] else ""


def _in_order(commands: Sequence[Command]) -> list[Command]:
    return sorted(commands, key=lambda command: command.order)


def _command(command: Command) -> str:
    ended = [f"exit {command.status}"] if command.status else []
    ended += [f"{command.times} times"] if command.times > 1 else []
    beside = f" ({', '.join(ended)})" if ended else ""
    said = f": {command.lines[-1]}" if command.lines else ""
    return f"- {one_line(command.text, 160)}{beside}{said}"
