"""A summary is headed sections. That makes it possible to join two without a model, and to shorten one.

An earlier summary is never summarised again: each pass through a model would lose some of it. What lasts is carried on
line by line, what is a matter of the moment is replaced, and when there is no room the oldest lines that last go first;
the log has them.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

Count = Callable[[str], int]

PASSING = frozenset(("state of work", "pending", "current", "next", "pending tasks", "current work", "next step"))
"""Sections that are true of one moment: the newer one is the only one."""
NOTHING = "N/A"
"""R165: what a section says that has nothing to say."""

_HEADING = re.compile(r"^(?:#{1,4}[ \t]+|(?=\d{1,2}[.)][ \t]+[A-Z][\w /]{2,40}:?$))(?P<name>\S.*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    heading: str
    """The line as it was written; empty for what stands before the first one."""
    lines: tuple[str, ...]

    @property
    def key(self) -> str:
        """By which two summaries' sections are the same."""
        match = _HEADING.match(self.heading)
        name = match["name"] if match else ""
        return re.sub(r"^\d{1,2}[.)][ \t]*|[*_`]|^optional ", "", name, flags=re.IGNORECASE).strip(" \t:").casefold()

    @property
    def says_nothing(self) -> bool:
        return not any(line.strip(" \t-*.").casefold() not in ("", "n/a", "none", "无") for line in self.lines)


def is_heading(line: str) -> bool:
    return _HEADING.match(line) is not None


def split_sections(text: str) -> tuple[Section, ...]:
    """The text cut at its headings: Markdown's, or numbered lines that hold nothing else."""
    found: list[tuple[str, list[str]]] = [("", [])]
    fenced = False
    for line in text.split("\n"):
        fenced ^= line.lstrip().startswith("```")
        if not fenced and is_heading(line):
            found.append((line, []))
        else:
            found[-1][1].append(line)
    made = (Section(heading=heading, lines=tuple(lines)) for heading, lines in found)
    return tuple(one for one in made if one.heading or any(line.strip() for line in one.lines))


def join_sections(parts: tuple[Section, ...]) -> str:
    told = ["\n".join(filter(None, (one.heading, "\n".join(one.lines).strip("\n")))) for one in parts]
    return "\n\n".join(told).strip()


def merge_summaries(prior_summary: str, new: str, *, max_tokens: int, count: Count) -> str:
    """An earlier summary and what came after it, as one of at most `cap` tokens. Nothing is reworded."""
    if not prior_summary.strip():
        return shorten_summary(new, max_tokens=max_tokens, count=count)
    older = {one.key: one for one in split_sections(prior_summary)}
    newer = {one.key: one for one in split_sections(new)}
    keys = [*newer, *(key for key in older if key not in newer and key not in PASSING)]
    joined = tuple(_joined(older.get(key), newer.get(key)) for key in keys)
    return shorten_summary(join_sections(joined), max_tokens=max_tokens, count=count)


def _joined(old: Section | None, new: Section | None) -> Section:
    if old is None or new is None or new.key in PASSING:
        found = new or old
        assert found is not None
        return found
    if old.says_nothing:
        return new
    if new.says_nothing:
        return old
    known = {_same(line) for line in new.lines if line.strip()}
    kept = [line for line in old.lines if not line.strip() or _same(line) not in known]
    return Section(heading=new.heading, lines=(*"\n".join(kept).strip("\n").split("\n"), *new.lines))


def _same(line: str) -> str:
    return " ".join(line.casefold().strip(" \t-*").split())


def shorten_summary(text: str, *, max_tokens: int, count: Count) -> str:
    """At most `cap` tokens: the longest lasting section loses its oldest line, again and again; then any section.

    A line is dropped whole: half a statement may say the opposite.
    """
    spent = count(text)
    if spent <= max_tokens:
        return text
    found = split_sections(text)
    shrinking = _Shrinking(found)
    while spent > max_tokens and shrinking.can_shrink:
        # Half of what is too much at once: counting a text costs as much as the text is long.
        shrinking.free(len(text) * (spent - max_tokens) // (2 * spent))
        text = join_sections(shrinking.left())
        spent = count(text)
    return text if spent <= max_tokens else ""


class _Shrinking:
    """Sections that lose lines, the longest first."""

    def __init__(self, found: tuple[Section, ...]) -> None:
        self._found = found
        self._dropped = [0] * len(found)
        # What passes is kept until nothing else is left; of two that are equally long the first gives way.
        self._longest = [
            (one.key in PASSING, -len(one.heading) - sum(map(len, one.lines)), n) for n, one in enumerate(found)
        ]
        heapq.heapify(self._longest)

    @property
    def can_shrink(self) -> bool:
        while self._longest and self._dropped[self._longest[0][2]] == len(self._found[self._longest[0][2]].lines):
            heapq.heappop(self._longest)
        return bool(self._longest)

    def free(self, letters: int) -> None:
        """Drop lines of so many letters together, and one at least."""
        while self.can_shrink:
            passes, minus_size, n = self._longest[0]
            line = self._found[n].lines[self._dropped[n]]
            self._dropped[n] += 1
            heapq.heapreplace(self._longest, (passes, minus_size + len(line), n))
            letters -= len(line) + 1
            if letters <= 0:
                return

    def left(self) -> tuple[Section, ...]:
        kept = (replace(one, lines=one.lines[gone:]) for one, gone in zip(self._found, self._dropped, strict=True))
        return tuple(one for one in kept if any(line.strip() for line in one.lines))
