"""Remembers in which folders git may run. The user is asked once; the answer is in the user's own settings."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path

from ebbtide.display import one_line
from ebbtide.fronts.chat.tools.files import write_atomically

_QUESTION = """\
{folder}
is a git repository that ebb chat has not seen before.

A repository's settings can make git run programs. A folder that you copied
or downloaded comes with its own settings.

  y  trust it: run `git status` and `git log` when a session starts, so that
     the model knows what changed
  n  do not trust it: never run git; the model only knows the branch

Either way, you are asked before the model runs a command.

Trust this folder? [y/N] """
_SAVED = "{answer}. Remembered in {file}; to change it: ebb chat --trust, or --no-trust."


def read_trust(file: Path, folder: str) -> bool | None:
    """Return the user's answer for this folder; None if they were not asked yet."""
    answer = _read(file).get(folder)
    return answer if isinstance(answer, bool) else None


def remember_trust(file: Path, folder: str, *, is_trusted: bool) -> bool:
    """Save an answer. Return False if that failed; the answer then holds for this session only."""
    answers = {**_read(file), folder: is_trusted}
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        data = json.dumps({"folders": answers}, indent=1, sort_keys=True).encode()
        write_atomically(file, data, mode=0o600)
    except OSError as error:
        print(f"ebb: your answer could not be saved: {one_line(str(file), 1_000)}: {error.strerror}", file=sys.stderr)
        return False
    return True


def ask_trust(file: Path, folder: str) -> bool:
    """Ask at the terminal and save the answer. Ctrl-D means no, and the question comes again next time."""
    _discard_typed_keys()
    try:
        answer = input(_QUESTION.format(folder=one_line(folder, 1_000))).strip().lower()
    except EOFError:
        print()
        return False
    is_trusted = answer in ("y", "yes")
    if remember_trust(file, folder, is_trusted=is_trusted):
        print(
            _SAVED.format(answer="Trusted" if is_trusted else "Not trusted", file=one_line(str(file), 1_000)),
            end="\n\n",
        )
    return is_trusted


def _discard_typed_keys() -> None:
    """Keys that were pressed before the question appeared do not answer it."""
    with suppress(ImportError, OSError):
        import termios  # noqa: PLC0415  # Not on Windows.

        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _read(file: Path) -> dict[str, object]:
    """Return the answers by folder; none if the file cannot be read."""
    try:
        folders = json.loads(file.read_bytes()).get("folders")
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}
    return folders if isinstance(folders, dict) else {}
