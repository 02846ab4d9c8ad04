"""What `ebb doctor` looks at, one function for each area. Nothing is written, sent or repaired, and no key is shown."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Literal

import ebbtide
from ebbtide.config import Access, ConfigSource, Settings
from ebbtide.core.errors import BadConfig
from ebbtide.core.text.pluralize import pluralize
from ebbtide.display import format_age, format_bytes
from ebbtide.fronts.cli.extras import Extra
from ebbtide.fronts.cli.store_checks import Holdings
from ebbtide.prices import find_rates
from ebbtide.store.directory.file_names import INDEX_NAME
from ebbtide.store.search.tables import INDEX_VERSION

State = Literal["ok", "warn", "fail"]
_OLD = 90 * 86_400.0
"""Seconds after which a table of prices may miss a model that one uses."""
_LITTLE = 1 << 30
"""Bytes free on the store's disk: a long session with its results has some hundred MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    area: str
    name: str
    state: State
    told: str
    next: str = ""
    """What to do about it."""


def install() -> Iterator[Check]:
    where = Path(ebbtide.__file__).parent
    yield Check(area="install", name="ebbtide", state="ok", told=f"{ebbtide.__version__} in {where}")
    found = shutil.which("ebb")
    if found is None:
        bin = Path(sys.executable).parent
        yield _warn("install", "ebb", "not on your PATH", f"add {bin} to PATH, or activate the environment")
    told = f"{sys.version.split()[0]}, {sys.executable}"
    new_enough = sys.version_info >= (3, 11)
    yield Check(
        area="install", name="python", state="ok" if new_enough else "fail", told=told,
        next="" if new_enough else "Ebbtide needs Python 3.11 or newer",
    )  # fmt: skip


def fronts(extras: tuple[Extra, ...]) -> Iterator[Check]:
    """A command without its extra is a warning; what only adds to one is a line for all."""
    for extra in extras:
        if not extra.command:
            continue
        if extra.missing:
            yield _warn("commands", extra.command, f"needs {', '.join(extra.missing)}", extra.pip)
        else:
            yield Check(area="commands", name=extra.command, state="ok", told="ready")
    lacking = [extra for extra in extras if extra.missing and not extra.command]
    if lacking:
        told = f"not installed: {', '.join(f'{extra.name} ({extra.gives})' for extra in lacking)}"
        way = f"if you want them: pip install 'ebbtide[{','.join(extra.name for extra in lacking)}]'"
        yield Check(area="commands", name="more", state="ok", told=told, next=way)


def keys(access: Access) -> Iterator[Check]:
    there = {"ANTHROPIC_API_KEY": access.anthropic_key, "OPENAI_API_KEY": access.openai_key}
    named = [name for name, value in there.items() if value]
    if named:
        yield Check(area="keys", name="keys", state="ok", told=f"set: {', '.join(named)}")
    else:
        told = "neither ANTHROPIC_API_KEY nor OPENAI_API_KEY is set; only 'ebb chat' needs one"
        yield _warn("keys", "keys", told, "set one, or try 'ebb chat --local'")
    addresses = {"ANTHROPIC_BASE_URL": access.anthropic_url, "OPENAI_BASE_URL": access.openai_url}
    elsewhere = [name for name, value in addresses.items() if value]
    if elsewhere:
        yield Check(area="keys", name="addresses", state="ok", told=f"requests go where {', '.join(elsewhere)} says")


def configuration(sources: tuple[ConfigSource, ...], strange: dict[str, str]) -> Iterator[Check]:
    for source in sources:
        if source.problem:
            yield Check(
                area="settings",
                name=source.name,
                state="fail",
                told=source.problem,
                next="mend it, or take the line out",
            )
        elif source.keys:
            yield Check(area="settings", name="found", state="ok", told=f"{source.name} sets {', '.join(source.keys)}")
    if not any(source.keys or source.problem for source in sources):
        yield Check(area="settings", name="found", state="ok", told="none: everything is as it comes")
    for name, meant in strange.items():
        way = f"did you mean {meant}?" if meant else "unset it, or see docs/reference/configuration.md"
        yield _warn("settings", name, "is no setting of ours", way)


