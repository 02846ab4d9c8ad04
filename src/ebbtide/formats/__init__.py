"""Reads agent sessions that any of several programs recorded. The format is recognised by content, not by name."""

from __future__ import annotations

import os
from typing import Any

from ebbtide.core.errors import BadRequest
from ebbtide.formats import claude_code, codex, gemini_cli, openai_chat, opencode, pi, request, swe_agent
from ebbtide.formats.recording import Recording, list_repairs
from ebbtide.formats.session_file import SessionFile, open_session_file, parse_session_file, unpack
from ebbtide.formats.steps import Problem, RecordedCall

__all__ = ["Problem", "RecordedCall", "Recording", "load", "read"]

# The most specific first: a request body is also a list of messages, and many formats have a `type`.
_READERS = (swe_agent, opencode, gemini_cli, codex, pi, claude_code, request, openai_chat)


def load(path: str | os.PathLike[str]) -> Recording:
    """Load a session file. Raise `BadRequest` if it holds no session; lesser faults are in `Recording.problems`."""
    if os.path.isdir(path):
        return list_repairs(opencode.read_directory(path))
    return _read(open_session_file(path))


def read(name: str, data: bytes) -> Recording:
    """Like `load`, for bytes that were read already. Error messages use `name`."""
    return _read(parse_session_file(name, unpack(data, name)))


def _read(file: SessionFile) -> Recording:
    for reader in _READERS:
        if reader.recognises(file):
            return list_repairs(reader.read(file))
    place = "" if file.is_document else f"line {file.rows[0].line if file.rows else file.problems[0].row}"
    if file.rows:
        reason = f"it holds {_describe(file.rows[0].value)}, and nowhere a message with a role"
    else:
        reason = file.problems[0].reason
    raise BadRequest(f"{file.path} is no session that we know: {reason}", path=place)


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        keys = ", ".join(repr(key) for key in list(value)[:5])
        return f"an object with the keys {keys}" if keys else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    # JSON's words, not Python's.
    names = {type(None): "null", bool: "true or false", int: "a number", float: "a number", str: "a text"}
    return f"{names.get(type(value), 'something')} alone"
