"""Record a digest of what Ebbtide sends, edits and logs for recorded sessions, to compare two versions.

    python -m scripts.fingerprint --data FOLDER --out new.txt
    python -m scripts.fingerprint --compare old.txt new.txt

Only public names of `ebbtide` are used, so the same script runs against any version: start it with the Python that has
the version installed. Each session runs under every preset in two windows, and the two runs differ on purpose:

200,000  requests as the client would have sent them without its own compactions, as dicts; no cache breakpoints added
64,000   requests as the client sent them, as JSON bytes; cache breakpoints added; the context is closed and opened
         again after half of the requests, and the newest batch of edits is undone and redone after three quarters

At the end of each run the conversation is compacted by hand, searched, undone, and its last request prepared again.
The clock follows the recorded times. The provider's bill is made up from the bytes that were sent, at the recorded
number of tokens per byte. A summary is made from the last texts of the request that asks for it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import ebbtide

WINDOWS = (200_000, 64_000)
SAMPLE = 12
REQUESTS = 120
SUFFIXES = {".jsonl", ".json", ".traj", ".txt"}
STORE = "/proc/self/cwd/store"
"""The same text in every process, whichever folder it runs in: stubs name files of the store by their full path."""
COLUMNS = ("requests", "edit_count", "bodies", "edits", "records", "questions", "recall")

SAMPLING = f"""\
How sessions are chosen: all files below --data that Ebbtide can read are grouped by wire (anthropic, openai_chat,
openai_responses) and sorted by size; --sample N takes N // 3 of each wire, at even steps from small to large and
always the largest (default {SAMPLE}; 0 takes all). Of each session the first --requests are run (default {REQUESTS};
0 runs all). --sample 6 --requests 40 is a quick check."""

Row = tuple[str, ...]


@dataclass
class Digest:
    """A running digest of values. It can keep the values too, for a diff."""

    path: Path | None = None
    _hash: Any = field(default_factory=hashlib.sha256)

    def add(self, value: object) -> None:
        line = value if isinstance(value, bytes) else _json(value)
        self._hash.update(len(line).to_bytes(8, "big") + line)
        if self.path is not None:
            with self.path.open("ab") as file:
                file.write(line + b"\n")

    def __str__(self) -> str:
        return str(self._hash.hexdigest()[:16])


class Run:
    """One session under one policy in one window."""

    def __init__(self, recording: ebbtide.Recording, policy: str, window: int, keep: Path | None) -> None:
        self.recording, self.policy, self.window = recording, policy, window
        self.is_small = window == min(WINDOWS)
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
        names = ("bodies", "edits", "records", "questions", "recall")
        self.digests = {name: Digest(keep / f"{name}.jsonl" if keep else None) for name in names}
        self.now = 0.0
        self.sent = b""
        self.requests = self.edit_count = 0

    def row(self, limit: int) -> tuple[str, ...]:
        calls = self.recording.requests() if self.is_small else self.recording.uncompacted()
        chosen = list(islice(calls, limit or None))
        episodes: dict[str, list[Any]] = {}
        for call in chosen:
            episodes.setdefault(call.episode, []).append(call)
        for number, conversation in enumerate(episodes.values()):
            self._run(f"s{number}", conversation)
        self._read_logs()
        return (str(self.requests), str(self.edit_count), *(str(digest) for digest in self.digests.values()))

    def _run(self, session: str, calls: list[Any]) -> None:
        context = self._open(session, calls[0].model)
        self.sent = b""
        for number, call in enumerate(calls):
            self.now = max(self.now + 15.0, call.at or 0.0)
            if self.is_small and number == len(calls) // 2:
                context = self._open(session, calls[0].model)
            if self.is_small and number == len(calls) * 3 // 4:
                self._try(lambda context=context: _ids(context.undo()) + _ids(context.redo()))
            self._send(context, call)
        self._finish(context, calls[-1])

    def _open(self, session: str, model: str) -> ebbtide.Context:
        return ebbtide.Context(
            model=model,
            window=self.window,
            policy=self.policy,
            store=STORE,
            durable=False,
            session=session,
            wire=self.recording.wire,
            marks=self.is_small,
            summarizer=self._summarize,
            clock=lambda: self.now,
        )

    def _send(self, context: ebbtide.Context, call: Any) -> None:
        self.requests += 1
        raw = self._body(call)
        try:
            body = context.prepare(raw).body
        except ebbtide.EbbtideError as error:
            self.digests["bodies"].add(type(error).__name__)
            return
        sent = body if isinstance(body, bytes) else _json(body)
        self.digests["bodies"].add(sent)
        if call.response is not None:
            context.record(self._response(call, sent, len(raw) if isinstance(raw, bytes) else len(_json(raw))))
        self.sent = sent

    def _body(self, call: Any) -> Any:
        body = {**call.request, "model": call.model or "unknown"}
        return _json(body) if self.is_small else body

    def _response(self, call: Any, sent: bytes, raw_length: int) -> dict[str, Any]:
        """The recorded answer with a bill for what was sent."""
        recorded = call.usage
        paid = recorded.input + recorded.cache_read + recorded.cache_write if recorded else raw_length / 4
        tokens = round(len(sent) * min(0.4, max(0.2, paid / max(1, raw_length))))
        read = tokens * _common_prefix(self.sent, sent) // max(1, len(sent))
        output = recorded.output if recorded else 50
        if self.recording.wire == "anthropic":
            usage = {"input_tokens": 0, "cache_read_input_tokens": read, "cache_creation_input_tokens": tokens - read}
            return {**call.response, "usage": {**usage, "output_tokens": output}}
        if self.recording.wire == "openai_chat":
            details = {"prompt_tokens_details": {"cached_tokens": read}}
            usage = {"prompt_tokens": tokens, "completion_tokens": output, **details}
            return {"choices": [{"message": call.response}], "usage": usage}
        details = {"input_tokens_details": {"cached_tokens": read}}
        return {**call.response, "usage": {"input_tokens": tokens, "output_tokens": output, **details}}

    def _finish(self, context: ebbtide.Context, call: Any) -> None:
        """Compact by hand, search removed text, undo, and prepare the last request again after each change."""
        self.now += 15.0
        self._try(lambda: _ids(context.compact(focus="the names of files").edits))
        self._send(context, call)
        text = next((text for text in _texts(call.request) if len(text) > 20), "error")
        for query in (" ".join(text.split()[:6]), "error file"):
            self._try(lambda query=query: [(hit.handle, hit.start, hit.snippet) for hit in context.recall(query)])
        saved = [record["name"] for _, record in _records() if record.get("store") == "blob"]
        for name in saved[:1] + saved[-1:]:
            self._try(lambda name=name: context.read(name).text)
        self._try(lambda: _ids(context.undo()))
        self._send(context, call)

    def _try(self, work: Callable[[], object]) -> None:
        """Add what a call returns to the digest of recall, or the kind of its error: messages may be reworded."""
        try:
            found = work()
        except ebbtide.EbbtideError as error:
            found = type(error).__name__
        self.digests["recall"].add(found)

    def _summarize(self, body: Mapping[str, Any]) -> str:
        self.digests["questions"].add(body)
        return "\n".join(text[:300] for text in list(_texts(body))[-21:-1]) or "Nothing was said."

    def _read_logs(self) -> None:
        for line, record in _records():
            self.digests["records"].add(line)
            for edit in _edits(record):
                self.edit_count += 1
                self.digests["edits"].add(edit)


def _records() -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The lines of all logs in the store, as they are on disk and as they are read."""
    for path in sorted(Path(STORE).rglob("*.jsonl")):
        yield from ((line, json.loads(line)) for line in path.read_bytes().splitlines())


