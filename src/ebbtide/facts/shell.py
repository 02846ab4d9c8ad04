"""What a shell command does to files, guessed from its words.

Nothing is run, expanded or looked up. What cannot be read is left out, and nothing raises.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence

from ebbtide.facts.model import FileAction, LineRange, Verb

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
