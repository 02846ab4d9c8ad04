"""`ebb install` and `ebb uninstall`: a client behind Ebbtide for good, and back."""

from __future__ import annotations

import argparse
import difflib
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from ebbtide import screen
from ebbtide.config import StartFiles, find_start_files
from ebbtide.config_keys import parse_port
from ebbtide.core.errors import BadRequest
from ebbtide.display import make_visible
from ebbtide.fronts.cli import service
from ebbtide.fronts.cli.parser import Commands, command
from ebbtide.fronts.cli.start_files import Change, apply, check_name, plan_install, plan_uninstall

SERVICE = "service"
_DEFAULT_PORT = 8787


def add(commands: Commands) -> None:
    parser = command(commands, "install", run)
    parser.add_argument(
        "name", metavar="CLIENT|service", help="a command such as claude, codex or opencode; or service"
    )
    parser.add_argument("--shell", choices=("bash", "zsh", "fish"), help="default: yours, by SHELL")
    parser.add_argument("--port", type=_port, metavar="P", help=f"of the service; default: {_DEFAULT_PORT}")
    parser.add_argument("--yes", action="store_true", help="write it without asking")
    parser = command(commands, "uninstall", run_uninstall)
    parser.add_argument("name", metavar="CLIENT|service", help="what was installed")
    parser.add_argument("--yes", action="store_true", help="write it without asking")


def run(args: argparse.Namespace) -> int:
    """keep a client behind Ebbtide for good

    Adds a function to your shell's start file, so that 'claude' starts 'ebb run -- claude'. Nothing runs in
    the background, and if Ebbtide is gone the client starts by itself. The change is shown first; the file
    is kept beside it with the ending .ebb-backup; doing it twice changes nothing.

    'ebb install service' writes the proxy as a service of yours instead (a systemd unit, or a launchd agent)
    with a fixed port and a token, for clients that you configure yourself. While it is stopped, such a client
    cannot reach its model.

    examples:
        ebb install claude
        ebb install codex --shell fish --yes
        ebb install service --port 8787
    """
    files = find_start_files()
    if args.name == SERVICE:
        return _install_service(files, args)
    if args.port is not None:
        raise BadRequest("--port belongs to 'ebb install service'; a client gets a free port each time it starts")
    name = check_name(args.name)
    if shutil.which(name) is None:
        raise BadRequest(f"there is no command {name} on your PATH; install it first, or check the spelling")
    shell = args.shell or files.shell
    if shell not in files.shells:
        raise BadRequest(f"the shell {shell!r} is not one of {', '.join(files.shells)}; name one of them with --shell")
    change = plan_install(files, shell, name, _own_path())
    if not change.is_needed:
        print(make_visible(f"{name} is installed already, in {change.path}"))
        return 0
    if not _agree([change], args):
        return 2
    _write([change])
    print(make_visible(f"{name} now starts behind Ebbtide, in new shells. To undo it: ebb uninstall {name}"))
    print("What it would have saved so far: ebb audit. What it saved each month since: ebb audit --receipt")
    return 0


def run_uninstall(args: argparse.Namespace) -> int:
    """start a client without Ebbtide again

    Removes what 'ebb install' added, and nothing else: other changes in the file stay, even if they were made
    since. The change is shown first, and the file is kept beside it with the ending .ebb-backup.

    examples:
        ebb uninstall claude
        ebb uninstall service
    """
    files = find_start_files()
    is_service = args.name == SERVICE
    changes = service.plan_removal(files) if is_service else plan_uninstall(files, check_name(args.name))
    if not changes:
        print(make_visible(f"{args.name} is not installed, so there is nothing to undo"))
        return 0
    # The other file has the token and nothing else.
    if not _agree(changes[:1] if is_service else changes, args):
        return 2
    if is_service:
        print(f"First stop it: {service.commands(is_removal=True)}")
    for change in changes:
        # A removed file was ours alone, and the one with the token must not stay in a copy.
        change.path.unlink() if is_service else _write([change])
    print(
        make_visible(
            f"{args.name} is as it was before 'ebb install {args.name}'" + ("" if is_service else ", in new shells")
        )
    )
    return 0


def _install_service(files: StartFiles, args: argparse.Namespace) -> int:
    port = parse_port(_DEFAULT_PORT if args.port is None else args.port)
    if port == 0:
        raise BadRequest("a service needs a fixed port, such as --port 8787")
    changes, token = service.plan_service(files, port)
    if any(change.is_needed for change in changes):
        if not _agree(changes[:1], args):
            return 2
        _write([change for change in changes if change.is_needed])
        changes[1].path.chmod(0o600)
    address = f"http://127.0.0.1:{port}/ebb/t/{token}"
    print(make_visible(f"The service is in {changes[0].path}. To start it: {service.commands()}"))
    print("While it is stopped, clients that are set to it cannot reach their model; 'ebb doctor' says if it runs.")
    print(
        make_visible(
            f"Then set, for example: ANTHROPIC_BASE_URL={address}/anthropic  OPENAI_BASE_URL={address}/openai/v1"
        )
    )
    return 0


def _port(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, such as {_DEFAULT_PORT}")
    return int(text)


def _own_path() -> str:
    """The `ebb` that runs now, by a path that does not depend on PATH."""
    beside = Path(sys.executable).with_name("ebb")
    path = beside if beside.exists() else Path(shutil.which("ebb") or sys.argv[0])
    if not os.access(path, os.X_OK):
        raise BadRequest("the command ebb was not found; install Ebbtide with pip or uv, so that there is one")
    return str(path.absolute())


def _agree(changes: Sequence[Change], args: argparse.Namespace) -> bool:
    """Show the changes, and ask unless --yes was given."""
    for change in changes:
        print(make_visible(_diff(change)), end="")
    if args.yes:
        return True
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        screen.notify("ebb: nothing was written; to write it, run the same command with --yes")
        return False
    if input("Write this? [y/N] ").strip().lower() in ("y", "yes"):
        return True
    screen.notify("ebb: nothing was written")
    return False


def _diff(change: Change) -> str:
    before, after = (text or "" for text in (change.before, change.after))
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), str(change.path), str(change.path), lineterm=""
    )
    return "".join(f"{line}\n" for line in lines)


def _write(changes: Sequence[Change]) -> None:
    for change in changes:
        backup = apply(change)
        if backup is not None:
            print(make_visible(f"The file as it was: {backup}"))
