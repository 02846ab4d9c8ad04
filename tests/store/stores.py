"""Every store that must keep the promises of `ebbtide.store.protocol`. A new store is one more line here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ebbtide.store import DirectoryStore, MemoryStore, Store
from store.faulty_fs import Quick

STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(),
    "directory": lambda path: DirectoryStore(path / "root", fs=Quick()),
}
LASTING = frozenset(STORES) - {"memory"}
"""Stores that can be opened again in the same place, and then hold what was committed."""
