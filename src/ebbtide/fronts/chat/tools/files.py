"""The tools read, write and edit. A file must be read before it is changed, and is replaced as a whole."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from ebbtide.core.text.preview import pluralize
from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.display import first_lines
from ebbtide.fronts.chat.tools.tool import Arguments, ToolError, ToolResult, ToolState, path_action, tool
from ebbtide.workspace import changed_files

MAX_BYTES = 256 * 1024
"""A larger file is read in ranges (R119)."""
MAX_TOKENS = 25_000
"""Estimated tokens of one result."""
_MAX_LINE = 2_000  # characters: longer lines are data, which no one edits by line
_CHUNK = 16 * 1024  # bytes: more than `_MAX_LINE` characters can take
_MAX_EXCERPT = 40  # lines: the model has just written a larger change itself
_RANGE_HINT = "Read a range with `offset` and `limit`, or search it with grep."
_PATH = {"type": "string", "description": "Relative to the workspace, or absolute."}


# --- read --------------------------------------------------------------------------------------------------------


@tool(
    "Read a text file. Lines are numbered, as in `    12<tab>text`; the numbers are not part of the file. "
    "Read a file over 256 KB in ranges.",
    {
        "path": _PATH,
        "offset": {"type": "integer", "description": "First line to read, counted from 1."},
        "limit": {"type": "integer", "description": "Number of lines."},
    },
    required=("path",),
    action=path_action("read", "read"),
)
def read(state: ToolState, arguments: Arguments) -> ToolResult:
    path = state.resolve_path(arguments)
    offset, limit = arguments.integer("offset", 1), arguments.integer("limit", 0)
    if offset < 1 or limit < 0:
        raise ToolError("`offset` must be 1 or more, and `limit` a number of lines")
    if path.is_dir():
        raise ToolError(f"{state.display_path(path)} is a directory; use glob to list it")
    if not path.is_file():
        raise ToolError(f"there is no file {state.display_path(path)}")
    is_range = bool(limit) or offset > 1
    size = path.stat().st_size
    if size > MAX_BYTES and not is_range:
        raise ToolError(f"{state.display_path(path)} has {size:,} bytes, more than {MAX_BYTES:,}. {_RANGE_HINT}")
    text = _number_lines(path, offset, limit)
    tokens = DEFAULT.text(text)
    if tokens > MAX_TOKENS:
        raise ToolError(f"that would be about {tokens:,} tokens, more than {MAX_TOKENS:,}. {_RANGE_HINT}")
    state.mark_as_known(path)
    return ToolResult(text=text or "(nothing: the file is empty or ends before that line)")


def _number_lines(path: Path, offset: int, limit: int) -> str:
    """Read lines from `offset` on, each with its number. Stop once there is far more than a result may hold."""
    lines: list[str] = []
    characters = 0
    with path.open("rb") as file:
        for n, raw in enumerate(islice(_line_heads(file), offset - 1, offset - 1 + limit if limit else None), offset):
            if b"\0" in raw:
                raise ToolError("the file is not text")
            line = raw.decode("utf-8", "replace").rstrip("\r\n")
            lines.append(f"{n:>6}\t{line[:_MAX_LINE]}{' [line cut]' if len(line) > _MAX_LINE else ''}")
            characters += len(line)
            if characters > 2 * MAX_BYTES:
                raise ToolError(f"that range is too large. {_RANGE_HINT}")
    return "\n".join(lines)


def _line_heads(file: BinaryIO) -> Iterator[bytes]:
    """Yield the first chunk of each line, or a NUL if the line holds one. A line may be as long as the file."""
    head = b""
    while chunk := file.readline(_CHUNK):
        head = b"\0" if b"\0" in chunk else head or chunk
        if chunk.endswith(b"\n"):
            yield head
            head = b""
    if head:
        yield head


# --- write -------------------------------------------------------------------------------------------------------


@tool(
    "Write a whole file: a new one, or one that you have read. To change part of a file, use edit.",
    {"path": _PATH, "content": {"type": "string", "description": "The complete content of the file."}},
    required=("path", "content"),
    action=path_action("write", "write"),
)
def write(state: ToolState, arguments: Arguments) -> ToolResult:
    path, content = state.resolve_path(arguments), arguments.optional_text("content")
    shown_path = state.display_path(path)
    if path.is_dir():
        raise ToolError(f"{shown_path} is a directory")
    existed = path.exists()
    if existed and (reason := state.stale_reason(path)):
        raise ToolError(f"{shown_path} exists, and {reason}. Read it first.")
    mode = path.stat().st_mode & 0o7777 if existed else 0o666 & ~_umask()
    write_atomically(path, content.encode("utf-8", "replace"), mode)
    state.mark_as_known(path)
    lines = content.count("\n") + (not content.endswith("\n") and bool(content))
    return ToolResult(text=f"{'Replaced' if existed else 'Created'} {shown_path}, {pluralize(lines, 'line')}.")


def write_atomically(path: Path, data: bytes, mode: int) -> None:
    """Write a temporary file next to `path` and move it there: a crash leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".ebb-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    """The only way to read the umask is to set it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


