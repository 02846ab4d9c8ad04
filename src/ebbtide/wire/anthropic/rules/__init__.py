"""What the Anthropic Messages API refuses, and the repairs.

Rule     keeps                                                            lives in
-------  ---------------------------------------------------------------  ------------
A1-A8    roles alternate, and no message is empty                         structure
A9       text has words                                                   content, positions
A10 A13  fields known to be refused are dropped; unknown ones pass        content
A11      JSON and UTF-8                                                   ../../validity
A14      call ids are plain                                               content
A15-A20  calls and results pair up, unique, adjacent, results first       pairs
A21-A23  a call's input, a result's parts, references to tools            content
A25      tool names                                                       positions, content
A26 A29  server-tool pairs, advisor blocks; A30 is their exemption        pairs
A27 A28  programmatic calls                                               pairs
A34 A40  thinking is signed, with A39: all of a message's or none         content
A37 A38  thinking where it must and may stand                             positions
A41      fallback blocks                                                  pairs
A45 A48  number and order of cache breakpoints                            positions
A46 A47  where a breakpoint may be, A49: what it says                     content, positions
A54-A57  images and documents                                             content
A61      compaction blocks                                                content

Not checked here: A12 A59 A60 (size: the engine fits), A24 A33 A43 (unverified), A31 A32 A44 A62 (pass through),
A35 A36 A63 (need what was sent before: the engine), A42 A53 A58 (the client's own parameters: the provider's answer is
better than our guess, and beta headers that we do not see change the rules), A50-A52 (silent: where marks are set).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from ebbtide.core.cache.prefix import are_same_objects
from ebbtide.wire.anthropic.rules.content import CALL_ID, TOOL_NAME, clean_message, find_crowded_images, replace_image
from ebbtide.wire.anthropic.rules.pairs import (
    drop_server_tool_halves,
    find_missing_container,
    move_results_to_user,
    pair_calls,
)
from ebbtide.wire.anthropic.rules.positions import (
    MAX_BREAKPOINTS,
    find_tool_problems,
    fix_breakpoints,
    fix_system_and_tools,
    fix_thinking,
)
from ebbtide.wire.anthropic.rules.structure import (
    MAX_MESSAGES,
    THINKING,
    Block,
    BodyFacts,
    enumerate_from,
    fix_end,
    fix_structure,
    kind,
    read_facts,
    start_with_user,
)
from ebbtide.wire.protocol import Log
from ebbtide.wire.validity import Indexed, Json, is_encodable

Body = Mapping[str, Json]


def repair(body: Body, since: int, call_ids: AbstractSet[str], breakpoints: int | None, log: Log) -> Body:
    body = fix_system_and_tools(body, log)
    if not since:
        log += find_tool_problems(body.get("tools"))
    if len(body["messages"]) > MAX_MESSAGES:
        log.note("A1", "messages", f"at most {MAX_MESSAGES} messages are allowed")
    facts = read_facts(body, since, call_ids)
    entries = [Indexed(index, message) for index, message in enumerate_from(facts.messages, since)]
    cleaned = [clean for entry in entries if (clean := clean_message(entry, facts, log)) is not None]
    if log.is_hopeless:
        return body
    before = list(facts.messages[:since])
    entries = _fix_until_stable(move_results_to_user(cleaned, log), before, facts, log)
    entries = entries if before else start_with_user(entries, log)
    entries = pair_calls(entries, before[-1] if before else None, call_ids, log)
    messages = [*before, *(entry.message for entry in entries)]
    if not messages:
        log.note("A1", "messages", "at least one message is required")
        return body
    messages = fix_end(messages, facts, log)
    body, messages = fix_thinking(body, messages, replace(facts, messages=messages), log)
    messages = fix_end(messages, facts, log)  # without its thinking the last message may end in white space
    for index, finding, old, new in find_crowded_images(messages, since):
        log.append(finding)
        messages[index] = replace_image(messages[index], old, new)
    log += find_missing_container(replace(facts, messages=messages))
    return fix_breakpoints({**body, "messages": messages}, since, breakpoints, log)


def _fix_until_stable(entries: list[Indexed], before: list[Json], facts: BodyFacts, log: Log) -> list[Indexed]:
    """Repeat until nothing changes: dropping half a server pair can empty a message, joining can complete a pair."""
    while True:
        entries = fix_structure(entries, before, facts, log)
        repaired_entries = drop_server_tool_halves(entries, before, facts, log)
        if are_same_objects(entries, repaired_entries):
            return entries
        entries = repaired_entries


def drop_broken_thinking(message: Json) -> Json:
    parts = message.get("content") if isinstance(message, dict) else None
    if not isinstance(parts, list):
        return message
    return {**message, "content": [block for block in parts if kind(block) not in THINKING or is_encodable(block)]}


def list_rule(_value: Json) -> str:
    return "A1"


def first_to_check(messages: list[Json], since: int) -> int:
    """Check one message earlier if the first new message must join the last accepted one (A5).

    The joined message only grows at its end, so the cached prefix of blocks still holds.
    """
    if not 0 < since < len(messages):
        return since
    roles = [message.get("role") if isinstance(message, dict) else None for message in messages[since - 1 : since + 1]]
    return since - 1 if roles[0] == roles[1] and roles[0] else since


def call_ids(message: Json) -> frozenset[str]:
    content = message.get("content") if isinstance(message, dict) else None
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    return frozenset(str(block.get("id")) for block in blocks if block.get("type") == "tool_use")


# --- ordinary requests -----------------------------------------------------------------------------------------------
#
# Most requests are ordinary: text, tool calls and their results, in turn. One walk over the new messages sees it. Yes
# means that no rule is broken; no only means that the rules must be checked: everything rare is left to them. Without
# it, the first check of 1,000 messages takes 59 ms instead of 4, and that of one more turn 160 us instead of 26.

_TEXT_FIELDS = frozenset(("type", "text", "cache_control"))
_CALL_FIELDS = frozenset(("type", "id", "name", "input", "cache_control", "caller"))
_DIRECT = {"type": "direct"}
"""The `caller` of a call that the model made; any other caller is code in the provider's container."""
_RESULT_FIELDS = frozenset(("type", "tool_use_id", "content", "is_error", "cache_control"))
_THINKING_FIELDS = frozenset(("type", "thinking", "signature"))
_REDACTED_FIELDS = frozenset(("type", "data"))
_PART_FIELDS = frozenset(("type", "text"))
_BREAKPOINTS = ({"type": "ephemeral"}, {"type": "ephemeral", "ttl": "5m"})
_START = ("messages", "system", "tools")


