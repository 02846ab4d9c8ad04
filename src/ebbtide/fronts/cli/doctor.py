"""`ebb doctor`: check the installation, and say what to do about each problem.

There is one function for each area. They write, send and repair nothing, and never show a key.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sqlite3
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from importlib.metadata import PackageNotFoundError, distribution, requires, version
from pathlib import Path
from typing import Literal, NamedTuple

import ebbtide
from ebbtide import screen
from ebbtide.argparse_errors import close_matches
from ebbtide.config import (
    ACCOUNT_VARIABLES,
    Settings,
    StartFiles,
    find_start_files,
    inspect_sources,
    load_settings,
    process_environment,
)
from ebbtide.config_keys import VARIABLES
from ebbtide.core.errors import BadConfig, StoreError
from ebbtide.core.text.preview import pluralize
from ebbtide.display import format_age, format_bytes, one_line
from ebbtide.fronts.cli.parser import CODES, Commands, command
from ebbtide.fronts.cli.service import commands as service_commands
from ebbtide.fronts.cli.service import find_service
from ebbtide.fronts.cli.start_files import list_installed
from ebbtide.policy import DIAL
from ebbtide.prices import find_rates
from ebbtide.store import is_database, open_store, show_store
from ebbtide.store.directory.file_names import INDEX_NAME
from ebbtide.store.search.tables import INDEX_VERSION

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

State = Literal["ok", "warn", "fail"]
_OLD_TABLE = 90 * 86_400.0
"""Seconds after which the price table may lack a new model."""
_LOW_DISK = 1 << 30
"""Free bytes: a long session takes some hundred MB."""
_LOCK_SECONDS = 0.3
"""A commit takes milliseconds: a lock still held after this long is stuck."""
_LISTED = 5
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[(?P<extras>[^\]]*)\])?[^;>=]*(?:>=(?P<version>[0-9.]+))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"](?P<extra>[^'\"]+)['\"]")
_COMMANDS = {
    "chat": "ebb chat",
    "mcp": "ebb mcp",
    "proxy": "ebb proxy, ebb run",
    "replay": "ebb replay",
    "ui": "ebb ui",
}
"""Extras that a command cannot run without."""
_ADDITIONS = {
    "embeddings": "ebb recall --meaning",
    "otel": "ebb proxy --otel",
    "ray": "ebb replay --ray",
    "tiktoken": "exact counts for OpenAI's models",
}
"""Extras that only add something."""


_STYLE = {"ok": "green", "warn": "yellow", "fail": "bold red"}


class Check(NamedTuple):
    name: str
    state: State
    told: str
    next: str = ""
    """What to do about it."""


Checks = Iterator[Check]


def add(commands: Commands) -> None:
    codes = CODES.replace("an error", "a check fails, or an error")
    parser = command(commands, "doctor", run, "--store", "--json", codes=codes)
    parser.group("input").add_argument(
        "--model", metavar="M", default="", help="also check this model's price and window"
    )


def run(args: argparse.Namespace) -> int:
    """check the install, settings, keys, store and prices

    Checks what Ebbtide needs: the install and its extras, settings files, keys (only whether they are set),
    the store with its permissions, damaged ends of logs and locks, the price table, the search index. Each
    line says ok, warn or fail, and what to do next. Nothing is written, sent or repaired.

    examples:
        ebb doctor
        ebb doctor --model claude-sonnet-5
        ebb doctor --store ./agents --json
    """
    try:
        settings = load_settings(arguments={"store": args.store})
    except BadConfig:
        settings = None  # A source is wrong, which `check_configuration` reports.
    now = time.time()
    areas = {
        "install": check_install(),
        "commands": check_extras(),
        "settings": (*check_configuration(), *check_policy(settings)),
        "clients": check_installed(),
        "keys": check_keys(),
        "store": check_store(settings, now),
        "recall": check_search_index(settings),
        "prices": check_prices(settings, args.model, now),
    }
    results = [(area, check) for area, checks in areas.items() for check in checks]
    if args.json:
        screen.print_json([{"area": area, **check._asdict()} for area, check in results])
    else:
        _print(results)
    return int(any(check.state == "fail" for _, check in results))


def _print(results: list[tuple[str, Check]]) -> None:
    last_area, arrow = "", "→" if screen.can_draw("→") else "->"
    for area, check in results:
        if area != last_area:
            last_area = area
            screen.draw(screen.styled_text((area, "bold")))
        name = f"{check.name}: " if check.name not in ("path", "keys", "found") else ""
        line = one_line(f"{name}{check.told}")
        screen.draw(screen.styled_text((f"  {check.state:<5}", _STYLE[check.state]), (line, "")))
        if check.next:
            screen.draw(screen.styled_text((f"        {arrow} ", "cyan"), (one_line(check.next), "")))
    failures, warnings = (sum(check.state == state for _, check in results) for state in ("fail", "warn"))
    print()
    if failures:
        print(f"{failures} failed, {warnings} to look at")
    else:
        print(f"no problems found; {warnings} to look at" if warnings else "no problems found")


def check_install() -> Checks:
    yield Check("ebbtide", "ok", f"{ebbtide.__version__} in {Path(ebbtide.__file__).parent}")
    if shutil.which("ebb") is None:
        folder = Path(sys.executable).parent
        yield Check("ebb", "warn", "not on your PATH", f"add {folder} to PATH, or activate the environment")
    yield Check("python", "ok", f"{sys.version.split()[0]}, {sys.executable}")


def check_extras(package: str = "ebbtide") -> Checks:
    """Warn of a command that lacks its extra. Without installed metadata there is nothing to check."""
    needed = _requirements_by_extra(package)
    for extra, name in _COMMANDS.items():
        if extra not in needed:
            continue
        if missing := _missing(extra, needed):
            yield Check(name, "warn", f"needs {', '.join(missing)}", f"pip install 'ebbtide[{extra}]'")
        else:
            yield Check(name, "ok", "ready")
    absent = [extra for extra in _ADDITIONS if extra in needed and _missing(extra, needed)]
    if absent:
        names = ", ".join(f"{extra} ({_ADDITIONS[extra]})" for extra in absent)
        advice = f"to add them: pip install 'ebbtide[{','.join(absent)}]'"
        yield Check("more", "ok", f"not installed: {names}", advice)


def _requirements_by_extra(package: str) -> dict[str, list[str]]:
    try:
        requirements = requires(package) or []
    except PackageNotFoundError:
        return {}
    needed: dict[str, list[str]] = {}
    for requirement in requirements:
        if match := _EXTRA.search(requirement):
            needed.setdefault(match["extra"], []).append(requirement)
    return needed


def _missing(extra: str, needed: dict[str, list[str]]) -> list[str]:
    missing: list[str] = []
    for requirement in needed.get(extra, ()):
        match = _REQUIREMENT.match(requirement)
        if match is None:
            continue
        if match["extras"]:
            # An extra that consists of others.
            missing += [package for other in match["extras"].split(",") for package in _missing(other.strip(), needed)]
        elif not _is_installed(match["name"], match["version"] or ""):
            missing.append(requirement.partition(";")[0].strip())
    return missing


def _is_installed(package: str, min_version: str) -> bool:
    try:
        return _version_numbers(version(package)) >= _version_numbers(min_version)
    except PackageNotFoundError:
        return False


def _version_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("+")[0])[:3])


def check_keys() -> Checks:
    environ = process_environment()
    keys = [name for names, _ in ACCOUNT_VARIABLES.values() for name in names]
    if any(map(environ.get, keys)):
        yield Check("keys", "ok", f"set: {', '.join(filter(environ.get, keys))}")
    else:
        problem = f"none of {', '.join(keys)} is set; only 'ebb chat' needs one"
        yield Check("keys", "warn", problem, "set one, or try 'ebb chat --local'")
    addresses = [name for _, name in ACCOUNT_VARIABLES.values() if environ.get(name)]
    if addresses:
        yield Check("addresses", "ok", f"requests are sent to the address in {', '.join(addresses)}")


def check_installed() -> Checks:
    """What `ebb install` has put into start files."""
    files = find_start_files()
    yield from _check_service(files)
    installed = list_installed(files)
    for entry in installed:
        if os.access(entry.ebb, os.X_OK):
            yield Check(entry.name, "ok", f"starts behind Ebbtide, by {entry.path}")
        else:
            problem = f"{entry.path} names {entry.ebb or 'an ebb'} that is gone, so it starts without Ebbtide"
            yield Check(entry.name, "warn", problem, f"ebb install {entry.name}, or ebb uninstall {entry.name}")
    if not installed:
        yield Check(
            "clients", "ok", "none is installed: 'ebb run -- CLIENT' starts one, 'ebb install CLIENT' keeps it so"
        )


def _check_service(files: StartFiles) -> Checks:
    service = find_service(files)
    if service is None:
        return
    if service.is_running():
        yield Check("service", "ok", f"runs at {service.address}")
    else:
        problem = f"nothing answers at {service.address}, so clients that are set to it cannot reach their model"
        yield Check("service", "warn", problem, f"start it: {service_commands()}")


def check_configuration() -> Checks:
    sources = inspect_sources()
    for source in sources:
        if source.problem:
            yield Check(source.name, "fail", source.problem, "correct it, or remove the line")
        elif source.keys:
            yield Check("found", "ok", f"{source.name} sets {', '.join(source.keys)}")
    if not any(source.keys or source.problem for source in sources):
        yield Check("found", "ok", "none: all settings have their defaults")
    for name in sorted(name for name in process_environment() if name.startswith("EBB_") and name not in VARIABLES):
        meant = close_matches(name, VARIABLES, "EBB_")
        advice = f"did you mean {meant[0]}?" if meant else "unset it, or see docs/reference/configuration.md"
        yield Check(name, "warn", "is not a setting of Ebbtide", advice)


def check_policy(settings: Settings | None) -> Checks:
    """Which policy requests get, and which others there are to choose from."""
    if settings is None:
        return
    other = [name for name, policy in DIAL.items() if policy.name != settings.preset]
    name = next((name for name, policy in DIAL.items() if policy.name == settings.preset), settings.preset)
    yield Check("policy", "ok", f"{name}; you can also choose {', '.join(other)}, or see ebb replay --list")


def check_store(settings: Settings | None, now: float) -> Checks:
    """Look at the store's directory: names, sizes, modes and last bytes. Open nothing for writing."""
    if settings is None:
        yield Check("path", "warn", "not checked: its directory depends on the settings above", "correct them first")
        return
    if is_database(settings.store):
        yield _check_database(settings.store)
        return
    root = Path(settings.store).expanduser()
    if problem := _store_problem(settings.store, root):
        yield Check("path", "fail", *problem)
        return
    if not root.exists():
        yield Check("path", "ok", f"{root}: does not exist yet; the first session creates it")
        return
    entries = list(_walk(root))
    # Sessions and their locks lie in the folders of projects.
    files = [(path, status) for path, status in entries if path.parent.parent == root / "projects"]
    logs = [(path, status) for path, status in files if path.suffix == ".jsonl"]
    size = sum(status.st_size for _, status in entries if stat.S_ISREG(status.st_mode))
    newest = max((status.st_mtime for _, status in logs), default=0.0)
    age = f", the newest {_ago(now - newest)}" if newest else ""
    yield Check("path", "ok", f"{root}: {pluralize(len(logs), 'session')}, {format_bytes(size)}{age}")
    if readable := sum(bool(status.st_mode & 0o077) for _, status in entries):
        access = f"{readable} of its files and folders can be read by other users"
        yield Check("modes", "warn", access, f"chmod -R go-rwx {root}")
    else:
        yield Check("modes", "ok", "private to you")
    if torn := [path for path, status in logs if status.st_size and not _ends_with_newline(path)]:
        advice = "nothing to do: the next write moves the rest aside; 'ebb verify' says more"
        yield Check("tails", "warn", f"{_names(torn)}: the last line was cut off", advice)
    if stuck := _stuck_locks([path for path, _ in files if path.suffix == ".lock"]):
        advice = "find the process that hangs: lsof shows which has the .lock file open"
        yield Check("locks", "warn", f"{_names(stuck)}: locked for longer than a write takes", advice)
    if (free := shutil.disk_usage(root).free) < _LOW_DISK:
        yield Check("disk", "warn", f"only {format_bytes(free)} free", "ebb gc --older-than 30d --dry-run")


