"""OpenCode: its storage directory, a file a message and a file a part, or the JSON that its export writes.

A tool part holds call and result in one, so an answer's parts become the answer and the turn after it. What the client
pruned is only marked with a time; the calls before that time still had it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ebbtide.core.errors import BadRequest
from ebbtide.core.types import Usage
from ebbtide.formats.anthropic_blocks import answer_blocks, user_content
from ebbtide.formats.recording import Recording
from ebbtide.formats.session_file import SessionFile, build_usage, open_source, parse_time
from ebbtide.formats.steps import AddMessages, ClearResults, Compact, Episode, Message, ModelReply, Problem, Step

_CLEARED = "[Old tool result content cleared]"
"""What OpenCode puts in place of output it pruned."""

_MAX_TOKENS = 32_000
"""Not recorded, and Anthropic refuses a body without one: this is the client's own cap."""

_ASKED = "What did we do so far?"
"""Stands for a compaction's request, whose own words are not stored."""


def recognises(source: SessionFile) -> bool:
    value = source.rows[0].value if source.document else None
    messages = value.get("messages") if isinstance(value, dict) else None
    return isinstance(messages, list) and any(_is_pair(pair) for pair in messages)


def read(source: SessionFile) -> Recording:
    value = source.rows[0].value
    reader = _Reader()
    reader.problems += source.problems
    for row, pair in enumerate(value["messages"], 1):
        if _is_pair(pair):
            reader.take(row, pair["info"], pair["parts"])
        else:
            reader.problems.append(Problem(row=row, reason="not a message with its parts", raw=repr(pair)))
    return _recording(
        source.path, str(_record(value.get("info")).get("id") or source.name), [reader.episode("")], reader.problems
    )


def read_directory(path: str | os.PathLike[str]) -> Recording:
    """Every session below a storage directory, or the one whose message directory it is; each is an episode."""
    root, sessions = _sessions(Path(path))
    # Only what a listing names is opened: an id out of a record is no path.
    held = {entry.name: entry for entry in _listed(root / "part") if entry.is_dir()}
    episodes, problems = [], []
    for session in sessions:
        reader = _Reader()
        for row, message in enumerate(_stored(session, reader.problems), 1):
            directory = held.get(str(message.get("id")))
            parts = list(_stored(directory, reader.problems)) if directory else []
            if _is_pair({"info": message, "parts": parts}):
                reader.take(row, message, parts)
            else:
                reader.problems.append(Problem(row=row, reason="not a message", raw=repr(message)))
        episodes.append(reader.episode("" if len(sessions) == 1 else session.name))
        problems += reader.problems
    return _recording(os.fspath(path), sessions[0].name if len(sessions) == 1 else Path(path).name, episodes, problems)


def _recording(path: str, session: str, episodes: list[Episode], problems: list[Problem]) -> Recording:
    return Recording(
        path=path,
        format="opencode",
        wire="anthropic",
        session=session,
        episodes=tuple(episodes),
        problems=tuple(problems),
    )


def _sessions(path: Path) -> tuple[Path, list[Path]]:
    """The storage root, and the message directories asked for."""
    for root in (path, path / "storage"):
        if (root / "message").is_dir():
            found = [entry for entry in _listed(root / "message") if entry.is_dir()]
            if found:
                return root, found
    if path.parent.name == "message" and any(path.glob("*.json")):
        return path.parent.parent, [path]
    raise BadRequest(f"{path} is a folder, and not one of OpenCode's (message/<session>/*.json): name a file in it")


