"""Which names will be needed again. Measured on recorded sessions (`benchmarks/retention.py`): what the assistant wrote
once it writes again, what stood in many items stands in more, what is recent is near. The weights are those of a
logistic fit on half of the recordings, rounded; the other half is what the benchmark reports.
"""

from __future__ import annotations

import math
import re

from ebbtide.ledger.facts import Seen

IDENTIFIER = re.compile(r"(?<!\\)[A-Za-z_][A-Za-z0-9_\-./]{6,79}|\b[0-9a-f]{7,40}\b|\b\d{4,}\b")
"""Names of seven letters and more, paths, hashes, numbers of four digits and more. Not the letter of an escape."""
_PLAIN = re.compile(r"(?:[A-Z]?[a-z]+|[A-Z]+)[-./]*")
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+|[^A-Za-z\d]")
_BASE, _SPREAD, _SPOKEN, _SPOKEN_MORE, _SAID = -2.7, 0.42, 2.1, 0.15, 0.5
_AGE, _AGE_OF_USE = 0.31, 0.30
_DIGITS, _NAME = 1.2, 0.4
"""Numbers and hashes come back less often than words; so do names, a little."""
_THOUSAND = 1000.0
"""Age counts in thousands of tokens, as a logarithm: the last few items are a class of their own."""


def names_in(text: str) -> list[str]:
    return IDENTIFIER.findall(text)


def is_word(name: str) -> bool:
    """Of letters alone: it may be a name, and more likely it is prose."""
    return _PLAIN.fullmatch(name) is not None


def need(name: str, seen: Seen, now: int) -> float:
    """How likely the assistant is to write the name in its next thirty calls, from 0 to 1."""
    score = _BASE + _SPREAD * math.log(seen.items) - _AGE * math.log1p((now - seen.last) / _THOUSAND)
    if seen.spoken:
        score += _SPOKEN + _SPOKEN_MORE * math.log1p(seen.spoken)
        score -= _AGE_OF_USE * math.log1p((now - seen.used) / _THOUSAND)
    if seen.said:
        score += _SAID
    if name[0].isdigit():
        score -= _DIGITS
    elif not is_word(name):
        score -= _NAME
    return 1 / (1 + math.exp(-score))


def price(name: str) -> int:
    """What a name costs, in parts that a tokenizer would hardly join."""
    return 1 + len(_PARTS.findall(name))
