"""What a session sees of its surroundings is looked at once and is then a value: the same bytes every turn.

Files, git and addresses are hostile until shown otherwise. A file counts only where it really lies, an address only
if it answers itself; what is refused is skipped and reported, and never stops a session.
"""

from __future__ import annotations

import datetime
import glob
import http.client
import ipaddress
import logging
import os
import stat
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Generic, Literal, TypeVar

from ebbtide.assembly import Block, Conversation, Facts, environment_block, frame, split_system
from ebbtide.core.counted import counted

T = TypeVar("T")
Report = Callable[[str, str], None]
"""Told the source that was skipped, and why."""
Fetch = Callable[[str, float], str]
"""An address and seconds in, its text out."""

RULE_FILES = ("AGENTS.md", "CLAUDE.md", "CONTEXT.md")
FILE_CAP = 128 * 1024  # bytes, about 32k tokens: longer rules would fill a small window before the first word
FILES_CAP = 64  # files that one pattern may bring in: `**` in a large tree is a mistake, not a wish
STATUS_CAP = 2_000  # characters: a status that long is a generated tree, and is asked for in full if needed
HEAD_LIMIT = 250  # lines of a listing or a search, as coding agents' own tools have it

_log = logging.getLogger(__name__)


def _warn(source: str, reason: str) -> None:
    _log.warning("skipped %s: %s", source, reason)


# ----------------------------------------------------------------------------------------------------- parallel


class _Task(threading.Thread, Generic[T]):
    """A daemon: one that hangs must not keep the process alive."""

    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.done: T | None = None
        self.failed = "took too long"

    def run(self) -> None:
        try:
            self.done = self._work()
            self.failed = "" if self.done is not None else "gave nothing"
        except Exception as error:  # noqa: BLE001  # Fail open: one source less, and the report says which.
            self.failed = f"{type(error).__name__}: {error}"


def _together(work: Mapping[str, Callable[[], T]], timeout: float, report: Report) -> Iterator[tuple[str, T]]:
    """All at once; what came in time, in the order asked for, not in the order it came."""
    tasks = {name: _Task(one) for name, one in work.items()}
    for task in tasks.values():
        task.start()
    deadline = time.monotonic() + timeout
    for name, task in tasks.items():
        task.join(max(0.0, deadline - time.monotonic()))
        done, failed = task.done, task.failed
        if task.is_alive() or done is None:
            report(name, failed)
            continue
        yield name, done


def gather_attachments(
    providers: Mapping[str, Callable[[], str]], *, timeout: float = 1.0, report: Report = _warn
) -> list[tuple[str, str]]:
    """What each provider has to say before this turn, for `Conversation.inject`. Late or broken ones are left out."""
    found = _together(providers, timeout, report)
    return [(f"attachment:{name}", text) for name, text in found if text.strip()]


# -------------------------------------------------------------------------------------------------------- files


def project_root(cwd: Path) -> Path | None:
    """The nearest directory upwards that git calls its own; a worktree's `.git` is a file."""
    here = cwd.resolve()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), None)


def _read_rules(path: Path, within: Sequence[Path]) -> str:
    """The text of a file that really lies within one of the roots. Half a rule may say the opposite: all or nothing."""
    real = path.resolve(strict=True)
    if not any(real.is_relative_to(root.resolve()) for root in within):
        raise PermissionError("a link leads out of the project")
    # Neither swapped for a link since, nor a pipe that would keep us waiting.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(os.open(real, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("not a regular file")
        return _decoded(file.read(FILE_CAP + 1))


def _decoded(data: bytes) -> str:
    if len(data) > FILE_CAP:
        raise ValueError(f"longer than {FILE_CAP} bytes")
    if b"\0" in data:
        raise ValueError("binary")
    return data.decode("utf-8-sig")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    path: Path
    within: tuple[Path, ...]


def _local(root: Path, cwd: Path, names: Sequence[str], rule: Literal["first", "all"]) -> Iterator[_Place]:
    """From the project's root down to where we are: the nearer speaks last."""
    here = cwd.resolve()
    folders = [here, *here.parents]
    for folder in reversed(folders[: folders.index(root) + 1]):
        present = [folder / name for name in names if (folder / name).is_file()]
        yield from (_Place(path=path, within=(root,)) for path in (present[:1] if rule == "first" else present))


