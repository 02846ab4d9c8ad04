"""Summaries as sections under headings, so that two can be merged and one shortened without a model.

An earlier summary is never summarized again: each pass through a model would lose some of it. Lasting sections are
carried over line by line, those about the present moment are replaced, and where there is no room the oldest lasting
lines go first; the log has them.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

Count = Callable[[str], int]

CURRENT_SECTIONS = frozenset(
    ("state of work", "pending", "current", "next", "pending tasks", "current work", "next step")
)
"""Sections about the present moment: the newer one replaces the older."""

_HEADING = re.compile(r"^(?:#{1,4}[ \t]+|(?=\d{1,2}[.)][ \t]+[A-Z][\w /]{2,40}:?$))(?P<name>\S.*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    heading: str
    """The whole line; empty for the text before the first heading."""
    lines: tuple[str, ...]

    @property
    def key(self) -> str:
        """Equal for the same section in two summaries."""
        match = _HEADING.match(self.heading)
        name = match["name"] if match else ""
        return re.sub(r"^\d{1,2}[.)][ \t]*|[*_`]|^optional ", "", name, flags=re.IGNORECASE).strip(" \t:").casefold()

    @property
    def is_empty(self) -> bool:
        return all(line.strip(" \t-*.").casefold() in ("", "n/a", "none", "无") for line in self.lines)


def is_heading(line: str) -> bool:
    return _HEADING.match(line) is not None


def split_sections(text: str) -> tuple[Section, ...]:
    """Split a text at its headings: Markdown's, or numbered lines that hold nothing else."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    in_code = False
    for line in text.split("\n"):
        in_code ^= line.lstrip().startswith("```")
        if not in_code and is_heading(line):
            parts.append((line, []))
        else:
            parts[-1][1].append(line)
    return tuple(
        Section(heading=heading, lines=tuple(lines))
        for heading, lines in parts
        if heading or any(line.strip() for line in lines)
    )


def join_sections(sections: tuple[Section, ...]) -> str:
    bodies = ["\n".join(section.lines).strip("\n") for section in sections]
    texts = ["\n".join(filter(None, (part.heading, body))) for part, body in zip(sections, bodies, strict=True)]
    return "\n\n".join(texts).strip()


def merge_summaries(prior_summary: str, new: str, *, max_tokens: int, count: Count) -> str:
    """An earlier summary and the one of what followed, as one of at most `max_tokens`. Nothing is reworded."""
    if not prior_summary.strip():
        return shorten_summary(new, max_tokens=max_tokens, count=count)
    older = {section.key: section for section in split_sections(prior_summary)}
    newer = {section.key: section for section in split_sections(new)}
    merged = [_merge_section(older[key], section) if key in older else section for key, section in newer.items()]
    merged += [section for key, section in older.items() if key not in newer and key not in CURRENT_SECTIONS]
    return shorten_summary(join_sections(tuple(merged)), max_tokens=max_tokens, count=count)


def _merge_section(old: Section, new: Section) -> Section:
    if new.key in CURRENT_SECTIONS or old.is_empty:
        return new
    if new.is_empty:
        return old
    new_lines = {_comparable(line) for line in new.lines if line.strip()}
    old_lines = [line for line in old.lines if not line.strip() or _comparable(line) not in new_lines]
    return Section(heading=new.heading, lines=(*"\n".join(old_lines).strip("\n").split("\n"), *new.lines))


def _comparable(line: str) -> str:
    return " ".join(line.casefold().strip(" \t-*").split())


def shorten_summary(text: str, *, max_tokens: int, count: Count) -> str:
    """At most `max_tokens`: the longest lasting section loses its oldest line, again and again; then any section.

    A line is dropped whole, because half a statement may say the opposite.
    """
    tokens = count(text)
    if tokens <= max_tokens:
        return text
    trimmer = _Trimmer(split_sections(text))
    while tokens > max_tokens and trimmer.can_trim:
        # Half of the excess at once: counting a text costs as much as the text is long.
        trimmer.drop_lines(len(text) * (tokens - max_tokens) // (2 * tokens))
        text = join_sections(trimmer.remaining())
        tokens = count(text)
    return text if tokens <= max_tokens else ""


class _Trimmer:
    """Drops the oldest lines of the longest sections. Sections about the present moment come last."""

    def __init__(self, sections: tuple[Section, ...]) -> None:
        self._sections = sections
        self._dropped = [0] * len(sections)
        self._longest = [
            (section.key in CURRENT_SECTIONS, -len(section.heading) - sum(map(len, section.lines)), n)
            for n, section in enumerate(sections)
        ]
        heapq.heapify(self._longest)

    @property
    def can_trim(self) -> bool:
        while self._longest and self._dropped[self._longest[0][2]] == len(self._sections[self._longest[0][2]].lines):
            heapq.heappop(self._longest)
        return bool(self._longest)

    def drop_lines(self, chars: int) -> None:
        """Drop lines of `chars` characters together, and at least one line."""
        while self.can_trim:
            is_current, negative_size, n = self._longest[0]
            line = self._sections[n].lines[self._dropped[n]]
            self._dropped[n] += 1
            heapq.heapreplace(self._longest, (is_current, negative_size + len(line), n))
            chars -= len(line) + 1
            if chars <= 0:
                return

    def remaining(self) -> tuple[Section, ...]:
        pairs = zip(self._sections, self._dropped, strict=True)
        sections = (replace(section, lines=section.lines[dropped:]) for section, dropped in pairs)
        return tuple(section for section in sections if any(line.strip() for line in section.lines))
