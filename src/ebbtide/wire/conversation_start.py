"""Remove from a system prompt what changes during a conversation, so that it identifies the conversation.

A conversation without an id is recognized by its system prompt and the user's first message. Dates, times, counters
and Claude Code's header are removed. All other digits count: two users' prompts may differ only in an account number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_COUNT = r"\d[\d,._]{0,15}"
_VOLATILE = re.compile(
    "|".join(
        (
            r"^x-anthropic-.*",  # a version and a checksum
            r"(?<!\d)\d{8}T\d{4,6}Z?",
            r"(?<!\d)\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?!\d)",
            r"(?<!\d)\d{1,2}[-/.]\d{1,2}[-/.]\d{4}(?!\d)",
            r"(?<!\d)\d{4}\s?年\s?\d{1,2}\s?月\s?\d{1,2}\s?日",
            rf"(?<!\d)\d{{1,2}}(?:st|nd|rd|th)?\s{{1,3}}(?:of\s)?{_MONTH},?(?:\s{{1,3}}\d{{4}}(?!\d))?",
            rf"\b{_MONTH}\s{{1,3}}\d{{1,2}}(?:st|nd|rd|th)?(?!\d),?(?:\s{{1,3}}\d{{4}}(?!\d))?",
            r"\b(?:mon|tue|tues|wed|wednes|thu|thur|thurs|fri|sat|satur|sun)(?:day)?\b",
            r"(?<!\d)\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:\s?[ap]\.?m\b\.?)?(?:\s?(?:utc|gmt|z\b|[+-]\d{2}:?\d{2}))?",
            r"(?<!\d)\d{1,2}\s?[ap]\.?m\b\.?",
            r"\b(?:timestamp|epoch|unix time)\W{1,4}\d{10,19}(?:\.\d{1,9})?",
            rf"\b(?:turn|step|round|iteration|attempt)s?\W{{1,3}}{_COUNT}",
            rf"(?<![\w.,]){_COUNT}\s?(?:%|percent\b|(?:tokens?|turns?|steps?|rounds?|iterations?|messages|requests|"
            r"calls|seconds?|minutes?|hours?)\b)",
        )
    ),
    re.IGNORECASE,
)


_SHORT = 2_000
"""Lines up to this length are cached."""
_HINT = re.compile(r"\d|day\b|^x-anthropic-", re.IGNORECASE)
"""Found in every line that can match `_VOLATILE`; most lines have none of these."""


def strip_changing_parts(texts: Iterable[str]) -> str:
    """Remove what changes during a conversation from the texts of a system prompt."""
    return "\n".join(map(_strip_text, texts))


@lru_cache(maxsize=64)
def _strip_text(text: str) -> str:
    """Cached, because most prompts come again; of one with a clock, all lines but one."""
    return "\n".join(
        [_strip_short_line(line) if len(line) <= _SHORT else _strip_line(line) for line in text.split("\n")]
    )


def _strip_line(line: str) -> str:
    return _VOLATILE.sub("", line) if _HINT.search(line) else line


_strip_short_line = lru_cache(maxsize=4096)(_strip_line)
