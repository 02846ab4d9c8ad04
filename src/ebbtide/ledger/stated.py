"""Sentences of the user's that bind. A cue is a word that rules out another course: must, never, 必须, 不要."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ebbtide.ledger.lines import one_line

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
_LONGEST, _WIDTH = 20_000, 240
"""A message beyond the first is a pasted document; a rule beyond the second is an essay."""
_SHORTEST = 4
"""Characters: 不要动它 is a whole rule."""


def binding(text: str) -> Iterator[str]:
    """Sentences with a cue, in order. Pasted markup, code and quoted logs are not the user's sentences."""
    inside = False
    for row in _ENDS.split(text[:_LONGEST]):
        if row.lstrip().startswith("```"):
            inside = not inside
            continue
        line = row.strip()
        if inside or len(line) < _SHORTEST or line.startswith(("<", "|", ">", "+", "@@", "at ")):
            continue
        if _CUES.search(line):
            yield one_line(line, _WIDTH)
