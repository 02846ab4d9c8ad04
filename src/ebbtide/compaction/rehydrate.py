"""Reads the files that the model was working on again after a compaction, as they are now.

Paths come from tool calls and may be hostile: only files below the root are read, wherever links lead, and no secrets.
A file that is refused is reported and never stops a compaction. The caller frames the text and decides how far to
trust it.
"""

from __future__ import annotations

import codecs
import logging
import os
import re
import stat
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath

CountTokens = Callable[[str], int]
"""Tokens of a text."""
OnSkip = Callable[[str, str], None]
"""Called with the source that was skipped, and why."""
NoteSource = Callable[[], str | Sequence[tuple[str, str]]]
"""Returns a current text, or several with their names."""

FILES, TOKENS_EACH, TOKENS_TOTAL = 5, 5_000, 50_000  # R184
DENIED = (
    # Secrets.
    *(".env", ".env.*", "*.env", ".envrc", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass"),
    *(
        ".htpasswd",
        ".git-credentials",
        "credentials",
        "credentials.json",
        ".ssh/",
        ".gnupg/",
        ".aws/",
        ".azure/",
        ".kube/",
    ),
    # Third-party and generated files.
    *(".git/", ".hg/", ".svn/", "node_modules/", ".venv/", "venv/", "__pycache__/"),
)
"""Patterns that ignore case. One with a slash inside matches the path below the root, one without matches any part of
the path, and one that ends with a slash matches only directories."""
# A token rarely has more than 8 bytes. In a file of blanks it can have more; such a file is cut a little early.
_BYTES_PER_TOKEN = 64

_log = logging.getLogger(__name__)


def _log_skip(source: str, reason: str) -> None:
    _log.info("not restored: %s: %s", source, reason)


# -------------------------------------------------------------------------------------------------------- files


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredFile:
    """A file as it is now, or its beginning: whole lines, unless the first line is too long."""

    path: str
    """Relative to the root, with slashes."""
    text: str
    tokens: int
    truncated: bool
    last: int
    """Number of the last line in the text, from 1."""
    lines: int | None
    """Lines of the whole file; None if it was too long to read completely."""

    @property
    def title(self) -> str:
        """The path, and which part of the file this is."""
        if not self.truncated:
            return f"{self.path} ({self.last} line{'s' * (self.last != 1)}, complete)"
        if not self.text.endswith("\n"):
            return f"{self.path} (the beginning of line 1; the rest is omitted)"
        total = "" if self.lines is None else f" of {self.lines}"
        return f"{self.path} (lines 1-{self.last}{total}; the rest is omitted)"


def restore_files(
    reads: Sequence[str],
    *,
    root: Path,
    count: CountTokens,
    deny: Sequence[str] = DENIED,
    files: int = FILES,
    tokens_each: int = TOKENS_EACH,
    tokens_total: int = TOKENS_TOTAL,
    report: OnSkip = _log_skip,
) -> tuple[RestoredFile, ...]:
    """Return the most recently read files as they are now (R184, R185).

    `reads` are the paths from tool calls, newest first and with repeats; relative paths start at the root. A refused
    file makes room for the next.
    """
    files_read: list[RestoredFile] = []
    seen_paths: set[str] = set()
    tokens_left = tokens_total
    for path in reads:
        max_tokens = min(tokens_each, tokens_left)
        if len(files_read) >= files or max_tokens <= 0:
            break
        try:
            real, below = _resolve(path, root, deny)
            if real in seen_paths:
                continue
            seen_paths.add(real)
            data, has_more = _read(real, max_tokens * _BYTES_PER_TOKEN)
            file = _shorten(below, _decode(data, has_more), max_tokens, count, has_more)
        except (OSError, ValueError) as error:
            report(path, str(error))
            continue
        files_read.append(file)
        tokens_left -= file.tokens
        if file.truncated and max_tokens < tokens_each:
            break  # The remaining tokens would hold only a scrap of the next file.
    return tuple(files_read)


def restore_skills(
    folder: Path,
    active: Sequence[str],
    *,
    count: CountTokens,
    tokens_each: int = TOKENS_EACH,
    tokens_total: int = TOKENS_TOTAL,
    report: OnSkip = _log_skip,
) -> tuple[RestoredFile, ...]:
    """Return the skills in use (R185). Each is a directory with a SKILL.md."""
    return restore_files(
        [os.path.join(name, "SKILL.md") for name in active],
        root=folder,
        count=count,
        files=len(active),
        tokens_each=tokens_each,
        tokens_total=tokens_total,
        report=report,
    )


def _resolve(path: str, root: Path, deny: Sequence[str]) -> tuple[str, str]:
    """Follow all links, and return the real path and the path relative to the root."""
    requested, home = os.path.abspath(os.path.join(root, path)), os.path.realpath(root)
    real = os.path.realpath(requested, strict=True)
    below = _relative_to(real, home)
    if not below:
        raise PermissionError("lies outside the project")
    # Check the path before and after links: a denied name can link to a harmless one, or the other way round.
    names = (below, _relative_to(requested, home), _relative_to(requested, os.path.abspath(root)))
    if any(_matches(pattern, name) for pattern in deny for name in names):
        raise PermissionError("denied")
    return real, below


def _relative_to(path: str, root: str) -> str:
    """Return the path relative to the root, with slashes; empty if it is not below it."""
    inside = PurePath(path).is_relative_to(root) and path != root
    return PurePath(path).relative_to(root).as_posix() if inside else ""


def _matches(pattern: str, path: str) -> bool:
    pattern, path = pattern.casefold(), path.casefold()
    if "/" in pattern.rstrip("/"):
        # A directory includes all that is in it.
        return fnmatchcase(path, pattern.rstrip("/")) or fnmatchcase(path, pattern.rstrip("/") + "/*")
    parts = path.split("/")[:-1] if pattern.endswith("/") else path.split("/")
    return any(fnmatchcase(part, pattern.rstrip("/")) for part in parts)


def _read(real: str, limit: int) -> tuple[bytes, bool]:
    """Read at most `limit` bytes, and say whether there are more. Pipes and devices are not opened."""
    if not stat.S_ISREG(os.stat(real).st_mode):
        raise OSError("not a regular file")
    # The file can be swapped after the check: do not follow a link, and do not wait for a pipe.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(real, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("not a regular file")
        data = file.read(limit + 1)
    return data[:limit], len(data) > limit


def _decode(data: bytes, has_more: bool) -> str:
    if b"\0" in data:
        raise ValueError("binary")
    # The limit can cut a character in two.
    text = codecs.getincrementaldecoder("utf-8-sig")().decode(data, final=not has_more)
    if not text.strip():
        raise ValueError("empty")
    return text


def _shorten(path: str, text: str, max_tokens: int, count: CountTokens, has_more: bool) -> RestoredFile:
    """Keep as many whole first lines as fit in `cap` tokens, or the beginning of the first line."""
    # Count lines as editors do: `splitlines` would also split at a form feed.
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    if has_more and len(lines) > 1:
        lines.pop()  # The limit cut this line.
    line_count = _largest_that_fits(len(lines), max_tokens, lambda n: count("".join(lines[:n])))
    text_part = (
        "".join(lines[:line_count])
        or lines[0][: _largest_that_fits(len(lines[0]), max_tokens, lambda n: count(lines[0][:n]))]
    )
    if not text_part.strip():
        raise ValueError("no room")
    return RestoredFile(
        path=path,
        text=text_part,
        tokens=count(text_part),
        truncated=has_more or line_count < len(lines),
        last=max(1, line_count),
        lines=None if has_more else len(lines),
    )


def _largest_that_fits(limit: int, cap: int, tokens: Callable[[int], int]) -> int:
    """Return the largest number up to `limit` whose tokens fit in `cap`."""
    return bisect_right(range(1, limit + 1), cap, key=tokens)


# --------------------------------------------------------------------------------------------------------- live


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """The current text of a source: instructions, a skill, the plan, the mode, the to-dos."""

    name: str
    text: str
    tokens: int
    note: str = ""
    """Why the text is empty, if the source failed."""


def read_notes(sources: Mapping[str, NoteSource], *, count: CountTokens) -> tuple[Note, ...]:
    """Read all sources in order. An empty source is skipped; a source that fails becomes a note with the reason.

    `workspace.instructions` gives the instruction files of the session's directory, each with its name.
    Nothing is shortened here: half a rule can say the opposite.
    """
    notes: list[Note] = []
    for name, source in sources.items():
        try:
            reply = source()
            texts = [(name, reply)] if isinstance(reply, str) else [(f"{name}: {title}", text) for title, text in reply]
            notes += [Note(name=title, text=text, tokens=count(text)) for title, text in texts if text.strip()]
        except Exception as error:  # noqa: BLE001 - go on without this source, and say which
            _log.warning("a live source failed: %s", name, exc_info=True)
            notes.append(Note(name=name, text="", tokens=0, note=f"{type(error).__name__}: {error}"))
    return tuple(notes)
