"""Identify the session that a request belongs to.

A session is identified by every id in the headers and the body, every credential, the exact text of the user's first
message, the system prompt, and whether there are tools. All of these are in every request and stay the same, so that
another process finds the same session on another day. A client's own id is shared by its side requests (titles,
sub-agents, a memory keeper), which differ in the rest; under such an id only the beginning of the system prompt counts,
since clients change what follows it. The hash of the credentials is part of the folder that a session is stored in.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from ebbtide.core.types import USER
from ebbtide.store.tenants import tenant_name, tenant_project
from ebbtide.wire import WIRES
from ebbtide.wire.anthropic.requests import VERTEX_COUNT, VERTEX_PATH
from ebbtide.wire.blocks import Block
from ebbtide.wire.caller import Caller, add_body_ids, has_uuid
from ebbtide.wire.conversation_start import strip_changing_parts
from ebbtide.wire.protocol import Wire

_ROUTES = tuple(
    (route, wire.name) for wire in WIRES.values() for route in (*wire.requests.routes, *wire.requests.side_routes)
)
_SIDE_PATHS = tuple(route for wire in WIRES.values() for route in wire.requests.side_routes.items())
"""Paths of requests about a session that are no turn of it."""
_SIGNATURE_LETTERS = 400
"""Letters of a system prompt that distinguish a client's agents. Dates and numbers do not count."""
_FILE_READER = re.compile(r"read|view|cat|bash|shell|exec|open|command|terminal", re.IGNORECASE)
"""Found in names of tools that can open a file."""

Json = Mapping[str, object]


class Identity(NamedTuple):
    tenant: str
    """A hash of the credentials."""
    client: str
    """The client's own id if it sends one, else a hash of the opening; it makes session names readable."""
    lane: str
    """A hash of everything else, with the exact ids."""

    @property
    def session(self) -> str:
        return f"{self.client}-{self.lane}"

    @property
    def project(self) -> str:
        return tenant_project(self.tenant)


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingRequest:
    """What is known of a request before it is planned."""

    wire: str
    identity: Identity
    opening: str
    """Hash of the user's first text."""
    ids: frozenset[str]
    """Hashes of the sender's ids and credentials, without a bearer token."""
    model: str
    wants_stream: bool
    can_read_files: bool
    """Whether it has a tool that can open the file named in a stub."""
    side_request: str
    """`count` or `compaction` for a request about the session, which must make no edits; else empty."""
    is_first: bool = False
    """Whether there is only one message, so that it continues no session."""
    is_renewable: bool = False
    """Whether it may continue a session under another token: its client id cannot be guessed."""


def wire_for_path(method: str, path: str) -> str:
    """Return the wire of a model request's path, without its query; empty for any other path."""
    if method != "POST":
        return ""
    if VERTEX_PATH.search(path):
        return "anthropic"
    return next((wire for route, wire in _ROUTES if path.endswith(route)), "")


def _side_request_of_path(path: str) -> str:
    match = VERTEX_PATH.search(path)
    if match is not None and match["model"] == VERTEX_COUNT:
        return "count"
    return next((why for end, why in _SIDE_PATHS if path.endswith(end)), "")


def identify_request(wire: str, path: str, sender: Caller, body: Json) -> IncomingRequest:
    """Identify a request. `path` is without its query, which only the sender is known by."""
    first, last, is_first = _first_and_last(wire, body)
    opening_text = _opening_text(first)
    requests, (system, tools) = WIRES[wire].requests, WIRES[wire].messages.system_and_tools(body)
    caller = add_body_ids(sender, body)
    prompt = _system_texts(system, first)
    if caller.conversation:
        client, agent = _client_name(caller.conversation), _agent_signature(prompt)
    else:
        client, agent = f"by-content-{_hash(opening_text)[:12]}", strip_changing_parts(prompt)
    opening, ids = _hash(opening_text), frozenset(map(_hash, caller.stable_pairs))
    lane = _hash(wire, opening, *sorted(ids), agent, bool(tools))
    return IncomingRequest(
        wire=wire,
        identity=Identity(tenant_name(caller.credentials), client, lane[:12]),
        opening=opening,
        ids=ids,
        model=requests.model(path, body),
        wants_stream=requests.wants_stream(path, body),
        can_read_files=any(map(_FILE_READER.search, requests.tool_names(tools))),
        side_request=_side_request_of_path(path) or _is_compaction(body, last, is_first),
        is_first=is_first,
        is_renewable=caller.has_bearer and has_uuid(caller.conversation),
    )


