"""Instructions for an agent, from the most general to the most particular. What is refused is skipped and reported."""

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
from ebbtide.workspace.parallel import OnSkip, gather, warn

Fetch = Callable[[str, float], str]
"""An address and seconds in, its text out."""

RULE_FILES = ("AGENTS.md", "CLAUDE.md", "CONTEXT.md")
FILES_CAP = 64  # files that one pattern may bring in: `**` in a large tree is a mistake, not a wish


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where instructions are looked for."""

    cwd: Path
    home: Path
    config_dir: Path
    extra_paths: Sequence[str] = ()
    """Patterns of files. A relative one stays in the project."""
    urls: Sequence[str] = ()
    fetch: Fetch = fetch_text
    timeout: float = 5.0
    """Seconds that all addresses together may take."""
    names: Sequence[str] = RULE_FILES
    rule: Literal["first", "all"] = "first"
    """Whether the first of `names` in a directory speaks for it, or all do."""


def load_instructions(sources: Sources, *, report: OnSkip = warn) -> list[tuple[str, str]]:
    """(source, text) from the most general to the most particular: global, project, configured, addresses.

    Outside a git project only `cwd` itself is looked at: a shared parent, such as a temporary directory, is anybody's
    to write.
    """
    root = project_root(sources.cwd) or sources.cwd.resolve()
    places = [*_everywhere(sources), *_local(sources, root)]
    for pattern in sources.extra_paths:
        places += _configured(pattern, sources, root, report)
    work = {url: (lambda url=url: sources.fetch(url, sources.timeout)) for url in sources.urls}
    told = gather(work, sources.timeout, report)
    return [*_loaded(places, report), *((url, text) for url, text in told if text.strip())]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    path: Path
    within: tuple[Path, ...]


def _everywhere(sources: Sources) -> Iterator[_Place]:
    for path in (sources.config_dir / "AGENTS.md", sources.home / ".claude" / "CLAUDE.md"):
        yield _Place(path=path, within=(sources.home, sources.config_dir))


def _local(sources: Sources, root: Path) -> Iterator[_Place]:
    """From the project's root down to where we are: the nearer speaks last."""
    here = sources.cwd.resolve()
    folders = [here, *here.parents]
    for folder in reversed(folders[: folders.index(root) + 1]):
        present = [folder / name for name in sources.names if (folder / name).is_file()]
        spoken = present[:1] if sources.rule == "first" else present
        yield from (_Place(path=path, within=(root,)) for path in spoken)


def _configured(pattern: str, sources: Sources, root: Path, report: OnSkip) -> Iterator[_Place]:
    """A relative pattern stays in the project; an absolute one, or `~`, may also name what is the user's."""
    own = pattern.startswith("~/") or os.path.isabs(pattern)
    start, rest = (sources.home, pattern[2:]) if pattern.startswith("~/") else (root, pattern)
    found = sorted(glob.glob(os.path.join(glob.escape(str(start)), rest), recursive=True))
    if not found:
        report(pattern, "no such file")
    if len(found) > FILES_CAP:
        report(pattern, f"{len(found)} files, only the first {FILES_CAP} were read")
    within = (root, sources.home, sources.config_dir) if own else (root,)
    yield from (_Place(path=Path(name), within=within) for name in found[:FILES_CAP] if os.path.isfile(name))


def _loaded(places: Iterable[_Place], report: OnSkip) -> Iterator[tuple[str, str]]:
    """One file once, though several names lead to it."""
    seen: set[Path] = set()
    for place in places:
        real = place.path.resolve()
        if real in seen or not place.path.exists():
            continue
        seen.add(real)
        try:
            text = read_within(place.path, place.within)
        except (OSError, ValueError) as error:
            report(str(place.path), str(error))
            continue
        if text.strip():
            yield str(place.path), text
