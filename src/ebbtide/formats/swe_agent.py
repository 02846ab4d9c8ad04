"""Reads SWE-agent's trajectories. `history` is the conversation; the last reply may be in `trajectory` alone."""

from __future__ import annotations

import json
from typing import Any

from ebbtide.formats.openai_chat import chat_message, is_message
from ebbtide.formats.recording import Recording, SessionReader
from ebbtide.formats.session_file import SessionFile, str_or_empty
from ebbtide.formats.steps import AddMessages, Episode, Message, ModelReply, Problem, Step


def recognises(file: SessionFile) -> bool:
    value = file.document
    return (
        isinstance(value, dict) and isinstance(value.get("history"), list) and isinstance(value.get("trajectory"), list)
    )


def read(file: SessionFile) -> Recording:
    reader, value = SessionReader(file), file.document
    model = _model_name(value.get("replay_config"))
    agents: dict[str, list[Step]] = {}
    for row, recorded in enumerate(value["history"], 1):
        if not is_message(recorded):
            reader.problems.append(Problem(row=row, reason="not a chat message", raw=repr(recorded)))
            continue
        steps = agents.setdefault(str(recorded.get("agent") or "main"), [])
        steps.append(_build_step(row, recorded, model, is_first=not steps))
    main = agents.setdefault("main" if "main" in agents or not agents else next(iter(agents)), [])
    main += _last_reply(main, value["trajectory"], len(value["history"]), model)
    episodes = [Episode(name="" if len(agents) == 1 else name, steps=tuple(steps)) for name, steps in agents.items()]
    return reader.recording("swe-agent", "openai_chat", "", episodes)


def _build_step(row: int, recorded: dict[str, Any], model: str, *, is_first: bool) -> Step:
    message = chat_message(recorded)
    call_ids = recorded.get("tool_call_ids")
    if recorded["role"] == "tool" and isinstance(call_ids, list) and call_ids:
        message = {**message, "tool_call_id": str(call_ids[0])}
    if recorded["role"] != "assistant" or is_first:
        return AddMessages(messages=(message,))
    return ModelReply(row=row, messages=(message,), response=message, model=model)


def _last_reply(steps: list[Step], trajectory: list[Any], rows: int, model: str) -> list[Step]:
    """Return the last reply if the history lacks it: it ends the run, and some versions do not write it there."""
    replies = sum(1 for step in steps if isinstance(step, ModelReply))
    last = trajectory[-1] if trajectory else None
    if replies >= len(trajectory) or not isinstance(last, dict):
        return []
    message: Message = {"role": "assistant", "content": str_or_empty(last.get("response"))}
    return [ModelReply(row=rows, messages=(), response=message, model=model)]


def _model_name(config: Any) -> str:
    try:
        config = json.loads(config) if isinstance(config, str) else config
        return str(config["agent"]["model"]["name"])
    except (ValueError, KeyError, TypeError):
        return ""
