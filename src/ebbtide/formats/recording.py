"""What every format is read into. A recording says what was sent; it never says what should have been."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ebbtide.formats.replay import replay
from ebbtide.formats.steps import Call, Episode, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A recorded session."""

    path: str
    format: str
    """`claude-code`, `codex`, `pi`, `opencode`, `openai-chat`, `swe-agent` or `request`."""
    wire: str
    """`anthropic`, `openai_chat` or `openai_responses`: the shape of the bodies it yields."""
    session: str
    episodes: tuple[Episode, ...]
    problems: tuple[Problem, ...] = ()
    """What could not be taken as it stands, by row."""
    others: tuple[dict[str, Any], ...] = ()
    """Records that are no part of the conversation (progress, titles, our own `ebb` ones), as they stand."""

    def requests(self) -> Iterator[Call]:
        """Every recorded call, with the request as the client had it: after a compaction, what the compaction left."""
        return self._calls(compacting=True)

    def uncompacted(self) -> Iterator[Call]:
        """The same calls had the client never compacted nor cleared: each request carries the whole history."""
        return self._calls(compacting=False)

    def _calls(self, *, compacting: bool) -> Iterator[Call]:
        for episode in self.episodes:
            yield from replay(episode, self.wire, compacting=compacting, report=_told_already)


def _told_already(_: Problem) -> None:
    """Loading has replayed it once and kept what there was to tell."""


def checked(recording: Recording) -> Recording:
    """The recording, its problems completed by the repairs that its requests need."""
    repairs: list[Problem] = []
    for episode in recording.episodes:
        for _ in replay(episode, recording.wire, compacting=True, report=repairs.append):
            pass
    # A rewound history is put together again, and its repairs are told again.
    found = dict.fromkeys([*recording.problems, *repairs])
    return replace(recording, problems=tuple(sorted(found, key=lambda problem: problem.row)))
