"""The tools todo, which keeps the model's list of steps, and task, which gives work to a sub-agent (R232)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ebbtide.fronts.chat.tools.tool import Arguments, ToolError, ToolResult, ToolState, tool

_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


@tool(
    "Keep a list of the steps of a larger task. Send the whole list each time, with one entry in_progress.",
    {
        "todos": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "content": {"type": "string"},
                    "status": {"type": "string", "enum": list(_MARKS)},
                },
                "required": ["content", "status"],
            },
        }
    },
    required=("todos",),
)
def todo(state: ToolState, arguments: Arguments) -> ToolResult:
    state.todos[:] = [_read_todo(entry) for entry in arguments.array("todos")]
    return ToolResult(text=format_todos(state.todos) or "The list is empty.")


def _read_todo(entry: object) -> dict[str, str]:
    if not isinstance(entry, Mapping) or not str(entry.get("content") or "").strip():
        raise ToolError("each entry must have `content` and `status`")
    status = entry.get("status", "pending")
    if status not in _MARKS:
        raise ToolError(f"`status` must be one of {', '.join(_MARKS)}")
    return {"content": " ".join(str(entry["content"]).split()), "status": str(status)}


def format_todos(todos: Sequence[Mapping[str, str]]) -> str:
    return "\n".join(f"{_MARKS[todo['status']]} {todo['content']}" for todo in todos)


def remind_of_todos(state: ToolState) -> str:
    if all(todo["status"] == "completed" for todo in state.todos):
        return ""
    return f"Your to-do list. Update it as you work:\n{format_todos(state.todos)}"


@tool(
    "Give work to a sub-agent that has the same tools and a new conversation: a wide search, a review, anything whose "
    "details you will not need again. It sees nothing of this conversation, so tell it everything it must know and "
    "what to report. Returns its final reply.",
    {
        "title": {"type": "string", "description": "Three to five words."},
        "prompt": {"type": "string", "description": "The whole task."},
    },
    required=("title", "prompt"),
)
def task(state: ToolState, arguments: Arguments) -> ToolResult:
    if state.run_subagent is None:
        raise ToolError("a sub-agent cannot start sub-agents")
    reply = state.run_subagent(arguments.text("title"), arguments.text("prompt"))
    return ToolResult(text=reply or "(the sub-agent gave no reply)", is_error=not reply)
