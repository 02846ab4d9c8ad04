"""A session to try things on: an agent repairs a tide gauge's report. `scripts/record_example.py` recorded it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

WINDOW = 100_000
"""The window of `--example` unless another is set. Most of the session does not fit, so there is something to see."""


def path() -> Path:
    """Of the session, gzip and Claude Code's JSONL. The package is installed as files, never run from an archive."""
    return Path(str(files(__name__) / "session.jsonl.gz"))
