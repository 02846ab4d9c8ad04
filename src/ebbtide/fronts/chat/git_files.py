"""Recognizes files that decide which programs git runs. Writing one is like running a command, so it asks."""

from __future__ import annotations

from pathlib import Path

_IGNORED = dict.fromkeys(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]  # HFS+ drops them from names
)
_OWN = frozenset((".git", "git~1", ".gitconfig"))
"""`git~1` is the short name of `.git` on Windows."""
_PARTS = frozenset(("head", "objects", "refs"))
"""With these three a folder is a bare repository."""
_SETTINGS = frozenset(("config", "config.worktree", "commondir", "hooks", "info", "modules", "worktrees"))
"""Files of a bare repository that git reads its settings from."""


def belongs_to_git(path: Path, root: Path) -> bool:
    """Whether a file belongs to git: in a `.git`, or in a folder that is, or would become, a bare repository.

    Names are compared without case, as disks of macOS and Windows do. `path` is resolved; of a path inside `root` only
    what is below it counts.
    """
    start = root if path.is_relative_to(root) else Path(path.anchor)
    parts = path.relative_to(start).parts
    names = [_plain(part) for part in parts]
    if _OWN & set(names) or names[-1:] == ["head"]:
        return True
    return any(
        name in _PARTS | _SETTINGS and _parts_in(start.joinpath(*parts[:n])) - {name} for n, name in enumerate(names)
    )


def _plain(name: str) -> str:
    """Normalize a name like disks that ignore case, trailing dots and invisible letters; NTFS ignores `:stream` too."""
    return name.translate(_IGNORED).partition(":")[0].rstrip(". ").casefold()


def _parts_in(folder: Path) -> set[str]:
    """Return which parts of a bare repository a folder has."""
    try:
        return {_plain(entry.name) for entry in folder.iterdir()} & _PARTS
    except OSError:
        return set()
