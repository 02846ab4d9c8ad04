"""Secrets leave a text before it leaves the house. By shape where a shape is known, by name where a value has one.

What only looks random is masked if it stands alone, is of a key's length and mixes cases and digits: hashes, ids and
encoded pictures stay. No list finds every secret; a person should look before publishing.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable

_KEY = "[A-Z ]*PRIVATE KEY(?: BLOCK)?-----"
_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("private-key", rf"-----BEGIN {_KEY}[\s\S]*?(?:-----END {_KEY}|\Z)"),
        ("api-key", r"\b(?:sk|pk|rk)[-_](?:[A-Za-z0-9]+[-_])*[A-Za-z0-9_-]{16,}"),
        ("github-token", r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
        ("gitlab-token", r"\bglpat-[A-Za-z0-9_-]{16,}"),
        ("aws-key", r"\b(?:AKIA|ASIA|AGPA|AROA)[A-Z0-9]{16}\b"),
        ("slack-token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
        ("google-key", r"\bAIza[A-Za-z0-9_-]{30,}"),
        ("registry-token", r"\b(?:npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}|hf_[A-Za-z0-9]{25,})"),
        # It may stand behind a few dashed words, which stay: looked for behind every dash of a long run it would be
        # looked for too often.
        ("jwt", r"(?<![\w-])((?:\w{0,40}-){0,6}?)eyJ[A-Za-z0-9_-]{8,}+\.eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}"),
    )
)  # fmt: skip
"""Prefixes that their issuers chose so that leaks can be found."""

_NAMES = (
    r"(?:password|passwd|passphrase|secret|(?:api|access|private)[_-]?key|(?:auth|access|refresh)[_-]?token"
    r"|client[_-]?secret)"
)
_NAMED = re.compile(rf"(?:^|[_.-])(?:{_NAMES}|token|pwd)$", re.IGNORECASE)
# A literal in quotes, or a value right after `=` as in a shell: code such as `password: str` or `token = read()` stays.
# What stands before the name is no part of the pattern: to look for it from every word on takes the square of the text.
_QUOTED = re.compile(rf"""(?i)({_NAMES}["']?\s*(?:=|:|=>)\s*)(["'])((?:(?!\2)[^\\\n]|\\.){{4,}}?)\2""")
_ASSIGNED = re.compile(rf"""(?i)((?:{_NAMES}|_token)=)([^\s"'`$<({{\[;,&|]{{6,}})(?![\w(])""")
_BEARER = re.compile(r"(?i)\b((?:bearer|basic)\s+)([A-Za-z0-9+/_.~-]{16,}=*)")
_IN_URL = re.compile(r"(?i)(?<=[a-z0-9+.-])(://[^\s:/@]+:)([^\s@/]{3,})(?=@)")
_RANDOM = re.compile(r"(?<![\w+/=.-])(?!sha\d{1,3}[-:])[A-Za-z0-9+/_-]{32,128}={0,2}(?![\w+/=-])")
_BITS = 4.2
"""Of entropy for each character: 32 random letters and digits have 4.5, words and paths less than 4."""

KEPT = frozenset(("signature", "data", "encrypted_content", "uuid", "parentUuid", "sessionId", "id", "ebbids"))
"""Keys whose values are random by nature and no secrets: without them a transcript cannot be read again."""


def redact(text: str) -> tuple[str, Counter[str]]:
    """The text with each secret replaced by its kind, as in `[redacted: jwt]`, and how many of each there were."""
    counts = Counter[str]()
    for name, shape in _SHAPES:
        text = shape.sub(_mask_match(name, counts), text)
    for name, shape in (("password", _QUOTED), ("password", _ASSIGNED), ("credential", _BEARER), ("password", _IN_URL)):
        text = shape.sub(_mask_value(name, counts), text)
    return _RANDOM.sub(_mask_random(counts), text), counts


def redact_tree(value: object, *, key: str = "") -> tuple[object, Counter[str]]:
    """The same for JSON. A string under a telling key is a secret whatever it looks like."""
    if isinstance(value, str):
        if key in KEPT:
            return value, Counter()
        if _NAMED.search(key) and value:
            return mask("password"), Counter({"password": 1})
        return redact(value)
    counts = Counter[str]()
    if isinstance(value, dict):
        cleaned_values = {}
        for name, part in value.items():
            cleaned_values[name], part_counts = redact_tree(part, key=str(name))
            counts += part_counts
        return cleaned_values, counts
    if isinstance(value, list):
        parts = []
        for part in value:
            cleaned, part_counts = redact_tree(part, key=key)
            parts.append(cleaned)
            counts += part_counts
        return parts, counts
    return value, counts


def mask(kind: str) -> str:
    return f"[redacted: {kind}]"


Replace = Callable[[re.Match[str]], str]


def _mask_match(kind: str, counts: Counter[str]) -> Replace:
    """All goes but what a pattern has in a group: that only leads up to a secret."""

    def replace(match: re.Match[str]) -> str:
        counts[kind] += 1
        return (match[1] if match.lastindex else "") + mask(kind)

    return replace


def _mask_value(kind: str, counts: Counter[str]) -> Replace:
    """The last group that is a value goes; what names it stays, and so do quotes."""

    def replace(match: re.Match[str]) -> str:
        value = match[match.lastindex or 0]
        if value.startswith("[redacted") or set(value) <= {"*", "x", "X", ".", "-"}:
            return match[0]
        counts[kind] += 1
        start, end = match.span(match.lastindex or 0)
        return match[0][: start - match.start()] + mask(kind) + match[0][end - match.start() :]

    return replace


def _mask_random(counts: Counter[str]) -> Replace:
    def replace(match: re.Match[str]) -> str:
        if not _is_random(match[0]):
            return match[0]
        counts["random"] += 1
        return mask("random")

    return replace


def _is_random(word: str) -> bool:
    classes = (any(c.isupper() for c in word), any(c.islower() for c in word), sum(c.isdigit() for c in word) > 2)
    # A path or a dashed name is made of words; a key has none of these separators often.
    if not all(classes) or sum(word.count(c) for c in "/_-") > 3:
        return False
    counts = Counter(word)
    bits = -sum(n / len(word) * math.log2(n / len(word)) for n in counts.values())
    return bits >= _BITS
