"""What `ebb` prints without a command: what it is, what to try first, and which commands there are.

It is written down here rather than asked of the commands, because these take half a second to load. A test holds it
against them. On a terminal rich sets it in colour.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec

FRONTS = {
    "demo": "watch a session fill its window, be compacted and recall what was removed",
    "replay": "replay recorded sessions under several policies and compare the bills",
    "proxy": "an HTTP proxy in front of the provider",
    "audit": "what your own sessions cost, and would have cost",
    "top": "your sessions while they run: context, cache, money",
    "statusline": "one line for Claude Code's status line",
    "run": "start an agent behind its own proxy",
    "chat": "the terminal agent",
    "ui": "the web inspector",
    "mcp": "recall as an MCP server",
}
BRIEFS: Mapping[str, str] = {
    "fit": "make a request fit the window",
    "context": "what fills the window: grid and table",
    "explain": "what was removed, by which rule, why, and what it saved",
    "report": "what a session's edits saved, compared with the bills; --html for a page to send",
    "why": "which edit removed this text, and how to get it back",
    "recall": "search what a session recorded, and read it back",
    "sessions": "list the stored sessions, or those of Claude Code",
    "show": "a conversation as the model sees it",
    "diff": "before and after of each edit",
    "undo": "reverse the newest batch of edits",
    "redo": "apply the batch that was undone last again",
    "verify": "recompute every checksum of the store",
    "delete": "delete a session with all that it stored",
    "gc": "delete old sessions from the store",
    "store": "copy sessions between folder and database",
    "export": "write a session out, secrets masked",
    "doctor": "check the install, settings, keys, store and prices",
    "completion": "TAB completion for your shell",
    "install": "keep a client behind Ebbtide for good",
    "uninstall": "start a client without Ebbtide again",
    **FRONTS,
}
"""By command, the first line of its help."""
GROUPS: Mapping[str, tuple[str, ...]] = {
    "See what happens": ("demo", "audit", "context", "explain", "report", "replay", "top", "ui"),
    "Keep an agent inside its window": ("run", "install", "uninstall", "proxy", "chat", "fit", "statusline", "mcp"),
    "Look into sessions, and get things back": ("sessions", "show", "diff", "why", "recall", "undo", "redo"),
    "Maintain the store and the install": ("verify", "export", "delete", "gc", "store", "doctor", "completion"),
}
_PITCH = "Keeps an LLM agent's conversation inside the model's window, and loses nothing."
_TRY = (
    ("ebb demo", "watch it work, in 20 seconds: no key, no network"),
    ("ebb audit", "what your own sessions cost, and would have cost"),
    ("ebb run -- claude", "keep your agent inside its window"),
)
_MORE = (
    ("ebb help", "all commands, with a line on each"),
    ("ebb COMMAND --help", "what it does, with examples"),
    ("ebb doctor", "if something is wrong"),
)
_NOTES = """\
A FILE is a request body (Anthropic, OpenAI Chat, OpenAI Responses, Gemini) or a session recorded by
Claude Code, Codex, gemini-cli, pi, OpenCode, SWE-agent or a chat log.
'ebb COMMAND --help' explains a command, with examples. If something is wrong, run 'ebb doctor'."""


def is_installed(name: str) -> bool:
    with suppress(ModuleNotFoundError):
        return find_spec(f"ebbtide.fronts.{name}.command") is not None
    return False


def print_overview() -> None:
    """Say what Ebbtide is, what to try first, and which commands there are, in less than a screen."""
    groups = [(title, [("", ", ".join(names))]) for title, names in _groups()]
    _print([("", list(_TRY)), *groups, ("", list(_MORE))], is_tight=True)


def print_help() -> None:
    """The same commands, with a line on each."""
    lists = [(title, [(f"{name:<10}", BRIEFS[name]) for name in names]) for title, names in _groups()]
    _print([("usage: ebb COMMAND [OPTIONS]", []), *lists])
    print(f"\n{_NOTES}")


def _groups() -> list[tuple[str, list[str]]]:
    return [(title, [name for name in names if _exists(name)]) for title, names in GROUPS.items()]


def _print(lists: list[tuple[str, list[tuple[str, str]]]], *, is_tight: bool = False) -> None:
    """Print the pitch and lists of commands under their titles. Tight: no blank line between two lists with a title."""
    screen = import_module("ebbtide.screen") if sys.stdout.isatty() else None
    if screen:
        screen.draw(screen.styled_text((_PITCH, "bold")))
    else:
        print(_PITCH)
    was_titled = False
    for title, rows in lists:
        if not (is_tight and title and was_titled):
            print()
        was_titled = bool(title)
        if title:
            if screen:
                screen.draw(screen.styled_text((title, "bold cyan")))
            else:
                print(title)
        if screen and rows:
            screen.draw(screen.command_list(rows))
            continue
        width = max((len(command) for command, _ in rows), default=0)
        for command, meaning in rows:
            print(f"  {command:<{width}}  {meaning}" if command else f"  {meaning}")


def _exists(name: str) -> bool:
    return name not in FRONTS or is_installed(name)