# --- edit --------------------------------------------------------------------------------------------------------


@tool(
    "Replace text in a file that you have read. `old` must match exactly, including spaces and without line numbers, "
    "and must occur once, unless `all` is set.",
    {
        "path": _PATH,
        "old": {"type": "string", "description": "The text to replace."},
        "new": {"type": "string", "description": "The text to put there."},
        "all": {"type": "boolean", "description": "Replace every occurrence."},
    },
    required=("path", "old", "new"),
    action=path_action("edit", "write"),
)
def edit(state: ToolState, arguments: Arguments) -> ToolResult:
    path = state.resolve_path(arguments)
    if not path.is_file():
        raise ToolError(f"there is no file {state.display_path(path)}; use write to create it")
    if reason := state.stale_reason(path):
        raise ToolError(f"{state.display_path(path)}: {reason}. Read it first.")
    try:
        before = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise ToolError("the file is not text") from None
    old, new = arguments.text("old"), arguments.optional_text("new")
    after = replace_text(before, old, new, everywhere=arguments.boolean("all"))
    write_atomically(path, after.encode("utf-8"), path.stat().st_mode & 0o7777)
    state.mark_as_known(path)
    return ToolResult(text=f"Changed {state.display_path(path)}.\n{show_change(before, after)}")


def replace_text(content: str, old: str, new: str, *, everywhere: bool) -> str:
    # Models write line feeds; a file with Windows line ends keeps them.
    if "\r\n" in content and "\r\n" not in old:
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    times = content.count(old)
    if old == new:
        raise ToolError("`old` and `new` are the same")
    if times == 0:
        raise ToolError("`old` does not occur in the file. Spaces and line ends must match too. Read that part again.")
    if times > 1 and not everywhere:
        raise ToolError(f"`old` occurs {times} times. Include more of the text around it, or set `all`.")
    return content.replace(old, new)


def show_change(before: str, after: str) -> str:
    """Number the changed lines with two lines around them, so that the model need not read the file again."""
    old, new = before.splitlines(), after.splitlines()
    start = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    most = min(len(old), len(new)) - start
    same_at_end = next((n for n in range(most) if old[-1 - n] != new[-1 - n]), most)
    first, last = max(0, start - 2), min(len(new), len(new) - same_at_end + 2)
    lines = [f"{n:>6}\t{line}" for n, line in enumerate(new[first:last], first + 1)]
    return "\n".join(first_lines(lines, _MAX_EXCERPT))


# --- changes by others ---------------------------------------------------------------------------------------------


def list_changed_files(state: ToolState) -> str:
    """List the files that changed on disk since the model read or wrote them. Each change is listed once (R086)."""
    new = changed_files(state.known_files).items() - state.reported_changes.items()
    if not new:
        return ""
    state.reported_changes.update(new)
    lines = [f"- {state.display_path(Path(path))}{' (deleted)' if at is None else ''}" for path, at in sorted(new)]
    files = "\n".join(lines)
    return f"These files changed on disk after you last saw them. Read them again before you rely on them:\n{files}"
