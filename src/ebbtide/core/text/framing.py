"""What stands in a frame cannot end it, and cannot open another of ours.

Text from outside comes in frames, `<tag>` to `</tag>`, so that a model can tell who speaks. The bracket of every tag
of ours inside is turned into `[`, however the tag is written: case, blanks, unseen characters, entities, look-alikes.
No meaning hangs on tags alone: how far a block is trusted is kept beside it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from types import MappingProxyType

from ebbtide.core.errors import BadConfig

TAG_BY_SOURCE: Mapping[str, str] = MappingProxyType(
    {
        "reminder": "system-reminder",
        "ide_selection": "ide_selection",
        "ide_opened": "ide_opened_file",
        "hook_prompt": "user-prompt-submit-hook",
        "hook_pre_tool": "pre-tool-use-hook",
        "hook": "hook-output",
        "mode": "system-reminder",
        "attachment": "system-reminder",
        "instructions": "project-instructions",
        "summary": "conversation-summary",
        "compactor": "conversation-summary",
    }
)
GENERIC_TAG = "injected-context"
"""For an unknown source: it still gets a frame, and the lowest trust."""

_TWINS = (
    ("аеорсухіјѕԁһԛԝѵоոսցӏ", "aeopcyxijsdhqwvonugl"),  # Cyrillic and Armenian, small
    ("АВЕКМНОРСТУХІЈЅ", "abekmhopctyxijs"),
    ("αεικνορτυχΑΒΕΗΙΚΜΝΟΡΤΥΧ", "aeiknoptuxabehikmnoptyx"),  # Greek
    ("ıɩɡ‹〈⟨❮˂ᐸ≺⧼⁄∕⧸╱‐‑‒–—―−⁃", "iig<<<<<<<<////--------"),
    ("\u115f\u1160\u2800\u3164\uffa0", "\u200b" * 5),  # blanks that Unicode counts as letters
)
_JOINED = {"fi": "ﬁ", "fl": "ﬂ", "ff": "ﬀ", "st": "ﬅﬆ", "nj": "Ǌǋǌ", "lj": "Ǉǈǉ", "ij": "Ĳĳ"}
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Me", "Mn"})


class _Folding(dict[int, str]):
    """What a reader takes a character for; a zero-width space for what is not seen. Filled as characters turn up.

    One character for one, so that offsets in the folded text are offsets in the original.
    """

    def __missing__(self, code: int) -> str:
        char = chr(code)
        parts = unicodedata.normalize("NFKD", char)
        visible = [c for c in parts if unicodedata.category(c) not in _UNSEEN_CATEGORIES and not c.isspace()]
        if not visible:
            folded = char if char.isspace() else "\u200b"
        else:
            folded = visible[0] if len(visible) == 1 and visible[0].isascii() else char
        self[code] = folded
        return folded


_FOLDING = _Folding({ord(odd): plain for odds, plains in _TWINS for odd, plain in zip(odds, plains, strict=True)})

_SWAPS = 16
"""Kinds of characters that are faster replaced one after the other than all at once."""
_UNSEEN = "\u200b"
"""What stands for all that is not seen: a pattern with one character for a gap compiles in a fifth of the time."""
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f]")
_OPENS = re.compile(r"[<&\\%]")
"""What a bracket of any make begins with: few places of a text are looked at closely."""
_BRACKET = r"<|&(?:amp;)*+(?:lt|\#0*+60|\#x0*+3c);?|\\u003c|\\x3c|%3c"
_SLASH = rf"(?:[\s{_UNSEEN}/\\]|&(?:amp;)*+(?:sol|\#0*+47|\#x0*+2f);?|%2f)*+"
_ALIKE = {"-": rf"[-_\s{_UNSEEN}]{{0,4}}", "_": rf"[-_\s{_UNSEEN}]{{0,4}}", "i": "[il1|]", "l": "[il1|]", "o": "[o0]"}


def _spelt(name: str) -> str:
    """The name in any spelling: unseen characters between its letters, look-alikes and ligatures for them."""
    gap = f"{_UNSEEN}*+"
    pairs = "|".join(_JOINED)
    units = []
    for unit in re.findall(f"{pairs}|.", name.lower()):
        letters = gap.join(_ALIKE.get(c, re.escape(c)) for c in unit)
        units.append(f"(?:{letters}|[{_JOINED[unit]}])" if unit in _JOINED else letters)
    return gap.join(units)


@lru_cache(maxsize=64)
def _tag_pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """A bracket of any make, slashes and blanks, one of the names. No closing bracket is asked for: scanners that pair
    brackets are led astray by a stray one."""
    return re.compile(rf"(?P<bracket>{_BRACKET}){_SLASH}(?:{'|'.join(map(_spelt, names))})(?!\w|-\w)", re.IGNORECASE)


def brackets(text: str, names: tuple[str, ...]) -> list[tuple[int, int]]:
    """Where the bracket of every tag of these names stands, in order."""
    folded = _CONTROLS.sub(_UNSEEN, text) if text.isascii() else translate_keeping_places(text, _FOLDING)
    return [match.span("bracket") for match in find_matches_at(_tag_pattern(names), _OPENS, folded)]


def find_matches_at(pattern: re.Pattern[str], opens: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """`pattern.finditer(text)`, for one that matches only where `opens` does, and never nothing."""
    end = 0
    for place in opens.finditer(text):
        match = pattern.match(text, place.start()) if place.start() >= end else None
        if match is not None:
            end = match.end()
            yield match


def translate_keeping_places(text: str, table: Mapping[int, str]) -> str:
    """`text.translate(table)`. Most texts have few kinds of characters, and fewer that change."""
    kinds = set(text)
    swaps = [(char, put) for char in kinds if (put := table[ord(char)]) != char]
    if len(swaps) > _SWAPS or any(put in kinds and table[ord(put)] != put for _, put in swaps):
        return text.translate(table)
    for char, put in swaps:
        text = text.replace(char, put)
    return text


def neutral(parts: Sequence[str], names: tuple[str, ...]) -> list[str]:
    """The parts with `[` for the bracket of every tag of ours, also of one that is split between two parts."""
    joined = "".join(parts)
    spans = brackets(joined, names)
    if not spans:
        return list(parts)
    letters = list(joined)
    for start, end in spans:
        letters[start:end] = ["[", *[""] * (end - start - 1)]
    cuts = accumulate((len(part) for part in parts), initial=0)
    return ["".join(letters[start:end]) for start, end in pairwise(cuts)]


def tag_names(tags: Iterable[str]) -> tuple[str, ...]:
    names = tuple(sorted({*tags, GENERIC_TAG}))
    for name in names:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
            raise BadConfig(f"{name!r} cannot be a tag: letters, digits, - and _, a letter first")
    return names


OUR_TAGS = tag_names(TAG_BY_SOURCE.values())


def frame(tag: str, text: str, *, tags: Iterable[str] = OUR_TAGS) -> str:
    """The text between `<tag>` and `</tag>`, which nothing inside can close or open again, `tags` included.

    Tags of other names stay: markup in the text is the text's own affair.
    """
    body = neutral([text], tag_names([*tags, tag]))[0]
    return f"<{tag}>\n{body}\n</{tag}>"


def frames(text: str, *, tags: Iterable[str] = OUR_TAGS) -> tuple[tuple[str, str], ...]:
    """Every frame in the text, outermost only, as (tag, body)."""
    pattern = rf"<(?P<tag>{'|'.join(map(re.escape, tag_names(tags)))})>\n(?P<body>.*?)\n</(?P=tag)>"
    return tuple((match["tag"], match["body"]) for match in re.finditer(pattern, text, re.DOTALL))
