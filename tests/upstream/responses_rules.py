"""OpenAI Responses: calls and outputs by `call_id`, reasoning with what followed it, ids that fit (R1 to R15)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from upstream import group_ids
from upstream.encoding import unencodable
from upstream.finding import Body, Rules, Said, dicts, text_of

LONGEST_ID = 64
LONG = (
    "Invalid '{path}': string too long. Expected a string with maximum length {most}, "
    "but got a string with length {had} instead."
)
ID = re.compile(r"[A-Za-z0-9_-]+")
PREFIX = {"function_call": "fc", "message": "msg", "reasoning": "rs", "custom_tool_call": "ctc"}
ANSWERS = {
    "function_call": {"function_call_output"},
    "custom_tool_call": {"custom_tool_call_output"},
    "local_shell_call": {"local_shell_call_output", "function_call_output"},
    "tool_search_call": {"tool_search_output"},
    "computer_call": {"computer_call_output"},
}
OUTPUTS = set().union(*ANSWERS.values())
WORDS = {"function_call": "function call", "custom_tool_call": "custom tool call"}
NOT_KEPT = (
    "Item with id '{id}' not found. Items are not persisted when `store` is set to false. "
    "Try again with `store` set to true, or remove this item from your input."
)


def items(body: Body) -> list[Body]:
    return dicts(body.get("input"))


def kind(item: Body) -> str:
    """A message may leave its type out."""
    return text_of(item.get("type")) or ("message" if "role" in item else "")


def _words(name: str) -> str:
    return WORDS.get(name, name.replace("_", " "))


def _calls(body: Body) -> dict[str, str]:
    """Kind of each call that a client answers. A search that the provider runs itself needs no answer."""
    return {
        text_of(item.get("call_id")): kind(item)
        for item in items(body)
        if kind(item) in ANSWERS and isinstance(item.get("call_id"), str) and item.get("execution") != "server"
    }


def _outputs(body: Body) -> list[tuple[int, str, str]]:
    """Index, `call_id` and kind of each output."""
    found = enumerate(items(body))
    return [(at, text_of(item.get("call_id")), kind(item)) for at, item in found if kind(item) in OUTPUTS]


def _answered(body: Body) -> Iterator[Said]:
    answered = {call for _, call, _ in _outputs(body)}
    for call, name in _calls(body).items():
        if call not in answered:
            yield "input", f"No tool output found for {_words(name)} {call}."


def _asked(body: Body) -> Iterator[Said]:
    if body.get("previous_response_id") or body.get("conversation"):
        return  # The call may be in what the provider kept.
    calls = _calls(body)
    for _, call, name in _outputs(body):
        if call not in calls:
            yield "input", f"No tool call found for {_words(name.removesuffix('_output'))} output with call_id {call}."
    approvals = {item.get("id") for item in items(body) if kind(item) == "mcp_approval_request"}
    for item in items(body):
        if kind(item) == "mcp_approval_response" and item.get("approval_request_id") not in approvals:
            yield "input", f"No approval request found with id {item.get('approval_request_id')}."


def _matching(body: Body) -> Iterator[Said]:
    calls = _calls(body)
    for _, call, name in _outputs(body):
        if call in calls and name not in ANSWERS[calls[call]]:
            yield "input", f"No tool output found for {_words(calls[call])} {call}."


def _keeps_follower(body: Body) -> Iterator[Said]:
    entries = items(body)
    alone = [item for at, item in enumerate(entries) if _lonely(entries, at) and item.get("id")]
    torn = group_ids.reasoning_without_follower(entries)
    # A reasoning item may be found both ways; it is refused once.
    yield from dict.fromkeys([*(("input", group_ids.without_follower(item)) for item in alone), *torn])


def _lonely(entries: list[Body], at: int) -> bool:
    """Reasoning at the end, before the next reasoning, or before something the model did not say."""
    if kind(entries[at]) != "reasoning":
        return False
    after = entries[at + 1] if at + 1 < len(entries) else None
    if after is None or kind(after) == "reasoning" or kind(after) in OUTPUTS:
        return True
    return kind(after) == "message" and after.get("role") != "assistant"


def _keeps_reasoning(body: Body) -> Iterator[Said]:
    yield from group_ids.followers_without_reasoning(items(body))


def _whole_group(body: Body) -> Iterator[Said]:
    yield from group_ids.torn(items(body))


def _persisted(body: Body) -> Iterator[Said]:
    if body.get("store") is not False:
        return
    for item in items(body):
        bare = kind(item) == "reasoning" and item.get("id") and not text_of(item.get("encrypted_content"))
        if bare or kind(item) == "item_reference":
            yield "input", NOT_KEPT.format(id=item.get("id"))


def _item_ids(body: Body) -> Iterator[Said]:
    for at, item in enumerate(items(body)):
        if item.get("id") is None or kind(item) == "item_reference":
            continue
        name, path, prefix = text_of(item["id"]), f"input[{at}].id", PREFIX.get(kind(item), "")
        if len(name) > LONGEST_ID:
            yield path, LONG.format(path=path, most=LONGEST_ID, had=len(name))
        elif not name.startswith(prefix):
            yield path, f"Invalid '{path}': '{name}'. Expected an ID that begins with '{prefix}'."
        elif not ID.fullmatch(name):
            yield path, f"Invalid '{path}': '{name}'. Expected an ID of letters, numbers, underscores or dashes."


def _unique(body: Body) -> Iterator[Said]:
    seen: set[str] = set()
    for item in items(body):
        name = text_of(item.get("id"))
        if name and name in seen:
            yield "input", f"Duplicate item found with id {name}. Remove duplicate items from your input and try again."
        seen.add(name)


def _call_ids(body: Body) -> Iterator[Said]:
    for at, item in enumerate(items(body)):
        call, path = text_of(item.get("call_id")), f"input[{at}].call_id"
        if len(call) > LONGEST_ID:
            yield path, LONG.format(path=path, most=LONGEST_ID, had=len(call))


def _compaction(body: Body) -> Iterator[Said]:
    for at, item in enumerate(items(body)):
        if kind(item) == "compaction" and not text_of(item.get("encrypted_content")):
            yield f"input[{at}]", f"Missing required parameter: 'input[{at}].encrypted_content'."


def _encodable(body: Body) -> Iterator[Said]:
    yield from unencodable(body, "")


RULES: Rules[Body] = {
    "A11": _encodable,
    "R1": _answered,
    "R2": _asked,
    "R3": _keeps_follower,
    "R4": _keeps_reasoning,
    "R3+4": _whole_group,
    "R5": _persisted,
    "R8": _item_ids,
    "R9": _unique,
    "R10": _call_ids,
    "R11": _matching,
    "R12": _compaction,
}


def _previous(body: Body) -> Iterator[Said]:
    """The chain kept at the provider is not the one we compacted: the two exclude each other."""
    if body.get("previous_response_id"):
        yield "previous_response_id", "previous_response_id: the provider keeps the uncompacted chain"


def _parts(body: Body) -> Iterator[Said]:
    for at, item in enumerate(items(body)):
        if kind(item) == "reasoning" and not isinstance(item.get("summary"), list):
            yield f"input[{at}].summary", f"Missing required parameter: 'input[{at}].summary'."
        for place, part in enumerate(dicts(item.get("content")) if kind(item) == "message" else ()):
            said = text_of(part.get("type"))
            if (said in ("output_text", "refusal")) != (item.get("role") == "assistant"):
                path = f"input[{at}].content[{place}]"
                yield path, f"Invalid value: '{said}' in a message with role '{item.get('role')}'."


def _loose_reasoning(body: Body) -> Iterator[Said]:
    """R3 speaks of ids; whether a nameless reasoning item may stand alone, nobody says."""
    entries = items(body)
    for at, item in enumerate(entries):
        if _lonely(entries, at) and not item.get("id"):
            yield f"input[{at}]", group_ids.without_follower(item)


def _output_order(body: Body) -> Iterator[Said]:
    seen: set[str] = set()
    calls = _calls(body)
    for at, item in enumerate(items(body)):
        call = text_of(item.get("call_id"))
        if kind(item) in OUTPUTS and call in calls and call not in seen:
            yield f"input[{at}]", f"No tool call found for {_words(kind(item))} with call_id {call} before it."
        seen.add(call)


WARNINGS: Rules[Body] = {
    "R2": _output_order,
    "R3": _loose_reasoning,
    "R7": _previous,
    "R15": _parts,
}
