"""Defines a tool, its arguments, and the state that the tools of one agent share.

A tool takes the arguments that the model sent and returns a `ToolResult`. A call that cannot run as sent raises a
`ToolError`, whose message tells the model what to do instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Literal

from ebbtide.fronts.chat.tools.processes import Process
from ebbtide.workspace import changed_files, file_times

ActionKind = Literal["none", "read", "write", "run"]


class ToolError(Exception):
    """The call cannot run as the model sent it."""


class Arguments(dict[str, object]):
    """The arguments of a call, as the model sent them. The methods check the type of one argument."""

    def text(self, key: str) -> str:
        value = self.get(key)
        if not isinstance(value, str) or not value:
            raise ToolError(f"`{key}` must be a string")
        return value

    def optional_text(self, key: str) -> str:
        value = self.get(key)
        if not isinstance(value, str | None):
            raise ToolError(f"`{key}` must be a string")
        return value or ""

    def integer(self, key: str, default: int) -> int:
        """Accepts a number in quotes too: models send them now and then."""
        value = self.get(key)
        if value is None:
            return default
        try:
            return int(float(value)) if isinstance(value, str | int | float) else int("")
        except (ValueError, OverflowError):
            raise ToolError(f"`{key}` must be a whole number") from None

    def boolean(self, key: str) -> bool:
        value = self.get(key)
        return value.lower() == "true" if isinstance(value, str) else bool(value)

    def array(self, key: str) -> Sequence[object]:
        value = self.get(key)
        if not isinstance(value, list):
            raise ToolError(f"`{key}` must be a list")
        return value

    def reject_invalid_text(self) -> None:
        """Raise if there is a NUL or a lone surrogate anywhere: file systems and programs accept neither."""
        _reject_invalid_text(self, "")


def _reject_invalid_text(value: object, key: str) -> None:
    if isinstance(value, str) and ("\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value)):
        raise ToolError(f"`{key}` contains a NUL or half of a surrogate pair; send it without")
    if isinstance(value, Mapping):
        for name, inner in value.items():
            _reject_invalid_text(name, key or "the arguments")
            _reject_invalid_text(inner, key or str(name))
    elif isinstance(value, list):
        for inner in value:
            _reject_invalid_text(inner, key)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What a call wants to do. `permission` decides whether it may."""

    tool: str
    kind: ActionKind = "none"
    command: str = ""
    path: Path | None = None
    """With symbolic links resolved."""


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    properties: Mapping[str, Mapping[str, object]]
    """Of the JSON schema of its arguments."""
    required: tuple[str, ...]
    run: Callable[[ToolState, Arguments], ToolResult]
    action: Callable[[ToolState, Arguments], Action] | None = None
    """What a call needs permission for. None: nothing."""

    def schema(self) -> dict[str, object]:
        return {"type": "object", "properties": dict(self.properties), "required": list(self.required)}


@dataclass(slots=True)
class ToolState:
    """What the tools of one agent share. A sub-agent has its own."""

    root: Path
    """The workspace, with symbolic links resolved. Paths outside it need permission."""
    environ: Mapping[str, str] | None = None
    """For commands. None: that of this process."""
    known_files: dict[str, int | None] = field(default_factory=dict)
    """Files the model has read or written, with their modification time at that moment."""
    todos: list[dict[str, str]] = field(default_factory=list)
    background: dict[str, Process] = field(default_factory=dict)
    """Background commands by the name that the model uses for them."""
    stop: Event = field(default_factory=Event)
    """Set when the user interrupts."""
    reported_changes: dict[str, int | None] = field(default_factory=dict)
    """Changed files that the model was already notified of, with their modification time."""
    reported_exits: set[str] = field(default_factory=set)
    """Background commands whose end the model was already notified of."""
    recall: Callable[[str, Arguments], str] | None = None
    run_subagent: Callable[[str, str], str] | None = None
    """Takes a title and a prompt; returns the sub-agent's final reply."""

    def resolve_path(self, arguments: Arguments, default: str = "") -> Path:
        """Resolve the `path` argument, symbolic links included. The last part need not exist."""
        name = arguments.text("path") if "path" in arguments or not default else default
        try:
            return Path(os.path.realpath(self.root / Path(name).expanduser()))
        except RuntimeError:
            raise ToolError(f"`path`: there is no user {name.partition('/')[0]!r}") from None

    def display_path(self, path: Path) -> str:
        """Relative to the workspace if the path is inside it."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def mark_as_known(self, path: Path) -> None:
        """Remember that the model knows the file's current content."""
        self.known_files |= file_times([str(path)])

    def stale_reason(self, path: Path) -> str:
        """Return why the model must read the file before it changes it, or ''."""
        if str(path) not in self.known_files:
            return "you have not read it, or its text is no longer in the conversation"
        is_changed = bool(changed_files({str(path): self.known_files[str(path)]}))
        return "it has changed on disk since you read it" if is_changed else ""

    def run_recall(self, name: str, arguments: Arguments) -> ToolResult:
        """Answer a call of one of the engine's recall tools."""
        if self.recall is None:
            raise ToolError("this session has no recall")
        text = self.recall(name, arguments)
        return ToolResult(text=text, is_error=text.startswith("Error: "))


def path_action(tool: str, kind: ActionKind, default: str = "") -> Callable[[ToolState, Arguments], Action]:
    """For tools that read or write the file or directory in their `path` argument."""
    return lambda state, arguments: Action(tool=tool, kind=kind, path=state.resolve_path(arguments, default))


def tool(
    description: str,
    properties: Mapping[str, Mapping[str, object]],
    *,
    required: tuple[str, ...] = (),
    action: Callable[[ToolState, Arguments], Action] | None = None,
) -> Callable[[Callable[[ToolState, Arguments], ToolResult]], Tool]:
    """Make a function the tool of its name. The arguments are the fields of `Tool`."""
    return lambda run: Tool(run.__name__, description, properties, required, run, action)
