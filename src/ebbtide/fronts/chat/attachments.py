"""What the model hears beside the person's words: news since its last request, and nothing twice (R085, R086)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ebbtide.assembly import Conversation
from ebbtide.fronts.chat.tools import Desk
from ebbtide.fronts.chat.tools.bash import ended
from ebbtide.fronts.chat.tools.todo import listed
from ebbtide.workspace import changed_files, gather_attachments

Sources = Mapping[str, Callable[[], str]]


def news(desk: Desk) -> Sources:
    """Before every request: cheap, and empty where nothing happened."""
    return {"changed-files": lambda: changed(desk), "background": lambda: ended(desk)}


def reminders(desk: Desk) -> Sources:
    """Where the person speaks: what may have slipped from view."""
    return {**news(desk), "todo": lambda: _todo(desk)}


def attach(talk: Conversation, sources: Sources) -> None:
    """All looked for at once; late or broken ones are left out."""
    for source, text in gather_attachments(sources):
        talk.inject(source, text)


def changed(desk: Desk) -> str:
    """Files that somebody else changed since the model saw them. Each change is told once."""
    found = {path: now for path, now in changed_files(desk.seen).items() if desk.reported.get(path, -1) != now}
    desk.reported.update(found)
    lines = [f"- {desk.shown(Path(path))}{' (deleted)' if now is None else ''}" for path, now in found.items()]
    if not lines:
        return ""
    told = "\n".join(lines)
    return f"These files changed on disk after you last saw them. Read them again before you rely on them:\n{told}"


def _todo(desk: Desk) -> str:
    if not any(one["status"] != "completed" for one in desk.todos):
        return ""
    return f"Your list as it stands; bring it up to date as you go on:\n{listed(desk.todos)}"
