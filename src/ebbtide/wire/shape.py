"""A wire turns a provider's messages into blocks, and entries of a view back into messages. Pure, dict in, dict out.

Everything that all wires share is here: the identity of a block, trust by who could have written it, and grouping.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol

from ebbtide.core.marks import Place
from ebbtide.core.types import HARNESS, QUOTED, SYSTEM, USER, Item, Kind, Role, Usage

SCHEME = "e1"
"""Of item ids. A change of what is hashed is a new scheme."""

_INJECTED = re.compile(r"\s*<([a-z][a-z_-]{2,40})[ >]")
_INJECTED_TAGS = {
    "system-reminder": "reminder",
    "ide_selection": "ide",
    "ide_opened_file": "ide",
    "user-prompt-submit-hook": "hook",
    "pre-tool-use-hook": "hook",
    "local-command-stdout": "hook",
    "local-command-stderr": "hook",
    "command-name": "hook",
    "command-message": "hook",
    "environment_context": "reminder",
    "user_instructions": "reminder",
    "permissions": "reminder",
    "task-notification": "hook",
    "memory": "memory",
    "nested-memory": "memory",
    "conversation_history_summary": "reminder",
}
"""Tags that harnesses put around what they add to a user message. Matching one only lowers trust."""


@dataclass(slots=True)
class Block:
    """One block as a wire sees it; becomes an item once it has an id and a count."""

    role: Role
    kind: Kind
    text: str
    raw: Any
    canonical: str
    """What the id is made of: no cache marks, no nulls, a bare string equal to a text block."""
    name: str = ""
    call_id: str = ""
    tier: int = QUOTED
    source: str = ""
    media: int = 0
    pixels: tuple[tuple[int, int] | None, ...] = ()
    """Of each image, where its header tells."""
    pages: int = 0
    """Characters of documents that are not text."""
    locked: bool = False
    signature: str = ""
    """Of thinking: it is as long as what it hides."""


class Wire(Protocol):
    """One provider format."""

    @property
    def name(self) -> str: ...
    @property
    def key(self) -> str:
        """Where the conversation stands in the body."""

    def blocks(self, message: Any, path: str) -> list[Block]:
        """At least one block for each message, so that no message is ever lost."""

    def surroundings(self, body: Mapping[str, Any]) -> tuple[Any, Any]:
        """System prompt and tools, as they stand."""

    def max_output(self, body: Mapping[str, Any]) -> int: ...
    def compose(self, original: Any, entries: Sequence[Item]) -> list[Any]:
        """Messages for entries that stand together; `original` is the message they came from, or None."""

    def kept_by_server(self, body: Mapping[str, Any]) -> str:
        """Why this request holds only a part of the conversation, or empty."""

    def bound(self, body: Mapping[str, Any]) -> bool:
        """Whether signed thinking is bound to all before it (A63)."""

    def usage(self, response: Mapping[str, Any]) -> Usage | None: ...
    def reply(self, response: Mapping[str, Any]) -> list[Any]:
        """The response as messages of the next request."""

    def places(self, body: Mapping[str, Any], tokens: Sequence[int], overhead: tuple[int, int]) -> list[Place]:
        """Where cache breakpoints may stand. `tokens` up to and with each message, `overhead` of tools and system."""

    def marks(self, body: Mapping[str, Any]) -> tuple[tuple[int, ...], float]:
        """Messages near the end that carry a breakpoint, whoever set it, and the shortest TTL among them."""

    def breakpoints(self, message: Any) -> int:
        """How many this message carries."""

    def mark(self, body: Mapping[str, Any], places: Sequence[Place]) -> Mapping[str, Any]:
        """A copy with breakpoints; what carries none is the same object."""


_ENCODE = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str).encode


def canonical_json(value: Any) -> str:
    return _ENCODE(_bare(value))


_ATOMS = frozenset((str, int, float, bool))


def _bare(value: Any) -> Any:
    """Without cache marks and nulls: clients move the one every turn and SDKs add the other."""
    if isinstance(value, dict):
        return {
            k: v if type(v) in _ATOMS else _bare(v) for k, v in value.items() if v is not None and k != "cache_control"
        }
    if isinstance(value, list):
        return [one if type(one) in _ATOMS else _bare(one) for one in value]
    return value


def fingerprint(role: str, kind: str, canonical: str) -> str:
    """The content part of an item's id."""
    told = f"{role}\0{kind}\0{canonical}".encode("utf-8", "surrogatepass")
    return f"{SCHEME}-{blake2b(told, digest_size=10).hexdigest()}"


def digest(value: Any) -> str:
    """Hash of a part that has no place in ids: system prompt, tools, a message that went out."""
    told = canonical_json(value).encode("utf-8", "surrogatepass")
    return blake2b(told, digest_size=8).hexdigest()


_TRUST: Mapping[Role, tuple[int, str]] = {
    "system": (SYSTEM, "system"),
    "assistant": (QUOTED, "assistant"),
    "tool": (QUOTED, "tool"),
}


def trust(role: Role, text: str) -> tuple[int, str]:
    """Tier and source of a text by who could have written it."""
    if role != "user":
        return _TRUST[role]
    tag = _INJECTED.match(text)
    if tag and (source := _INJECTED_TAGS.get(tag[1])):
        return HARNESS, source
    return USER, "user"


def text_block(role: Role, text: str, raw: Any, *, locked: bool = False) -> Block:
    tier, source = trust(role, text)
    return Block(role, "text", text, raw, text, tier=tier, source=source, locked=locked)


def as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def as_text(value: Any) -> str:
    """Something that should be a string: itself if it is, its JSON if not, empty for null."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def is_original(entry: Item) -> bool:
    """A block that came from the client, as against one that an edit put there."""
    return entry.id.startswith(f"{SCHEME}-")


_SIDES: Mapping[str, str] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "user"}


def grouped(entries: Sequence[Item]) -> Iterator[tuple[int, list[Item]]]:
    """Entries that stand in one message, in order."""
    group: list[Item] = []
    message, side = 0, ""
    for entry in entries:
        if entry.message != message or _SIDES[entry.role] != side:
            if group:
                yield message, group
            group, message, side = [], entry.message, _SIDES[entry.role]
        group.append(entry)
    if group:
        yield message, group
