"""What a call is about, whoever's tool it is: by its name where we know the name, else by the keys of its arguments.

Names are compared without case, underscores and an MCP server's prefix, so that `Read`, `read_file` and
`mcp__fs__read_file` are told alike.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from ebbtide.core.tool_calls import arguments, file_of
from ebbtide.core.types import Item
from ebbtide.facts.model import FileAction, LineRange, PendingCall, Todo
from ebbtide.facts.shell import patch_actions, resolve_path, shell_actions

_READ = re.compile(r"^(?:notebook)?(?:read|view|open|cat)|getfilecontents|^readfile")
_WRITE = re.compile(r"^(?:write|create|save|put)(?!issue|pull|comment|task|todo)|writefile|createfile|filecreate")
_CHANGE = re.compile(r"edit|replace|^insert|^patch|applypatch|applydiff|updatefile|^append|modify")
_DELETE = re.compile(r"^(?:delete|remove)(?:file|path)?$|deletefile|removefile")
_SHELL_KEYS = ("command", "cmd", "script", "commands", "shell_command", "bash_command")
_CONTENT_KEYS = ("content", "contents", "file_text", "text", "new_source", "fileContent")
_CHANGE_KEYS = ("old_string", "old_str", "oldString", "oldText", "old", "edits", "diff", "new_string", "replacements")
_EDITOR_VERBS = {"view": "read", "create": "create", "str_replace": "change", "insert": "change", "undo_edit": "change"}
_TODO_LISTS = frozenset(
    ("todowrite", "settodolist", "updateplan", "todo", "updatetodos", "writetodos", "updatetodolist")
)
_FENCE = re.compile(r"```\w*\n(?P<command>[^`]+)\n?```\s*\Z")
_SWE = re.compile(r"^(?P<verb>open|create|edit|str_replace_editor (?:view|create|str_replace|insert))\s+(?P<rest>.+)")


def normalize_tool_name(name: str) -> str:
    return re.sub(r"[_\-. ]", "", name.rpartition("__")[2]).lower()


def read_call(call: Item, order: int) -> PendingCall:
    """What the call will have done once its result is there."""
    given = arguments(call)
    command = "" if _is_editor(given) else shell_command(given)
    cwd = _text(given, ("workdir", "cwd", "working_directory", "directory"))
    acts = shell_actions(command, cwd) if command else _file_acts(call, given, cwd)
    return PendingCall(
        order=order, name=call.name, file_actions=acts, command=command, arguments=_kept(call.name, given)
    )


def shell_command(given: Mapping[str, object]) -> str:
    """The command line that the arguments hold; of an argument vector, what a shell in it is told to run."""
    value = next((given[key] for key in _SHELL_KEYS if given.get(key)), None)
    if isinstance(value, str):
        return value
    if not isinstance(value, Sequence) or not all(isinstance(word, str) for word in value):
        return ""
    words = [str(word) for word in value]
    if len(words) >= 3 and re.search(r"(?:^|/)(?:ba|z|da|k|fi)?sh$|pwsh|powershell", words[0]):
        return words[-1]
    return shlex.join(words)


def fenced_actions(text: str) -> tuple[FileAction, ...]:
    """Agents without tools write their command at the end of what they say."""
    found = _FENCE.search(text)
    swe = _SWE.match(found["command"].strip()) if found else None
    if swe is None:
        return ()
    verb, words = swe["verb"], swe["rest"].split()
    if verb.startswith("edit"):
        path = next((word for word in words if "." in word and ":" not in word), "")
        return (FileAction(verb="change", path=path),) if path else ()
    act = "read" if verb == "open" else _EDITOR_VERBS.get(verb.rpartition(" ")[2], "create")
    return (FileAction(verb=act, path=words[0]),)  # type: ignore[arg-type]


def read_todos(call: PendingCall) -> Mapping[str, Todo] | None:
    """The whole list that the call sets; None where it sets none."""
    if normalize_tool_name(call.name) not in _TODO_LISTS:
        return None
    rows = next(
        (value for key in ("todos", "plan", "items") if isinstance(value := call.arguments.get(key), list)), None
    )
    if rows is None:
        return None
    found = {}
    for n, row in enumerate(rows):
        text = (
            _text(row, ("content", "step", "title", "text", "task", "subject")) if isinstance(row, dict) else str(row)
        )
        status = _text(row, ("status", "state")) if isinstance(row, dict) else ""
        if text:
            found[str(n)] = Todo(text=text, status=status or "pending", order=call.order)
    return found


def _kept(name: str, given: Mapping[str, object]) -> Mapping[str, object]:
    """Of the arguments only what a result is read by: contents are long, and stand in the item."""
    if normalize_tool_name(name) in _TODO_LISTS or normalize_tool_name(name) == "exitplanmode":
        return given
    return {key: value[:200] if isinstance(value, str) else value for key, value in given.items() if _short(value)}


def _short(value: object) -> bool:
    return isinstance(value, (str, int, float, bool))


def _is_editor(given: Mapping[str, object]) -> bool:
    command = given.get("command")
    return isinstance(command, str) and command in _EDITOR_VERBS and any(key in given for key in ("path", "file_path"))


def _file_acts(call: Item, given: Mapping[str, object], cwd: str) -> tuple[FileAction, ...]:
    patch = call.text if not given else _text(given, ("patch", "input", "patchText", "diff"))
    if "*** Begin Patch" in patch or patch.startswith(("--- ", "diff --git")):
        return patch_actions(patch, cwd)
    path = file_of(call)
    if not path or len(path) > 1000 or "\n" in path:
        return ()
    path = resolve_path(path, cwd)
    name = normalize_tool_name(call.name)
    if _is_editor(given):
        verb = _EDITOR_VERBS[str(given["command"])]
        return (FileAction(verb=verb, path=path, line_range=_range(given), text=_whole(verb, given)),)  # type: ignore[arg-type]
    if _DELETE.search(name):
        return (FileAction(verb="delete", path=path),)
    if _CHANGE.search(name) or any(key in given for key in _CHANGE_KEYS):
        return (FileAction(verb="change", path=path),)
    if _WRITE.search(name) or any(key in given for key in _CONTENT_KEYS):
        return (FileAction(verb="create", path=path, text=_whole("create", given)),)
    return (FileAction(verb="read", path=path, line_range=_range(given)),) if _READ.search(name) else ()


def _whole(verb: str, given: Mapping[str, object]) -> str | None:
    text = next((value for key in _CONTENT_KEYS if isinstance(value := given.get(key), str)), None)
    return text if verb == "create" else None


def _range(given: Mapping[str, object]) -> LineRange:
    pair = given.get("view_range")
    if isinstance(pair, list) and len(pair) == 2 and all(isinstance(end, int) for end in pair):
        return LineRange(first=pair[0], last=max(pair[1], 0))
    start = _number(given, ("offset", "start_line", "line_start", "startLine", "line_offset", "start"))
    limit = _number(given, ("limit", "n_lines", "num_lines", "lines"))
    end = _number(given, ("end_line", "line_end", "endLine", "end"))
    if end:
        return LineRange(first=max(start, 1), last=end)
    return (
        LineRange(first=max(start, 1), last=max(start, 1) + limit - 1)
        if limit
        else LineRange(first=start)
        if start
        else LineRange()
    )


def _number(given: Mapping[str, object], keys: tuple[str, ...]) -> int:
    return next((value for key in keys if isinstance(value := given.get(key), int) and value > 0), 0)


def _text(given: Mapping[str, object], keys: tuple[str, ...]) -> str:
    return next((value for key in keys if isinstance(value := given.get(key), str) and value), "")
