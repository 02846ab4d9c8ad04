"""Formats text and amounts for people. Several fronts share it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ebbtide.core.text.preview import pluralize

# Control characters except newline and tab, direction marks and overrides, line separators, lone surrogates, and
# invisible characters (zero-width, soft hyphens, tags), which hide words from people but not from models.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)


def make_visible(text: str) -> str:
    """Write characters that a terminal would obey or hide as escapes."""
    return _INVISIBLE.sub(lambda match: _escape(match[0]), text)


def _escape(one: str) -> str:
    code = ord(one)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def one_line(text: str, width: int = 0) -> str:
    """Put text on one line, cut to `width` if given."""
    flat = make_visible(" ".join(text[: 8 * width or None].split()))
    return flat if not width or len(flat) <= width else flat[: width - 1] + "…"


def first_lines(lines: Sequence[str], limit: int) -> list[str]:
    """Cut to `limit` lines, and say how many more there are."""
    hidden = len(lines) - limit
    return [*lines[:limit], *([f"… {pluralize(hidden, 'more line')}"] if hidden > 0 else [])]


def code_fence(text: str) -> str:
    """Fence a text for Markdown. The fence is longer than any run of backticks in it."""
    fence = "`" * (1 + max([2, *map(len, re.findall("`+", text))]))
    return f"{fence}\n{text}\n{fence}"


def short_number(amount: int) -> str:
    """A number with one decimal, as in `2.2k`."""
    if amount < 1_000:
        return str(amount)
    return f"{amount / 1_000:.1f}k" if amount < 999_950 else f"{amount / 1_000_000:.1f}M"


def token_count(amount: int) -> str:
    """As in `1 token`, `2.2k tokens`."""
    return f"{short_number(amount)} token" if amount == 1 else f"{short_number(amount)} tokens"


def round_number(amount: int) -> str:
    """A number without decimals, as in `172k`."""
    if amount < 1_000:
        return str(amount)
    return f"{amount / 1_000:.0f}k" if amount < 999_500 else f"{amount / 1_000_000:.3g}M"


def format_bytes(length: int) -> str:
    """As in `1.4 MB`."""
    for unit, factor in (("GB", 1024**3), ("MB", 1024**2), ("KB", 1024)):
        if length >= factor:
            return f"{length / factor:.1f} {unit}"
    return f"{length} B"


def format_age(seconds: float) -> str:
    """As in `3 h`, the largest whole unit."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "now"
