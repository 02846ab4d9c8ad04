"""What a session saw of its workspace when it began. It does not change afterwards, so that the prompt stays cached."""

from __future__ import annotations

import datetime
import sys
from dataclasses import dataclass
from pathlib import Path

from ebbtide.assembly import Block, Conversation, EnvironmentFacts, environment_block, frame, split_system
from ebbtide.workspace.git import git_status, project_root
from ebbtide.workspace.instructions import Sources, load_instructions


def environment_facts(cwd: Path, *, today: datetime.date | None = None) -> EnvironmentFacts:
    """Describe where a session runs. A session that passes midnight keeps its first date, and so its cache."""
    date = today or datetime.date.today()
    return EnvironmentFacts(
        cwd=str(cwd), git=project_root(cwd) is not None, platform=sys.platform, date=date.strftime("%a %b %d %Y")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Built once by `look_around`."""

    environment: str
    git: str
    instructions: tuple[tuple[str, str], ...]
    skipped: tuple[tuple[str, str], ...] = ()
    """Sources that were skipped, each with the reason: for people, not for the model."""

    def system(self, static: str) -> tuple[Block, ...]:
        """Build the system prompt: first what all sessions share, then what is specific to this one."""
        # Anyone can write file names and commit subjects, so they are framed even here.
        git = frame("git-status", self.git) if self.git else ""
        return split_system(static, "\n\n".join(filter(None, (self.environment, git))))

    def enter(self, conversation: Conversation) -> None:
        """Add the instructions to the first turn, so that sessions can share a cached system prompt."""
        for source, text in self.instructions:
            conversation.inject("instructions", f"From {source}:\n\n{text.strip()}")


def look_around(
    sources: Sources, *, model: str, trusted: bool = False, today: datetime.date | None = None
) -> Surroundings:
    """Read the workspace once. Keep the result for the session.

    `trusted` allows git to run, and with it programs that the repository's settings name. Without it only the branch is
    read, from git's files.
    """
    skipped: list[tuple[str, str]] = []

    def on_skip(source: str, reason: str) -> None:
        skipped.append((source, reason))

    git = git_status(sources.cwd, trusted=trusted, timeout=sources.timeout, on_skip=on_skip)
    instructions = load_instructions(sources, on_skip=on_skip)
    environment = environment_block(model, environment_facts(sources.cwd, today=today))
    return Surroundings(environment=environment, git=git, instructions=tuple(instructions), skipped=tuple(skipped))
