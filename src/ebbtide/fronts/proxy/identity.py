"""Which conversation a request belongs to. All that tells one caller from another counts, together and exactly.

Every id in its headers and its body, every credential, and how it begins: the user's first words to the letter, the
system prompt, and whether there are tools. Where one of them differs, it is another session. None of them changes while
a conversation lasts, and all of them are in every request, so that another process and another day find the same
session. A client's own id is shared by its side requests (titles, sub-agents, a memory keeper), which differ in the
rest; under such an id only the beginning of the system prompt counts, since clients change what follows it.

The credential's hash is part of the place where a session is kept.
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
from ebbtide.wire.blocks import Block
from ebbtide.wire.caller import find_credentials, has_uuid, identify_caller
from ebbtide.wire.conversation_start import strip_changing_parts
from ebbtide.wire.protocol import Wire

_ROUTES = tuple(
    (route, wire.name) for wire in WIRES.values() for route in (wire.requests.route, *wire.requests.side_routes)
)
_SIDE_PATHS = tuple(route for wire in WIRES.values() for route in wire.requests.side_routes.items())
"""Paths that ask about a conversation and are no turn of it."""
_SIGNATURE_LETTERS = 400
"""Letters of a system prompt that tell one agent of a client from another; dates and numbers in it do not count."""
_FILE_READER = re.compile(r"read|view|cat|bash|shell|exec|open|command|terminal", re.IGNORECASE)
"""In the name of a tool that can open a file."""

Json = Mapping[str, object]


class Identity(NamedTuple):
    tenant: str
    """A hash of the credentials."""
    client: str
    """The client's own id where it sends one, else one made from the user's first words: for people to read."""
    lane: str
    """A hash of all else that counts, the exact ids among it."""

    @property
    def session(self) -> str:
        return f"{self.client}-{self.lane}"

    @property
    def project(self) -> str:
        return tenant_project(self.tenant)


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingRequest:
    """What is known of a request before the engine sees it."""

    wire: str
    identity: Identity
    opening: str
    """Hash of the user's first words: shared by all lanes that tell the same story."""
    ids: frozenset[str]
    """Hashes of all that tells who sends it, but for a bearer token."""
    model: str
    wants_stream: bool
    can_read_files: bool
    """Whether a tool can open the file that a stub names."""
    side_request: str
    """Why this request must make no edits, or empty."""
    is_first: bool = False
    """Whether there is only one message: it goes on with nothing."""
    is_renewable: bool = False
    """Whether it may go on with a session that began under another token: the client's own id cannot be guessed."""


def wire_for_path(method: str, path: str) -> str:
    """The wire of a path that we take part in; empty for all others. `path` has no query."""
    if method != "POST":
        return ""
    return next((wire for route, wire in _ROUTES if path.endswith(route)), "")


def identify_request(wire: str, address: str, headers: Mapping[str, str], body: Json) -> IncomingRequest:
    """What a request asks, and for whom. `address` is its path, perhaps with a query."""
    path, _, query = address.partition("?")
    first, last, is_first = _first_and_last(wire, body)
    opening_text = _opening_text(first)
    system, tools = WIRES[wire].messages.system_and_tools(body)
    caller = identify_caller(headers, body, query)
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
        model=str(body.get("model") or ""),
        wants_stream=bool(body.get("stream")),
        can_read_files=_has_file_reader(tools),
        side_request=next(
            (why for end, why in _SIDE_PATHS if path.endswith(end)), _is_compaction(body, last, is_first)
        ),
        is_first=is_first,
        is_renewable=caller.has_bearer and has_uuid(caller.conversation),
    )


def tenant(headers: Mapping[str, str], query: str = "") -> str:
    """A name for the credentials of a request that does not tell them."""
    return tenant_name(find_credentials(headers, query))


def sender_key(headers: Mapping[str, str]) -> str:
    """Who sent this, by headers alone: its next request probably begins as this one."""
    caller = identify_caller(headers, {})
    return _hash(*caller.credentials, *caller.ids)


