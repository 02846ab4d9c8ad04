"""From steps to calls. Compaction is a step like any other: without it, the history is as if it had never been."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from ebbtide.formats.steps import Answer, Call, Clear, Episode, Message, Problem, Restart, Rewind, Say, Step
from ebbtide.formats.thread import THREADS, Thread

Grown: TypeAlias = Callable[[tuple[Message, ...], tuple[int, ...]], Thread]
"""A new thread out of messages and the steps of these indexes."""


def replay(episode: Episode, wire: str, *, compacting: bool, report: Callable[[Problem], None]) -> Iterator[Call]:
    """Every call of the episode in order; `report` hears of each repair where it was made."""
    made: dict[Any, Any] = {}
    row = 0

    def note(reason: str) -> None:
        report(Problem(row=row, reason=reason))

    def grown(said: tuple[Message, ...], kept: tuple[int, ...]) -> Thread:
        thread = THREADS[wire](made, note)
        thread.say(said)
        for index in kept:
            thread = _take(thread, episode.steps[index], compacting, grown)
        return thread

    thread, compacted = grown((), ()), False
    for step in episode.steps:
        if isinstance(step, Answer) and (compacting or not step.aside):
            row = step.row
            yield _call(step, episode, wire, thread, compacted)
            compacted = False
        compacted |= compacting and isinstance(step, Restart)
        thread = _take(thread, step, compacting, grown)


def _take(thread: Thread, step: Step, compacting: bool, grown: Grown) -> Thread:
    """The thread after one step."""
    match step:
        case Say() if compacting or not step.aside:
            thread.say(step.said)
        case Answer() if compacting or not step.aside:
            thread.answer(step.said)
        case Clear() if compacting:
            thread.clear(step.calls, step.text)
        case Restart() if compacting:
            return grown(step.said, step.kept)
        case Rewind():
            return grown((), step.kept)
    return thread


def _call(step: Answer, episode: Episode, wire: str, thread: Thread, compacted: bool) -> Call:
    return Call(
        request=_body(step, episode, wire, thread) if step.body is None else step.body,
        usage=step.usage,
        at=step.at,
        model=step.model,
        response=step.response,
        row=step.row,
        compacted=compacted,
        episode=episode.name,
    )


def _body(step: Answer, episode: Episode, wire: str, thread: Thread) -> dict[str, Any]:
    model = {"model": step.model} if step.model else {}
    return {**model, **episode.head, "input" if wire == "openai_responses" else "messages": thread.ready()}
