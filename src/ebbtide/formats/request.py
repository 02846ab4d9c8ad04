"""Reads a plain request body as a recording of one call without a reply. The body is used unchanged."""

from __future__ import annotations

from typing import Any

from ebbtide.core.errors import BadRequest
from ebbtide.formats.recording import Recording, SessionReader
from ebbtide.formats.session_file import SessionFile
from ebbtide.formats.steps import Episode, ModelReply
from ebbtide.wire import detect
from ebbtide.wire.protocol import Wire

_CHAT = "openai_chat"
"""Chat messages without a model are a recorded session, which `formats.openai_chat` reads."""


def recognises(file: SessionFile) -> bool:
    value = file.document
    if not isinstance(value, dict):
        return False
    wire = detect(value, fallback=_CHAT)
    messages, has_model = value.get(wire.list_key), "model" in value
    if isinstance(messages, list) and messages:
        return _is_message(wire, messages[0]) and (has_model or wire.name != _CHAT)
    return isinstance(messages, str) and has_model


def read(file: SessionFile) -> Recording:
    body = file.document
    call = ModelReply(row=1, messages=(), response=None, model=str(body.get("model") or ""), body=body)
    wire = detect(body, fallback=_CHAT).name
    return SessionReader(file).recording("request", wire, "", [Episode(steps=(call,))])


def _is_message(wire: Wire, message: Any) -> bool:
    try:
        return bool(wire.messages.split(message, wire.list_key))
    except BadRequest:
        return False
