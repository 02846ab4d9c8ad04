"""What may be done without asking. Inside the workspace files are read and written; all else asks first.

A decision is pure: a need, the rules and the mode in, a verdict out. Only a person adds a rule. A command that is
remembered by its beginning matches no command line that a shell would take apart: what follows `;` was never seen.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from ebbtide.fronts.chat.tools import Need

Mode = Literal["build", "plan"]
Ruling = Literal["allow", "deny", "ask"]
Ask = Callable[["Question"], "Verdict"]

PLAN_REFUSAL = "plan mode is on: nothing is changed until the user leaves it"
_SHELL = re.compile(r"[;&|<>`$(){}\[\]*?~!#\\\n\r]")
"""With one of these a line is more than one plain command."""
_SUBCOMMANDS = frozenset(
    ("git", "npm", "pnpm", "yarn", "cargo", "go", "uv", "pip", "docker", "kubectl", "make", "gh", "poetry")
)
"""What they do is said by their second word."""
_RUNS_ANYTHING = frozenset(
    ("bash", "sh", "zsh", "python", "python3", "node", "perl", "ruby", "sudo", "env", "xargs", "find", "ssh", "eval")
)
"""Their arguments are programs: to allow one is to allow all, so only the very line is remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    root: Path
    everything: bool = False
    """`--yes`."""
    tools: frozenset[str] = frozenset()
    """Tools that need not ask, by name."""
    beginnings: tuple[tuple[str, ...], ...] = ()
    """First words of commands that need not ask."""
    lines: frozenset[str] = frozenset()
    """Whole command lines."""
    folders: tuple[Path, ...] = ()
    """Outside the workspace, with all below them."""

    def remembering(self, need: Need) -> Rules:
        """These, and what would cover this need next time."""
        if need.kind == "run":
            words = _beginning(need.command)
            if words:
                return replace(self, beginnings=(*self.beginnings, words))
            return replace(self, lines=self.lines | {need.command})
        return replace(self, folders=(*self.folders, _folder(need))) if need.path is not None else self


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person is asked."""

    need: Need
    reason: str
    """Why it is not simply done."""

    @property
    def remembered(self) -> str:
        """What a lasting yes would cover, in words."""
        if self.need.kind != "run":
            return f"everything in {_folder(self.need)}"
        words = _beginning(self.need.command)
        return f"commands that begin with `{' '.join(words)}`" if words else "this very command line"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    allowed: bool
    remember: bool = False
    words: str = ""
    """What the person said instead."""


@dataclass(slots=True)
class Permits:
    """The rules of one session as they stand, and the one who is asked."""

    rules: Rules
    ask: Ask
    mode: Mode = "build"
    remembered: Callable[[Need], None] = field(default=lambda _need: None)
    """Told of each lasting yes, so that it outlives the process."""

    def refusal(self, need: Need) -> str:
        """Why not, for the model; empty where it may."""
        ruling, reason = decide(need, self.rules, self.mode)
        if ruling == "deny":
            return reason
        if ruling == "allow":
            return ""
        verdict = self.ask(Question(need=need, reason=reason))
        if not verdict.allowed:
            said = f' They say: "{verdict.words}".' if verdict.words else ""
            return f"The user did not permit this ({reason}).{said} Do not try to reach the same by other means."
        if verdict.remember:
            self.rules = self.rules.remembering(need)
            self.remembered(need)
        return ""


def decide(need: Need, rules: Rules, mode: Mode) -> tuple[Ruling, str]:
    if need.kind == "none":
        return "allow", ""
    if mode == "plan" and need.kind == "write":
        return "deny", PLAN_REFUSAL
    # While a plan is made every command is looked at: what was allowed for building may change things.
    if mode == "plan" and need.kind == "run":
        return "ask", "plan mode is on"
    if rules.everything or need.tool in rules.tools:
        return "allow", ""
    if need.kind == "run":
        return ("allow", "") if _known(need.command, rules) else ("ask", "a command")
    return _placed(need, rules)


def _placed(need: Need, rules: Rules) -> tuple[Ruling, str]:
    assert need.path is not None, "a file's need names the file"
    if any(need.path.is_relative_to(folder) for folder in rules.folders):
        return "allow", ""
    if not need.path.is_relative_to(rules.root):
        return "ask", f"a {need.kind} outside the workspace"
    # Git runs programs that its folder names: writing there is running a command.
    if need.kind == "write" and ".git" in need.path.relative_to(rules.root).parts:
        return "ask", "a write into git's own folder"
    return "allow", ""


def _known(command: str, rules: Rules) -> bool:
    if command in rules.lines:
        return True
    words = _plain(command)
    return bool(words) and any(words[: len(begin)] == begin for begin in rules.beginnings)


def _plain(command: str) -> tuple[str, ...]:
    """The words of a single command; none where a shell would make more of it."""
    if _SHELL.search(command):
        return ()
    try:
        words = tuple(shlex.split(command))
    except ValueError:
        return ()
    # `A=b program` sets what the program obeys.
    return () if words and "=" in words[0] else words


def _beginning(command: str) -> tuple[str, ...]:
    words = _plain(command)
    if not words or Path(words[0]).name in _RUNS_ANYTHING:
        return ()
    if words[0] not in _SUBCOMMANDS:
        return words[:1]
    return words[:2] if len(words) > 1 and not words[1].startswith("-") else ()


def _folder(need: Need) -> Path:
    assert need.path is not None, "a file's need names the file"
    return need.path if need.path.is_dir() else need.path.parent
