"""Many paths in few tokens: a directory once, then the names in it, and it still can be read as paths."""

from __future__ import annotations

from collections.abc import Iterable

from ebbtide.facts.lines import to_one_line

_WIDTH = 400
"""A path is a line like any other fact."""


def base_name(path: str) -> str:
    trimmed = path.rstrip("/\\")
    return trimmed[max(trimmed.rfind("/"), trimmed.rfind("\\")) + 1 :]


def parent_directory(path: str) -> str:
    """With its slash at the end; `./` for a bare name."""
    trimmed = path.rstrip("/\\")
    return trimmed[: len(trimmed) - len(base_name(path))] or "./"


def group_by_directory(named: Iterable[tuple[str, str]]) -> list[str]:
    """A line `dir/: name, name` for each directory, out of (path, what to say beside its name), in order of coming."""
    groups: dict[str, list[str]] = {}
    for path, beside in named:
        path = to_one_line(path, _WIDTH)
        groups.setdefault(parent_directory(path), []).append(f"{base_name(path)} {beside}".rstrip())
    return [f"{place}: {', '.join(names)}" for place, names in groups.items()]
