"""What a shell command does to files, told by its words alone. It is a guess that never raises: what it cannot read
it leaves out. Nothing is run, expanded or looked up.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence

from ebbtide.facts.model import FileAction, LineRange, Verb

_LONGEST = 20_000
"""A command that is longer is data, not words."""
_HEREDOC = re.compile(r"<<-?\s*(?P<quote>['\"]?)(?P<mark>\w+)(?P=quote)(?P<rest>[^\n]*+)\n?")
"""How one opens, up to the end of its line."""
_PATCHED = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE)
_DIFFED = re.compile(r"^\+\+\+ (?:b/)?(?!/dev/null)([^\t\n]+)", re.MULTILINE)
_SED_RANGE = re.compile(r"^(\d+)(?:,(\d+))?p")
_ODD = re.compile(r"[*?$`(){}\[\]<>|&;\n\x00]")
_SEPARATOR = re.compile(r"[\n;&|()]+")
_REDIRECTION = re.compile(r"(?:&?>{1,2}[|&]?|<{1,3}&?)")
_PATCH_VERBS: dict[str, Verb] = {"Add": "create", "Update": "change", "Delete": "delete"}
_SHOWS = frozenset(("cat", "head", "tail", "less", "more", "nl", "bat", "batcat", "type", "Get-Content"))
_TAKES_NUMBER = frozenset(("-n", "-c", "--lines", "--bytes", "-w", "-s"))


def shell_actions(command: str, cwd: str = "") -> tuple[FileAction, ...]:
    """Files read, made, changed and deleted by a command line, heredocs and patches included."""
    acts: list[FileAction] = []
    rest = []
    end = 0
    # A line that none follows opens nothing.
    last = command.rfind("\n") + 1
    while doc := _HEREDOC.search(command, end, last):
        head = command[max(end, command.rfind("\n", 0, doc.start()) + 1) : doc.start()]
        rest.append(command[end : doc.start()] + doc["rest"])
        closed, end = _closing(command, doc.end(), doc["mark"])
        acts += _heredoc(f"{head} {doc['rest']}", command[doc.end() : closed], cwd)
    rest.append(command[end:])
    line = "\n".join(rest)
    if "*** Begin Patch" in line:
        acts += patch_actions(line, cwd)
    elif len(line) <= _LONGEST:
        acts += _line_acts(line, cwd)
    # A heredoc is met twice: with its text, and as the redirection it came in by.
    return tuple({(act.verb, act.path): act for act in reversed(acts)}.values())[::-1]


def patch_actions(patch: str, cwd: str = "") -> tuple[FileAction, ...]:
    """The files that a patch touches, in the form of `apply_patch` or of a unified diff."""
    acts = []
    for verb, path, moved in _PATCHED.findall(patch):
        acts.append(FileAction(verb=_PATCH_VERBS.get(verb, "create"), path=resolve_path(path or moved, cwd)))
    if not acts:
        acts = [FileAction(verb="change", path=resolve_path(path.strip(), cwd)) for path in _DIFFED.findall(patch)]
    return tuple(acts)


def resolve_path(path: str, cwd: str) -> str:
    """The path as the session's other tools would name it."""
    path = path.strip()
    if not cwd or path.startswith(("/", "~")) or re.match(r"[A-Za-z]:[\\/]", path):
        return posixpath.normpath(path) if path.startswith("./") or "/../" in path else path
    return posixpath.normpath(posixpath.join(cwd, path))


def _closing(command: str, start: int, mark: str) -> tuple[int, int]:
    """Where the line with the mark begins that ends a heredoc, its line break included, and where it ends."""
    at = command.find("\n", start)
    while at >= 0:
        after = command.find("\n", at + 1)
        end = after if after >= 0 else len(command)
        if command[at + 1 : end].strip(" \t") == mark:
            return at, end
        at = after
    return len(command), len(command)


def _heredoc(head: str, body: str, cwd: str) -> Iterator[FileAction]:
    if "apply_patch" in head or "git apply" in head or re.search(r"\bpatch\b", head):
        yield from patch_actions(body, cwd)
        return
    into = re.search(r"(>>?)\s*(['\"]?)([^\s'\"|&;<>]+)\2", head) or re.search(
        r"\btee\s+()(['\"]?)([^\s'\"|&;<>-]+)\2", head
    )
    if into and _plausible(into[3]):
        whole = None if into[1] == ">>" else body
        yield FileAction(verb="change" if into[1] == ">>" else "create", path=resolve_path(into[3], cwd), text=whole)


