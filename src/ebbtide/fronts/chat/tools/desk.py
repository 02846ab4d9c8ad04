"""What a tool is, and the desk that all tools of one agent work at.

A tool takes the model's arguments as they came and returns an `Outcome`. What the model did wrong is a `Refused`: a
sentence that says what to do instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Literal

from ebbtide.fronts.chat.tools.processes import Process

Given = Mapping[str, object]
Kind = Literal["none", "read", "write", "run"]


class Refused(Exception):
    """The call cannot be carried out as it was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a call wants to do, for whoever permits it."""

    tool: str
    kind: Kind = "none"
    command: str = ""
    path: Path | None = None
    """Where it really lies: links resolved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    name: str
    about: str
    fields: Mapping[str, Mapping[str, object]]
    """The properties of its JSON schema."""
    wants: tuple[str, ...]
    """Those that must be given."""
    need: Callable[[Desk, Given], Need]
    run: Callable[[Desk, Given], Outcome]

    def schema(self) -> dict[str, object]:
        return {"type": "object", "properties": dict(self.fields), "required": list(self.wants)}


@dataclass(slots=True)
class Desk:
    """Where one agent works, and what it has at hand. A sub-agent has a desk of its own."""

    root: Path
    """Resolved. The workspace: what lies beyond it is asked about."""
    environ: Mapping[str, str] | None = None
    """For commands; None: as the process has it."""
    seen: dict[str, int | None] = field(default_factory=dict)
    """Files the model has read or written, and when each had last changed then."""
    todos: list[dict[str, str]] = field(default_factory=list)
    running: dict[str, Process] = field(default_factory=dict)
    """Background commands, by the name the model knows them by."""
    stop: Event = field(default_factory=Event)
    """Set when the person wants the work to end."""
    reported: dict[str, int | None] = field(default_factory=dict)
    """Files of which the model has heard that somebody changed them, and when."""
    told: set[str] = field(default_factory=set)
    """Background commands whose end the model has heard of."""
    recall: Callable[[str, Given], str] | None = None
    delegate: Callable[[str, str], str] | None = None
    """Takes a title and a task; returns what the sub-agent found."""

    def place(self, given: Given, key: str = "path", default: str = "") -> Path:
        """Where a path of the model's really leads. The last part may not exist yet."""
        named = text(given, key) if key in given or not default else default
        try:
            # `~` is the person's home to a shell, and a directory's name to nobody.
            return Path(os.path.realpath(self.root / Path(named).expanduser()))
        except RuntimeError:
            raise Refused(f"`{key}`: there is no user whose home {named.partition('/')[0]!r} could be") from None

    def shown(self, path: Path) -> str:
        """Short where it lies in the workspace."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def note(self, path: Path) -> None:
        """The model knows this file as it is now."""
        self.seen[str(path)] = _changed(path)

    def stale(self, path: Path) -> str:
        """Why the file must be read before it is changed; empty where it need not be."""
        if str(path) not in self.seen:
            return "it was not read yet, or no longer stands in the conversation"
        return "" if self.seen[str(path)] == _changed(path) else "it changed on disk since it was read"


def _changed(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def free(name: str) -> Callable[[Desk, Given], Need]:
    """For tools that touch nothing."""
    return lambda _desk, _given: Need(tool=name)


# --- arguments ---------------------------------------------------------------------------------------------------


def refuse_odd_text(given: object, key: str = "") -> None:
    """Refuse what neither a file system nor a program takes, at any depth: NUL, and halves of surrogate pairs."""
    if isinstance(given, str) and ("\0" in given or any("\ud800" <= letter <= "\udfff" for letter in given)):
        raise Refused(f"`{key}` holds a NUL or half of a surrogate pair, which is not text. Send it without")
    if isinstance(given, Mapping):
        for name, value in given.items():
            refuse_odd_text(name, key or "the arguments")
            refuse_odd_text(value, key or str(name))
    elif isinstance(given, list):
        for value in given:
            refuse_odd_text(value, key)


def text(given: Given, key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str) or not value:
        raise Refused(f"`{key}` must be a text")
    return value


def words(given: Given, key: str) -> str:
    """As `text`, but it may be empty or left out."""
    value = given.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Refused(f"`{key}` must be a text")
    return value


def number(given: Given, key: str, default: int) -> int:
    """Models write numbers as texts now and then."""
    value = given.get(key)
    if value is None:
        return default
    try:
        return int(float(value)) if isinstance(value, str | int | float) else int("")
    except (ValueError, OverflowError):
        raise Refused(f"`{key}` must be a whole number") from None


def truth(given: Given, key: str) -> bool:
    value = given.get(key)
    return value.lower() == "true" if isinstance(value, str) else bool(value)


def rows(given: Given, key: str) -> Sequence[object]:
    value = given.get(key)
    if not isinstance(value, list):
        raise Refused(f"`{key}` must be a list")
    return value
