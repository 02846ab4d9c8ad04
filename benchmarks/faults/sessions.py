"""Sessions for the fault campaign, and the checks that all classes of faults share.

A story is a conversation as its client sends it, request by request. Its beginning runs without faults and is saved as
a folder; the later steps are repeated from that folder under each fault. A witness that survives a kill records what
the store acknowledged.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# The generator, the provider's rules and the failing file systems are the tests' own.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from ebbtide import Context, load
from ebbtide.core.errors import EbbtideError, WontFit
from ebbtide.runtime import Ready
from ebbtide.store import DirectoryStore, FileSystem
from ebbtide.store.directory.log import DirectoryLog
from ebbtide.store.directory.verify import verify_log
from runtime.walks import reply
from upstream import signing
from upstream.check import refusals
from upstream.talks import grow

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
BEGAN = 1_750_000_000.0
"""When every story begins, in seconds: the campaign reads no clock."""
PAUSE = 10.0
"""Seconds between two requests."""
SESSION = "s"
KINDS = ("unusable", "lost", "dangling", "invalid", "over", "silent", "hung", "cut")
"""What may go wrong: see the page that the table is on."""
_MOST_EXAMPLES = 5

Body = dict[str, Any]


class NoSync(FileSystem):
    """The real file system without syncing: neither a kill nor an error needs it."""

    def sync(self, fd: int) -> None:
        pass

    def sync_folder(self, fd: int) -> None:
        pass


@dataclass(slots=True)
class Tally:
    """The result of one class."""

    points: int = 0
    """Faults that were injected and happened."""
    requests: int = 0
    """Requests that were prepared during and after them, each one checked."""
    refused: int = 0
    """Those refused with an error message while the fault lasted."""
    reported: int = 0
    """Damaged stores that `verify` reported."""
    bad: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    examples: list[str] = field(default_factory=list)
    note: str = ""

    def count(self, kind: str, where: str, what: object) -> None:
        self.bad[kind] += 1
        if len(self.examples) < _MOST_EXAMPLES:
            self.examples.append(f"{kind}: {where}: {str(what)[:300]}")

    def add(self, other: Tally) -> None:
        self.points += other.points
        self.requests += other.requests
        self.refused += other.refused
        self.reported += other.reported
        self.bad = {kind: self.bad[kind] + other.bad[kind] for kind in KINDS}
        self.examples = [*self.examples, *other.examples][:_MOST_EXAMPLES]
        self.note = self.note or other.note


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    name: str
    wire: str
    window: int
    requests: list[Body]
    responses: list[Body | None]
    """The recorded answer; None if it is made from the next request."""
    start: int
    """Requests before the faults begin."""

    def response(self, at: int, sent: Body) -> Body | None:
        if self.responses[at] is not None or at + 1 >= len(self.requests):
            return self.responses[at]
        return reply(self.wire, self.requests[at], self.requests[at + 1], sent)

    def flaws(self, body: Body) -> set[str]:
        """Return the rules of the provider that a body breaks."""
        found = [*refusals(self.wire, body), *signing.refusals(self.wire, body)]
        return {one.rule for one in found} - {"A63"}  # only the tests check what thinking is bound to


# --- stories ----------------------------------------------------------------------------------------------------------

GENERATED = (
    *(("anthropic", 12_000), ("openai_chat", 12_000), ("openai_responses", 12_000), ("anthropic", 24_000)),
    *(("gemini", 12_000), ("bedrock_converse", 12_000)),
)
"""Wire and window."""
STEPS = 4
"""Requests under faults. At least one of them makes an edit."""


def generated(wire: str, window: int, seed: int) -> Story:
    """Return the first session from this seed on that fits without faults and makes edits in its last steps."""
    for tried in range(seed, seed + 400):
        requests = list(grow(wire, tried, 6))
        story = Story(
            name=f"{wire} {tried}",
            wire=wire,
            window=window,
            requests=requests,
            responses=[None] * len(requests),
            start=len(requests) - STEPS - 2,
        )
        if story.start > 2 and _acts(story):
            return story
    raise AssertionError(f"no session of {wire} acts in {window} tokens")


def recorded(data: Path, most: int) -> list[Story]:
    """Recorded sessions in an order independent of their content, up to the first request that is too large."""
    if not (data / "MANIFEST.csv").exists():
        return []
    with (data / "MANIFEST.csv").open() as manifest:
        rows = [row for row in csv.DictReader(manifest) if row["kind"] == "session"]
    found: list[Story] = []
    for row in sorted(rows, key=lambda row: row["sha256"]):
        story = _recorded(data / row["file"]) if len(found) < most else None
        if story is not None:
            found.append(story)
    return found


_LARGEST = 250_000
"""Characters of a recorded request. A longer one shows no other faults and takes a second to read."""


def _recorded(path: Path) -> Story | None:
    requests: list[Body] = []
    responses: list[Body | None] = []
    wire = ""
    try:
        recording = load(path)
        wire = recording.wire
        for call in recording.uncompacted():
            if len(requests) >= 60 or len(json.dumps(call.request)) > _LARGEST:
                break
            requests.append(dict(call.request))
            responses.append(dict(call.response) if call.response else None)
    except EbbtideError:
        return None
    if len(requests) < STEPS + 3:
        return None
    for window in (16_000, 32_000, 64_000):
        start = len(requests) - STEPS - 2
        name = f"{path.parent.name}/{path.name}"
        story = Story(name=name, wire=wire, window=window, requests=requests, responses=responses, start=start)
        if _acts(story, anywhere=True):
            return story
    return None


def _acts(story: Story, *, anywhere: bool = False) -> bool:
    """Whether the steps under faults make edits, and every request fits without faults."""
    ctx = Context(window=story.window, wire=story.wire, clock=lambda: BEGAN)
    acted = False
    try:
        for at, request in enumerate(story.requests):
            ready = ctx.prepare(request)
            acted = acted or (bool(ready.report.edits) and (anywhere or story.start <= at < len(story.requests) - 2))
            if at + 1 < len(story.requests):
                _tell(story, ready, at)
    except EbbtideError:
        return False
    return acted


def _tell(story: Story, ready: Ready, at: int) -> None:
    response = story.response(at, ready.body)
    if response:
        ready.record({key: value for key, value in response.items() if key != "usage"})


# --- what was acknowledged --------------------------------------------------------------------------------------------


def digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:24]


class Witness(DirectoryStore):
    """A store that records at once what it acknowledged, where a kill cannot destroy it."""

    def __init__(self, root: str | os.PathLike[str], seen: Path, files: FileSystem | None = None) -> None:
        super().__init__(root, fs=files or NoSync())
        self._fd = os.open(seen, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def say(self, **what: object) -> None:
        os.write(self._fd, json.dumps(what).encode() + b"\n")

    def close(self) -> None:
        os.close(self._fd)

    def open(self, session: str, *, project: str = "", now: float) -> DirectoryLog:
        log = super().open(session, project=project, now=now)
        if session != SESSION:
            return log
        commit, put = log.commit, log.save_blob

        def watched_commit(records: Sequence[dict[str, object]], *, at: float, fence: int = 0) -> Any:
            marks = [digest(record) for record in records]
            position = commit(records, at=at, fence=fence)
            self.say(committed=marks)
            return position

        def watched_put(name: str, text: str) -> None:
            put(name, text)
            self.say(put=name, sha=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())

        log.commit, log.save_blob = watched_commit, watched_put  # type: ignore[method-assign]
        return log


@dataclass(slots=True)
class Acknowledged:
    commits: list[list[str]] = field(default_factory=list)
    blobs: dict[str, str] = field(default_factory=dict)
    step: int = 0
    """The last request that was started."""

    @classmethod
    def read(cls, seen: Path) -> Acknowledged:
        found = cls()
        for line in seen.read_bytes().split(b"\n") if seen.exists() else ():
            told = json.loads(line) if line else {}
            if "committed" in told:
                found.commits.append(told["committed"])
            if "put" in told:
                found.blobs[told["put"]] = told["sha"]
            if "step" in told:
                found.step = told["step"]
        return found


# --- places -----------------------------------------------------------------------------------------------------------


class Place:
    """One folder in which a story is repeated. Stubs name paths, so it never moves."""

    def __init__(self, where: Path, story: Story) -> None:
        self.where, self.story = where, story
        self.root, self.seen, self._kept = where / "store", where / "seen", where / "kept"
        where.mkdir(parents=True, exist_ok=True)
        with self.context() as ctx:
            for at in range(story.start):
                self.step(ctx, at)
        shutil.copytree(self.root, self._kept)
        self._seen_then = self.seen.read_bytes()

    def restore(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self._kept, self.root)
        self.seen.write_bytes(self._seen_then)

    def context(self, files: FileSystem | None = None, clock: Callable[[], float] | None = None) -> Opened:
        return Opened(self, files, clock)

    def step(self, ctx: Opened, at: int) -> Ready:
        """One request and its answer."""
        ctx.store.say(step=at)
        ctx.now = BEGAN + PAUSE * at
        ready = ctx.context.prepare(self.story.requests[at])
        _tell(self.story, ready, at)
        return ready

    @property
    def log(self) -> Path:
        return self.root / "projects" / "_" / f"{SESSION}.jsonl"

    def files(self) -> list[Path]:
        return sorted(path for path in self.root.rglob("*") if path.is_file())


class Opened:
    """A context on a place, for a `with`: its witness is closed at the end."""

    def __init__(self, place: Place, files: FileSystem | None, clock: Callable[[], float] | None) -> None:
        self.now = BEGAN
        self.store = Witness(place.root, place.seen, files)
        told: Body = {"window": place.story.window, "wire": place.story.wire, "session": SESSION}
        try:
            self.context = Context(store=self.store, clock=clock or (lambda: self.now), **told)
        except EbbtideError:
            self.store.close()
            raise

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()


# --- the oracle -------------------------------------------------------------------------------------------------------


def named_files(root: Path, body: object) -> Iterator[Path]:
    """Files of the store that a request names."""
    text = json.dumps(body, ensure_ascii=False)
    for found in re.finditer(re.escape(str(root)) + r"/[\w./~-]*[\w~-]", text):
        yield Path(found[0])


def check_ready(tally: Tally, place: Place, at: int, ready: Ready, where: str) -> None:
    """Check that a request may be sent: valid, within its window, and all files that it names exist."""
    story = place.story
    tally.requests += 1
    if worse := story.flaws(ready.body) - story.flaws(story.requests[at]):
        tally.count("invalid", where, sorted(worse))
    if ready.report.tokens_after > story.window:
        tally.count("over", where, f"request {at}: {ready.report.tokens_after} of {story.window}")
    missing = [path for path in named_files(place.root, ready.body) if not path.exists()]
    if missing:
        tally.count("dangling", where, f"request {at} names {missing[0].name}, which is not there")


def check_kept(tally: Tally, place: Place, where: str, *, but: Sequence[str] = ()) -> None:
    """Check that everything acknowledged is still there, in order and with its content."""
    acknowledged = Acknowledged.read(place.seen)
    records = iter([digest(record) for record in place_records(place)])
    for marks in acknowledged.commits:
        gone = [mark for mark in marks if mark not in records]
        if gone:
            tally.count("lost", where, f"{len(gone)} of {len(marks)} records of an acknowledged commit")
            return
    log = DirectoryStore(place.root).peek(SESSION)
    for name, sha in acknowledged.blobs.items():
        if name in but:
            continue
        try:
            text = log.read_blob(name)
        except EbbtideError as error:
            tally.count("lost", where, error)
            continue
        if hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() != sha:
            tally.count("silent", where, f"{name} is read with another content than was stored")


def place_records(place: Place) -> list[dict[str, object]]:
    return DirectoryStore(place.root).peek(SESSION).read().records


def check_sound(tally: Tally, place: Place, where: str) -> None:
    """Check that `verify` passes: the fault did no damage."""
    found = verify_log(place.log)
    if not found.ok:
        what = [*(f"{one.kind} line {one.line}" for one in found.damage), *found.problems]
        tally.count("lost", where, f"verify: {what[:3]}")


def go_on(tally: Tally, place: Place, at: int, where: str, opened: Opened | None = None) -> None:
    """Check that the session is usable: the interrupted request can be sent, and the next one."""
    ctx = opened
    try:
        ctx = ctx or place.context()
        for step in range(at, min(at + 2, len(place.story.requests))):
            check_ready(tally, place, step, place.step(ctx, step), f"{where}, afterwards")
        ids = [edit.id for edit in ctx.context.edits()]
        if len(ids) != len(set(ids)):
            tally.count("unusable", where, "an edit is recorded twice")
    except (EbbtideError, OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        tally.count("unusable", where, f"{type(error).__name__}: {error}")
    finally:
        if opened is None and ctx is not None:
            ctx.store.close()


def under_fault(tally: Tally, place: Place, ctx: Opened, at: int, where: str) -> bool:
    """Send one request while the disk fails: it is valid, or refused with an error message."""
    try:
        check_ready(tally, place, at, place.step(ctx, at), where)
    except EbbtideError as error:
        tally.refused += 1
        if not str(error):
            tally.count("unusable", where, f"{type(error).__name__} without a word")
        return not isinstance(error, WontFit)
    except OSError as error:
        tally.count("unusable", where, f"raw {type(error).__name__}: {error}")
        return False
    return True
