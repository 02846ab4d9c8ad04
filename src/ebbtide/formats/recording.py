"""A recorded session, in the same form whichever program wrote it, and the model calls that it made.

A reader lists what happened to the client's history; the requests are built here from those steps. So "as the client
sent it" and "as if it had never compacted" are two ways to read one recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ebbtide.formats.session_file import JsonRow, SessionFile
from ebbtide.formats.steps import (
    AddMessages,
    ClearResults,
    Compact,
    Episode,
    Message,
    ModelReply,
    Problem,
    RecordedCall,
    Rewind,
    Step,
)
from ebbtide.wire import WIRES
from ebbtide.wire.client_history import ClientHistory

_OnRepair = Callable[[Problem], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A recorded session."""

    path: str
    format: str
    """`claude-code`, `codex`, `gemini-cli`, `pi`, `opencode`, `openai-chat`, `swe-agent` or `request`."""
    wire: str
    """The name of the API format of its requests: one of `WIRES`."""
    session: str
    episodes: tuple[Episode, ...]
    problems: tuple[Problem, ...] = ()
    """What could not be read or sent unchanged, in the order of the file."""
    others: tuple[dict[str, Any], ...] = ()
    """Records that are no part of the conversation: progress, titles, our own `ebb` records."""

    def requests(self) -> Iterator[RecordedCall]:
        """Every model call with the request as the client sent it: after a compaction, the compacted history."""
        return self._calls(with_compactions=True)

    def uncompacted(self) -> Iterator[RecordedCall]:
        """The same calls as if the client had never compacted: each request carries the full history."""
        return self._calls(with_compactions=False)

    def _calls(self, *, with_compactions: bool) -> Iterator[RecordedCall]:
        for episode in self.episodes:
            # `list_repairs` has reported the repairs once, when the recording was loaded.
            yield from _Replay(episode, self.wire, with_compactions, on_repair=lambda _: None).calls()


def list_repairs(recording: Recording) -> Recording:
    """Return the recording with the repairs that its requests need added to its problems."""
    repairs: list[Problem] = []
    for episode in recording.episodes:
        for _ in _Replay(episode, recording.wire, with_compactions=True, on_repair=repairs.append).calls():
            pass
    # A rewound history is built and repaired again, so a repair may be reported twice.
    problems = dict.fromkeys([*recording.problems, *repairs])
    return replace(recording, problems=tuple(sorted(problems, key=lambda problem: problem.row)))


class SessionReader:
    """Base of the readers: collects problems, and records that are no part of the conversation."""

    def __init__(self, file: SessionFile) -> None:
        self.file = file
        self.problems = list(file.problems)
        self.others: list[dict[str, Any]] = []

    def report(self, row: JsonRow, reason: str) -> None:
        """Add a problem; an empty reason means that there is none."""
        if reason:
            self.problems.append(Problem(row=row.line, reason=reason, raw=row.raw))

    def recording(self, format: str, wire: str, session: str, episodes: Iterable[Episode]) -> Recording:
        return Recording(
            path=self.file.path,
            format=format,
            wire=wire,
            session=session or self.file.name,
            episodes=tuple(episodes),
            problems=tuple(self.problems),
            others=tuple(self.others),
        )


class _Replay:
    """Applies an episode's steps to a history, and builds the request of each model call."""

    def __init__(self, episode: Episode, wire: str, with_compactions: bool, on_repair: _OnRepair) -> None:
        self.episode, self.wire, self.with_compactions, self.on_repair = episode, wire, with_compactions, on_repair
        self.messages_made: dict[Any, Any] = {}
        self.row = 0

    def calls(self) -> Iterator[RecordedCall]:
        history, compacted = self._new_history(), False
        for step in self.episode.steps:
            if isinstance(step, ModelReply) and (self.with_compactions or not step.for_compaction):
                self.row = step.row
                yield self._call(step, history, compacted)
                compacted = False
            compacted |= self.with_compactions and isinstance(step, Compact)
            history = self._apply(step, history)

    def _apply(self, step: Step, history: ClientHistory) -> ClientHistory:
        match step:
            case AddMessages() if self.with_compactions or not step.for_compaction:
                history.add(step.messages)
            case ModelReply() if self.with_compactions or not step.for_compaction:
                history.add_reply(step.messages)
            case ClearResults() if self.with_compactions:
                history.clear_results(step.call_ids, step.placeholder)
            case Compact() if self.with_compactions:
                return self._new_history(step.messages, step.kept_steps)
            case Rewind():
                return self._new_history((), step.kept_steps)
        return history

    def _new_history(self, messages: Sequence[Message] = (), kept_steps: Sequence[int] = ()) -> ClientHistory:
        history = WIRES[self.wire].history(self.messages_made, self._report)
        history.add(messages)
        for index in kept_steps:
            history = self._apply(self.episode.steps[index], history)
        return history

    def _report(self, reason: str) -> None:
        self.on_repair(Problem(row=self.row, reason=reason))

    def _call(self, step: ModelReply, history: ClientHistory, compacted: bool) -> RecordedCall:
        return RecordedCall(
            request=self._body(step, history) if step.body is None else step.body,
            usage=step.usage,
            at=step.at,
            model=step.model,
            response=step.response,
            row=step.row,
            compacted=compacted,
            episode=self.episode.name,
        )

    def _body(self, step: ModelReply, history: ClientHistory) -> dict[str, Any]:
        model = {"model": step.model} if step.model else {}
        return {**model, **self.episode.request_fields, WIRES[self.wire].list_key: history.messages()}
