"""Shorten a long text to what is worth showing, and format counts. No cut splits what is read as one character.

A preview is a function of the text and of how the policy counts tokens. The presets show the head. Ours shows the
head, the tail and the decisive lines between: the reason of a failure is seldom at the top of a long output.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator

from ebbtide.core import texts

Count = Callable[[str], int]
Preview = Callable[[str, Count], str]

_DECISIVE = re.compile(
    r"error|exception|traceback|segfault|错误|失败|异常"
    r"|\b(?:panic|fatal|fail(?:ed|ure|s)?|denied|not found|refused|timed? ?out|abort(?:ed)?)\b"
    r"|\bexit(?:ed)?(?: with)?(?: code| status)?[ :=]+[1-9]",
    re.IGNORECASE,
)
_BEGINNINGS = (
    *("error", "exception", "traceback", "segfault", "错误", "失败", "异常", "panic", "fatal", "fail"),
    *("denied", "not found", "refused", "time", "abort", "exit"),
)
"""What each of these begins with, in small letters: few places of a text are looked at closely."""
_SEARCHED = 500_000
"""Characters of either end in which decisive lines are sought: the work is bounded, whatever a tool prints."""
_CLUSTER = 32
"""How far a cut moves to spare what is read as one character. Longer ones are not writing but attacks."""
_JOINER = "\u200d"


def decisive_lines(text: str, *, start: int = 0, stop: int | None = None, most: int = 12) -> tuple[str, ...]:
    """Lines that tell how it ended, clipped; of many, the first and the last ones."""
    stop = len(text) if stop is None else stop
    middle = stop - start > 2 * _SEARCHED
    parts = [(start, start + _SEARCHED), (stop - _SEARCHED, stop)] if middle else [(start, stop)]
    places = [place for part in parts for place in _decisive(text, *part)]
    half = most // 2
    chosen = places if len(places) <= most else (*places[:half], *places[-(most - half) :])
    return tuple(clip(text, *place).strip() for place in chosen)


def _decisive(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Where they are: 200 characters of a line at most. An error is read whole, a minified file is not."""
    past = start
    for match in _matches(text, start, stop):
        if match.start() < past:
            continue
        begin = max(text.rfind("\n", past, match.start()) + 1, past)
        end = text.find("\n", match.end(), stop)
        past = stop if end < 0 else end
        yield max(begin, match.start() - 100), min(past, match.start() + 100)


def _matches(text: str, start: int, stop: int) -> Iterator[re.Match[str]]:
    """`_DECISIVE.finditer(text, start, stop)`, ten times as fast. Some may begin inside the one before."""
    if not is_plain(text):
        yield from _DECISIVE.finditer(text, start, stop)
        return
    small = text[start:stop].lower()
    for place in sorted([at for beginning in _BEGINNINGS for at in _places(small, beginning)]):
        match = _DECISIVE.match(text, start + place, stop)
        if match is not None:
            yield match


_TWINS = re.compile("[\u0130\u0131\u017f\u212a]")


def is_plain(text: str) -> bool:
    """Whether its letters, made small, are found where a pattern that disregards case finds them.

    A dotless i, a long s and a sign for kelvin are read as `i`, `s` and `k` then, and are none of them.
    """
    return text.isascii() or _TWINS.search(text) is None


def _places(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def head_lines(n: int) -> Preview:
    """The first n lines (R102)."""
    return lambda text, _: "\n".join(text.split("\n", n)[:n])


def first_chars(n: int) -> Preview:
    """The first n characters (R115)."""
    return lambda text, _: clip(text, 0, n)


def head_chars(n: int) -> Preview:
    """The first n characters, or less to end with a line, if that line ends in the second half (R110)."""

    def preview(text: str, _: Count) -> str:
        if len(text) <= n:
            return text
        newline = text.rfind("\n", 0, n)
        return clip(text, 0, newline if newline > n / 2 else n)

    return preview


def essence(tokens: int) -> Preview:
    """Head, the lines that decide, and tail, in at most so many tokens."""

    def preview(text: str, count: Count) -> str:
        chars = 4 * tokens
        # Shrinks by the ratio by which it was too long. Below 80 characters only the marks would be left.
        while chars >= 80:
            excerpt = _essence(text, chars)
            spent = count(excerpt)
            if spent <= tokens:
                return excerpt
            chars = chars * tokens // (spent + 1)
        return ""

    return preview


def _essence(text: str, chars: int) -> str:
    if len(text) <= chars:
        return text
    head = head_chars(chars // 2)(text, len)
    begin = len(text) - chars // 4
    newline = text.find("\n", begin, -(chars // 8))
    tail = clip(text, newline + 1 if newline >= 0 else begin, len(text))
    left_out = len(text) - len(head) - len(tail)
    parts = [head, texts.characters_omitted(left_out)]
    room = chars // 4 - 60  # the marks
    for line in decisive_lines(text, start=len(head), stop=len(text) - len(tail)):
        room -= len(line) + 1
        if room < 0:
            break
        parts.append(line)
    if len(parts) > 2:
        parts.append(texts.MORE_OMITTED)
    return "\n".join((*parts, tail))


def head_and_tail(text: str, keep: int, marker: Callable[[int], str]) -> str:
    """`keep` characters of either end, and between them what the marker says of the number left out."""
    head, tail = clip(text, 0, keep), clip(text, len(text) - keep, len(text))
    return head + marker(len(text) - len(head) - len(tail)) + tail


def clip(text: str, start: int, stop: int) -> str:
    """`text[start:stop]`, or less: neither end parts what is read as one character."""
    start, stop = max(0, start), min(stop, len(text))
    for _ in range(_CLUSTER):
        if start >= stop or not _parts(text, start):
            break
        start += 1
    for _ in range(_CLUSTER):
        if stop <= start or not _parts(text, stop):
            break
        stop -= 1
    return text[start:stop]


def _parts(text: str, at: int) -> bool:
    """Whether a cut here parts a surrogate pair, a letter and its accents, an emoji and what modifies it, a flag."""
    if at <= 0 or at >= len(text):
        return False
    left, right = text[at - 1], text[at]
    if right < "\u0300" and left < "\u0300":
        return (left, right) == ("\r", "\n")
    if _surrogate(left) == "high" and _surrogate(right) == "low":
        return True
    if _JOINER in (left, right) or unicodedata.category(right) in ("Mn", "Mc", "Me"):
        return True
    if "\U0001f3fb" <= right <= "\U0001f3ff" or "\U000e0020" <= right <= "\U000e007f":
        return True
    return _flag(right) and _flag(left) and _flags_before(text, at) % 2 == 1


def _surrogate(char: str) -> str:
    return "high" if "\ud800" <= char <= "\udbff" else "low" if "\udc00" <= char <= "\udfff" else ""


def _flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flags_before(text: str, at: int) -> int:
    """Regional indicators right before a place: two make a flag."""
    n = 0
    while n < min(at, 2 * _CLUSTER) and _flag(text[at - 1 - n]):
        n += 1
    return n


def pluralize(number: float, noun: str) -> str:
    """Format a count with a noun that takes an s: `1 edit`, `2 edits`, `1,200 edits`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_duration(seconds: float) -> str:
    """A length of time in its largest unit: `300 s`, `22 h`."""
    for limit, length, unit in ((600, 1, "s"), (7_200, 60, "min"), (172_800, 3_600, "h")):
        if seconds < limit:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"
