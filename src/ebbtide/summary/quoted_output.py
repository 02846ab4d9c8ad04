"""What a tool said is not for the summary to say in its own voice. Words copied from output are shown as a quotation.

No list of phrases knows every order. But an order that a tool smuggles in gets into a summary by being copied, and what
was copied can be found: it stays readable, between quotation marks, with its origin beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from ebbtide.summary.instructions import split_points
from ebbtide.summary.sanitize import to_plain_letters

ORIGIN = "(quoted from output)"

_SIGNS = r"\u3400-\u9fff\u3040-\u30ff"
_WORD = re.compile(rf"[{_SIGNS}]|[^\W{_SIGNS}](?:[^\s{_SIGNS}]*[^\W{_SIGNS}])?")
"""A sign of Chinese, or what stands between blanks without the marks around it: a path is one word."""
_RUN = 6
"""Words in a row that two texts do not share by chance. Fewer are idioms, titles and names."""
_SIGN = 0.75
"""What a Chinese sign counts for, in words: six words are about eight signs."""


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(to_plain_letters(text))]


def _shingles(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(islice(words, start, None) for start in range(_RUN)), strict=False)


def mark_quotes(text: str, outputs: Iterable[str], trusted: Iterable[str]) -> str:
    """The text with quotation marks around every run of words that stands in an output and in no trusted text.

    Fenced code stays: it is shown as what it is.
    """
    wanted = set(_shingles(_words(text)))
    if not wanted:
        return text
    found = {one for output in outputs for one in _shingles(_words(output)) if one in wanted}
    found -= {one for said in trusted for one in _shingles(_words(said))}
    if not found:
        return text
    parts = _FENCED.split(text)
    return "".join(part if n % 2 else "\n".join(_marked_points(part, found)) for n, part in enumerate(parts))


_FENCED = re.compile(r"(^[ \t]*```[^\n]*\n.*?^[ \t]*```[^\n]*$)", re.MULTILINE | re.DOTALL)


def _marked_points(text: str, found: set[tuple[str, ...]]) -> Iterator[str]:
    for start, end in split_points(text):
        yield _marked(text[start:end], found)


def _marked(point: str, found: set[tuple[str, ...]]) -> str:
    matches = list(_WORD.finditer(to_plain_letters(point)))
    places, words = [one.span() for one in matches], [one[0].casefold() for one in matches]
    copied = [False] * len(words)
    for at, one in enumerate(_shingles(words)):
        if one in found:
            copied[at : at + _RUN] = [True] * _RUN
    parts, past, at = list[str](), 0, 0
    while at < len(words):
        end = at
        while end < len(words) and copied[end]:
            end += 1
        if sum(_SIGN if _is_sign(word) else 1.0 for word in words[at:end]) >= _RUN:
            start, stop = places[at][0], places[end - 1][1]
            said = point[start:stop].replace("”", "'")  # It does not end its own quotation.
            parts += [point[past:start], f"“{said}” {ORIGIN}"]
            past = stop
        at = max(end, at + 1)
    return "".join((*parts, point[past:]))


def _is_sign(word: str) -> bool:
    return len(word) == 1 and word > "\u2fff"
