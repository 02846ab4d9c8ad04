"""`ebb completion`: a script for the shell. It is made by shtab from the parsers themselves, so it cannot lag behind.

Why shtab: its scripts are static, so a TAB starts no Python (argcomplete starts one each time, and half a second of
imports); it writes five shells' dialects, which we would have to learn and test one by one; it is pure Python with no
dependencies. Only session ids are asked of `ebb` itself, when one is wanted.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ebbtide.config import claude_directory
from ebbtide.core.errors import BadConfig, EbbtideError
from ebbtide.display import one_line
from ebbtide.formats.claude_folder import NEWEST, list_claude_sessions
from ebbtide.fronts.cli.help import Commands, Parser, command
from ebbtide.fronts.cli.options import resolve_settings
from ebbtide.policy import PRESETS
from ebbtide.store import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")
_OFFERED = 40
"""Ids: more than a screen of them helps nobody choose."""
_SESSIONS_TOO = "sessions"
"""Asked for by the scripts, when an id is wanted."""
_IDS = f"ebb completion {_SESSIONS_TOO} 2>/dev/null"
_FILES = {"FILE", "PATH"}
_FOLDERS = {"DIR"}
_SESSIONS = {"SESSION", "ID"}


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "completion",
        run,
        brief="TAB completion for your shell",
        about="""
            Prints a script that teaches your shell to complete ebb: commands, options, their choices, files, policies,
            and the ids of your sessions. Load it where your shell starts. It is made from the commands as they are
            installed: after an upgrade, or a new extra, make it again.
        """,
        examples="""
            source <(ebb completion bash)                 now; put this line into ~/.bashrc to keep it
            ebb completion zsh > ~/.zfunc/_ebb            with fpath+=~/.zfunc before compinit
            ebb completion fish > ~/.config/fish/completions/ebb.fish
        """,
    )
    parser.add_argument(
        "shell",
        choices=(*SHELLS, _SESSIONS_TOO),
        metavar="SHELL",
        help=f"{', '.join(SHELLS)}; or {_SESSIONS_TOO}, which lists the ids that the scripts offer",
    )
    parser.set_defaults(commands=commands)


def run(args: argparse.Namespace) -> int:
    if args.shell == _SESSIONS_TOO:
        print(*_ids(args), sep="\n")
        return 0
    try:
        import shtab  # noqa: PLC0415
    except ImportError as missing:
        raise BadConfig("completions need one package more: pip install shtab") from missing
    print(shtab.complete(_whole(args.commands), shell=args.shell, preamble=""))
    return 0


def _ids(args: argparse.Namespace) -> list[str]:
    """The newest, of the store and of Claude Code. A store that cannot be read is no reason to spoil a line."""
    found = [NEWEST]
    try:
        found += [one.session for one in open_store(resolve_settings(args).store).list_sessions()[:_OFFERED]]
        found += [one.session for one in list_claude_sessions(claude_directory(), limit=_OFFERED)]
    except (EbbtideError, OSError):
        return found
    return [one for one in found if one == one_line(one) and " " not in one]


def _whole(commands: Commands) -> argparse.ArgumentParser:
    """One tree, with the parsers of other fronts in their places."""
    tree = argparse.ArgumentParser(prog="ebb")
    tree.add_argument("--version", action="store_true", help="print the version")
    places = tree.add_subparsers(dest="command", metavar="COMMAND")
    told = {choice.dest: choice.help for choice in commands._choices_actions}
    for name, parser in commands.choices.items():
        there = parser.whole() if isinstance(parser, Parser) else parser
        places.add_parser(name, help=told.get(name), add_help=False)
        if there is not None:
            places.choices[name] = there
            for action in there._actions:
                _teach(action)
    return tree


def _teach(action: argparse.Action) -> None:
    """What may stand there follows from what the help calls it."""
    if "--policy" in action.option_strings or action.dest == "policies":
        action.choices = list(PRESETS)
        return
    words = set(str(action.metavar or "").split("|"))
    kinds = [name for name, those in _KINDS.items() if words & those]
    if kinds and action.choices is None and action.nargs != 0:
        action.complete = _COMPLETERS["+".join(kinds)]  # type: ignore[attr-defined]


_KINDS = {"files": _FILES, "folders": _FOLDERS, "sessions": _SESSIONS}


def _completer(name: str, bash: str, zsh: str, fish: str) -> Mapping[str, object]:
    return {
        "bash": f"_ebb_{name}",
        "zsh": f"_ebb_{name}",
        "fish": f"(_ebb_{name})",
        "tcsh": "f",
        "powershell": "_shtab_powershell_compgen_files",
        "preamble": {
            "bash": f"_ebb_{name}() {{\n  {bash}\n}}",
            "zsh": f"_ebb_{name}() {{\n  {zsh}\n}}",
            "fish": f"function _ebb_{name}\n  {fish}\nend",
        },
    }


_ASKED = {
    "files": ('compgen -f -- "$1"', "_files", "__fish_complete_path (commandline -ct)"),
    "folders": ('compgen -d -- "$1"', "_files -/", "__fish_complete_directories (commandline -ct)"),
    "sessions": (f'compgen -W "$({_IDS})" -- "$1"', f'compadd -- ${{(f)"$({_IDS})"}}', _IDS),
}
_COMPLETERS = {
    **{name: _completer(name, *lines) for name, lines in _ASKED.items()},
    "files+sessions": _completer(
        "either", *("\n  ".join(pair) for pair in zip(_ASKED["files"], _ASKED["sessions"], strict=True))
    ),
}