def _listed(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []


def _stored(directory: Path, problems: list[Problem]) -> Iterator[dict[str, Any]]:
    """Names sort by time, as OpenCode's ids do."""
    for row, file in enumerate(sorted(directory.glob("*.json")), 1):
        try:
            source = open_source(file)
        except BadRequest as error:
            problems.append(Problem(row=row, reason=str(error)))
            continue
        value = source.rows[0].value if source.rows else None
        if isinstance(value, dict):
            yield value
        else:
            problems.append(Problem(row=row, reason=f"{file.name} is not a record"))


def _is_pair(pair: Any) -> bool:
    if not isinstance(pair, dict) or not isinstance(pair.get("info"), dict) or not isinstance(pair.get("parts"), list):
        return False
    return pair["info"].get("role") in ("user", "assistant")


class _Reader:
    """One session's messages, in order, as steps."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.problems: list[Problem] = []
        self.pruned: list[tuple[float, str]] = []
        """When each pruned result was, and whose."""

    def episode(self, name: str) -> Episode:
        return Episode(
            name=name, steps=_with_prunes(self.steps, self.pruned), request_fields={"max_tokens": _MAX_TOKENS}
        )

    def take(self, row: int, info: dict[str, Any], parts: list[Any]) -> None:
        sound = [part for part in parts if isinstance(part, dict) and isinstance(part.get("type"), str)]
        if len(sound) < len(parts):
            self.problems.append(Problem(row=row, reason="a part that is not a record", raw=repr(parts)))
        if info["role"] == "user":
            asked = any(part["type"] == "compaction" for part in sound)
            self.say([block for part in sound for block in _user_blocks(part)], aside=asked)
            return
        calls = list(_calls(sound))
        for at, call in enumerate(calls):
            self.answer(row, info, call, whole=len(calls) == 1, last=at == len(calls) - 1)

    def answer(self, row: int, info: dict[str, Any], parts: list[dict[str, Any]], *, whole: bool, last: bool) -> None:
        blocks = [block for part in parts for block in _answer_blocks(part)]
        content, reason = answer_blocks(blocks)
        ended = next((part for part in parts if part["type"] == "step-finish"), {})
        tokens = info.get("tokens") if whole else ended.get("tokens")
        usage, wrong = _usage(tokens)
        self.problems += [Problem(row=row, reason=fault, raw=repr(info)) for fault in (reason, wrong) if fault]
        summary = bool(info.get("summary")) and not info.get("error") and last
        self.steps.append(
            ModelReply(
                row=row,
                messages=({"role": "assistant", "content": content},) if content else (),
                response={"role": "assistant", "content": blocks},
                model=str(info.get("modelID") or ""),
                usage=usage,
                at=parse_time(_record(info.get("time")).get("created")),
                for_compaction=bool(info.get("summary")),
            )
        )
        if summary:
            said: Message = {"role": "user", "content": _ASKED}
            # The view starts at the summary; it is an answer, so what it answers goes before it.
            self.steps.append(Compact(messages=(said,), kept_steps=(len(self.steps) - 1,)))
        self.say([result for part in parts for result in self.results(part)])

    def say(self, content: list[dict[str, Any]], *, aside: bool = False) -> None:
        sound, _ = user_content(content)
        if sound:
            self.steps.append(AddMessages(messages=({"role": "user", "content": sound},), for_compaction=aside))

    def results(self, part: dict[str, Any]) -> Iterator[dict[str, Any]]:
        state = _record(part.get("state"))
        if part["type"] != "tool" or state.get("status") not in ("completed", "error"):
            return
        call = str(part.get("callID"))
        failed = state["status"] == "error"
        output = state.get("error") if failed else state.get("output")
        result = {"type": "tool_result", "tool_use_id": call, "content": output if isinstance(output, str) else ""}
        yield {**result, "is_error": True} if failed else result
        when = parse_time(_record(state.get("time")).get("compacted"))
        if when is not None:
            self.pruned.append((when, call))


def _with_prunes(steps: list[Step], pruned: list[tuple[float, str]]) -> tuple[Step, ...]:
    """Each prune put before the first call that no longer had the output."""
    if not pruned:
        return tuple(steps)
    before: dict[int, set[str]] = {}
    for when, call in pruned:
        later = (at for at, step in enumerate(steps) if isinstance(step, ModelReply) and (step.at or 0) >= when)
        before.setdefault(next(later, len(steps)), set()).add(call)
    moved: list[int] = []
    out: list[Step] = []
    for at, step in enumerate(steps):
        if at in before:
            out.append(ClearResults(call_ids=frozenset(before[at]), placeholder=_CLEARED))
        moved.append(len(out))
        out.append(
            Compact(messages=step.messages, kept_steps=tuple(moved[k] for k in step.kept_steps))
            if isinstance(step, Compact)
            else step
        )
    return tuple(out)


def _calls(parts: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Early versions wrote all the calls of a turn into one message, each after a `step-start`."""
    call: list[dict[str, Any]] = []
    for part in parts:
        if part["type"] == "step-start" and call:
            yield call
            call = []
        call.append(part)
    yield call


def _user_blocks(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if part["type"] == "text" and not part.get("ignored"):
        yield {"type": "text", "text": str(part.get("text") or "")}
    elif part["type"] == "compaction":
        yield {"type": "text", "text": _ASKED}
    elif part["type"] == "file":
        head, _, data = str(part.get("url")).partition(";base64,")
        if data and str(part.get("mime")).startswith("image/") and head.startswith("data:"):
            yield {"type": "image", "source": {"type": "base64", "media_type": part["mime"], "data": data}}


def _answer_blocks(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if part["type"] == "text":
        yield {"type": "text", "text": str(part.get("text") or "")}
    elif part["type"] == "reasoning":
        signature = _record(_record(part.get("metadata")).get("anthropic")).get("signature")
        yield {"type": "thinking", "thinking": str(part.get("text") or ""), "signature": signature or ""}
    elif part["type"] == "tool":
        given = _record(_record(part.get("state")).get("input"))
        yield {
            "type": "tool_use",
            "id": str(part.get("callID")),
            "name": str(part.get("tool")),
            "input": given,
        }


def _usage(tokens: Any) -> tuple[Usage | None, str]:
    """Reasoning is billed as output."""
    if not isinstance(tokens, dict):
        return None, ""
    cache = _record(tokens.get("cache"))
    output, thought = tokens.get("output") or 0, tokens.get("reasoning") or 0
    if not isinstance(output, int) or not isinstance(thought, int):
        return None, "the usage is not made of numbers"
    return build_usage(cache.get("read"), cache.get("write"), tokens.get("input"), output + thought)


def _record(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