def store(holdings: Holdings, now: float) -> Iterator[Check]:
    area = "store"
    if holdings.problem:
        yield Check(area=area, name="path", state="fail", told=holdings.problem, next=holdings.cure)
        return
    if not holdings.there:
        yield Check(
            area=area, name="path", state="ok", told=f"{holdings.root}: not there yet, made with the first session"
        )
        return
    told = f"{holdings.root}: {pluralize(holdings.sessions, 'session')}, {format_bytes(holdings.bytes)}"
    if holdings.newest:
        told += f", the newest {_ago(now - holdings.newest)}"
    yield Check(area=area, name="path", state="ok", told=told)
    if holdings.wide:
        told = f"{holdings.wide} of its files and folders can be read by other users"
        yield _warn(area, "modes", told, f"chmod -R go-rwx {holdings.root}")
    else:
        yield Check(area=area, name="modes", state="ok", told="private to you")
    if holdings.torn:
        told = f"{', '.join(holdings.torn)}: the last line was cut off"
        yield _warn(area, "tails", told, "nothing to do: the next write sets it aside; 'ebb verify' tells more")
    if holdings.stuck:
        told = f"{', '.join(holdings.stuck)}: locked for longer than a write takes"
        yield _warn(area, "locks", told, "find the process that hangs: lsof names who has the .lock file open")
    if holdings.free < _LITTLE:
        yield _warn(area, "disk", f"{format_bytes(holdings.free)} are free", "ebb gc --older-than 30d --dry-run")


def prices(settings: Settings | None, model: str, now: float) -> Iterator[Check]:
    area = "prices"
    try:
        known = find_rates(model) if model else None
        told = f"genai-prices {version('genai-prices')}"
        age = now - _installed_at("genai-prices")
    except (BadConfig, PackageNotFoundError):
        told, way = "no table: savings are told in tokens", "for dollars: pip install 'ebbtide[replay]'"
        yield _warn(area, "table", told, way)
        return
    told += f", installed {_ago(age)}"
    if age > _OLD:
        yield _warn(area, "table", told, "pip install -U genai-prices")
    else:
        yield Check(area=area, name="table", state="ok", told=told)
    if not model:
        return
    if known is None:
        yield _warn(area, model, "the table does not know it, nor its family", "give a price, as in --price 3")
    else:
        told = f"${known.input:g} in, ${known.output:g} out, for a million tokens; row {known.basis}"
        yield Check(area=area, name=model, state="ok", told=told)
    if settings is not None:
        yield Check(area=area, name="window", state="ok", told=f"{settings.window_for(model):,} tokens for {model}")


def recall(root: str) -> Iterator[Check]:
    area, path = "recall", Path(root).expanduser() / INDEX_NAME
    try:
        with closing(sqlite3.connect(":memory:")) as db:
            db.execute("CREATE VIRTUAL TABLE probe USING fts5(body, tokenize='trigram')")
    except sqlite3.Error as missing:
        told = f"this Python's SQLite {sqlite3.sqlite_version} cannot search text: {missing}"
        yield Check(area=area, name="sqlite", state="fail", told=told, next="use a Python with SQLite 3.34 or newer")
        return
    if not os.path.isfile(path):
        yield Check(area=area, name="index", state="ok", told="not there yet, made with the first search")
        return
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=1.0)) as db:
            (made,), (sound,) = (
                db.execute("PRAGMA user_version").fetchone(),
                db.execute("PRAGMA quick_check(1)").fetchone(),
            )
            (sessions,) = db.execute("SELECT count(*) FROM session").fetchone()
    except sqlite3.Error as damaged:
        yield _warn(area, "index", f"{path}: {damaged}", "delete it: the next search makes it anew")
        return
    told = f"{pluralize(sessions, 'session')}, {format_bytes(path.stat().st_size)}"
    if sound != "ok":
        yield _warn(area, "index", f"{path}: {sound}", "delete it: the next search makes it anew")
    elif made != INDEX_VERSION:
        yield Check(
            area=area, name="index", state="ok", told=f"{told}, of another release: the next search makes it anew"
        )
    else:
        yield Check(area=area, name="index", state="ok", told=told)


def _warn(area: str, name: str, told: str, next: str) -> Check:
    return Check(area=area, name=name, state="warn", told=told, next=next)


def _ago(seconds: float) -> str:
    return f"{format_age(seconds)} ago" if seconds >= 60 else "just now"


def _installed_at(package: str) -> float:
    """When it came onto this machine: no table is newer than that."""
    files = distribution(package).files or []
    record = next((file for file in files if file.name == "RECORD"), None)
    return Path(str(record.locate())).stat().st_mtime if record else time.time()