def _edits(record: Mapping[str, Any]) -> Iterator[object]:
    if record.get("type") == "ebb":
        edits = record.get("edits")
        yield from edits if isinstance(edits, list) else ()
        if "edit" in record:
            yield record["edit"]


def _ids(edits: Iterable[ebbtide.Edit]) -> list[str]:
    return [edit.id for edit in edits]


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, default=list).encode("utf-8", "surrogatepass")


def _texts(value: object) -> Iterator[str]:
    """All values of `text` keys, and plain string contents, in the order of the body."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            if isinstance(part, str) and key in ("text", "content"):
                yield part
            else:
                yield from _texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)


def _common_prefix(old: bytes, new: bytes) -> int:
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


# --- sessions and processes -------------------------------------------------------------------------------------------


def sessions(data: Path) -> dict[str, list[str]]:
    """Names of all readable sessions by wire, from small to large."""
    by_wire: dict[str, list[tuple[int, str]]] = {}
    for path in sorted(data.rglob("*")):
        if not path.is_file() or not SUFFIXES & set(path.suffixes[-2:]):
            continue
        try:
            recording = ebbtide.load(path)
        except (ebbtide.EbbtideError, OSError, UnicodeError):
            continue
        by_wire.setdefault(recording.wire, []).append((path.stat().st_size, str(path.relative_to(data))))
    return {wire: [name for _, name in sorted(found)] for wire, found in sorted(by_wire.items())}


def sample(names: list[str], count: int) -> list[str]:
    """Choose this many names at even steps, always with the last one."""
    count = min(count, len(names)) if count else len(names)
    return [names[(number + 1) * len(names) // count - 1] for number in range(count)]


def fingerprint(name: str, policy: str, window: int, given: argparse.Namespace) -> Row:
    """Compute one row. Each run has its own folder as working directory: see STORE."""
    home = tempfile.mkdtemp(prefix="ebbtide-fingerprint-")
    os.chdir(home)
    try:
        keep = given.keep / f"{name.replace('/', '_')}.{policy}.{window}" if given.keep else None
        recording = ebbtide.load(given.data / name)
        return (name, policy, str(window), *Run(recording, policy, window, keep).row(given.requests))
    finally:
        os.chdir("/")
        shutil.rmtree(home, ignore_errors=True)


def record(given: argparse.Namespace) -> None:
    for key in [key for key in os.environ if key.startswith("EBB_")]:
        del os.environ[key]
    by_wire = sessions(given.data)
    names = [name for found in by_wire.values() for name in sample(found, -(-given.sample // max(1, len(by_wire))))]
    names.sort(key=lambda name: -(given.data / name).stat().st_size)
    jobs = [(name, policy, window) for name in names for policy in ebbtide.PRESETS for window in WINDOWS]
    jobs = [job for job in jobs if given.only in " ".join(map(str, job))]
    print(f"{len(jobs)} runs of {len(names)} sessions with {Path(ebbtide.__file__).parent}", file=sys.stderr)
    rows: list[Row] = []
    began = time.monotonic()
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(fingerprint, *job, given) for job in jobs]):
            rows.append(done.result())
            seconds = time.monotonic() - began
            print(f"\r{len(rows)} of {len(jobs)} runs, {seconds:.0f} s ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    lines = ["# session policy window " + " ".join(COLUMNS), *sorted(" ".join(row) for row in rows)]
    given.out.write_text("\n".join(lines) + "\n", "utf-8")


def compare(old: Path, new: Path) -> int:
    """Print the rows that differ and in which columns. Return the exit code."""
    before, after = _rows(old), _rows(new)
    differing = 0
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) == after.get(key):
            continue
        differing += 1
        if key not in before or key not in after:
            print(f"{' '.join(key)}: only in {new if key in after else old}")
            continue
        pairs = zip(COLUMNS, before[key], after[key], strict=True)
        print(f"{' '.join(key)}: " + ", ".join(f"{name} {a} -> {b}" for name, a, b in pairs if a != b))
    print(f"{differing} of {len(before.keys() | after.keys())} rows differ")
    return 1 if differing or not before else 0


def _rows(path: Path) -> dict[Row, Row]:
    lines = (line.rsplit(" ", len(COLUMNS) + 2) for line in path.read_text("utf-8").splitlines() if line[0] != "#")
    return {tuple(parts[:3]): tuple(parts[3:]) for parts in lines}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=SAMPLING, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=lambda text: Path(text).resolve(), help="folder with recorded sessions")
    parser.add_argument("--out", type=lambda text: Path(text).resolve(), help="file to write")
    parser.add_argument("--sample", type=int, default=SAMPLE, help="how many sessions; 0 for all")
    parser.add_argument("--requests", type=int, default=REQUESTS, help="how many requests of each; 0 for all")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--only", default="", help="only rows with this text in 'session policy window'")
    parser.add_argument(
        "--keep", type=lambda text: Path(text).resolve(), help="write all digested values to this folder, to diff them"
    )
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("OLD", "NEW"), help="compare two files instead")
    given = parser.parse_args()
    if given.compare:
        return compare(*given.compare)
    if not given.data or not given.out:
        parser.error("give --data and --out, or --compare")
    record(given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