def is_ordinary(body: Body, since: int, call_ids: AbstractSet[str], breakpoints: int | None) -> bool:
    messages = body["messages"]
    if not since < len(messages) <= MAX_MESSAGES or (since and breakpoints is None):
        return False
    if not (_has_valid_fields(body) if since else _has_ordinary_front(body)):
        return False
    walk = _Walk(body, messages[since - 1] if since else {"role": "assistant"}, call_ids)
    accepts = walk.accepts
    for n in range(since, len(messages)):
        if not accepts(messages[n]):
            return False
    if walk.role != "user":
        return False
    if since and not walk.breakpoints and "cache_control" not in body:
        return True  # there are no more breakpoints than were accepted
    front = [block for name in ("tools", "system") if isinstance(body.get(name), list) for block in body[name]]
    marked = [block for block in (body, *front) if isinstance(block, dict) and "cache_control" in block]
    total = walk.breakpoints + (breakpoints or 0) + len(marked)
    return total <= MAX_BREAKPOINTS and ("cache_control" not in body or _has_ordinary_breakpoint(body))


def _has_valid_fields(body: Body) -> bool:
    """Check the fields beside messages, system prompt and tools, which were accepted before."""
    for name, value in body.items():
        if type(value) is int or name in _START:
            continue
        if not is_encodable(value):
            return False
    return True


def _has_ordinary_front(body: Body) -> bool:
    """Tell whether the system prompt is text, and tools have plain and different names."""
    system, tools = body.get("system", []), body.get("tools", [])
    blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
    if not isinstance(blocks, list) or not isinstance(tools, list):
        return False
    if not all(isinstance(block, dict) and _has_ordinary_breakpoint(block) for block in (*blocks, *tools)):
        return False
    names = [tool.get("name") for tool in tools]
    return (
        all(block.get("type") == "text" and _is_text_block(block) for block in blocks)
        and all(isinstance(name, str) and TOOL_NAME.fullmatch(name) for name in names)
        and len(set(names)) == len(names)
        and not (tools and all(tool.get("defer_loading") for tool in tools))
        and is_encodable({name: value for name, value in body.items() if name != "messages"})
    )


def _has_ordinary_breakpoint(block: Block) -> bool:
    """Tell whether a block has no breakpoint, or the most common one."""
    return "cache_control" not in block or block["cache_control"] in (
        {"type": "ephemeral"},
        {"type": "ephemeral", "ttl": "5m"},
    )