def _configured(pattern: str, root: Path, home: Path, config_dir: Path, report: Report) -> Iterator[_Place]:
    """A relative pattern stays in the project; an absolute one, or `~`, may also name what is the user's."""
    own = pattern.startswith("~/") or os.path.isabs(pattern)
    start, rest = (home, pattern[2:]) if pattern.startswith("~/") else (root, pattern)
    found = sorted(glob.glob(os.path.join(glob.escape(str(start)), rest), recursive=True))
    if not found:
        report(pattern, "no such file")
    if len(found) > FILES_CAP:
        report(pattern, f"{len(found)} files, only the first {FILES_CAP} were read")
    within = (root, home, config_dir) if own else (root,)
    yield from (_Place(path=Path(name), within=within) for name in found[:FILES_CAP] if os.path.isfile(name))


def _loaded(places: Iterable[_Place], report: Report) -> Iterator[tuple[str, str]]:
    """One file once, though several names lead to it."""
    seen: set[Path] = set()
    for place in places:
        real = place.path.resolve()
        if real in seen or not place.path.exists():
            continue
        seen.add(real)
        try:
            text = _read_rules(place.path, place.within)
        except (OSError, ValueError) as error:
            report(str(place.path), str(error))
            continue
        if text.strip():
            yield str(place.path), text


def instructions(
    cwd: Path,
    *,
    home: Path,
    config_dir: Path,
    extra_paths: Sequence[str] = (),
    urls: Sequence[str] = (),
    fetch: Fetch | None = None,
    timeout: float = 5.0,
    names: Sequence[str] = RULE_FILES,
    rule: Literal["first", "all"] = "first",
    report: Report = _warn,
) -> list[tuple[str, str]]:
    """(source, text) from the most general to the most particular: global, project, configured, addresses.

    `rule` says whether the first of `names` in a directory speaks for it, or all do. Outside a git project only `cwd`
    itself is looked at: a shared parent, such as a temporary directory, is anybody's to write.
    """
    root = project_root(cwd) or cwd.resolve()
    own = (home, config_dir)
    everywhere = [config_dir / "AGENTS.md", home / ".claude" / "CLAUDE.md"]
    places = [_Place(path=path, within=own) for path in everywhere]
    places += _local(root, cwd, names, rule)
    for pattern in extra_paths:
        places += _configured(pattern, root, home, config_dir, report)
    get = fetch or fetch_text
    work = {url: (lambda url=url: get(url, timeout)) for url in urls}
    told = _together(work, timeout, report)
    return [*_loaded(places, report), *((url, text) for url, text in told if text.strip())]


def file_times(paths: Iterable[str]) -> dict[str, int | None]:
    """When each file last changed, in nanoseconds; None where there is no file."""
    return {path: _changed_at(path) for path in paths}


def _changed_at(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except (OSError, ValueError):
        return None


def changed_files(previous: Mapping[str, int | None]) -> dict[str, int | None]:
    """The files whose time differs from the one noted, with their time now. Asked at turn boundaries; no watching."""
    return {path: now for path, now in file_times(sorted(previous)).items() if now != previous[path]}


def limit_lines(text: str, *, limit: int = HEAD_LIMIT) -> str:
    lines = text.splitlines(keepends=True)
    if len(lines) <= limit:
        return text
    more = counted(len(lines) - limit, "more line")
    return "".join(lines[:limit]) + f"[{more}. Ask for a range or a narrower search.]"


# ---------------------------------------------------------------------------------------------------- addresses


class _SameHost(urllib.request.HTTPRedirectHandler):
    """An address the user chose may move within its host; it may not send us to one nobody chose."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        old, new = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        if (old.scheme, old.netloc) != (new.scheme, new.netloc):
            raise urllib.error.URLError("redirected to another host")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _refuse_link_local(connection: http.client.HTTPConnection) -> None:
    """Cloud machines hand out credentials there. Checked on the open socket: a name may resolve differently twice."""
    peer = ipaddress.ip_address(connection.sock.getpeername()[0].partition("%")[0])
    mapped = peer.ipv4_mapped if isinstance(peer, ipaddress.IPv6Address) else None
    if (mapped or peer).is_link_local:
        connection.close()
        raise urllib.error.URLError("link-local address")


class _Plain(http.client.HTTPConnection):
    def connect(self) -> None:
        super().connect()
        _refuse_link_local(self)


class _Secure(http.client.HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        _refuse_link_local(self)


class _Http(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Plain, req)


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Secure, req)


def fetch_text(url: str, timeout: float) -> str:
    """The text at an address, within `timeout` seconds in all, directly: no proxy, no password, no other host."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("only http and https addresses")
    if "@" in parts.netloc:
        raise ValueError("an address must not carry a password")
    deadline = time.monotonic() + timeout
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _SameHost, _Http, _Https)
    data = b""
    with opener.open(url, timeout=timeout) as response:  # The scheme was checked above.
        # A socket's time-out starts again with every byte, and a slow server sends one at a time.
        while len(data) <= FILE_CAP and (chunk := response.read1(65536)):
            data += chunk
            if time.monotonic() > deadline:
                raise TimeoutError("took too long")
    return _decoded(data)


