"""What the model is told besides the user's messages: changes since its last request, each once (R085, R086)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from ebbtide.assembly import Conversation
from ebbtide.fronts.chat.tools import ToolState
from ebbtide.fronts.chat.tools.bash import report_ended_commands
from ebbtide.fronts.chat.tools.tasks import format_todos
from ebbtide.workspace import changed_files, gather_attachments

Sources = Mapping[str, Callable[[], str]]


def changes(state: ToolState) -> Sources:
    """Checked before every request; empty if nothing happened."""
    return {
        "changed-files": partial(changed_file_notice, state),
        "background": partial(report_ended_commands, state),
    }


def reminders(state: ToolState) -> Sources:
    """Checked when the user sends a message: the model may have lost sight of its list."""
    return {**changes(state), "todo": partial(_todo_reminder, state)}


def attach(conversation: Conversation, sources: Sources) -> None:
    """Ask all sources at the same time. A source that is late or fails is left out."""
    for source, text in gather_attachments(sources):
        conversation.inject(source, text)


def changed_file_notice(state: ToolState) -> str:
    """List the files that changed on disk since the model read or wrote them. Each change is listed once."""
    new = changed_files(state.known_files).items() - state.reported_changes.items()
    if not new:
        return ""
    state.reported_changes.update(new)
    lines = [f"- {state.display_path(Path(path))}{' (deleted)' if at is None else ''}" for path, at in sorted(new)]
    files = "\n".join(lines)
    return f"These files changed on disk after you last saw them. Read them again before you rely on them:\n{files}"


def _todo_reminder(state: ToolState) -> str:
    if all(todo["status"] == "completed" for todo in state.todos):
        return ""
    return f"Your list as it stands; bring it up to date as you go on:\n{format_todos(state.todos)}"
