"""Which names will be needed again. Measured on recorded sessions (`benchmarks/retention.py`): what the assistant wrote
once it writes again, what stood in many items stands in more, what is recent is near. The weights are those of a
logistic fit on half of the recordings, rounded; the other half is what the benchmark reports.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

from ebbtide.facts.model import NameStats

IDENTIFIER = re.compile(r"(?<!\\)[A-Za-z_][A-Za-z0-9_\-./]{6,79}|\b[0-9a-f]{7,40}\b|\b\d{4,}\b")
"""Names of seven letters and more, paths, hashes, numbers of four digits and more. Not the letter of an escape."""
ENDS = "./-"
"""Signs that a name may end with and that are not of it."""
_SHORTEST = 4
"""Characters of a name: a number's."""
_PLAIN = re.compile(r"(?:[A-Z]?[a-z]+|[A-Z]+)[-./]*")
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+|[^A-Za-z\d]")
_BASE, _SPREAD, _SPOKEN, _SPOKEN_MORE, _SAID = -2.7, 0.42, 2.1, 0.15, 0.5
_AGE, _AGE_OF_USE = 0.31, 0.30
_DIGITS, _NAME = 1.2, 0.4
"""Numbers and hashes come back less often than words; so do names, a little."""
_THOUSAND = 1000.0
"""Age counts in thousands of tokens, as a logarithm: the last few items are a class of their own."""


_APART = bytes(byte if byte >= 128 or chr(byte).isalnum() or chr(byte) in "_-./\\" else 32 for byte in range(256))
"""Turns to blanks what no name has in it and none stands beside: all of ASCII but letters, digits and `_-./\\`."""


def list_names(text: str) -> list[str]:
    """In their order, as often as they stand there."""
    return IDENTIFIER.findall(text)


def name_set(text: str) -> set[str]:
    """The same, each once. Most words of a text are short or stand there many times: those are not looked at."""
    plain = text.encode("utf-8", "surrogatepass").translate(_APART).decode("utf-8", "surrogatepass")
    return set(IDENTIFIER.findall(" ".join([word for word in set(plain.split()) if len(word) >= _SHORTEST])))


def is_word(name: str) -> bool:
    """Of letters alone: it may be a name, and more likely it is prose."""
    return _PLAIN.fullmatch(name) is not None


def reuse_probability(name: str, seen: NameStats, now: int) -> float:
    """How likely the assistant is to write the name in its next thirty calls, from 0 to 1."""
    rarer = _DIGITS if name[0].isdigit() else _NAME if seen.cost else 0.0
    unused = now - seen.last_use if seen.assistant_count else 0
    return _likely(seen.item_count, seen.assistant_count, seen.user_count > 0, now - seen.last_position, unused, rarer)


@lru_cache(maxsize=4096)  # names that came in one item and never again are rated alike, and most are such
def _likely(items: int, spoken: int, said: bool, age: int, unused: int, rarer: float) -> float:
    score = _BASE + _SPREAD * math.log(items) - _AGE * math.log1p(age / _THOUSAND)
    if spoken:
        score += _SPOKEN + _SPOKEN_MORE * math.log1p(spoken)
        score -= _AGE_OF_USE * math.log1p(unused / _THOUSAND)
    if said:
        score += _SAID
    return 1 / (1 + math.exp(-(score - rarer)))


def name_cost(name: str) -> int:
    """What it costs to name this: see `Seen.cost`."""
    return 0 if is_word(name) else 1 + len(_PARTS.findall(trim_name(name)))


def trim_name(name: str) -> str:
    """Without the signs of a sentence's or a path's end."""
    return name.rstrip(ENDS)
