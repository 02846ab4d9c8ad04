"""SWE-agent trajectories. `history` is the conversation; the last answer may stand in `trajectory` alone."""

from __future__ import annotations

import json
from typing import Any

from ebbtide.formats.openai_chat import chat_message, is_message
from ebbtide.formats.recording import Recording
from ebbtide.formats.session_file import SessionFile
from ebbtide.formats.steps import AddMessages, Episode, Message, ModelReply, Problem, Step


def recognises(source: SessionFile) -> bool:
    value = source.rows[0].value if source.document else None
    return (
        isinstance(value, dict) and isinstance(value.get("history"), list) and isinstance(value.get("trajectory"), list)
    )


def read(source: SessionFile) -> Recording:
    value = source.rows[0].value
    problems = list(source.problems)
    model = _model(value.get("replay_config"))
    agents: dict[str, list[Step]] = {}
    for row, recorded in enumerate(value["history"], 1):
        if not is_message(recorded):
            problems.append(Problem(row=row, reason="not a chat message", raw=repr(recorded)))
            continue
        steps = agents.setdefault(str(recorded.get("agent") or "main"), [])
        steps.append(_step(row, recorded, model, first=not steps))
    main = agents.setdefault("main" if "main" in agents or not agents else next(iter(agents)), [])
    main += _unanswered(main, value["trajectory"], len(value["history"]), model)
    return Recording(
        path=source.path,
        format="swe-agent",
        wire="openai_chat",
        session=source.name,
        episodes=tuple(
            Episode(name="" if len(agents) == 1 else name, steps=tuple(steps)) for name, steps in agents.items()
        ),
        problems=tuple(problems),
    )


def _step(row: int, recorded: dict[str, Any], model: str, *, first: bool) -> Step:
    message = chat_message(recorded)
    named = recorded.get("tool_call_ids")
    if recorded["role"] == "tool" and isinstance(named, list) and named:
        message = {**message, "tool_call_id": str(named[0])}
    if recorded["role"] != "assistant" or first:
        return AddMessages(messages=(message,))
    return ModelReply(row=row, messages=(message,), response=message, model=model)


def _unanswered(steps: list[Step], trajectory: list[Any], rows: int, model: str) -> list[Step]:
    """The last call's answer ends the run, so some versions never put it into the history."""
    answered = sum(1 for step in steps if isinstance(step, ModelReply))
    last = trajectory[-1] if trajectory else None
    if answered >= len(trajectory) or not isinstance(last, dict):
        return []
    words = last.get("response")
    message: Message = {"role": "assistant", "content": words if isinstance(words, str) else ""}
    return [ModelReply(row=rows, messages=(), response=message, model=model)]


def _model(config: Any) -> str:
    try:
        config = json.loads(config) if isinstance(config, str) else config
        return str(config["agent"]["model"]["name"])
    except (ValueError, KeyError, TypeError):
        return ""
