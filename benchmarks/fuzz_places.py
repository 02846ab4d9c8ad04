"""Fuzz targets that read files: recordings, a store, settings; and the recall calls of a model."""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.fuzz_targets import ROOT, Check, Target, pure, recording, refusing

from ebbtide.audit.history import build_history
from ebbtide.config import load_settings
from ebbtide.core.errors import EbbtideError
from ebbtide.fronts.mcp.server import RecallServer
from ebbtide.runtime import Context
from ebbtide.store import open_store
from ebbtide.store.directory.verify import verify_log
from ebbtide.store.log_lines import Position, scan, scan_for_resume
from ebbtide.store.search.words import parse_query
from formats.test_codex import Rollout
from formats.test_opencode import TALK, write_store
from fronts.ui.inspector import BilledAgent

DATA = ROOT.parent / "shared" / "data"
_LONGEST_SEED = 24 << 10


# --- recordings -----------------------------------------------------------------------------------------------------


def _beginning(path: Path) -> bytes:
    """Return the first lines of a recording, no more than a seed should have."""
    data = path.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    if len(data) <= _LONGEST_SEED or not data[:_LONGEST_SEED].count(b"\n"):
        return data
    return data[:_LONGEST_SEED].rpartition(b"\n")[0]


def _recorded(folder: str, made: Callable[[], list[bytes]]) -> Callable[[], list[bytes]]:
    """Return recordings of real agents if available, and generated ones."""

    def seeds() -> list[bytes]:
        files = sorted((DATA / folder).glob("*"))[:8] if folder else []
        real = [data for data in map(_beginning, files) if len(data) <= 4 * _LONGEST_SEED]
        return [*real, *made()]

    return seeds


def _claude_rows() -> list[bytes]:
    rows = [
        {
            "type": "user",
            "uuid": "a",
            "parentUuid": None,
            "sessionId": "s",
            "message": {"role": "user", "content": "go"},
        },
        {
            "type": "assistant",
            "uuid": "b",
            "parentUuid": "a",
            "message": {
                "id": "m1",
                "model": "claude-x",
                "role": "assistant",
                "usage": {"input_tokens": 4, "output_tokens": 2},
                "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "x"}}],
            },
        },
        {
            "type": "user",
            "uuid": "c",
            "parentUuid": "b",
            "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "done"}]},
        },
        {"type": "system", "subtype": "compact_boundary", "uuid": "d", "parentUuid": None, "logicalParentUuid": "c"},
        {
            "type": "user",
            "uuid": "e",
            "parentUuid": "d",
            "isCompactSummary": True,
            "message": {"role": "user", "content": "so far"},
        },
    ]
    return [b"\n".join(json.dumps(row).encode() for row in rows)]


def _codex_rows() -> list[bytes]:
    rollout = (
        Rollout(Path("unused"))
        .message("user", "go")
        .call("c1")
        .output("c1")
        .count()
        .message("assistant", "done")
        .count()
    )
    return [b"\n".join(json.dumps(row).encode() for row in rollout.rows)]


def _opencode_export() -> list[bytes]:
    return [json.dumps({"info": {"id": "ses_1"}, "messages": list(TALK)}).encode()]


def _chat_list() -> list[bytes]:
    calls = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    talk = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
        {"role": "assistant", "content": "end"},
    ]
    return [
        json.dumps(talk).encode(),
        b"\n".join(json.dumps(one).encode() for one in talk),
        json.dumps([{"traj": talk, "id": 1}]).encode(),
    ]


def _trajectory() -> list[bytes]:
    talk = [
        {"role": "user", "content": "go", "agent": "main"},
        {"role": "assistant", "content": "end", "agent": "main"},
    ]
    config = json.dumps({"agent": {"model": {"name": "gpt-x"}}})
    steps = [{"action": "ls", "observation": "x", "response": "end"}]
    return [json.dumps({"history": talk, "trajectory": steps, "replay_config": config}).encode()]


