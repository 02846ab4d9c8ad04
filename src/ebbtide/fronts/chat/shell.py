"""A command line as the commands that bash would run, or nothing where bash would do more than run those words.

`bashlex` says how the line is put together. Each piece of its text is then looked at again: only words without any
expansion count, and all of the line must be such words, operators between commands, and a few harmless redirections.
Where the two readings differ, or bashlex cannot read the line, there is no answer, and a person is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ebbtide.core.errors import BadConfig
from ebbtide.fronts.chat.providers import MISSING

try:
    import bashlex
except ModuleNotFoundError as missing:
    raise BadConfig(MISSING) from missing

_LONGEST = 4_000  # characters: nobody reads a longer line before allowing it for good
_PIECE = r"""[A-Za-z0-9_./:,=+@%-]|(?<=[A-Za-z0-9~^])[~^]|'[^']*'|"[^"$`\\!]*\""""
_WORD = re.compile(rf"(?:{_PIECE})+")
"""No `$`, no glob, no brace, no backslash, and `~` only behind a letter, where it is git's and not a home directory."""
_LINE = re.compile(rf"(?:{_PIECE}|[ \t\n;&|<>])*")
"""What else need not be parsed: it would not be plain."""
_QUIET = re.compile(r"[12]?>[ \t]*/dev/null|&>[ \t]*/dev/null|<[ \t]*/dev/null|2>&1|1?>&2")
_BETWEEN = frozenset((";", "&&", "||", "\n"))

Command = tuple[str, ...]


def plain_commands(line: str) -> tuple[Command, ...]:
    """The words of each command of a line, quotes removed; empty where the line holds anything else."""
    if len(line) > _LONGEST or not all(letter in "\t\n" or letter.isprintable() for letter in line):
        return ()
    if not _LINE.fullmatch(line):
        return ()
    try:
        commands, places = _read(line)
    except Exception:  # noqa: BLE001  # bashlex raises what it likes; whatever it cannot read is not known.
        return ()
    return commands if _is_all_read(line, places) else ()


class _NotPlain(Exception):
    """Something that is not simply a command with its words."""


Place = tuple[int, int]


def _read(line: str) -> tuple[tuple[Command, ...], list[Place]]:
    places: list[Place] = []
    commands = [command for tree in bashlex.parse(line) for command in _commands(tree, line, places)]
    return tuple(commands), places


def _commands(node: bashlex.ast.node, line: str, places: list[Place]) -> Iterator[Command]:
    if node.kind == "command":
        yield tuple(_words(node, line, places))
        return
    if node.kind not in ("list", "pipeline"):
        raise _NotPlain
    for part in node.parts:
        if (part.kind == "operator" and part.op in _BETWEEN) or (part.kind == "pipe" and part.pipe == "|"):
            places.append(part.pos)
        else:
            yield from _commands(part, line, places)


def _words(command: bashlex.ast.node, line: str, places: list[Place]) -> Iterator[str]:
    for part in command.parts:
        text = line[slice(*part.pos)]
        places.append(part.pos)
        if part.kind == "redirect" and _QUIET.fullmatch(text):
            continue
        if part.kind != "word" or part.parts or not _WORD.fullmatch(text) or _unquote(text) != part.word:
            raise _NotPlain
        yield part.word


def _unquote(text: str) -> str:
    return "".join(piece[1:-1] if piece[0] in "'\"" else piece for piece in re.findall(_PIECE, text))


def _is_all_read(line: str, places: list[Place]) -> bool:
    """Whether nothing but blanks lies between what was read: no comment, no escaped line end, no lost text."""
    at = 0
    for start, end in sorted(places):
        if start < at or line[at:start].strip(" \t\n"):
            return False
        at = end
    return not line[at:].strip(" \t\n")