# ---------------------------------------------------------------------------------------------------------- git

# A repository's own settings can name programs to run: no monitor, no hook, no signature check, no submodule.
_GIT = ("git", "--no-optional-locks", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_ASKED: Mapping[str, tuple[str, ...]] = {
    "Branch": ("branch", "--show-current"),
    "Default branch": ("symbolic-ref", "--short", "refs/remotes/origin/HEAD"),
    "User": ("config", "user.name"),
    "Status": ("status", "--short", "--ignore-submodules=dirty"),
    "Recent commits": ("-c", "log.showSignature=false", "log", "--oneline", "-n", "5"),
}


def _git(cwd: Path, words: Sequence[str], timeout: float) -> str:
    done = subprocess.run(  # noqa: S603  # Fixed words; the directory is an argument of run, not of the command.
        [*_GIT, *words], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
    )
    return done.stdout.decode("utf-8", "replace").strip("\n") if done.returncode == 0 else ""


def git_status(cwd: Path, *, timeout: float = 5.0, report: Report = _warn) -> str:
    """Branch, user, status and the last commits, asked for at once; empty outside a repository."""
    if project_root(cwd) is None:
        return ""
    work = {name: (lambda words=words: _git(cwd, words, timeout)) for name, words in _ASKED.items()}
    answers = dict(_together(work, timeout, lambda name, reason: report(f"git: {name}", reason)))
    lines = [f"{name}: {answers[name]}" for name in ("Branch", "Default branch", "User") if answers.get(name)]
    if "Status" in answers:
        lines.append(f"Status:\n{_shortened(answers['Status']) or '(clean)'}")
    if answers.get("Recent commits"):
        lines.append(f"Recent commits:\n{answers['Recent commits']}")
    return "\n".join(["Git, as it was when the session began:", *lines]) if lines else ""


def _shortened(status: str) -> str:
    if len(status) <= STATUS_CAP:
        return status
    whole = status[:STATUS_CAP].rpartition("\n")[0]
    return f"{whole}\n({status.count(chr(10)) - whole.count(chr(10))} more: run git status)"


# ------------------------------------------------------------------------------------------------- surroundings


def facts(cwd: Path, *, today: datetime.date | None = None) -> Facts:
    """`today` is the date to tell; a session that crosses midnight keeps its first one, and its cache."""
    day = today or datetime.date.today()
    return Facts(
        cwd=str(cwd), git=project_root(cwd) is not None, platform=sys.platform, date=day.strftime("%a %b %d %Y")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a session saw when it began. Made once by `look_around`; the world may change, these bytes do not."""

    environment: str
    git: str
    instructions: tuple[tuple[str, str], ...]
    skipped: tuple[tuple[str, str], ...] = ()
    """Sources left out, each with the reason: for people, not for the model."""

    def system(self, static: str) -> tuple[Block, ...]:
        """The system prompt, what all sessions share first, what is this session's last."""
        # File names and commit subjects are anybody's words: even here they stand in a frame.
        git = frame("git-status", self.git) if self.git else ""
        return split_system(static, "\n\n".join(filter(None, (self.environment, git))))

    def enter(self, conversation: Conversation) -> None:
        """The instructions go to the head of the first turn: the system prompt stays what others have cached."""
        for source, text in self.instructions:
            conversation.inject("instructions", f"From {source}:\n\n{text.strip()}")


def look_around(
    cwd: Path,
    *,
    model: str,
    home: Path,
    config_dir: Path,
    extra_paths: Sequence[str] = (),
    urls: Sequence[str] = (),
    fetch: Fetch | None = None,
    timeout: float = 5.0,
    today: datetime.date | None = None,
) -> Surroundings:
    """Looks once, at everything. Keep the result for the session."""
    skipped: list[tuple[str, str]] = []

    def report(source: str, reason: str) -> None:
        skipped.append((source, reason))

    git = git_status(cwd, timeout=timeout, report=report)
    found = instructions(
        cwd,
        home=home,
        config_dir=config_dir,
        extra_paths=extra_paths,
        urls=urls,
        fetch=fetch,
        timeout=timeout,
        report=report,
    )
    environment = environment_block(model, facts(cwd, today=today))
    return Surroundings(environment=environment, git=git, instructions=tuple(found), skipped=tuple(skipped))
