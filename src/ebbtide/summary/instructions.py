"""A summary reports. What in it gives orders, or says that something was allowed, is not the summariser's to say.

The user's own words stand beside every summary, so nothing is lost with such a line. Patterns cannot find every order;
they keep the plain ones from being repeated. What holds against the others is the frame and the tier.
"""

from __future__ import annotations

import base64
import codecs
import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal
from urllib.parse import unquote

from ebbtide.summary.instruction_phrases import APPROVALS, LISTS, ORDERS
from ebbtide.summary.sanitize import strip_invisible, to_plain_letters

Fault = Literal["approval", "order"]

_BLANK = r"""[\s*_`~>"'“”‘’|#]+"""
_WRAPPED = r"\n(?![^\S\n]*(?:\n|#|[-*+•]\s|\d{1,3}[.)]\s))"
"""A sentence may go on in the next line, not in the next point."""
_FEW, _MORE = rf"\b(?:[^.!?。！？\n]|{_WRAPPED}){{0,40}}?\b", rf"\b(?:[^.!?。！？\n]|{_WRAPPED}){{0,90}}?"
_SIGNS, _MORE_SIGNS = rf"(?:[^。！？\n不没未]|{_WRAPPED}){{0,14}}?", rf"(?:[^。！？\n]|{_WRAPPED}){{0,40}}?"


def _pattern(phrase: str) -> str:
    for name, words in LISTS.items():
        phrase = phrase.replace(f"{{{name}}}", f"(?:{words})")
    latin = phrase.isascii() or " … " in phrase or " …… " in phrase
    for mark, gap in ((" …… ", _MORE), (" … ", _FEW), ("……", _MORE_SIGNS), ("…", _SIGNS), (" ", _BLANK)):
        phrase = phrase.replace(mark, gap)
    return rf"\b(?:{phrase})(?!\w)" if latin else f"(?:{phrase})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """Where a text orders or allows."""

    start: int
    end: int
    fault: Fault


@cache
def _patterns() -> tuple[tuple[Fault, re.Pattern[str]], ...]:
    """Made when first asked for: it takes longer than all that a program without a summariser does at its start.

    One for each phrase: a short match must not hide a long one. Every gap is bounded, so time grows with the text.
    """
    kinds: tuple[tuple[Fault, Sequence[str]], ...] = (("approval", APPROVALS), ("order", ORDERS))
    return tuple((fault, re.compile(_pattern(one), re.IGNORECASE)) for fault, phrases in kinds for one in phrases)


_REST = re.compile(rf"(?:[^.!?。！？\n]|{_WRAPPED}){{0,400}}")
_EMPHASIS = re.compile(r"(?<!\w)_|_(?!\w)|[*`]")


def find_instructions(text: str) -> Iterator[Instruction]:
    """Every place where the text, read as a person would, orders or allows, up to the end of the sentence.

    The text should be `visible` already.
    """
    read = _EMPHASIS.sub(" ", to_plain_letters(text))
    for fault, pattern in _patterns():
        for found in pattern.finditer(read):
            rest = _REST.match(read, found.end())
            yield Instruction(start=found.start(), end=rest.end() if rest else found.end(), fault=fault)


_SPACED = re.compile(r"(?<!\w)(?:\w[ .\-_*·]){4,}\w(?!\w)")
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")


def split_points(text: str) -> Iterator[tuple[int, int]]:
    """Where each point or paragraph begins and ends."""
    start = 0
    goes_on = re.compile(_WRAPPED)
    for found in re.finditer(r"\n", text):
        if not goes_on.match(text, found.start()):
            yield start, found.start()
            start = found.end()
    yield start, len(text)


def find_hidden_instruction(text: str) -> Fault | None:
    """What a text says once its wrapping is off: entities, percent signs, letters set apart, base64, hexadecimal."""
    found = next((one for other in _unwrapped(text) for one in find_instructions(strip_invisible(other))), None)
    return found.fault if found else None


def _unwrapped(text: str) -> Iterator[str]:
    others: Iterable[str] = (
        html.unescape(html.unescape(text)),
        unquote(text),
        _SPACED.sub(lambda found: re.sub(r"[ .\-_*·]", "", found[0]), text),
        codecs.encode(text, "rot13") if text.isascii() else "",
        text[::-1],
        *(_decoded(blob) for blob in _ENCODED.findall(text)),
    )
    yield from (other for other in others if other and other != text)


def _decoded(blob: str) -> str:
    """What a run of base64 or hexadecimal digits says; empty where it says nothing."""
    digits = blob.rstrip("=").translate(str.maketrans("-_", "+/"))
    try:
        data = bytes.fromhex(digits) if re.fullmatch(r"(?:[0-9a-fA-F]{2})+", digits) else _base64(digits)
        return data.decode("utf-8")
    except ValueError:
        return ""


def _base64(digits: str) -> bytes:
    return base64.b64decode(digits[: len(digits) - (len(digits) % 4 == 1)] + "=" * (-len(digits) % 4))
