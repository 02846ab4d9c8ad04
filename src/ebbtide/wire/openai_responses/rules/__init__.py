"""What OpenAI Responses refuses, and the repairs.

Rule   keeps                                                              function
-----  -----------------------------------------------------------------  ----------------
R1     every call has its output                                          pair_outputs
R2     every output has its call                                          pair_outputs
R3     reasoning has a follower                                           regroup
R4     followers of a reasoning item that goes lose their `id`            regroup
R5     with `store: false` items are whole: no references, no bare rs_    _fix_id, _fix_reasoning
R8     item ids fit their type, at most 64 plain characters               _fix_id, _fix_reasoning
R9     item ids are unique                                                drop_duplicates
R10    call ids of at most 64 characters                                  _fix_call_id
R11    the output's type fits the call's                                  pair_outputs
R13    `phase`, `status` and part boundaries                              (nothing touches them)
R15    reasoning has a summary (unverified)                               _fix_reasoning
A11    JSON and UTF-8                                                     ../../validity

Not checked here: R6 R7 (need the account, the stored chain), R12 (opaque, passes), R14 (size: the engine fits).
R4 without the reasoning item in the body cannot be seen: a reply made without reasoning looks the same.

With `previous_response_id`, `conversation` or an `item_reference`, earlier items live on the server: an output whose
call is not in the body is then valid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from ebbtide.wire.openai_responses.rules.fast_path import is_ordinary
from ebbtide.wire.openai_responses.rules.items import (
    OUTPUT_TYPES,
    OUTPUTS,
    REMOVED_REASONING,
    call_id,
    clean_item,
    drop_duplicates,
    is_from_model,
    kind,
)
from ebbtide.wire.openai_responses.rules.pairs import pair_outputs, regroup
from ebbtide.wire.protocol import Finding
from ebbtide.wire.validity import (
    SHAPE,
    Indexed,
    Json,
    Log,
    find_unencodable_parts,
    is_encodable,
    make_parts_encodable,
    refuse_unrepairable,
)


def check(body: Mapping[str, Json], since: int, call_ids: AbstractSet[str], _breakpoints: int | None) -> list[Finding]:
    """Find all that is wrong from `since` on."""
    return [] if is_ordinary(body, since) else find_problems(body, since, call_ids)


def find_problems(body: Mapping[str, Json], since: int, call_ids: AbstractSet[str]) -> list[Finding]:
    """What the repair would note."""
    return _repair_body(body, since, call_ids)[1]


def repair(
    body: Mapping[str, Json], since: int, call_ids: AbstractSet[str]
) -> tuple[Mapping[str, Json], list[Finding]]:
    """Return a valid body, and what was repaired."""
    repaired, log = _repair_body(body, since, call_ids)
    refuse_unrepairable(log)
    return repaired, log


def _repair_body(body: Mapping[str, Json], since: int, call_ids: AbstractSet[str]) -> tuple[Mapping[str, Json], Log]:
    log = Log(find_unencodable_parts(body, "input", since))
    if log.is_hopeless:
        return body, log
    if log:
        body = make_parts_encodable(_drop_broken_reasoning(body, since), "input", since)
    stored = body.get("store") is not False
    fixed = ((index, clean_item(item, index, stored, log)) for index, item in enumerate(body["input"][since:], since))
    items = [Indexed(index, item) for index, item in fixed if item is not None]
    if log.is_hopeless:
        return body, log
    items = drop_duplicates(items, log)
    items = regroup(pair_outputs(items, partial(_may_be_on_server, body), call_ids, log), log)
    return {**body, "input": [*body["input"][:since], *(entry.message for entry in items)]}, log


def list_rule(value: Json) -> str:
    """A bare string is one user message, and a stored prompt needs no input."""
    return "" if value is None or isinstance(value, str) else SHAPE


def first_to_check(items: Sequence[Json], since: int) -> int:
    """Checking starts at the reply whose calls may still wait for outputs."""
    start = since
    while start and kind(items[start - 1]) in OUTPUT_TYPES:
        start -= 1
    while start and is_from_model(items[start - 1]):
        start -= 1
    return start


def call_ids(item: Json) -> frozenset[str]:
    return frozenset({call_id(item)}) if kind(item) in OUTPUTS else frozenset()


def _may_be_on_server(body: Mapping[str, Json]) -> bool:
    """Tell whether calls may be stored on the server."""
    if body.get("previous_response_id") or body.get("conversation"):
        return True
    return body.get("store") is not False and any(kind(item) == "item_reference" for item in body["input"])


def _drop_broken_reasoning(body: Mapping[str, Json], since: int) -> Mapping[str, Json]:
    """Encrypted reasoning cannot be repaired: drop one with a broken character."""
    new = [
        REMOVED_REASONING if kind(item) == "reasoning" and not is_encodable(item) else item
        for item in body["input"][since:]
    ]
    return {**body, "input": [*body["input"][:since], *new]}
