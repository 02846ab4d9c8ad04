"""Recognise the agent in a command: by its name, by a path to it, or started through `npx`, `uvx` and the like."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

_PROGRAMS: Mapping[str, str] = {
    **{
        name: name for name in ("claude", "codex", "opencode", "gemini", "qwen", "kimi", "vibe", "aider", "llm", "mini")
    },
    "@anthropic-ai/claude-code": "claude",
    "@openai/codex": "codex",
    "opencode-ai": "opencode",
    "@google/gemini-cli": "gemini",
    "@qwen-code/qwen-code": "qwen",
    "kimi-cli": "kimi",
    "mistral-vibe": "vibe",
    "aider-chat": "aider",
    "mini-swe-agent": "mini",
}
"""By the command, or by the package that contains it."""
_RUNNERS: Mapping[str, tuple[str, ...]] = {
    "npx": (),
    "bunx": (),
    "pnpx": (),
    "npm": ("exec", "x"),
    "pnpm": ("dlx", "exec"),
    "yarn": ("dlx", "exec"),
    "bun": ("x",),
    "uvx": (),
    "pipx": ("run",),
}
"""Programs that start a package, with the words that say so. `uv` has two words and is handled apart."""
_WITH_VALUE = frozenset(
    ("-p", "--package", "--from", "--with", "--with-requirements", "--python", "--spec", "--index", "--prefix", "-C")
)
"""Options of these programs that are followed by a value."""
_PYTHON = re.compile(r"python[\d.]*|pypy[\d.]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command, divided where the agent's own arguments begin."""

    program: str
    """The agent's name, as in `claude`; empty if it is none that is known."""
    head: tuple[str, ...]
    """What starts it: one word, or a runner with its options."""
    arguments: tuple[str, ...]

    @property
    def asks_only_for_help(self) -> bool:
        """Whether an agent prints something about itself and asks no model, so that there is nothing for us to do."""
        return bool(self.program) and self.arguments[:1] in (("--version",), ("--help",), ("-h",))

    @property
    def label(self) -> str:
        """What people call it."""
        return self.program or PurePath(self.head[0]).name


def recognize(command: Sequence[str]) -> Launch:
    """Divide a command that is not empty."""
    start = _start_of_program(command)
    program = _program(command[start]) if start is not None else ""
    end = start + 1 if start is not None and program else 1
    return Launch(program=program, head=tuple(command[:end]), arguments=tuple(command[end:]))


def _start_of_program(command: Sequence[str]) -> int | None:
    """Return the position of the word that names the program or package."""
    first = PurePath(command[0]).name.lower().removesuffix(".cmd").removesuffix(".exe")
    if _PYTHON.fullmatch(first):
        return 2 if command[1:2] == ["-m"] or tuple(command[1:2]) == ("-m",) else None
    if first == "node":
        return 1 if len(command) > 1 else None
    if first == "uv":
        words = tuple(command[1:3])
        return _first_word(command, 3) if words == ("tool", "run") else _after_uv_run(command)
    if first not in _RUNNERS:
        return 0
    words = _RUNNERS[first]
    if words and (len(command) < 2 or command[1] not in words):
        return None
    return _first_word(command, 2 if words else 1)


def _after_uv_run(command: Sequence[str]) -> int | None:
    start = _first_word(command, 2) if tuple(command[1:2]) == ("run",) else None
    if start is not None and _PYTHON.fullmatch(PurePath(command[start]).name):
        return start + 2 if tuple(command[start + 1 : start + 2]) == ("-m",) else None
    return start


def _first_word(command: Sequence[str], start: int) -> int | None:
    """Return the position of the first word that is no option and no option's value."""
    while start < len(command):
        word = command[start]
        if word in _WITH_VALUE:
            start += 1
        elif not word.startswith("-"):
            return start
        start += 1
    return None


def _program(word: str) -> str:
    """Return the agent that a command, a path to it, or a package with or without a version names."""
    for package, program in _PROGRAMS.items():
        if f"/node_modules/{package}/" in word.replace("\\", "/"):
            return program
    package = re.sub(r"(?<=.)(@|==|\[).*", "", word)
    if package in _PROGRAMS:
        return _PROGRAMS[package]
    return _PROGRAMS.get(PurePath(word.replace("\\", "/")).stem.lower(), "")
