"""What a tool call does, and how it ended, for the tools of any agent.

A tool is known by its name, else by the keys of its arguments. Names are compared without case, underscores and an MCP
server's prefix, so `Read`, `read_file` and `mcp__fs__read_file` are the same tool. How a call ended is read from its
output.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ebbtide.core.text.preview import is_plain
from ebbtide.core.tool_calls import call_arguments, file_path
from ebbtide.core.tool_calls import is_failed_result as has_error_flag
from ebbtide.core.types import Item
from ebbtide.facts.model import FileAction, LineRange, PendingCall, Todo
from ebbtide.facts.shell import patch_actions, resolve_path, shell_actions
from ebbtide.facts.text import to_one_line

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
_SWE_AGENT = re.compile(
    r"^(?P<verb>open|create|edit|str_replace_editor (?:view|create|str_replace|insert))\s+(?P<rest>.+)"
)


def normalize_tool_name(name: str) -> str:
    return re.sub(r"[_\-. ]", "", name.rpartition("__")[2]).lower()


def read_call(call: Item, order: int) -> PendingCall:
    """What the call will have done if it succeeds."""
    values = call_arguments(call)
    command = "" if _is_editor(values) else shell_command(values)
    cwd = _text(values, ("workdir", "cwd", "working_directory", "directory"))
    actions = shell_actions(command, cwd) if command else _file_actions(call, values, cwd)
    needed = _needed_arguments(call.name, values)
    return PendingCall(order=order, name=call.name, file_actions=actions, command=command, arguments=needed)


def shell_command(values: Mapping[str, object]) -> str:
    """The command line in the arguments. Of an argument vector `["bash", "-lc", "cat a"]`, what the shell runs."""
    value = next((values[key] for key in _SHELL_KEYS if values.get(key)), None)
    if isinstance(value, str):
        return value
    if not isinstance(value, Sequence) or not all(isinstance(word, str) for word in value):
        return ""
    words = [str(word) for word in value]
    if len(words) >= 3 and re.search(r"(?:^|/)(?:ba|z|da|k|fi)?sh$|pwsh|powershell", words[0]):
        return words[-1]
    return shlex.join(words)


def fenced_actions(text: str) -> tuple[FileAction, ...]:
    """File actions of an agent without tools, which writes its command in a code block at the end of its message."""
    fence = _FENCE.search(text)
    command = _SWE_AGENT.match(fence["command"].strip()) if fence else None
    if command is None:
        return ()
    verb, words = command["verb"], command["rest"].split()
    if verb.startswith("edit"):
        path = next((word for word in words if "." in word and ":" not in word), "")
        return (FileAction(verb="change", path=path),) if path else ()
    action = "read" if verb == "open" else _EDITOR_VERBS.get(verb.rpartition(" ")[2], "create")
    return (FileAction(verb=action, path=words[0]),)  # type: ignore[arg-type]


def read_todos(call: PendingCall) -> dict[str, Todo] | None:
    """The to-do list that the call sets, or None if it sets none."""
    if normalize_tool_name(call.name) not in _TODO_LISTS:
        return None
    lists = (call.arguments.get(key) for key in ("todos", "plan", "items"))
    rows = next((value for value in lists if isinstance(value, list)), None)
    if rows is None:
        return None
    todos = {}
    for n, row in enumerate(rows):
        is_table = isinstance(row, dict)
        text = _text(row, ("content", "step", "title", "text", "task", "subject")) if is_table else str(row)
        status = _text(row, ("status", "state")) if is_table else ""
        if text:
            todos[str(n)] = Todo(text=text, status=status or "pending")
    return todos


def _needed_arguments(name: str, values: Mapping[str, object]) -> Mapping[str, object]:
    """The arguments needed to read the result. Contents are long and stay in the item."""
    tool = normalize_tool_name(name)
    if tool in _TODO_LISTS or tool == "exitplanmode":
        return values
    return {
        key: value[:200] if isinstance(value, str) else value
        for key, value in values.items()
        if isinstance(value, (str, int, float, bool))
    }


def _is_editor(values: Mapping[str, object]) -> bool:
    command = values.get("command")
    has_path = any(key in values for key in ("path", "file_path"))
    return isinstance(command, str) and command in _EDITOR_VERBS and has_path


def _file_actions(call: Item, values: Mapping[str, object], cwd: str) -> tuple[FileAction, ...]:
    patch = call.text if not values else _text(values, ("patch", "input", "patchText", "diff"))
    if "*** Begin Patch" in patch or patch.startswith(("--- ", "diff --git")):
        return patch_actions(patch, cwd)
    path = file_path(call)
    if not path or len(path) > 1000 or "\n" in path:
        return ()
    path = resolve_path(path, cwd)
    name = normalize_tool_name(call.name)
    if _is_editor(values):
        verb = _EDITOR_VERBS[str(values["command"])]
        return (FileAction(verb=verb, path=path, line_range=_line_range(values)),)  # type: ignore[arg-type]
    if _DELETE.search(name):
        return (FileAction(verb="delete", path=path),)
    if _CHANGE.search(name) or any(key in values for key in _CHANGE_KEYS):
        return (FileAction(verb="change", path=path),)
    if _WRITE.search(name) or any(key in values for key in _CONTENT_KEYS):
        return (FileAction(verb="create", path=path),)
    return (FileAction(verb="read", path=path, line_range=_line_range(values)),) if _READ.search(name) else ()


def _line_range(values: Mapping[str, object]) -> LineRange:
    pair = values.get("view_range")
    if isinstance(pair, list) and len(pair) == 2 and all(isinstance(end, int) for end in pair):
        return LineRange(first=pair[0], last=max(pair[1], 0))
    start = _number(values, ("offset", "start_line", "line_start", "startLine", "line_offset", "start"))
    limit = _number(values, ("limit", "n_lines", "num_lines", "lines"))
    end = _number(values, ("end_line", "line_end", "endLine", "end"))
    if not end and limit:
        end = max(start, 1) + limit - 1
    return LineRange(first=max(start, 1), last=end) if end else LineRange(first=start)


def _number(values: Mapping[str, object], keys: tuple[str, ...]) -> int:
    return next((value for key in keys if isinstance(value := values.get(key), int) and value > 0), 0)


def _text(values: Mapping[str, object], keys: tuple[str, ...]) -> str:
    return next((value for key in keys if isinstance(value := values.get(key), str) and value), "")


# --- how a call ended -------------------------------------------------------------------------------------------------

_EXIT_STATUS = re.compile(
    r"(?:exit(?:ed)?(?: with)?[ _]?(?:code|status)\"?|return ?code|退出(?:代码|码|状态))\s*(?:[:：=]\s*)?(-?\d{1,5})",
    re.IGNORECASE,
)
_STATUS_REACH = 400
"""Harnesses write the status at the beginning or the end of the output."""
_ERROR = re.compile(
    r"\b(?:errors?|fatal|panic|exception|traceback|fail(?:ed|ure|s)?|undefined|cannot|denied|not found|refused|"
    r"conflict|unexpected|invalid|no such)\b|^FAIL\b|Error\b|^E  |✗|错误|失败|异常|找不到|无法",
    re.IGNORECASE,
)
_SUCCESS = re.compile(
    r"\b(?:passed|succeeded|success\w*|0 (?:errors|failed|issues))\b|^(?:ok|PASS)\b|\(pass\)|✓|通过|成功", re.I
)
_ERROR_PARTS = (
    *("error", "fatal", "panic", "exception", "traceback", "fail", "undefined", "cannot", "denied", "not found"),
    *("refused", "conflict", "unexpected", "invalid", "no such", "e  ", "✗", "错误", "失败", "异常", "找不到", "无法"),
)
_SUCCESS_PARTS = ("pass", "succe", "0 errors", "0 failed", "0 issues", "ok", "✓", "通过", "成功")
"""Every line that the patterns match has one of these in lower case. Most lines have none and need no pattern."""
_HARNESS_LINE = re.compile(
    r"^(?:Chunk ID|Wall time|Process (?:exited|running)|Original token count|Output|Exit code|Shell cwd was reset|"
    r"The user doesn't want to proceed)\b|^</?[\w-]+>$"
)
"""Lines that harnesses add around an output."""
_HARNESS_INITIALS = frozenset("CWPOEST<")
"""The first characters of such lines."""
_KEY_LINE_CHARS, _MAX_LINE_CHARS = 160, 1000
"""How much of a key line to keep; a longer line is data and decides nothing."""
_MAX_OUTPUT = 200_000
"""Characters of an output to read, half from each end."""
_PROBES = frozenset(
    (
        *("grep", "rg", "ls", "find", "fd", "which", "test", "[", "cat", "head", "tail", "sed", "diff", "pgrep", "nl"),
        *(
            "command",
            "stat",
            "wc",
            "tree",
            "pwd",
            "echo",
            "type",
            "file",
            "jq",
            "awk",
            "bat",
            "less",
            "for",
            "while",
            "date",
        ),
    )
)
"""Commands that only look at things."""
_GIT_PROBES = tuple(
    ["git", verb] for verb in ("diff", "log", "show", "status", "grep", "blame", "ls-files", "rev-parse")
)
_COMMAND_PREFIX = re.compile(r"^(?:\s*cd\s+\S+\s*(?:&&|;)|\s*\w+=\S*\s|\s*(?:sudo|time|timeout\s+\S+|env)\s)+")


def program_name(command: str) -> str:
    """The program and its sub-command: `go test`, `npm run build`."""
    words = _COMMAND_PREFIX.sub("", command[:500]).split()
    plain = [word for word in words[:3] if re.fullmatch(r"[\w./:@+-]+", word) and not word.startswith("-")]
    return " ".join(plain)


def is_probe(command: str) -> bool:
    """Whether the command only looks at things, so that a failure is an answer and no error."""
    words = program_name(command).split()
    return bool(words) and (words[0] in _PROBES or words[:2] in _GIT_PROBES)


def exit_status(text: str) -> int | None:
    """The exit status that the harness wrote into the output, or None."""
    match = _EXIT_STATUS.search(text[:_STATUS_REACH])
    if match is None and len(text) > _STATUS_REACH:
        match = _EXIT_STATUS.search(text[-_STATUS_REACH:])
    return int(match[1]) if match else None


def is_failed_result(result: Item) -> bool:
    return has_error_flag(result) or (exit_status(result.text) or 0) != 0


def find_key_lines(text: str) -> tuple[str, ...]:
    """The first line with an error, or else the last that reports success; and the last line of the output."""
    if len(text) > _MAX_OUTPUT:
        text = text[: _MAX_OUTPUT // 2] + "\n" + text[-_MAX_OUTPUT // 2 :]
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and (line[0] not in _HARNESS_INITIALS or not _HARNESS_LINE.match(line))]
    if not lines:
        return ()
    # Lowering a text of other scripts may change its letters: then every line is matched.
    lowered = text.lower() if is_plain(text) else None
    errors = _matching(_ERROR, _ERROR_PARTS, lowered, lines)
    decisive = next((line for line in errors if not _SUCCESS.search(line)), None)
    decisive = decisive or next(_matching(_SUCCESS, _SUCCESS_PARTS, lowered, reversed(lines)), None)
    return tuple(dict.fromkeys(to_one_line(line, _KEY_LINE_CHARS) for line in (decisive or lines[0], lines[-1])))


def _matching(
    pattern: re.Pattern[str], parts: Sequence[str], lowered: str | None, lines: Iterable[str]
) -> Iterator[str]:
    """Lines that the pattern matches. `parts` is its cheap pre-test; `lowered` is the whole text in lower case."""
    present = [part for part in parts if part in lowered] if lowered is not None else [""]
    for line in lines if present else ():
        if len(line) >= _MAX_LINE_CHARS:
            continue
        low = line.lower()
        if any(part in low for part in present) and pattern.search(line):
            yield line
