"""What a tool call does, and how it ended, for the tools of any agent.

A tool is known by its name, else by the keys of its arguments. Names are compared without case, underscores and an MCP
server's prefix, so `Read`, `read_file` and `mcp__fs__read_file` are the same tool. How a call ended is read from its
output, and what a shell command does to files is guessed from its words. Nothing is run, expanded or looked up; what
cannot be read is left out, and nothing raises.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ebbtide.core.text.preview import is_plain
from ebbtide.core.tool_calls import call_arguments, file_path
from ebbtide.core.tool_calls import is_failed_result as has_error_flag
from ebbtide.core.types import Item
from ebbtide.facts.model import FileAction, LineRange, PendingCall, Todo, Verb, to_one_line

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
        *("command", "stat", "wc", "tree", "pwd", "echo", "type", "file", "jq", "awk", "bat", "less"),
        *("for", "while", "date"),
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


# --- what a shell command does ----------------------------------------------------------------------------------------


_MAX_COMMAND = 20_000
"""A longer command holds data, not words."""
_HEREDOC = re.compile(r"<<-?\s*(?P<quote>['\"]?)(?P<mark>\w+)(?P=quote)(?P<rest>[^\n]*+)\n?")
"""How a heredoc opens, up to the end of its line."""
_PATCH_FILE = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE)
_DIFF_FILE = re.compile(r"^\+\+\+ (?:b/)?(?!/dev/null)([^\t\n]+)", re.MULTILINE)
_SED_RANGE = re.compile(r"^(\d+)(?:,(\d+))?p")
_NOT_IN_PATHS = re.compile(r"[*?$`(){}\[\]<>|&;\n\x00]")
_SEPARATOR = re.compile(r"[\n;&|()]+")
_REDIRECTION = re.compile(r"(?:&?>{1,2}[|&]?|<{1,3}&?)")
_PATCH_VERBS: dict[str, Verb] = {"Add": "create", "Update": "change", "Delete": "delete"}
_READERS = frozenset(("cat", "head", "tail", "less", "more", "nl", "bat", "batcat", "type", "Get-Content"))
_TAKES_NUMBER = frozenset(("-n", "-c", "--lines", "--bytes", "-w", "-s"))


def shell_actions(command: str, cwd: str = "") -> tuple[FileAction, ...]:
    """Files that a command line reads, creates, changes or deletes, heredocs and patches included."""
    actions: list[FileAction] = []
    outside = []
    end = 0
    last_line = command.rfind("\n") + 1  # a heredoc cannot open there: no line follows
    while opening := _HEREDOC.search(command, end, last_line):
        head = command[max(end, command.rfind("\n", 0, opening.start()) + 1) : opening.start()]
        outside.append(command[end : opening.start()] + opening["rest"])
        body_end, end = _find_heredoc_end(command, opening.end(), opening["mark"])
        actions += _heredoc_actions(f"{head} {opening['rest']}", command[opening.end() : body_end], cwd)
    outside.append(command[end:])
    line = "\n".join(outside)
    if "*** Begin Patch" in line:
        actions += patch_actions(line, cwd)
    elif len(line) <= _MAX_COMMAND:
        actions += _line_actions(line, cwd)
    # The target of a heredoc is found twice: by its opening, and as a redirection.
    return tuple({(action.verb, action.path): action for action in reversed(actions)}.values())[::-1]


def patch_actions(patch: str, cwd: str = "") -> tuple[FileAction, ...]:
    """The files that a patch changes, whether for `apply_patch` or as a unified diff."""
    actions = []
    for verb, path, moved in _PATCH_FILE.findall(patch):
        actions.append(FileAction(verb=_PATCH_VERBS.get(verb, "create"), path=resolve_path(path or moved, cwd)))
    if not actions:
        actions = [
            FileAction(verb="change", path=resolve_path(path.strip(), cwd)) for path in _DIFF_FILE.findall(patch)
        ]
    return tuple(actions)


def resolve_path(path: str, cwd: str) -> str:
    """The path in the form that other tools of the session use."""
    path = path.strip()
    if not cwd or path.startswith(("/", "~")) or re.match(r"[A-Za-z]:[\\/]", path):
        return posixpath.normpath(path) if path.startswith("./") or "/../" in path else path
    return posixpath.normpath(posixpath.join(cwd, path))


def _find_heredoc_end(command: str, start: int, mark: str) -> tuple[int, int]:
    """Where the line break before the closing mark is, and where the line of the mark ends."""
    line_break = command.find("\n", start)
    while line_break >= 0:
        next_break = command.find("\n", line_break + 1)
        end = next_break if next_break >= 0 else len(command)
        if command[line_break + 1 : end].strip(" \t") == mark:
            return line_break, end
        line_break = next_break
    return len(command), len(command)


def _heredoc_actions(head: str, body: str, cwd: str) -> Iterator[FileAction]:
    if "apply_patch" in head or "git apply" in head or re.search(r"\bpatch\b", head):
        yield from patch_actions(body, cwd)
        return
    target = re.search(r"(>>?)\s*(['\"]?)([^\s'\"|&;<>]+)\2", head) or re.search(
        r"\btee\s+()(['\"]?)([^\s'\"|&;<>-]+)\2", head
    )
    if target and _is_plausible_path(target[3]):
        yield FileAction(verb="change" if target[1] == ">>" else "create", path=resolve_path(target[3], cwd))


def _line_actions(line: str, cwd: str) -> Iterator[FileAction]:
    for words in _simple_commands(line):
        plain_words, targets = _split_redirections(words)
        for mark, path in targets:
            if _is_plausible_path(path):
                yield FileAction(verb="change" if mark == ">>" else "create", path=resolve_path(path, cwd))
        command = _strip_wrappers(plain_words)
        if not command:
            continue
        if command[0] == "cd" and len(command) > 1:
            cwd = resolve_path(command[1], cwd)
            continue
        for action in _command_actions(command):
            if _is_plausible_path(action.path):
                yield FileAction(verb=action.verb, path=resolve_path(action.path, cwd), line_range=action.line_range)


def _simple_commands(line: str) -> Iterator[list[str]]:
    words: list[str] = []
    for word in [*_words(line), ";"]:
        if not _SEPARATOR.fullmatch(word):
            words.append(word)
            continue
        if words:
            yield words
        words = []


def _words(line: str) -> Iterator[str]:
    """Words and operators. If a quote never closes, read line by line and skip the lines that cannot be read."""
    try:
        yield from _split(line)
    except ValueError:
        for part in line.split("\n") if "\n" in line else ():
            yield ";"
            yield from _words(part)


def _split(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    return list(lexer)


def _split_redirections(words: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """The words without redirections, and the redirections of output as operator and target."""
    plain_words: list[str] = []
    targets: list[tuple[str, str]] = []
    skip = False
    for n, word in enumerate(words):
        if skip:
            skip = False
        elif _REDIRECTION.fullmatch(word):
            target = words[n + 1] if n + 1 < len(words) else ""
            if ">" in word and not word.endswith("&") and not target.startswith("/dev/"):
                targets.append((">>" if ">>" in word else ">", target))
            if plain_words and plain_words[-1] in ("1", "2"):
                plain_words.pop()
            skip = True
        else:
            plain_words.append(word)
    return plain_words, targets


def _strip_wrappers(words: Sequence[str]) -> Sequence[str]:
    """The command without assignments, `sudo` and the like before it."""
    n = 0
    while n < len(words) and (
        re.match(r"\w+=", words[n]) or words[n] in ("sudo", "env", "time", "command", "nice", "then", "do", "else", "!")
    ):
        n += 1
    return words[n:]


def _command_actions(words: Sequence[str]) -> Iterator[FileAction]:
    name, arguments = posixpath.basename(words[0]), words[1:]
    paths = _operands(arguments)
    if name in _READERS:
        yield from (FileAction(verb="read", path=path, line_range=_head_range(name, arguments)) for path in paths)
    elif name == "sed":
        yield from _sed_actions(arguments)
    elif name in ("rm", "unlink", "Remove-Item"):
        yield from (FileAction(verb="delete", path=path) for path in paths)
    elif name in ("mv", "cp") and len(paths) == 2:
        if name == "mv":
            yield FileAction(verb="delete", path=paths[0])
        target = posixpath.join(paths[1], posixpath.basename(paths[0])) if paths[1].endswith("/") else paths[1]
        yield FileAction(verb="create", path=target)
    elif name in ("touch", "tee"):
        yield from (FileAction(verb="change" if "-a" in arguments else "create", path=path) for path in paths)
    elif name == "git" and paths:
        yield from _git_actions(paths, arguments)


def _git_actions(paths: Sequence[str], arguments: Sequence[str]) -> Iterator[FileAction]:
    if paths[0] == "rm":
        yield from (FileAction(verb="delete", path=path) for path in paths[1:])
    elif paths[0] == "mv" and len(paths) == 3:
        yield FileAction(verb="delete", path=paths[1])
        yield FileAction(verb="create", path=paths[2])
    elif paths[0] == "checkout" and "--" in arguments:
        yield from (FileAction(verb="change", path=path) for path in arguments[list(arguments).index("--") + 1 :])
    elif paths[0] == "restore" and "--staged" not in arguments:
        yield from (FileAction(verb="change", path=path) for path in paths[1:])


def _sed_actions(arguments: Sequence[str]) -> Iterator[FileAction]:
    in_place = any(word.startswith(("-i", "--in-place")) for word in arguments)
    is_quiet = "-n" in arguments or any(re.fullmatch(r"-\w*n\w*", word) for word in arguments)
    paths = _operands(arguments)
    script = paths[0] if paths else ""
    match = _SED_RANGE.match(script)
    lines = LineRange(first=int(match[1]), last=int(match[2] or match[1])) if match and is_quiet else LineRange()
    # BSD's -i takes an empty word before the script.
    files = [path for path in paths[1:] if path and not _looks_like_script(path)]
    yield from (FileAction(verb="change" if in_place else "read", path=path, line_range=lines) for path in files)


def _looks_like_script(word: str) -> bool:
    return bool(re.match(r"s([/|#,]).*\1.*\1|\d+(,\d+)?[pd]$", word))


def _head_range(name: str, arguments: Sequence[str]) -> LineRange:
    """The lines that `head` shows; all of them for another program."""
    if name != "head":
        return LineRange()
    for n, word in enumerate(arguments):
        number = word[1:] if re.fullmatch(r"-\d+", word) else ""
        if word == "-n" and n + 1 < len(arguments):
            number = arguments[n + 1]
        if number.isdecimal():
            return LineRange(first=1, last=int(number))
    return LineRange()


def _operands(arguments: Sequence[str]) -> list[str]:
    """The arguments that are neither options nor an option's number."""
    operands: list[str] = []
    for n, word in enumerate(arguments):
        is_number = n > 0 and arguments[n - 1] in _TAKES_NUMBER and re.fullmatch(r"[+-]?\d+", word)
        if word and not is_number and not word.startswith("-"):
            operands.append(word)
    return operands


def _is_plausible_path(path: str) -> bool:
    return (
        bool(path) and len(path) <= 300 and not _NOT_IN_PATHS.search(path) and not path.startswith(("-", "/dev/", "&"))
    )
