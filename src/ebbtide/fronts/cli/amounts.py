"""Amounts as people write and read them: `256M` bytes, `30d`, `2.2k` tokens. A wrong one says what would be right."""

from __future__ import annotations

import argparse
import re

_AMOUNT = re.compile(r"(\d+(?:[._]\d+)*)\s*([a-z]*)", re.IGNORECASE)
_OCTETS = {"": 1, "b": 1, "k": 1024, "kb": 1024, "m": 1024**2, "mb": 1024**2, "g": 1024**3, "gb": 1024**3}
_SECONDS = {"": 86_400, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def octets(text: str) -> int:
    return int(_parsed(text, _OCTETS, "bytes, as in 500M or 1G"))


def seconds(text: str) -> float:
    """A bare number is days."""
    return _parsed(text, _SECONDS, "a time, as in 30d or 12h")


def _parsed(text: str, units: dict[str, int], meant: str) -> float:
    match = _AMOUNT.fullmatch(text.strip())
    unit = match[2].lower() if match else ""
    if match is None or unit not in units:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount of {meant}")
    try:
        return float(match[1].replace("_", "")) * units[unit]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount of {meant}") from None


def sized(length: int) -> str:
    """Bytes, as in `1.4 MB`."""
    for unit, factor in (("GB", 1024**3), ("MB", 1024**2), ("KB", 1024)):
        if length >= factor:
            return f"{length / factor:.1f} {unit}"
    return f"{length} B"


def age(seconds: float) -> str:
    """As in `3 h`, the largest whole unit."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "now"
