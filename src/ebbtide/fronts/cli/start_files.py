"""Our block in a shell's start file: a function named like the client, which starts it behind `ebb run`.

A block lies between two marker lines and belongs to us; everything else in the file is the user's and stays byte for
byte. So an install can be undone whatever was changed around it since. If Ebbtide is gone, the function starts the
client by itself: nothing has to run in the background, and nothing breaks.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ebbtide.config import StartFiles
from ebbtide.core.errors import BadRequest

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,40}\Z")
_BEGIN, _END = "# >>> ebbtide: {name} >>>", "# <<< ebbtide: {name} <<<"
_BLOCK = (
    r"(?m)^# >>> ebbtide: {name} >>>[ \t\r]*\n(?:(?!# >>> ebbtide: ).*\n)*?# <<< ebbtide: {name} <<<[ \t\r]*(?:\n|\Z)"
)
BACKUP = ".ebb-backup"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A file before and after."""

    path: Path
    before: str | None
    """None if there is no such file."""
    after: str | None
    """None if it is to be removed."""

    @property
    def is_needed(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A function that is in a start file."""

    name: str
    path: Path
    ebb: str
    """The `ebb` that it starts."""


def check_name(name: str) -> str:
    if not _NAME.match(name):
        raise BadRequest(f"{name[:60]!r} is not the name of a command, such as claude")
    return name


def plan_install(files: StartFiles, shell: str, name: str, ebb: str) -> Change:
    """Plan the function of this client. Raises `BadRequest` where it would not be called."""
    path = _file_of(files, shell, name)
    before = read(path)
    if shell == "fish":
        if before is not None and not _find(before, name):
            raise BadRequest(f"{path} has a function of yours; remove it first, or start 'ebb run -- {name}' in it")
        return Change(path=path, before=before, after=_block(name, _fish_function(name, ebb)))
    rest, place = _without(before or "", name)
    if re.search(rf"(?m)^\s*alias\s+{re.escape(name)}=", rest):
        raise BadRequest(
            f"{path} has an alias {name}, which comes before a function; remove it, or add 'ebb run --' to it"
        )
    block = _block(name, _function(name, ebb))
    if place is None:
        gap = "" if not rest or rest.endswith("\n") else "\n"
        return Change(path=path, before=before, after=f"{rest}{gap}{block}")
    return Change(path=path, before=before, after=rest[:place] + block + rest[place:])


def plan_uninstall(files: StartFiles, name: str) -> list[Change]:
    """Plan the removal of our block from every shell's file. What is not between our markers stays."""
    changes = []
    for shell in files.shells:
        path = _file_of(files, shell, name)
        before = read(path)
        if before is None or not _find(before, name):
            continue
        rest, _ = _without(before, name)
        is_ours = shell == "fish" and not rest.strip()
        changes.append(Change(path=path, before=before, after=None if is_ours else rest))
    return changes


def list_installed(files: StartFiles) -> list[Installed]:
    paths = [files.shells["bash"], files.shells["zsh"]]
    with suppress(OSError):
        paths += sorted(files.shells["fish"].glob("*.fish"))
    installed = []
    for path in paths:
        text = read(path) or ""
        for name in re.findall(r"(?m)^# >>> ebbtide: ([A-Za-z0-9_.-]+) >>>", text):
            match = re.search(_BLOCK.format(name=re.escape(name)), text)
            ebb = re.search(r"test -x ('[^']*'|[^\s;]+)", match[0]) if match else None
            installed.append(Installed(name=name, path=path, ebb=shlex.split(ebb[1])[0] if ebb else ""))
    return installed


def apply(change: Change) -> Path | None:
    """Write it, and return the path of the backup; None if there was no file. A link stays a link."""
    path = change.path.resolve()
    backup = None
    try:
        if change.before is not None:
            backup = path.with_name(path.name + BACKUP)
            _write(backup, change.before, like=path)
        if change.after is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, change.after, like=path)
    except OSError as error:
        raise BadRequest(f"{change.path} cannot be written: {error.strerror}") from None
    return backup


def read(path: Path) -> str | None:
    """Return the file's text, with bytes that are no UTF-8 kept; None if there is none."""
    try:
        with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}") from None


def _file_of(files: StartFiles, shell: str, name: str) -> Path:
    return files.shells[shell] / f"{name}.fish" if shell == "fish" else files.shells[shell]


def _find(text: str, name: str) -> re.Match[str] | None:
    return re.search(_BLOCK.format(name=re.escape(name)), text)


def _without(text: str, name: str) -> tuple[str, int | None]:
    """Return the text without our block, and where it was."""
    match = _find(text, name)
    return (text, None) if match is None else (text[: match.start()] + text[match.end() :], match.start())


def _block(name: str, body: str) -> str:
    return f"{_BEGIN.format(name=name)}\n{body}{_END.format(name=name)}\n"


def _function(name: str, ebb: str) -> str:
    quoted = shlex.quote(ebb)
    return (
        f"# 'ebb uninstall {name}' removes these lines.\nfunction {name} {{\n"
        f'  if test -x {quoted}; then {quoted} run -- {name} "$@"; else command {name} "$@"; fi\n}}\n'
    )


def _fish_function(name: str, ebb: str) -> str:
    quoted = shlex.quote(ebb)
    return (
        f"# 'ebb uninstall {name}' removes this file.\nfunction {name} --wraps {name}\n"
        f"  if test -x {quoted}; {quoted} run -- {name} $argv; else; command {name} $argv; end\nend\n"
    )


def _write(path: Path, text: str, *, like: Path) -> None:
    """Replace the file in one step, with the same permissions."""
    mode = like.stat().st_mode & 0o777 if like.exists() else 0o644
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
