"""Folders in which the user lets git run, asked once and kept in the user's own settings, never in the repository."""

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

Git runs programs that a repository's own settings name, and a folder that
was copied or downloaded brings its settings along.

  y  trust it: `git status` and `git log` run here when a session begins,
     and the model knows what changed
  n  do not: git is not run; the model is told the branch and no more

Commands of the model ask you first either way.

Trust this folder? [y/N] """
_KEPT = "{answer}. Remembered in {file}; to change it: ebb chat --trust, or --no-trust."


def read_trust(file: Path, folder: str) -> bool | None:
    """What the user said of this very folder; None where they were not asked yet."""
    answer = _read(file).get(folder)
    return answer if isinstance(answer, bool) else None


def remember_trust(file: Path, folder: str, *, is_trusted: bool) -> bool:
    """Keep an answer, and say whether that worked. Where it did not, the answer counts for this time.

    The file is replaced as a whole: a crash leaves the old one or the new one.
    """
    answers = {**_read(file), folder: is_trusted}
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        data = json.dumps({"folders": answers}, indent=1, sort_keys=True).encode()
        write_atomically(file, data, mode=0o600)
    except OSError as error:
        print(f"ebb: your answer cannot be remembered: {one_line(str(file), 1_000)}: {error.strerror}", file=sys.stderr)
        return False
    return True


def ask_trust(file: Path, folder: str) -> bool:
    """Ask at the terminal, and remember yes and no. Without an answer (Ctrl-D) it is no, and asked again next time."""
    _drop_typed_ahead()
    try:
        answer = input(_QUESTION.format(folder=one_line(folder, 1_000))).strip().lower()
    except EOFError:
        print()
        return False
    is_trusted = answer in ("y", "yes")
    if remember_trust(file, folder, is_trusted=is_trusted):
        print(
            _KEPT.format(answer="Trusted" if is_trusted else "Not trusted", file=one_line(str(file), 1_000)), end="\n\n"
        )
    return is_trusted


def _drop_typed_ahead() -> None:
    """What was typed before the question stood there is no answer to it."""
    with suppress(ImportError, OSError):
        import termios  # noqa: PLC0415  # Not on Windows.

        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _read(file: Path) -> dict[str, object]:
    """The answers by folder. A file that cannot be read says nothing, and one asks again."""
    try:
        folders = json.loads(file.read_bytes()).get("folders")
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}
    return folders if isinstance(folders, dict) else {}
