"""Where the clients are: the folder that EBB_CLIENTS names, else the one that `scripts.install_clients` fills.

The smallest of them, `llm`, is fetched by the tests themselves, so that CI runs one real client; the others are asked
for with `python -m scripts.install_clients`.
"""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from scripts.install_clients import Unavailable, default_place, found, install

FETCHED = "llm"
PATIENCE = 120.0
"""Seconds to fetch it: five where there is an index."""


@pytest.fixture(scope="session")
def client_file() -> Callable[[str], Path]:
    place = Path(os.environ.get("EBB_CLIENTS") or default_place())

    def file(name: str) -> Path:
        if name == FETCHED:
            _fetch(name, place)
        there = found(name, place)
        if there is None:
            pytest.skip(f"{name} is not installed: python -m scripts.install_clients {name}")
        return there

    return file


def _fetch(name: str, place: Path) -> None:
    """Once, whoever asks first."""
    if found(name, place) is not None:
        return
    place.mkdir(parents=True, exist_ok=True)
    with (place / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            install(name, place, PATIENCE)
        except Unavailable as failed:
            pytest.skip(f"{name} cannot be had here: {failed}")
