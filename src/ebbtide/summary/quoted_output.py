"""Marks words that a summary copied from tool output as quotations.

No list of phrases knows every instruction. But an instruction in tool output gets into a summary by being copied, and
copies can be found: they stay readable, in quotation marks, with their origin beside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from ebbtide.core.texts import QUOTE_ORIGIN
from ebbtide.summary.instructions import split_points
from ebbtide.summary.sanitize import to_plain_letters

_CHINESE = r"\u3400-\u9fff\u3040-\u30ff"
_WORD = re.compile(rf"[{_CHINESE}]|[^\W{_CHINESE}](?:[^\s{_CHINESE}]*[^\W{_CHINESE}])?")
"""A Chinese character, or a run without blanks, without the marks around it: a path is one word."""
_MIN_WORDS = 6
"""Words in a row that two texts do not share by chance. Fewer are idioms, titles and names."""
_CHINESE_WEIGHT = 0.75
"""What a Chinese character counts for: six words are about eight characters."""
_CODE_BLOCK = re.compile(r"(^[ \t]*```[^\n]*\n.*?^[ \t]*```[^\n]*$)", re.MULTILINE | re.DOTALL)

Shingle = tuple[str, ...]
"""A fixed number of words in a row."""


def mark_quotes(text: str, outputs: Iterable[str], user_texts: Iterable[str]) -> str:
    """Put quotation marks around words that an output has in this order and no text of the user has.

    Code blocks stay as they are: they show what they are.
    """
    candidates = set(_shingles(_words(text)))
    if not candidates:
        return text
    copied = {shingle for output in outputs for shingle in _shingles(_words(output)) if shingle in candidates}
    copied -= {shingle for user_text in user_texts for shingle in _shingles(_words(user_text))}
    if not copied:
        return text
    parts = _CODE_BLOCK.split(text)
    return "".join(
        part if n % 2 else "\n".join(_mark_point(part[start:end], copied) for start, end in split_points(part))
        for n, part in enumerate(parts)
    )


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(to_plain_letters(text))]


def _shingles(words: Sequence[str]) -> Iterator[Shingle]:
    return zip(*(islice(words, start, None) for start in range(_MIN_WORDS)), strict=False)


def _mark_point(point: str, copied: set[Shingle]) -> str:
    matches = list(_WORD.finditer(to_plain_letters(point)))
    words = [match[0].casefold() for match in matches]
    is_copied = [False] * len(words)
    for n, shingle in enumerate(_shingles(words)):
        if shingle in copied:
            is_copied[n : n + _MIN_WORDS] = [True] * _MIN_WORDS
    parts, written_to, first = list[str](), 0, 0
    while first < len(words):
        last = first
        while last < len(words) and is_copied[last]:
            last += 1
        if sum(_CHINESE_WEIGHT if _is_chinese(word) else 1.0 for word in words[first:last]) >= _MIN_WORDS:
            start, end = matches[first].start(), matches[last - 1].end()
            quote = point[start:end].replace("”", "'")  # it must not end its own quotation
            parts += [point[written_to:start], f"“{quote}” {QUOTE_ORIGIN}"]
            written_to = end
        first = max(last, first + 1)
    return "".join((*parts, point[written_to:]))


def _is_chinese(word: str) -> bool:
    return len(word) == 1 and word > "\u2fff"