class _Walk:
    """Accepts message after message. Knows who spoke last, and which calls wait for a result."""

    def __init__(self, body: Mapping[str, Json], before: Json, call_ids: AbstractSet[str]) -> None:
        thinking = body.get("thinking")
        self.has_thinking_budget = isinstance(thinking, dict) and thinking.get("type") == "enabled"
        fields = before if isinstance(before, dict) else {}
        self.role, content = fields.get("role"), fields.get("content")
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        is_bare_text = isinstance(content, str) and bool(content)
        self.has_spoken = is_bare_text or any(block.get("type") != "tool_result" for block in blocks)
        """Whether the last message said more than results: the next one then opens a loop (A37)."""
        calls = [block for block in blocks if block.get("type") == "tool_use"] if self.role == "assistant" else []
        self.open_ids: set[Json] = {call.get("id") for call in calls}
        is_from_code = any(call.get("caller", _DIRECT) != _DIRECT for call in calls)
        self.is_unusual = is_from_code or len(self.open_ids) < len(calls)
        self.call_ids, self.new_ids = call_ids, set[str]()
        self.breakpoints = 0
        """Among the accepted messages."""

    def accepts(self, message: Json) -> bool:
        if self.is_unusual or not isinstance(message, dict):
            return False
        sender, content = message.get("role"), message.get("content")
        if sender == self.role or sender not in ("user", "assistant"):
            return False
        self.role = sender
        if not content or len(message) > len(("role", "content")):
            return False
        if isinstance(content, list):
            return self._accepts_assistant(content) if sender == "assistant" else self._accepts_user(content)
        opens_loop = self.has_thinking_budget and self.has_spoken and sender == "assistant"
        self.has_spoken = True
        return not self.open_ids and not opens_loop and _is_text(content)

    def _accepts_assistant(self, content: list[Json]) -> bool:
        if self.open_ids:
            return False
        for n, block in enumerate(content):
            kind = block.get("type") if isinstance(block, dict) else None
            if not isinstance(kind, str):
                return False
            if n == 0 and self.has_thinking_budget and self.has_spoken and kind not in THINKING:
                return False
            check = self._accepts_call if kind == "tool_use" else _ASSISTANT_BLOCKS.get(kind)
            if check is None or not check(block) or ("cache_control" in block and not self._accepts_breakpoint(block)):
                return False
        self.has_spoken = True
        return True

    def _accepts_call(self, block: Block) -> bool:
        identity, name, arguments = block.get("id"), block.get("name"), block.get("input")
        if not isinstance(identity, str) or not isinstance(name, str) or not isinstance(arguments, dict):
            return False
        if identity in self.call_ids or identity in self.new_ids:
            return False
        self.new_ids.add(identity)
        self.open_ids.add(identity)
        has_valid_names = CALL_ID.fullmatch(identity) and TOOL_NAME.fullmatch(name)
        is_direct = block.get("caller", _DIRECT) == _DIRECT
        return bool(has_valid_names) and is_direct and block.keys() <= _CALL_FIELDS and is_encodable(arguments)

    def _accepts_user(self, content: list[Json]) -> bool:
        """Results first, one for each call, then text."""
        self.has_spoken = False
        for block in content:
            if not isinstance(block, dict):
                return False
            if block.get("type") != "tool_result":
                is_valid = block.get("type") == "text" and _is_text_block(block)
                self.has_spoken = True
            else:
                is_valid = not self.has_spoken and self._accepts_result(block)
            if not is_valid or ("cache_control" in block and not self._accepts_breakpoint(block)):
                return False
        return not self.open_ids

    def _accepts_result(self, block: Block) -> bool:
        identity, content = block.get("tool_use_id"), block.get("content")
        if not isinstance(identity, str) or identity not in self.open_ids or not block.keys() <= _RESULT_FIELDS:
            return False
        self.open_ids.discard(identity)
        failed = block.get("is_error", False)
        if not isinstance(failed, bool):
            return False
        if isinstance(content, str):
            return is_encodable(content) and (bool(content) or not failed)
        return isinstance(content, list) and bool(content) and all(_is_text_part(part) for part in content)

    def _accepts_breakpoint(self, block: Block) -> bool:
        self.breakpoints += 1
        return _has_ordinary_breakpoint(block)


def _is_text(text: Json) -> bool:
    return isinstance(text, str) and bool(text) and not text.isspace() and is_encodable(text)


def _is_text_block(block: Block) -> bool:
    return block.keys() <= _TEXT_FIELDS and _is_text(block.get("text"))


def _is_thinking_block(block: Block) -> bool:
    text, signature = block.get("thinking"), block.get("signature")
    signed = isinstance(signature, str) and bool(signature) and is_encodable(signature)
    return block.keys() <= _THINKING_FIELDS and signed and isinstance(text, str) and is_encodable(text)


def _is_redacted_block(block: Block) -> bool:
    data = block.get("data")
    return block.keys() <= _REDACTED_FIELDS and isinstance(data, str) and bool(data) and is_encodable(data)


def _is_text_part(part: Json) -> bool:
    return (
        isinstance(part, dict)
        and part.get("type") == "text"
        and part.keys() <= _PART_FIELDS
        and _is_text(part.get("text"))
    )


_ASSISTANT_BLOCKS: Mapping[str, Callable[[Block], bool]] = {
    "text": _is_text_block,
    "thinking": _is_thinking_block,
    "redacted_thinking": _is_redacted_block,
}