def _client_name(id: str) -> str:
    """An id as it is where it is plain, so that people find it; else a hash. The exact id counts in the lane."""
    return id.lower() if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{7,47}", id) else f"id-{_hash(id)}"


_MAX_LEADING_MESSAGES = 12
"""Messages among which the user's first words are looked for: harnesses put reminders and examples before them."""


def _first_and_last(wire: str, body: Json) -> tuple[list[Block], list[Block], bool]:
    """What a conversation begins with, up to the user's first words; its last message; whether that is the only one."""
    wire_format = WIRES[wire]
    content = body.get(wire_format.list_key)
    messages: Sequence[object] = content if isinstance(content, list) else [{"role": "user", "content": content}]
    first: list[Block] = []
    for message in messages[:_MAX_LEADING_MESSAGES]:
        first += _blocks(wire_format, message)
        if any(block.tier == USER and block.kind == "text" for block in first):
            break
    return first, _blocks(wire_format, messages[-1]) if messages else [], len(messages) < 2


def _blocks(wire: Wire, message: object) -> list[Block]:
    try:
        return wire.messages.split(message, "")
    except Exception:  # noqa: BLE001 - whatever it is, the provider will say so
        return []


def _opening_text(first: Sequence[Block]) -> str:
    """The user's first words, all of them. What a harness adds around them changes with the day."""
    texts = [block for block in first if block.kind == "text" and block.role == "user"]
    typed = [block.text for block in texts if block.tier == USER]
    return "\n".join(typed) if typed else texts[0].text if texts else first[0].canonical if first else ""


def _system_texts(system: object, first: Sequence[Block]) -> list[str]:
    """The texts of the instructions, wherever a wire has them."""
    parts = system if isinstance(system, list) else [system]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    # Further on they come and go with the conversation.
    texts += [block.text for block in itertools.takewhile(lambda one: one.role == "system", first)]
    return [text for text in texts if isinstance(text, str)]


def _agent_signature(prompt: Sequence[str]) -> str:
    """Letters at the beginning of the instructions."""
    # Claude Code's first block is a header with a version and a checksum in it.
    texts = [text for text in prompt if not text.startswith("x-anthropic-")]
    return re.sub(r"[^A-Za-z\u00c0-\uffff]+", "", " ".join(texts)[: 4 * _SIGNATURE_LETTERS])[:_SIGNATURE_LETTERS]


def _has_file_reader(tools: object) -> bool:
    for tool in tools if isinstance(tools, list) else ():
        inner = tool.get("function") if isinstance(tool, dict) else None
        name = (inner if isinstance(inner, dict) else tool).get("name") if isinstance(tool, dict) else None
        if _FILE_READER.search(str(name or (tool.get("type") if isinstance(tool, dict) else ""))):
            return True
    return False


_COMPACTION_PROMPTS = re.compile(
    r"Your task is to create a detailed summary of (?:the|this|our) conversation"  # Claude Code and many after it
    r"|CONTEXT CHECKPOINT COMPACTION"  # Codex
    r"|Provide a detailed prompt for continuing our conversation"  # OpenCode and Kilo
    r"|(?:anchored|updated) summary (?:from|of) the conversation"
    r"|generate (?:the|a) (?:new )?<state_snapshot>"  # Gemini CLI, Qwen Code
    r"|This session'?s? context is being compacted|context compaction (?:summary|handoff)",
    re.IGNORECASE,
)
"""How known clients ask for a summary; each is a client's own words, and no user's."""
_ASKS_FOR_SUMMARY = re.compile(
    r"\b(?:summari[sz]e|compact|condense|write a (?:summary|handoff)|create a (?:\w+ ){0,3}summary)\b.{0,120}"
    r"\b(?:conversation|session|chat|history|transcript|context|so far|above)\b",
    re.IGNORECASE | re.DOTALL,
)


def _is_compaction(body: Json, last: Sequence[Block], is_first: bool) -> str:
    """The client's own compaction: its newest words ask for a summary of all, and no tool could answer."""
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
