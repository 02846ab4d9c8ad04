"""One field of a record. Anybody may have written a log: what is not of the kind that is asked for counts as absent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def list_in(record: Mapping[str, object], key: str) -> Sequence[object]:
    found = record.get(key)
    return found if isinstance(found, list | tuple) else ()


def strings_in(record: Mapping[str, object], key: str) -> list[str]:
    return [str(one) for one in list_in(record, key)]


def str_in(record: Mapping[str, object], key: str) -> str:
    found = record.get(key)
    return found if isinstance(found, str) else ""


def int_in(record: Mapping[str, object], key: str) -> int:
    found = record.get(key)
    return int(found) if isinstance(found, int | float) else 0


def float_in(record: Mapping[str, object], key: str, default: float = 0.0) -> float:
    found = record.get(key)
    return float(found) if isinstance(found, int | float) else default
