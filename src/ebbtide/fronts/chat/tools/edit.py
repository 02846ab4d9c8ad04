"""One text of a file for another. The old one must stand there, and only once unless all are meant."""

from __future__ import annotations

from pathlib import Path

from ebbtide.core.text.pluralize import pluralize
from ebbtide.fronts.chat.tools.desk import Desk, Given, Need, Outcome, Refused, Tool, text, truth, words
from ebbtide.fronts.chat.tools.write import put


def _need(desk: Desk, given: Given) -> Need:
    return Need(tool="edit", kind="write", path=desk.place(given))


def _run(desk: Desk, given: Given) -> Outcome:
    path = desk.place(given)
    if not path.is_file():
        raise Refused(f"there is no file {desk.shown(path)}; write makes one")
    if why := desk.stale(path):
        raise Refused(f"{desk.shown(path)}: {why}. Read it first.")
    before = _text_of(path)
    after = replaced(before, text(given, "old"), words(given, "new"), everywhere=truth(given, "all"))
    put(path, after.encode("utf-8"))
    desk.note(path)
    return Outcome(text=f"Changed {desk.shown(path)}.\n{excerpt(before, after)}")


def _text_of(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("the file is not text") from None


def replaced(whole: str, old: str, new: str, *, everywhere: bool) -> str:
    # A model writes line feeds; a file of Windows keeps its own ends.
    if "\r\n" in whole and "\r\n" not in old:
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    times = whole.count(old)
    if old == new:
        raise Refused("`old` and `new` are the same")
    if times == 0:
        raise Refused("`old` does not stand in the file, blanks and line ends counted. Read the place again.")
    if times > 1 and not everywhere:
        raise Refused(f"`old` stands there {times} times. Give more of the text around it, or set `all`.")
    return whole.replace(old, new)


def excerpt(before: str, after: str) -> str:
    """The lines that changed first, and two around them, numbered: so that nobody need read the file again."""
    old, new = before.splitlines(), after.splitlines()
    same = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    rest = len(old) - same, len(new) - same
    end = next((n for n in range(min(rest)) if old[-1 - n] != new[-1 - n]), min(rest))
    first, last = max(0, same - 2), min(len(new), len(new) - end + 2)
    shown = [f"{n:>6}\t{line}" for n, line in enumerate(new[first:last], first + 1)]
    most = 40  # lines: what is larger the model has just written itself
    return "\n".join(shown if len(shown) <= most else [*shown[:most], f"[{pluralize(len(shown) - most, 'more line')}]"])


edit = Tool(
    name="edit",
    about=(
        "Replace a text in a file you have read. `old` must match exactly, blanks included and without line numbers, "
        "and must be found once, unless `all` is set."
    ),
    fields={
        "path": {"type": "string", "description": "Relative to the workspace, or absolute."},
        "old": {"type": "string", "description": "What stands there now."},
        "new": {"type": "string", "description": "What shall stand there."},
        "all": {"type": "boolean", "description": "Replace every occurrence."},
    },
    wants=("path", "old", "new"),
    need=_need,
    run=_run,
)
