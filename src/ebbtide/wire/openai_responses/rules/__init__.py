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

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from ebbtide.wire.openai_responses.rules.items import (
    CALL_ID,
    ITEM_ID,
    OUTPUT_TYPES,
    OUTPUTS,
    PREFIXES,
    REMOVED_REASONING,
    Item,
    call_id,
    clean_item,
    drop_duplicates,
    is_from_model,
    kind,
)
from ebbtide.wire.openai_responses.rules.pairs import pair_outputs, regroup
from ebbtide.wire.protocol import Log
from ebbtide.wire.validity import SHAPE, Indexed, Json, is_encodable

Body = Mapping[str, Json]
FRONT_FIELDS = frozenset(("instructions", "tools"))
"""Where the system prompt and the tools are."""


def repair(body: Body, since: int, call_ids: AbstractSet[str], _breakpoints: int | None, log: Log) -> Body:
    stored = body.get("store") is not False
    fixed = ((index, clean_item(item, index, stored, log)) for index, item in enumerate(body["input"][since:], since))
    items = [Indexed(index, item) for index, item in fixed if item is not None]
    if log.is_hopeless:
        return body
    items = drop_duplicates(items, log)
    items = regroup(pair_outputs(items, partial(_may_be_on_server, body), call_ids, log), log)
    return {**body, "input": [*body["input"][:since], *(entry.message for entry in items)]}


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


def drop_broken_thinking(item: Json) -> Json:
    return REMOVED_REASONING if kind(item) == "reasoning" else item


# --- ordinary requests -----------------------------------------------------------------------------------------------
#
# Most requests are ordinary: words, reasoning, calls and their outputs, in turn. One walk over the new items sees it.


def is_ordinary(body: Body, since: int, _call_ids: AbstractSet[str], _breakpoints: int | None) -> bool:
    accepted = FRONT_FIELDS if since else ()
    for name, value in body.items():
        if type(value) is not bool and name != "input" and name not in accepted and not is_encodable(value):
            return False
    items, walk = body["input"], _Walk(body.get("store") is not False)
    for n in range(since, len(items)):
        if not walk.accepts(items[n]):
            return False
    return not walk.open_calls and not walk.is_reasoning_open


class _Walk:
    """Item after item. Knows which calls wait for an output, and whether reasoning waits for what follows it."""

    def __init__(self, is_stored: bool) -> None:
        self.is_stored, self.is_reasoning_open = is_stored, False
        self.open_calls, self.call_ids, self.item_ids = dict[str, str](), set[str](), set[str]()
        """Calls that wait, with the output they want; all calls; and the ids of items."""

    def accepts(self, item: Json) -> bool:
        if not isinstance(item, dict):
            return False
        name = item.get("type", "message")
        check = _CHECKS.get(name) if isinstance(name, str) else None
        return check is not None and self._is_new(name, item.get("id")) and check(self, item) and is_encodable(item)

    def _is_new(self, name: str, identity: Json) -> bool:
        if identity is None:
            return True
        if (
            not isinstance(identity, str)
            or identity in self.item_ids
            or not identity.startswith(PREFIXES.get(name, ""))
        ):
            return False
        self.item_ids.add(identity)
        return ITEM_ID.fullmatch(identity) is not None

    def _accepts_message(self, item: Item) -> bool:
        role, content = item.get("role"), item.get("content")
        if role != "assistant" and self.is_reasoning_open:
            return False
        self.is_reasoning_open = False
        parts = isinstance(content, list) and all(isinstance(part, dict) for part in content)
        return "role" in item and (parts or isinstance(content, str))

    def _accepts_reasoning(self, item: Item) -> bool:
        self.is_reasoning_open = True
        is_available = self.is_stored or item.get("id") is None or bool(item.get("encrypted_content"))
        return is_available and isinstance(item.get("summary"), list)

    def _accepts_call(self, item: Item) -> bool:
        identity, name = item.get("call_id"), item["type"]
        arguments = item.get("arguments" if name == "function_call" else "input")
        if not isinstance(identity, str) or identity in self.call_ids or not CALL_ID.fullmatch(identity):
            return False
        self.is_reasoning_open = False
        self.call_ids.add(identity)
        self.open_calls[identity] = f"{name}_output"
        return isinstance(item.get("name"), str) and isinstance(arguments, str)

    def _accepts_output(self, item: Item) -> bool:
        identity = item.get("call_id")
        expected_type = self.open_calls.pop(identity, "") if isinstance(identity, str) else ""
        return (
            expected_type == item["type"] and not self.is_reasoning_open and isinstance(item.get("output"), str | list)
        )


_CHECKS: Mapping[str, Callable[[_Walk, Item], bool]] = {
    "message": _Walk._accepts_message,
    "reasoning": _Walk._accepts_reasoning,
    "function_call": _Walk._accepts_call,
    "custom_tool_call": _Walk._accepts_call,
    "function_call_output": _Walk._accepts_output,
    "custom_tool_call_output": _Walk._accepts_output,
}
