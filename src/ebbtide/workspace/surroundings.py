"""What a session saw when it began: the world may change, these bytes do not."""

from __future__ import annotations

import datetime
import sys
from dataclasses import dataclass
from pathlib import Path

from ebbtide.assembly import Block, Conversation, EnvironmentFacts, environment_block, frame, split_system
from ebbtide.workspace.git import git_status, project_root
from ebbtide.workspace.instructions import Sources, load_instructions


def environment_facts(cwd: Path, *, today: datetime.date | None = None) -> EnvironmentFacts:
    """`today` is the date to tell; a session that crosses midnight keeps its first one, and its cache."""
    day = today or datetime.date.today()
    return EnvironmentFacts(
        cwd=str(cwd), git=project_root(cwd) is not None, platform=sys.platform, date=day.strftime("%a %b %d %Y")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Made once by `look_around`."""

    environment: str
    git: str
    instructions: tuple[tuple[str, str], ...]
    skipped: tuple[tuple[str, str], ...] = ()
    """Sources left out, each with the reason: for people, not for the model."""

    def system(self, static: str) -> tuple[Block, ...]:
        """The system prompt, what all sessions share first, what is this session's last."""
        # File names and commit subjects are anybody's words: even here they stand in a frame.
        git = frame("git-status", self.git) if self.git else ""
        return split_system(static, "\n\n".join(filter(None, (self.environment, git))))

    def enter(self, conversation: Conversation) -> None:
        """The instructions go to the head of the first turn: the system prompt stays what others have cached."""
        for source, text in self.instructions:
            conversation.inject("instructions", f"From {source}:\n\n{text.strip()}")


def look_around(
    sources: Sources, *, model: str, trusted: bool = False, today: datetime.date | None = None
) -> Surroundings:
    """Looks once, at everything. Keep the result for the session.

    `trusted`: the user lets git run here, and with it whatever the repository's settings name. Without it only the
    branch is told, read from git's files.
    """
    skipped: list[tuple[str, str]] = []

    def report(source: str, reason: str) -> None:
        skipped.append((source, reason))

    git = git_status(sources.cwd, trusted=trusted, timeout=sources.timeout, report=report)
    found = load_instructions(sources, report=report)
    environment = environment_block(model, environment_facts(sources.cwd, today=today))
    return Surroundings(environment=environment, git=git, instructions=tuple(found), skipped=tuple(skipped))
