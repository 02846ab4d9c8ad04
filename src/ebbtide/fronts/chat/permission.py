"""Decides what the agent may do without asking: read and write files in the workspace. All else asks the user first.

A decision depends on the action, the rules, the mode and where paths lead. Only the user adds a rule, and a rule covers
what its question says and no more: a command by name only if `known_commands` lists it, any other command line word
for word; permission to read never covers writing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from ebbtide.fronts.chat.known_commands import known_name
from ebbtide.fronts.chat.shell import Command, plain_commands
from ebbtide.fronts.chat.tools import Action

Mode = Literal["build", "plan"]
Ruling = Literal["allow", "deny", "ask"]
AskUser = Callable[["PermissionQuestion"], "PermissionAnswer"]

PLAN_REFUSAL = "plan mode is on: do not change anything until the user turns it off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    root: Path
    home: Path | None = None
    """The user's home: permission to read one file in it does not cover the rest."""
    is_trusted: bool = False
    """Whether git commands may be allowed by name: the repository's settings decide which programs git runs."""
    own_folders: tuple[Path, ...] = ()
    """Our own settings: no tool may write there unasked, even if they are in the workspace."""
    allow_all: bool = False
    """`--yes`."""
    tools: frozenset[str] = frozenset()
    """Names of tools that need not ask."""
    commands: frozenset[Command] = frozenset()
    """Names of known commands that need not ask."""
    lines: frozenset[str] = frozenset()
    """Whole command lines."""
    readable: frozenset[Path] = frozenset()
    """Files, and folders with all below them, outside the workspace."""
    writable: frozenset[Path] = frozenset()
    """Files."""

    def grant(self, action: Action) -> Rules:
        """Return these rules plus what 'always' covers for this action."""
        if action.kind == "run":
            names = self.known_names(action.command)
            if names:
                return replace(self, commands=self.commands | names)
            return replace(self, lines=self.lines | {action.command})
        if action.path is None:
            return self
        if action.kind == "write":
            return replace(self, writable=self.writable | {action.path})
        return replace(self, readable=self.readable | {self.readable_root(action.path)})

    def known_names(self, command: str) -> frozenset[Command]:
        """Return the known commands in a line; none if one of them is not known."""
        names = {known_name(words, self.root) for words in plain_commands(command)}
        is_covered = all(name and (self.is_trusted or name[0] != "git") for name in names)
        return frozenset(names) if is_covered else frozenset()

    def readable_root(self, path: Path) -> Path:
        """Return the folder of a file, or the file alone if the folder contains the workspace or the user's home."""
        folder = path if path.is_dir() else path.parent
        holds_too_much = self.root.is_relative_to(folder) or (
            self.home is not None and self.home.is_relative_to(folder)
        )
        return path if holds_too_much else folder


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionQuestion:
    """What the user is asked."""

    action: Action
    reason: str
    """Why it needs permission."""
    rules: Rules

    @property
    def grant_scope(self) -> str:
        """Describe what 'always' would cover."""
        action = self.action
        if action.kind == "run":
            names = sorted(f"`{' '.join(name)}`" for name in self.rules.known_names(action.command))
            if not names:
                return "exactly this command line"
            return f"{', '.join(names)} with common options, on paths inside the workspace"
        assert action.path is not None, "a file action has a path"
        if action.kind == "write":
            return f"writing {action.path}"
        place = self.rules.readable_root(action.path)
        return f"reading {place}" if place == action.path and not place.is_dir() else f"reading everything in {place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionAnswer:
    allowed: bool
    remember: bool = False
    instruction: str = ""
    """What the user wants instead."""


