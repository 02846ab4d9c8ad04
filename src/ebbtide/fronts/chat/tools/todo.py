"""The plan of the work, as the model keeps it. Each call gives the whole list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ebbtide.fronts.chat.tools.desk import Desk, Given, Outcome, Refused, Tool, free, rows

STATES = ("pending", "in_progress", "completed")
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


def _run(desk: Desk, given: Given) -> Outcome:
    desk.todos[:] = [_entry(row) for row in rows(given, "todos")]
    return Outcome(text=listed(desk.todos) or "The list is empty.")


def _entry(row: object) -> dict[str, str]:
    if not isinstance(row, Mapping) or not str(row.get("content") or "").strip():
        raise Refused("each entry has `content` and `status`")
    status = row.get("status", "pending")
    if status not in STATES:
        raise Refused(f"`status` is one of {', '.join(STATES)}")
    return {"content": " ".join(str(row["content"]).split()), "status": str(status)}


def listed(todos: Sequence[Mapping[str, str]]) -> str:
    return "\n".join(f"{_MARKS[one['status']]} {one['content']}" for one in todos)


todo = Tool(
    name="todo",
    about="Keep a list of the steps of a larger task. Send the whole list each time; one entry is in_progress.",
    fields={
        "todos": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "content": {"type": "string"},
                    "status": {"type": "string", "enum": list(STATES)},
                },
                "required": ["content", "status"],
            },
        }
    },
    wants=("todos",),
    need=free("todo"),
    run=_run,
)
