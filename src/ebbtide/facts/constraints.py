"""Sentences of the user's that bind. A cue is a word that rules out another course: must, never, 必须, 不要."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ebbtide.facts.lines import to_one_line

_CUES = re.compile(
    r"\b(?:must|never|always|don'?t|do not|should(?:n'?t| not)?|shall|only|instead|rather than|avoid|required?|"
    r"prefer(?:red|ably)?|requirement|ensure|make sure|needs? to|has to|have to|no longer|stop \w+ing|"
    r"keep (?:it|the|in mind)|let'?s|we(?:'ll| will) (?:use|go)|go with|decided?|agreed|important|remember|note that|"
    r"from now on|by default|without|not allowed|forbidden|at (?:most|least)|use \S+ (?:not|over|for))\b"
    r"|必须|不要|不能|不得|不许|别(?!的|人)|禁止|务必|只(?:能|用|要|需|有|在)|仅|改用|改成|换成|优先|应该|应当|不应|需要|"
    r"要求|一律|始终|总是|从现在起|记住|注意|避免|确保|保证|决定|同意|就用|使用|而不是|默认",
    re.IGNORECASE,
)
_ENDS = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+")
_TYPED, _WIDTH = 3_000, 240
"""Characters: a longer message holds a pasted document between the user's own words; a longer rule is an essay."""
_SHORTEST = 4
"""Characters: 不要动它 is a whole rule."""
_TAGGED = re.compile(r"</?[A-Za-z][\w-]*>")


def find_constraints(text: str) -> Iterator[str]:
    """Sentences with a cue, in order. Markup, code and quoted lines are not the user's sentences."""
    if text.lstrip().startswith("<"):
        return
    half = _TYPED // 3
    typed = text if len(text) <= _TYPED else f"{text[:half]}\n{text[-half:]}"
    inside = False
    for row in _ENDS.split(typed):
        line = row.strip()
        if line.startswith("```"):
            inside = not inside
        elif inside or len(line) < _SHORTEST or line.startswith(("|", ">", "+", "@@")) or _TAGGED.search(line):
            continue
        elif _CUES.search(line):
            yield to_one_line(line.lstrip("-* "), _WIDTH)
