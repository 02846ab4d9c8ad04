"""How a call ended, read from its output. Whoever ran the command wrote the output: it is quoted, never believed
beyond this."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ebbtide.core.text.preview import is_plain
from ebbtide.core.tool_calls import failed as flagged
from ebbtide.core.types import Item
from ebbtide.facts.lines import to_one_line

_STATUS = re.compile(
    r"(?:exit(?:ed)?(?: with)?[ _]?(?:code|status)\"?|return ?code|退出(?:代码|码|状态))\s*(?:[:：=]\s*)?(-?\d{1,5})",
    re.IGNORECASE,
)
_REACH = 400
"""Harnesses write the status at the head or the end of what they return."""
_WRONG = re.compile(
    r"\b(?:errors?|fatal|panic|exception|traceback|fail(?:ed|ure|s)?|undefined|cannot|denied|not found|refused|"
    r"conflict|unexpected|invalid|no such)\b|^FAIL\b|Error\b|^E  |✗|错误|失败|异常|找不到|无法",
    re.IGNORECASE,
)
_RIGHT = re.compile(
    r"\b(?:passed|succeeded|success\w*|0 (?:errors|failed|issues))\b|^(?:ok|PASS)\b|\(pass\)|✓|通过|成功", re.I
)
_WRONG_PARTS = (
    *("error", "fatal", "panic", "exception", "traceback", "fail", "undefined", "cannot", "denied", "not found"),
    *("refused", "conflict", "unexpected", "invalid", "no such", "e  ", "✗", "错误", "失败", "异常", "找不到", "无法"),
)
_RIGHT_PARTS = ("pass", "succe", "0 errors", "0 failed", "0 issues", "ok", "✓", "通过", "成功")
"""One of these stands in small letters wherever such a line is: most lines have none."""
_FRAME = re.compile(
    r"^(?:Chunk ID|Wall time|Process (?:exited|running)|Original token count|Output|Exit code|Shell cwd was reset|"
    r"The user doesn't want to proceed)\b|^</?[\w-]+>$"
)
"""What harnesses write around an output."""
_FRAMED = frozenset("CWPOEST<")
"""What such a line begins with."""
_WIDTH, _READ = 160, 1000
"""A decisive line says it within two screen widths; beyond the second it is data."""
_LOOKED_AT = 200_000
"""Characters of an output, half from each end."""


_PROBES = frozenset(
    (
        *("grep", "rg", "ls", "find", "fd", "which", "test", "[", "cat", "head", "tail", "sed", "diff", "pgrep", "nl"),
        *(
            "command",
            "stat",
            "wc",
            "tree",
            "pwd",
            "echo",
            "type",
            "file",
            "jq",
            "awk",
            "bat",
            "less",
            "for",
            "while",
            "date",
        ),
    )
)
"""Commands that only ask."""
_GIT_PROBES = tuple(
    ["git", verb] for verb in ("diff", "log", "show", "status", "grep", "blame", "ls-files", "rev-parse")
)
_WRAPPED = re.compile(r"^(?:\s*cd\s+\S+\s*(?:&&|;)|\s*\w+=\S*\s|\s*(?:sudo|time|timeout\s+\S+|env)\s)+")


def program_name(command: str) -> str:
    """The program and what it is asked for: `go test`, `npm run build`."""
    words = _WRAPPED.sub("", command[:500]).split()
    told = [word for word in words[:3] if re.fullmatch(r"[\w./:@+-]+", word) and not word.startswith("-")]
    return " ".join(told)


def is_probe(command: str) -> bool:
    """A command that asks: a failure of it is an answer."""
    words = program_name(command).split()
    return bool(words) and (words[0] in _PROBES or words[:2] in _GIT_PROBES)


def exit_status(text: str) -> int | None:
    """The exit status that the harness wrote beside the output, or None."""
    found = _STATUS.search(text[:_REACH]) or (_STATUS.search(text[-_REACH:]) if len(text) > _REACH else None)
    return int(found[1]) if found else None


def is_failed_result(result: Item) -> bool:
    return flagged(result) or (exit_status(result.text) or 0) != 0


def find_key_lines(text: str) -> tuple[str, ...]:
    """What went wrong first, or else what went right last; and the last line, which is the verdict."""
    if len(text) > _LOOKED_AT:
        text = text[: _LOOKED_AT // 2] + "\n" + text[-_LOOKED_AT // 2 :]
    rows = [row.strip() for row in text.splitlines()]
    rows = [row for row in rows if row and (row[0] not in _FRAMED or not _FRAME.match(row))]
    if not rows:
        return ()
    small = text.lower() if is_plain(text) else None
    wrong = next((row for row in _found(_WRONG, _WRONG_PARTS, small, rows) if not _RIGHT.search(row)), None)
    right = wrong or next(_found(_RIGHT, _RIGHT_PARTS, small, reversed(rows)), None)
    chosen = (right or rows[0], rows[-1])
    return tuple(dict.fromkeys(to_one_line(row, _WIDTH) for row in chosen))


def _found(pattern: re.Pattern[str], parts: Sequence[str], small: str | None, rows: Iterable[str]) -> Iterator[str]:
    """Rows that the pattern matches, by what stands in the whole text, in small letters where these tell."""
    there = [part for part in parts if part in small] if small is not None else [""]
    for row in rows if there else ():
        if len(row) >= _READ:
            continue
        low = row.lower()
        if any(part in low for part in there) and pattern.search(row):
            yield row
