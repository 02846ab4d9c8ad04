"""Read one field of a log record. Any program may have written it, so a value of the wrong type counts as absent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def list_in(record: Mapping[str, object], key: str) -> Sequence[object]:
    value = record.get(key)
    return value if isinstance(value, list | tuple) else ()


def strings_in(record: Mapping[str, object], key: str) -> list[str]:
    return [str(value) for value in list_in(record, key)]


def str_in(record: Mapping[str, object], key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""


def int_in(record: Mapping[str, object], key: str) -> int:
    value = record.get(key)
    return int(value) if isinstance(value, int | float) else 0


def float_in(record: Mapping[str, object], key: str, default: float = 0.0) -> float:
    value = record.get(key)
    return float(value) if isinstance(value, int | float) else default