def _line_acts(line: str, cwd: str) -> Iterator[FileAction]:
    for words in _simple_commands(line):
        kept, targets = _redirected(words)
        for mark, path in targets:
            if _plausible(path):
                yield FileAction(verb="change" if mark == ">>" else "create", path=resolve_path(path, cwd))
        told = _bare(kept)
        if not told:
            continue
        if told[0] == "cd" and len(told) > 1:
            cwd = resolve_path(told[1], cwd)
            continue
        for act in _command_acts(told):
            if _plausible(act.path):
                yield FileAction(verb=act.verb, path=resolve_path(act.path, cwd), line_range=act.line_range)


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
    """Words and operators. Where a quote never closes, what can be read of the rows by themselves."""
    try:
        yield from _split(line)
    except ValueError:
        for row in line.split("\n") if "\n" in line else ():
            yield ";"
            yield from _words(row)


def _split(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    return list(lexer)


def _redirected(words: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """The words without redirections, and where output goes."""
    kept: list[str] = []
    targets: list[tuple[str, str]] = []
    skip = False
    for n, word in enumerate(words):
        if skip:
            skip = False
        elif _REDIRECTION.fullmatch(word):
            following = words[n + 1] if n + 1 < len(words) else ""
            if ">" in word and not word.endswith("&") and not following.startswith("/dev/"):
                targets.append((">>" if ">>" in word else ">", following))
            if kept and kept[-1] in ("1", "2"):
                kept.pop()
            skip = True
        else:
            kept.append(word)
    return kept, targets


def _bare(words: Sequence[str]) -> Sequence[str]:
    """The command without what only wraps it."""
    n = 0
    while n < len(words) and (
        re.match(r"\w+=", words[n]) or words[n] in ("sudo", "env", "time", "command", "nice", "then", "do", "else", "!")
    ):
        n += 1
    return words[n:]


def _command_acts(words: Sequence[str]) -> Iterator[FileAction]:
    name, given = posixpath.basename(words[0]), words[1:]
    paths = _operands(given)
    if name in _SHOWS:
        yield from (FileAction(verb="read", path=path, line_range=_shown(name, given)) for path in paths)
    elif name == "sed":
        yield from _sed(given)
    elif name in ("rm", "unlink", "Remove-Item"):
        yield from (FileAction(verb="delete", path=path) for path in paths)
    elif name in ("mv", "cp") and len(paths) == 2:
        if name == "mv":
            yield FileAction(verb="delete", path=paths[0])
        inside = posixpath.join(paths[1], posixpath.basename(paths[0])) if paths[1].endswith("/") else paths[1]
        yield FileAction(verb="create", path=inside)
    elif name in ("touch", "tee"):
        yield from (FileAction(verb="change" if "-a" in given else "create", path=path) for path in paths)
    elif name == "git" and paths:
        yield from _git(paths, given)


def _git(paths: Sequence[str], given: Sequence[str]) -> Iterator[FileAction]:
    if paths[0] == "rm":
        yield from (FileAction(verb="delete", path=path) for path in paths[1:])
    elif paths[0] == "mv" and len(paths) == 3:
        yield FileAction(verb="delete", path=paths[1])
        yield FileAction(verb="create", path=paths[2])
    elif paths[0] == "checkout" and "--" in given:
        yield from (FileAction(verb="change", path=path) for path in given[list(given).index("--") + 1 :])
    elif paths[0] == "restore" and "--staged" not in given:
        yield from (FileAction(verb="change", path=path) for path in paths[1:])


def _sed(given: Sequence[str]) -> Iterator[FileAction]:
    inplace = any(word.startswith(("-i", "--in-place")) for word in given)
    quiet = "-n" in given or any(re.fullmatch(r"-\w*n\w*", word) for word in given)
    paths = _operands(given)
    script = paths[0] if paths else ""
    found = _SED_RANGE.match(script)
    lines = LineRange(first=int(found[1]), last=int(found[2] or found[1])) if found and quiet else LineRange()
    # BSD's -i takes an empty word of its own before the script.
    files = [path for path in paths[1:] if path and not _looks_like_script(path)]
    yield from (FileAction(verb="change" if inplace else "read", path=path, line_range=lines) for path in files)


def _looks_like_script(word: str) -> bool:
    return bool(re.match(r"s([/|#,]).*\1.*\1|\d+(,\d+)?[pd]$", word))


def _shown(name: str, given: Sequence[str]) -> LineRange:
    if name != "head":
        return LineRange()
    for n, word in enumerate(given):
        number = (
            word[1:] if re.fullmatch(r"-\d+", word) else given[n + 1] if word == "-n" and n + 1 < len(given) else ""
        )
        if number.isdecimal():
            return LineRange(first=1, last=int(number))
    return LineRange()


def _operands(given: Sequence[str]) -> list[str]:
    found: list[str] = []
    for n, word in enumerate(given):
        counted = n > 0 and given[n - 1] in _TAKES_NUMBER and re.fullmatch(r"[+-]?\d+", word)
        if word and not counted and not word.startswith("-"):
            found.append(word)
    return found


def _plausible(path: str) -> bool:
    return bool(path) and len(path) <= 300 and not _ODD.search(path) and not path.startswith(("-", "/dev/", "&"))