def _pi_rows() -> list[bytes]:
    rows = [
        {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/x"},
        {
            "type": "message",
            "id": "a",
            "parentId": None,
            "message": {"role": "user", "content": [{"type": "text", "text": "go"}]},
        },
    ]
    return [b"\n".join(json.dumps(row).encode() for row in rows)]


@contextmanager
def _opencode_folder() -> Iterator[Check]:
    """Read the export, and its storage directory with the input as one of its files."""
    from ebbtide.formats import load  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        root = write_store(Path(folder), *TALK)
        files = sorted(root.rglob("*.json"))

        def check(data: bytes) -> None:
            refusing(recording)(data)
            file = files[len(data) % len(files)]
            before = file.read_bytes()
            file.write_bytes(data)
            try:
                list(load(root).requests())
            finally:
                file.write_bytes(before)

        yield refusing(check)


# --- a store ----------------------------------------------------------------------------------------------------------


def stored_session(root: Path) -> Path:
    """Create a session with edits and a compaction. Return its log."""
    talker = BilledAgent(root, session="one", project="p", window=9_000).steps(14, lines=60)
    talker.context.compact()
    talker.context.prepare({"model": "claude-opus-4-5", "max_tokens": 100, "messages": talker.messages})
    talker.context.recall("tide")
    return next(root.rglob("one*.jsonl"))


def _own(end: str) -> Callable[[], list[bytes]]:
    def seeds() -> list[bytes]:
        with tempfile.TemporaryDirectory() as folder:
            log = stored_session(Path(folder))
            # A long log gets a checkpoint next to it.
            context = Context(store=folder, session="one", project="p", window=9_000, clock=lambda: 1e9)
            context.edits  # noqa: B018
            found = [log] if end == ".jsonl" else sorted(Path(folder).rglob(f"*{end}"))
            data = [one.read_bytes() for one in found]
            if end == ".jsonl":
                data += [b"\n".join(one.split(b"\n")[:9]) + b"\n" for one in data]
            return data

    return seeds


def _lines(data: bytes) -> None:
    """Check that both ways of reading a log find the same damage and stop at the same place."""
    half = len(data) // 3
    found = scan([data[:half], data[half:]], Position())
    taken: list[object] = []
    seen = scan_for_resume([data], Position(), taken.extend)
    assert (found.position, found.damage, found.blob_sums) == (seen.position, seen.damage, seen.blob_sums), (
        "two readings of one log differ"
    )
    assert len(taken) == len(found.records), "two readings of one log differ"


@contextmanager
def _placed(end: str) -> Iterator[Check]:
    """Put the input in place of one file of a store, then use everything that opens a store."""
    with tempfile.TemporaryDirectory() as folder:
        whole, root = Path(folder, "whole"), Path(folder, "root")
        stored_session(whole)
        if end == ".resume":
            _remember(whole)
        name = next(one for one in whole.rglob(f"*{end}")).relative_to(whole)

        def check(data: bytes) -> None:
            if end == ".jsonl":
                _lines(data)
                if zlib.crc32(data) % 8:  # the store behind it takes fifty times as long
                    return
            shutil.rmtree(root, ignore_errors=True)
            shutil.copytree(whole, root)
            (root / name).write_bytes(data)
            _opened(root)

        yield refusing(check)


def _remember(root: Path) -> None:
    log = open_store(root).open("one", project="p", now=1e9)
    reading = log.read()
    log.write_checkpoint(reading.records[:20], reading.position, "fuzzed")


def _opened(root: Path) -> None:
    """Run all steps: each may be refused, none may fail."""
    store = open_store(root, durable=False)
    body = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hello"}]}
    context = Context(store=store, session="one", project="p", window=9_000, clock=lambda: 2e9)
    acts: tuple[Callable[[], object], ...] = (
        store.list_sessions,
        lambda: store.peek("one", project="p").resume(lambda _: None, "fuzzed"),
        lambda: build_history(store.peek("one", project="p").read().records, session="one"),
        lambda: context.prepare(body),
        lambda: context.recall("tide gauge"),
        context.undo,
        lambda: verify_log(next(root.rglob("one*.jsonl"))),
    )
    for act in acts:
        with suppress(EbbtideError):
            act()


@contextmanager
def _indexed() -> Iterator[Check]:
    """Check that a damaged index is rebuilt, and that any query works."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        stored_session(root)
        index = next(root.rglob("index.sqlite"))
        context = Context(store=root, session="one", project="p", clock=lambda: 2e9)

        def check(data: bytes) -> None:
            query = data[:400].decode("utf-8", "replace")
            parse_query(query)
            with suppress(EbbtideError):
                context.recall(query)
            if data.startswith(b"SQLite"):
                index.unlink(missing_ok=True)
                index.write_bytes(data)
                with suppress(EbbtideError):
                    Context(store=root, session="one", project="p", clock=lambda: 2e9).recall("tide")

        yield check


# --- settings ---------------------------------------------------------------------------------------------------------

_SETTINGS = (
    b'preset = "default"\nwindow = 20000\noverflow = "fit"\n[levels]\nauto = 0.8\n[windows]\n"claude-*" = 200000\n',
    b"[passes.evict]\nabove = 3\n",
    b'store = "/x"\ndurable = false\nttl = 300\n[proxy]\nport = 1\ntoken = "aaaaaaaaaaaaaaaaaaaa"\n',
    b'[proxy.upstreams]\na = "https://a.example"\n',
    b'[tool.ebbtide]\npreset = "claude_code"\n',
)


@contextmanager
def _config() -> Iterator[Check]:
    """Check that settings are read or refused. A repository's file must not say where things are written or sent."""
    with tempfile.TemporaryDirectory() as folder:
        home, project = Path(folder, "home"), Path(folder, "project")
        user = home / ".config" / "ebbtide" / "config.toml"
        user.parent.mkdir(parents=True)
        project.mkdir()

        def load(data: bytes, path: Path) -> None:
            path.write_bytes(data)
            try:
                told = load_settings(environ={}, cwd=project, home=home, platform="linux")
                if path.parent == project:
                    assert told.store == str(home / ".local/share/ebbtide"), "a project said where things are kept"
                    assert not told.proxy, "a project said where requests go"
                told.policy()
                told.window_for("claude-x")
            except EbbtideError:
                return
            finally:
                path.unlink()

        def check(data: bytes) -> None:
            for path in (user, project / "ebbtide.toml", project / "pyproject.toml"):
                load(data, path)

        yield check


# --- recall over MCP --------------------------------------------------------------------------------------------------


@contextmanager
def _mcp() -> Iterator[Check]:
    """Check that any call is answered with text."""
    with tempfile.TemporaryDirectory() as folder:
        stored_session(Path(folder))
        desk = RecallServer((open_store(folder),), frozenset(("p",)), "one")

        def check(data: bytes) -> None:
            try:
                told = json.loads(data)
            except (ValueError, RecursionError):
                return
            if not isinstance(told, dict) or not isinstance(told.get("arguments"), dict):
                return
            text, _ = desk.answer(str(told.get("name")), told["arguments"])
            assert isinstance(text, str)
            text.encode("utf-8", "surrogatepass")

        yield check


def _calls() -> list[bytes]:
    return [
        b'{"name":"ebb_recall","arguments":{"query":"tide gauge"}}',
        b'{"name":"ebb_read","arguments":{"handle":"x","start":0,"end":10}}',
        b'{"name":"ebb_read","arguments":{"handle":"m1","start":"1e3"}}',
    ]


def targets() -> list[Target]:
    return [
        pure("format-claude_code", "Claude Code logs", _recorded("claude-code-log", _claude_rows), refusing(recording)),
        pure("format-codex", "Codex rollouts", _recorded("entityprocess-agentv", _codex_rows), refusing(recording)),
        pure("format-pi", "pi sessions", _recorded("badlogic-pi-mono", _pi_rows), refusing(recording)),
        pure("format-openai_chat", "lists of chat messages", _recorded("", _chat_list), refusing(recording)),
        pure(
            "format-swe_agent", "SWE-agent trajectories", _recorded("swe-agent-demos", _trajectory), refusing(recording)
        ),
        pure("format-own", "our own logs, as recordings", _own(".jsonl"), refusing(recording)),
        Target(
            name="format-opencode", reads="OpenCode exports and folders", seeds=_opencode_export, check=_opencode_folder
        ),
        Target(
            name="store-log",
            reads="a session's log in the store",
            seeds=_own(".jsonl"),
            check=lambda: _placed(".jsonl"),
        ),
        Target(
            name="store-resume", reads="a checkpoint beside a log", seeds=_checkpoints, check=lambda: _placed(".resume")
        ),
        Target(
            name="store-index",
            reads="the list of sessions",
            seeds=_own("sessions-index.json"),
            check=lambda: _placed("sessions-index.json"),
        ),
        Target(
            name="search",
            reads="the search index, and queries",
            seeds=lambda: [*_own("index.sqlite")(), b"tide gauge", '"a b" OR c* 修'.encode()],
            check=_indexed,
        ),
        Target(
            name="config",
            reads="settings files",
            seeds=lambda: list(_SETTINGS),
            check=_config,
            words=(b"[", b"]", b"=", b'"""', b"1e999", b"inf"),
        ),
        Target(name="mcp", reads="calls of ebb mcp", seeds=_calls, check=_mcp),
    ]


def _checkpoints() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        stored_session(root)
        _remember(root)
        return [one.read_bytes() for one in root.rglob("*.resume")]
