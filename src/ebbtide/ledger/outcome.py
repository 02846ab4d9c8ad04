"""How a call ended, read from its output. Whoever ran the command wrote the output: it is quoted, never believed
beyond this."""

from __future__ import annotations

import re

from ebbtide.core.content import failed as flagged
from ebbtide.core.types import Item
from ebbtide.ledger.lines import one_line

_STATUS = re.compile(
    r"(?:exit(?:ed)?(?: with)?[ _]?(?:code|status)\"?|return ?code|退出(?:代码|码|状态))\s*[:：=]?\s*(-?\d{1,5})",
    re.IGNORECASE,
)
_REACH = 400
"""Harnesses write the status at the head or the end of what they return."""
_DECISIVE = re.compile(
    r"\b(?:error|errors|fatal|panic|exception|traceback|fail(?:ed|ure|s)?|undefined|cannot|denied|not found|refused"
    r"|conflict|passed|succeeded|assert\w*)\b|^(?:ok|FAIL|PASS|---)\b|[A-Z]\w+Error\b|错误|失败|异常|通过|成功",
    re.IGNORECASE,
)
_WIDTH, _MOST = 160, 3
"""A decisive line says it within two screen widths; the third seldom adds to the first two."""
_LOOKED_AT = 200_000
"""Characters of an output, half from each end."""


_PROBES = frozenset(
    (
        *("grep", "rg", "ls", "find", "fd", "which", "test", "[", "cat", "head", "tail", "sed", "diff", "pgrep", "nl"),
        *("command", "stat", "wc", "tree", "pwd", "echo", "type", "file", "jq", "awk", "bat", "less"),
    )
)
"""Commands that only ask."""
_WRAPPED = re.compile(r"^(?:\s*cd\s+\S+\s*(?:&&|;)|\s*\w+=\S*\s|\s*(?:sudo|time|timeout\s+\S+|env)\s)+")


def program_of(command: str) -> str:
    """The program and what it is asked for: `go test`, `npm run build`."""
    words = _WRAPPED.sub("", command[:500]).split()
    told = [word for word in words[:3] if re.fullmatch(r"[\w./:@+-]+", word) and not word.startswith("-")]
    return " ".join(told)


def is_probe(command: str) -> bool:
    """A command that asks: a failure of it is an answer."""
    return program_of(command).partition(" ")[0] in _PROBES


def status_of(text: str) -> int | None:
    """The exit status that the harness wrote beside the output, or None."""
    found = _STATUS.search(text[:_REACH]) or (_STATUS.search(text[-_REACH:]) if len(text) > _REACH else None)
    return int(found[1]) if found else None


def is_failure(result: Item) -> bool:
    return flagged(result) or (status_of(result.text) or 0) != 0


def decisive_lines(text: str) -> tuple[str, ...]:
    """The lines that decide: those that speak of failure or success, the last first among equals, and the last line."""
    if len(text) > _LOOKED_AT:
        text = text[: _LOOKED_AT // 2] + "\n" + text[-_LOOKED_AT // 2 :]
    rows = [row for row in text.splitlines() if row.strip()]
    if not rows:
        return ()
    telling = [n for n, row in enumerate(rows) if len(row) < 1000 and _DECISIVE.search(row)]
    # The first error is the cause, the last line the verdict.
    chosen = sorted({*telling[:1], *telling[-1:], len(rows) - 1})[:_MOST]
    return tuple(dict.fromkeys(one_line(rows[n], _WIDTH) for n in chosen))