def _check_database(store: str) -> Check:
    try:
        sessions = open_store(store).list_sessions()
    except (BadConfig, StoreError) as error:
        return Check("database", "fail", str(error), "check the address in --store or EBB_HOME, and that it is running")
    size = sum(info.bytes for info in sessions)
    return Check("database", "ok", f"{show_store(store)}: {pluralize(len(sessions), 'session')}, {format_bytes(size)}")


def _store_problem(store: str, root: Path) -> tuple[str, str] | None:
    """What makes the store unusable, and what to do about it."""
    try:
        open_store(store)
    except BadConfig as error:
        return str(error), "give a directory with --store or EBB_HOME"
    if root.exists():
        if os.access(root, os.R_OK | os.W_OK | os.X_OK):
            return None
        return f"{root} cannot be written to", f"chmod u+rwx {root}, or choose another directory with EBB_HOME"
    parent = next((folder for folder in root.parents if folder.exists()), Path("/"))
    if os.access(parent, os.W_OK | os.X_OK):
        return None
    return f"{root} does not exist, and {parent} cannot be written to", "choose another directory with EBB_HOME"


def _walk(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield everything in a folder and the folder itself, without links."""
    for path in (Path(folder) / name for folder, _, files in os.walk(root) for name in ("", *files)):
        with suppress(OSError):  # deleted meanwhile
            status = path.lstat()
            if not stat.S_ISLNK(status.st_mode):
                yield path, status


def _ends_with_newline(log: Path) -> bool:
    with suppress(OSError), log.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
    return True


def _stuck_locks(locks: list[Path]) -> list[Path]:
    locked = [path for path in locks if _is_locked(path)]
    if locked:
        time.sleep(_LOCK_SECONDS)
    return [path for path in locked if _is_locked(path)]


def _is_locked(lock: Path) -> bool:
    if fcntl is None:
        return False
    with suppress(FileNotFoundError, PermissionError), lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _names(paths: Iterable[Path]) -> str:
    names = [path.stem for path in paths]
    others = [f"and {len(names) - _LISTED} more"] if len(names) > _LISTED else []
    return ", ".join([*names[:_LISTED], *others])


def check_prices(settings: Settings | None, model: str, now: float) -> Checks:
    try:
        rates = find_rates(model) if model else None
        age = now - _installed_at("genai-prices")
        table = f"genai-prices {version('genai-prices')}, installed {_ago(age)}"
    except (BadConfig, PackageNotFoundError):
        advice = "for dollars: pip install 'ebbtide[replay]'"
        yield Check("table", "warn", "no price table: savings are shown in tokens", advice)
        return
    if age > _OLD_TABLE:
        yield Check("table", "warn", table, "pip install -U genai-prices")
    else:
        yield Check("table", "ok", table)
    if not model:
        return
    if rates is None:
        yield Check(model, "warn", "the table knows neither it nor its family", "give a price, such as --price 3")
    else:
        price = f"${rates.input:g} in, ${rates.output:g} out per million tokens; row {rates.basis}"
        yield Check(model, "ok", price)
    if settings is not None:
        yield Check("window", "ok", f"{settings.window_for(model):,} tokens for {model}")


def check_search_index(settings: Settings | None) -> Checks:
    if settings is None or is_database(settings.store):
        return  # of a database the index is in memory
    path = Path(settings.store).expanduser() / INDEX_NAME
    rebuild = "delete it: the next search builds it again"
    try:
        with closing(sqlite3.connect(":memory:")) as db:
            db.execute("CREATE VIRTUAL TABLE probe USING fts5(body, tokenize='trigram')")
    except sqlite3.Error as error:
        problem = f"this Python's SQLite {sqlite3.sqlite_version} cannot search text: {error}"
        yield Check("sqlite", "fail", problem, "use a Python with SQLite 3.34 or newer")
        return
    if not os.path.isfile(path):
        yield Check("index", "ok", "does not exist yet; the first search creates it")
        return
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=1.0)) as db:
            (index_version,) = db.execute("PRAGMA user_version").fetchone()
            (integrity,) = db.execute("PRAGMA quick_check(1)").fetchone()
            (sessions,) = db.execute("SELECT count(*) FROM session").fetchone()
    except sqlite3.Error as error:
        yield Check("index", "warn", f"{path}: {error}", rebuild)
        return
    if integrity != "ok":
        yield Check("index", "warn", f"{path}: {integrity}", rebuild)
        return
    outdated = "" if index_version == INDEX_VERSION else ", of another release: the next search builds it again"
    yield Check("index", "ok", f"{pluralize(sessions, 'session')}, {format_bytes(path.stat().st_size)}{outdated}")


def _ago(seconds: float) -> str:
    return f"{format_age(seconds)} ago" if seconds >= 60 else "just now"


def _installed_at(package: str) -> float:
    """When the package was installed: its table is not newer."""
    files = distribution(package).files or []
    record = next((file for file in files if file.name == "RECORD"), None)
    return Path(str(record.locate())).stat().st_mtime if record else time.time()