def sender_key(sender: Caller) -> str:
    """Return a key for a sender. Its next request probably begins like this one."""
    return _hash(*sender.credentials, *sender.ids)


def _client_name(id: str) -> str:
    """Return a plain id unchanged, so that people recognise it, and any other as a hash."""
    return id.lower() if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{7,47}", id) else f"id-{_hash(id)}"


_MAX_LEADING_MESSAGES = 12
"""Messages searched for the user's first text: agents put reminders and examples before it."""


def _first_and_last(wire: str, body: Json) -> tuple[list[Block], list[Block], bool]:
    """Return the blocks up to the user's first text, those of the last message, and whether it is the only one."""
    wire_format = WIRES[wire]
    content = body.get(wire_format.list_key)
    messages: Sequence[object] = content if isinstance(content, list) else [wire_format.requests.user_message(content)]
    first: list[Block] = []
    for message in messages[:_MAX_LEADING_MESSAGES]:
        first += _blocks(wire_format, message)
        if any(block.tier == USER and block.kind == "text" for block in first):
            break
    return first, _blocks(wire_format, messages[-1]) if messages else [], len(messages) < 2


def _blocks(wire: Wire, message: object) -> list[Block]:
    try:
        return wire.messages.split(message, "")
    except Exception:  # noqa: BLE001 - the provider will refuse it
        return []


def _opening_text(first: Sequence[Block]) -> str:
    """Return the user's first text, without what an agent adds around it, which changes by the day."""
    texts = [block for block in first if block.kind == "text" and block.role == "user"]
    typed = [block.text for block in texts if block.tier == USER]
    return "\n".join(typed) if typed else texts[0].text if texts else first[0].canonical if first else ""


def _system_texts(system: object, first: Sequence[Block]) -> list[str]:
    """Return the texts of the system prompt, which may be the first messages."""
    parts = system if isinstance(system, list) else [system]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    # Later system messages change during the conversation.
    texts += [block.text for block in itertools.takewhile(lambda block: block.role == "system", first)]
    return [text for text in texts if isinstance(text, str)]


def _agent_signature(prompt: Sequence[str]) -> str:
    """Return the first letters of the system prompt."""
    # Claude Code's first block is a header with a version and a checksum in it.
    texts = [text for text in prompt if not text.startswith("x-anthropic-")]
    return re.sub(r"[^A-Za-z\u00c0-\uffff]+", "", " ".join(texts)[: 4 * _SIGNATURE_LETTERS])[:_SIGNATURE_LETTERS]


_COMPACTION_PROMPTS = re.compile(
    r"Your task is to create a detailed summary of (?:the|this|our) conversation"  # Claude Code and many after it
    r"|CONTEXT CHECKPOINT COMPACTION"  # Codex
    r"|Provide a detailed prompt for continuing our conversation"  # OpenCode and Kilo
    r"|(?:anchored|updated) summary (?:from|of) the conversation"
    r"|generate (?:the|a) (?:new )?<state_snapshot>"  # Gemini CLI, Qwen Code
    r"|This session'?s? context is being compacted|context compaction (?:summary|handoff)",
    re.IGNORECASE,
)
"""How known clients ask for a summary. No user writes these."""
_ASKS_FOR_SUMMARY = re.compile(
    r"\b(?:summari[sz]e|compact|condense|write a (?:summary|handoff)|create a (?:\w+ ){0,3}summary)\b.{0,120}"
    r"\b(?:conversation|session|chat|history|transcript|context|so far|above)\b",
    re.IGNORECASE | re.DOTALL,
)


def _is_compaction(body: Json, last: Sequence[Block], is_first: bool) -> str:
    """Return `compaction` if the last message asks for a summary of the conversation, and no tool can answer it."""
    if any('"compaction_trigger"' in block.canonical for block in last):
        return "compaction"
    user_text = "\n".join(block.text for block in last if block.role == "user" and block.kind == "text")
    if _COMPACTION_PROMPTS.search(user_text[:20_000]):
        return "compaction"
    has_no_tools = not body.get("tools") or body.get("tool_choice") in ("none", {"type": "none"})
    return "compaction" if has_no_tools and not is_first and _ASKS_FOR_SUMMARY.search(user_text[:2_000]) else ""


def _hash(*parts: object) -> str:
    encoded = "\0".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return blake2b(encoded, digest_size=16, person=b"ebbtide-proxy").hexdigest()
