"""`ebb completion`: a completion script for the shell, generated from the parsers by shtab.

Why shtab: its scripts are static, so that TAB starts no Python (argcomplete starts one each time, with half a second of
imports); it supports five shells; it is pure Python without dependencies. Only session ids come from `ebb` itself.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ebbtide.config import claude_directory
from ebbtide.core.errors import BadConfig, EbbtideError
from ebbtide.display import one_line
from ebbtide.formats.claude_folder import NEWEST, list_claude_sessions
from ebbtide.fronts.cli.parser import Commands, Parser, command, resolve_settings
from ebbtide.policy import POLICY_NAMES
from ebbtide.store import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")
_MAX_IDS = 40
"""More than a screenful does not help to choose."""
_LIST_IDS = "sessions"
"""What the scripts pass instead of a shell, to get the session ids."""
_IDS = f"ebb completion {_LIST_IDS} 2>/dev/null"
_KINDS = {"files": {"FILE", "PATH"}, "folders": {"DIR"}, "sessions": {"SESSION", "ID"}}
"""What completes an argument, by its metavar."""


def add(commands: Commands) -> None:
    parser = command(commands, "completion", run)
    parser.add_argument(
        "shell",
        choices=(*SHELLS, _LIST_IDS),
        metavar="SHELL",
        help=f"{', '.join(SHELLS)}; or {_LIST_IDS}, which lists session ids for the scripts",
    )
    parser.set_defaults(commands=commands)


def run(args: argparse.Namespace) -> int:
    """TAB completion for your shell

    Prints a script with which your shell completes commands, options, their choices, files, policies and
    session ids of ebb. Load it where your shell starts. It covers the commands that are installed now: print
    it again after an upgrade or after installing an extra.

    examples:
        source <(ebb completion bash)                 now; put this line into ~/.bashrc to keep it
        ebb completion zsh > ~/.zfunc/_ebb            with fpath+=~/.zfunc before compinit
        ebb completion fish > ~/.config/fish/completions/ebb.fish
    """
    if args.shell == _LIST_IDS:
        print(*_ids(args), sep="\n")
        return 0
    try:
        import shtab  # noqa: PLC0415
    except ImportError as error:
        raise BadConfig("completion needs another package: pip install shtab") from error
    print(shtab.complete(_full_parser(args.commands), shell=args.shell, preamble=""))
    return 0


def _ids(args: argparse.Namespace) -> list[str]:
    """The newest sessions of the store and of Claude Code. Errors are ignored: they would garble the prompt."""
    ids = [NEWEST]
    try:
        ids += [info.session for info in open_store(resolve_settings(args).store).list_sessions()[:_MAX_IDS]]
        ids += [session.session for session in list_claude_sessions(claude_directory(), limit=_MAX_IDS)]
    except (EbbtideError, OSError):
        return ids
    return [name for name in ids if name == one_line(name) and " " not in name]


def _full_parser(commands: Commands) -> argparse.ArgumentParser:
    """One parser for all commands, with those of other fronts loaded."""
    root = argparse.ArgumentParser(prog="ebb")
    root.add_argument("--version", action="store_true", help="print the version")
    entries = root.add_subparsers(dest="command", metavar="COMMAND")
    briefs = {choice.dest: choice.help for choice in commands._choices_actions}
    for name, entry in commands.choices.items():
        parser = entry.resolve() if isinstance(entry, Parser) else entry
        entries.add_parser(name, help=briefs.get(name), add_help=False)
        if parser is not None:
            entries.choices[name] = parser
            for action in parser._actions:
                _set_completer(action)
    return root


def _set_completer(action: argparse.Action) -> None:
    """Choose what completes an argument by its metavar."""
    if "--policy" in action.option_strings or action.dest == "policies":
        action.choices = list(POLICY_NAMES)
        return
    metavars = set(str(action.metavar or "").split("|"))
    kinds = [name for name, names in _KINDS.items() if metavars & names]
    if kinds and action.choices is None and action.nargs != 0:
        action.complete = _COMPLETERS["+".join(kinds)]  # type: ignore[attr-defined]


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


_COMMANDS_BY_KIND = {
    "files": ('compgen -f -- "$1"', "_files", "__fish_complete_path (commandline -ct)"),
    "folders": ('compgen -d -- "$1"', "_files -/", "__fish_complete_directories (commandline -ct)"),
    "sessions": (f'compgen -W "$({_IDS})" -- "$1"', f'compadd -- ${{(f)"$({_IDS})"}}', _IDS),
}
_COMPLETERS = {
    **{name: _completer(name, *lines) for name, lines in _COMMANDS_BY_KIND.items()},
    "files+sessions": _completer(
        "either",
        *("\n  ".join(pair) for pair in zip(_COMMANDS_BY_KIND["files"], _COMMANDS_BY_KIND["sessions"], strict=True)),
    ),
}
