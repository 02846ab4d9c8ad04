"""A whole file, written beside its place and moved there: a crash leaves the old one or the new one."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from ebbtide.core.text.pluralize import pluralize
from ebbtide.fronts.chat.tools.desk import Desk, Given, Need, Outcome, Refused, Tool, words


def _need(desk: Desk, given: Given) -> Need:
    return Need(tool="write", kind="write", path=desk.place(given))


def _run(desk: Desk, given: Given) -> Outcome:
    path, content = desk.place(given), words(given, "content")
    if path.is_dir():
        raise Refused(f"{desk.shown(path)} is a directory")
    existed = path.exists()
    if existed and (why := desk.stale(path)):
        raise Refused(f"{desk.shown(path)} is there already, and {why}. Read it first.")
    put(path, content.encode("utf-8", "replace"))
    desk.note(path)
    lines = content.count("\n") + (not content.endswith("\n") and bool(content))
    return Outcome(text=f"{'Replaced' if existed else 'Created'} {desk.shown(path)}, {pluralize(lines, 'line')}.")


def put(path: Path, data: bytes) -> None:
    """All of it or nothing. The file keeps its mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_umask()
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=".ebb-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(beside, mode)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise


def _umask() -> int:
    """There is no way to ask for it but to set it."""
    now = os.umask(0o077)
    os.umask(now)
    return now


write = Tool(
    name="write",
    about="Write a file as a whole: a new one, or one you have read. To change a part of a file use edit.",
    fields={
        "path": {"type": "string", "description": "Relative to the workspace, or absolute."},
        "content": {"type": "string", "description": "All of the file."},
    },
    wants=("path", "content"),
    need=_need,
    run=_run,
)
