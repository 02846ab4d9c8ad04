"""Loads instructions for an agent, the most general first. What cannot be read safely is skipped and reported."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ebbtide.workspace.fetch import fetch_text
from ebbtide.workspace.files import read_within
from ebbtide.workspace.git import project_root
from ebbtide.workspace.parallel import OnSkip, gather, log_skip

Fetch = Callable[[str, float], str]
"""Fetches the text at an address within so many seconds."""

RULE_FILES = ("AGENTS.md", "CLAUDE.md", "CONTEXT.md")
FILES_CAP = 64  # files for one pattern: `**` in a large tree is a mistake


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where to look for instructions."""

    cwd: Path
    home: Path
    config_dir: Path
    extra_paths: Sequence[str] = ()
    """Patterns of files. A relative pattern matches only inside the project."""
    urls: Sequence[str] = ()
    fetch: Fetch = fetch_text
    timeout: float = 5.0
    """Seconds for all addresses together."""
    names: Sequence[str] = RULE_FILES
    rule: Literal["first", "all"] = "first"
    """Whether to use only the first of `names` in a directory, or all of them."""


def load_instructions(sources: Sources, *, on_skip: OnSkip = log_skip) -> list[tuple[str, str]]:
    """Return pairs of source and text, the most general first: global, project, configured, addresses.

    Outside a git project only `cwd` is searched: anyone may write to a shared parent such as a temporary directory.
    """
    root = project_root(sources.cwd) or sources.cwd.resolve()
    files = [*_global_files(sources), *_project_files(sources, root)]
    for pattern in sources.extra_paths:
        files += _configured_files(pattern, sources, root, on_skip)
    fetches = {url: (lambda url=url: sources.fetch(url, sources.timeout)) for url in sources.urls}
    pages = gather(fetches, sources.timeout, on_skip)
    return [*_read_files(files, on_skip), *((url, text) for url, text in pages if text.strip())]


@dataclass(frozen=True, slots=True, kw_only=True)
class _RuleFile:
    path: Path
    within: tuple[Path, ...]


def _global_files(sources: Sources) -> Iterator[_RuleFile]:
    for path in (sources.config_dir / "AGENTS.md", sources.home / ".claude" / "CLAUDE.md"):
        yield _RuleFile(path=path, within=(sources.home, sources.config_dir))


def _project_files(sources: Sources, root: Path) -> Iterator[_RuleFile]:
    """Yield files from the project's root down to `cwd`: the nearest comes last."""
    cwd = sources.cwd.resolve()
    folders = [cwd, *cwd.parents]
    for folder in reversed(folders[: folders.index(root) + 1]):
        present = [folder / name for name in sources.names if (folder / name).is_file()]
        chosen = present[:1] if sources.rule == "first" else present
        yield from (_RuleFile(path=path, within=(root,)) for path in chosen)


def _configured_files(pattern: str, sources: Sources, root: Path, on_skip: OnSkip) -> Iterator[_RuleFile]:
    """Yield matching files. A relative pattern stays in the project; others may also match the user's own files."""
    is_users_own = pattern.startswith("~/") or os.path.isabs(pattern)
    start, rest = (sources.home, pattern[2:]) if pattern.startswith("~/") else (root, pattern)
    paths = sorted(glob.glob(os.path.join(glob.escape(str(start)), rest), recursive=True))
    if not paths:
        on_skip(pattern, "no such file")
    if len(paths) > FILES_CAP:
        on_skip(pattern, f"{len(paths)} files, only the first {FILES_CAP} were read")
    within = (root, sources.home, sources.config_dir) if is_users_own else (root,)
    yield from (_RuleFile(path=Path(name), within=within) for name in paths[:FILES_CAP] if os.path.isfile(name))


def _read_files(files: Iterable[_RuleFile], on_skip: OnSkip) -> Iterator[tuple[str, str]]:
    """Read each file once, even if several names lead to it."""
    seen: set[Path] = set()
    for file in files:
        real = file.path.resolve()
        if real in seen or not file.path.exists():
            continue
        seen.add(real)
        try:
            text = read_within(file.path, file.within)
        except (OSError, ValueError) as error:
            on_skip(str(file.path), str(error))
            continue
        if text.strip():
            yield str(file.path), text
