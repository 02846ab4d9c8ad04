"""What the rules of several wires do alike to pair calls with their results."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ebbtide.wire.validity import make_id


def make_unique_id(client_id: str, used_ids: Collection[str], prefix: str, *place: object) -> str:
    """Return the id if it is not used yet, else one made from its place, which stays while the history only grows."""
    unique_id, attempt = client_id, 0
    while unique_id in used_ids:
        unique_id = make_id(prefix, "again", client_id, *place, attempt)
        attempt += 1
    return unique_id


def choose_results(
    call_ids: Sequence[str], results: Iterable[Mapping[str, Any]], id_field: str
) -> tuple[dict[int, int], list[int]]:
    """Choose one result for each call: the index of the call by `id(result)`, and the calls that have none.

    Several calls of one id take their results in order; the last one takes the last result (A18).
    """
    results_by_id: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for result in results:
        results_by_id[result[id_field]].append(result)
    calls_left = Counter(call_ids)
    chosen: dict[int, int] = {}
    missing: list[int] = []
    for index, call_id in enumerate(call_ids):
        calls_left[call_id] -= 1
        candidates = results_by_id[call_id]
        if candidates:
            chosen[id(candidates.pop(0 if calls_left[call_id] else -1))] = index
        else:
            missing.append(index)
    return chosen, missing


def with_call_id(result: Mapping[str, Any], id_field: str, call_id: str) -> Mapping[str, Any]:
    return result if result[id_field] == call_id else {**result, id_field: call_id}
