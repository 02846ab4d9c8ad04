"""Splits a command line into the commands that bash would run, if bash would do nothing else.

The line is parsed twice: by tree-sitter's grammar of bash, and by our own regular expressions, which accept only words
without expansion, operators between commands, and a few harmless redirections. If the two results differ, or one
parser fails, the line has no plain commands, and the user is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from ebbtide.core.errors import BadConfig
from ebbtide.fronts.chat.providers import MISSING_EXTRA

try:
    import tree_sitter_bash
    from tree_sitter import Language, Node, Parser
except ModuleNotFoundError as missing:
    raise BadConfig(MISSING_EXTRA) from missing

_MAX_LENGTH = 4_000  # characters: no user reads a longer line before allowing it
_PIECE = rb"""[A-Za-z0-9_./:,=+@%-]|(?<=[A-Za-z0-9~^])[~^]|'[^']*'|"[^"$`\\!]*\""""
"""No `$`, glob, brace or backslash, and `~` only after a letter, where it belongs to git and means no home."""
_TOKEN = re.compile(
    rb"(?P<redirect>[12]?>[ \t]*/dev/null|(?<![;&|])&>[ \t]*/dev/null|<[ \t]*/dev/null|2>&1|1?>&2)"
    rb"|(?P<word>(?![0-9]+[<>])(?:" + _PIECE + rb")+)"  # digits before a redirection are no word but a file descriptor
    rb"|(?P<operator>&&|\|\||[;|])"
    rb"|(?P<newline>\n)"
    rb"|[ \t]+"
)
_NO_NAME = re.compile(
    rb"case|coproc|do|done|elif|else|esac|fi|for|function|if|in|select|then|time|until|while"
    rb"|[A-Za-z_][A-Za-z0-9_]*\+?=.*",
    re.DOTALL,
)
"""What can come before a command's name: keywords of bash, and assignments."""
_BASH = Language(tree_sitter_bash.language())
_OPERATORS = frozenset((";", "&&", "||", "|"))
_FRAMES = frozenset(("program", "list", "pipeline", "redirected_statement", "command"))

Command = tuple[str, ...]


class _Token(NamedTuple):
    kind: Literal["name", "word", "redirect", "operator"]
    start: int
    end: int
    value: bytes
    """Of a name or a word: without quotes."""


class _NotPlain(Exception):
    """The line is more than commands with their words."""


def plain_commands(line: str) -> tuple[Command, ...]:
    """Split each command of a line into words, without quotes; nothing if the line holds anything else."""
    if len(line) > _MAX_LENGTH or not all(letter in "\t\n" or letter.isprintable() for letter in line):
        return ()
    text = line.encode()
    try:
        tokens = list(_split(text))
        is_same = tokens == list(_parse(text))
    except _NotPlain:
        return ()
    return tuple(_commands(tokens)) if is_same else ()


def _commands(tokens: list[_Token]) -> list[Command]:
    commands: list[Command] = []
    for token in tokens:
        if token.kind == "name":
            commands.append((token.value.decode(),))
        elif token.kind == "word":
            commands[-1] += (token.value.decode(),)
    return commands


def _split(text: bytes) -> Iterator[_Token]:
    """Split the line with our own regular expressions."""
    at, has_name = 0, False
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _NotPlain
        at = match.end()
        if match.lastgroup == "redirect":
            yield _Token("redirect", *match.span(), match[0])
        elif match.lastgroup == "word":
            value = _unquote(match[0])
            if not has_name and (_NO_NAME.fullmatch(match[0]) or value.startswith(b"%")):
                raise _NotPlain  # `%1` is a job of the shell, even in quotes
            yield _Token("word" if has_name else "name", *match.span(), value)
            has_name = True
        elif match.lastgroup == "operator":
            yield _Token("operator", *match.span(), match[0])
            has_name = False
        elif match.lastgroup == "newline":
            has_name = False


def _unquote(text: bytes) -> bytes:
    return b"".join(piece[1:-1] if piece[:1] in (b"'", b'"') else piece for piece in re.findall(_PIECE, text))


def _parse(text: bytes) -> Iterator[_Token]:
    """Parse the line with the grammar, in the order of the text."""
    root = Parser(_BASH).parse(text).root_node
    if root.has_error:
        raise _NotPlain
    nodes = [root]  # no recursion: the tree of a list of commands is as deep as the list is long
    while nodes:
        node = nodes.pop()
        if node.type == "redirected_statement" and node.children[0].type == "file_redirect":
            raise _NotPlain  # a redirection without a command
        if node.type in _FRAMES:
            nodes.extend(reversed(node.children))
        elif node.type in _OPERATORS:
            yield _Token("operator", node.start_byte, node.end_byte, text[node.start_byte : node.end_byte])
        elif node.type == "file_redirect":
            count = 3 if node.children[0].type == "file_descriptor" else 2
            end = node.children[:count][-1].end_byte
            yield _Token("redirect", node.start_byte, end, text[node.start_byte : end])
            nodes.extend(reversed(node.children[count:]))  # the grammar puts further words of the command here
        elif node.type == "command_name":
            yield _Token("name", node.start_byte, node.end_byte, _value(node.children[0], text))
        else:
            yield _Token("word", node.start_byte, node.end_byte, _value(node, text))


def _value(word: Node, text: bytes) -> bytes:
    own = text[word.start_byte : word.end_byte]
    if word.type in ("word", "number") and not word.children:
        return own
    if word.type == "raw_string" or (
        word.type == "string" and all(child.type in ('"', "string_content") for child in word.children)
    ):
        return own[1:-1]
    if word.type == "concatenation":
        return b"".join(_value(part, text) for part in word.children)
    raise _NotPlain