@dataclass(slots=True)
class Permissions:
    """The rules of one session, and the function that asks the user."""

    rules: Rules
    ask: AskUser
    mode: Mode = "build"
    on_grant: Callable[[Action], None] = field(default=lambda _need: None)
    """Called for each 'always', to write it to the log."""

    def toggle_mode(self) -> None:
        self.mode = "build" if self.mode == "plan" else "plan"

    def refusal_reason(self, action: Action) -> str:
        """Ask the user if needed. Return why the action is refused, for the model, or ''."""
        ruling, reason = decide(action, self.rules, self.mode)
        if ruling == "deny":
            return reason
        if ruling == "allow":
            return ""
        answer = self.ask(PermissionQuestion(action=action, reason=reason, rules=self.rules))
        if not answer.allowed:
            instruction = f' They say: "{answer.instruction}".' if answer.instruction else ""
            return f"The user did not permit this ({reason}).{instruction} Do not try to do the same in another way."
        if answer.remember:
            self.rules = self.rules.grant(action)
            self.on_grant(action)
        return ""


def decide(action: Action, rules: Rules, mode: Mode) -> tuple[Ruling, str]:
    if action.kind == "none":
        return "allow", ""
    if mode == "plan" and action.kind == "write":
        return "deny", PLAN_REFUSAL
    # In plan mode every command asks: one that was allowed for building may change files.
    if mode == "plan" and action.kind == "run":
        return "ask", "plan mode is on"
    if rules.allow_all:
        return "allow", ""
    if action.kind == "run":
        return ("allow", "") if "bash" in rules.tools or _is_granted(action.command, rules) else ("ask", "a command")
    return _decide_path(action, rules)


def _decide_path(action: Action, rules: Rules) -> tuple[Ruling, str]:
    path = action.path
    assert path is not None, "a file action has a path"
    if path in rules.writable:
        return "allow", ""
    # Permission to run commands covers files that decide what is run; permission to write does not.
    if action.kind == "write" and "bash" not in rules.tools:
        if belongs_to_git(path, rules.root):
            return "ask", "git runs what this file says"
        if any(path.is_relative_to(folder) for folder in rules.own_folders):
            return "ask", "ebb's own settings"
    if action.tool in rules.tools or path.is_relative_to(rules.root):
        return "allow", ""
    if action.kind == "read" and any(path.is_relative_to(place) for place in rules.readable):
        return "allow", ""
    return "ask", f"a {action.kind} outside the workspace"


def _is_granted(command: str, rules: Rules) -> bool:
    if command in rules.lines:
        return True
    names = rules.known_names(command) if rules.commands else frozenset()
    return bool(names) and names <= rules.commands


# --- files that decide which programs git runs: writing one is like running a command, so it asks -----------------

_IGNORED = dict.fromkeys(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]  # HFS+ drops them from names
)
_OWN = frozenset((".git", "git~1", ".gitconfig"))
"""`git~1` is the short name of `.git` on Windows."""
_PARTS = frozenset(("head", "objects", "refs"))
"""With these three a folder is a bare repository."""
_SETTINGS = frozenset(("config", "config.worktree", "commondir", "hooks", "info", "modules", "worktrees"))
"""Files of a bare repository that git reads its settings from."""


def belongs_to_git(path: Path, root: Path) -> bool:
    """Whether a file belongs to git: in a `.git`, or in a folder that is, or would become, a bare repository.

    Names are compared without case, as disks of macOS and Windows do. `path` is resolved; of a path inside `root` only
    what is below it counts.
    """
    start = root if path.is_relative_to(root) else Path(path.anchor)
    parts = path.relative_to(start).parts
    names = [_plain(part) for part in parts]
    if _OWN & set(names) or names[-1:] == ["head"]:
        return True
    return any(
        name in _PARTS | _SETTINGS and _parts_in(start.joinpath(*parts[:n])) - {name} for n, name in enumerate(names)
    )


def _plain(name: str) -> str:
    """Normalize a name like disks that ignore case, trailing dots and invisible letters; NTFS ignores `:stream` too."""
    return name.translate(_IGNORED).partition(":")[0].rstrip(". ").casefold()


def _parts_in(folder: Path) -> set[str]:
    """Return which parts of a bare repository a folder has."""
    try:
        return {_plain(entry.name) for entry in folder.iterdir()} & _PARTS
    except OSError:
        return set()
