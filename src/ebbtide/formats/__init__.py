"""Recorded agent sessions, whoever recorded them. A format is told by what is in the file, never by its name."""

from __future__ import annotations

import os
from typing import Any

from ebbtide.core.errors import BadRequest
from ebbtide.formats import claude_code, codex, openai_chat, opencode, pi, request, swe_agent
from ebbtide.formats.recording import Recording, list_repairs
from ebbtide.formats.session_file import SessionFile, open_source, parse_source, unpack
from ebbtide.formats.steps import Problem, RecordedCall

__all__ = ["Problem", "RecordedCall", "Recording", "load", "read"]

# The most particular first: a request body is also a list of messages, and much else has a `type`.
_READERS = (swe_agent, opencode, codex, pi, claude_code, request, openai_chat)


def load(path: str | os.PathLike[str]) -> Recording:
    """Raises `BadRequest` if there is no session in it; anything less than that is among the recording's problems."""
    if os.path.isdir(path):
        return list_repairs(opencode.read_directory(path))
    return _read(open_source(path))


def read(name: str, data: bytes) -> Recording:
    """As `load`, of bytes that somebody has read already, under the name that refusals give them."""
    return _read(parse_source(name, unpack(data, name)))


def _read(source: SessionFile) -> Recording:
    for reader in _READERS:
        if reader.recognises(source):
            return list_repairs(reader.read(source))
    raise BadRequest(f"{source.path} is no session that we know: {_unlike(source)}", path=_where(source))


def _unlike(source: SessionFile) -> str:
    if not source.rows:
        return source.problems[0].reason
    return f"it holds {_shape(source.rows[0].value)}, and nowhere a message with a role"


def _where(source: SessionFile) -> str:
    return "" if source.document else f"line {source.rows[0].line if source.rows else source.problems[0].row}"


def _shape(value: Any) -> str:
    if isinstance(value, dict):
        keys = ", ".join(repr(key) for key in list(value)[:5])
        return f"an object with the keys {keys}" if keys else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    # In JSON's own words: who wrote the file need not know Python.
    names = {type(None): "null", bool: "true or false", int: "a number", float: "a number", str: "a text"}
    return f"{names.get(type(value), 'something')} alone"
