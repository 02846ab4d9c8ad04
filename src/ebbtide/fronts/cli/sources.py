"""Reads what a command is given: a request, a recorded session, or a session of the store, recognised by content.

A session is found by its id, by the start of its id, or as `last`: first in the store, then among Claude Code's.
Nothing is written for bad input, and every error says where in the document it is.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import shlex
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ebbtide import example, formats
from ebbtide.audit.history import History, build_history
from ebbtide.config import Settings, claude_directory
from ebbtide.core.errors import BadRequest
from ebbtide.display import format_bytes, one_line
from ebbtide.formats import RecordedCall, Recording, load
from ebbtide.formats.claude_folder import NEWEST, find_claude_session, list_claude_sessions, matching_claude_files
from ebbtide.formats.session_file import read_file
from ebbtide.fronts.cli.parser import resolve_settings
from ebbtide.replay.simulate import simulate
from ebbtide.runtime import fit
from ebbtide.runtime.report import ReportBasis
from ebbtide.screen import notify, show_progress
from ebbtide.store import LogReader, Position, Record, SessionInfo, Store, open_store, show_store
from ebbtide.store.log_lines import read_header, scan
from ebbtide.wire.body import read_body

_GZIP = b"\x1f\x8b"
_BODIES = ("request", "openai-chat")
"""Formats in which a single object is a request body."""
STDIN = "-"
_LISTED = 8  # sessions that an error message lists


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    name: str
    data: bytes
    recording: Recording | None
    """None if the data is one request body."""
    calls: tuple[RecordedCall, ...] = ()
    """The calls of the recording as the client made them."""
    model: str = ""
    """The model of the request or of the last call."""


def resolve_target(args: argparse.Namespace) -> str:
    """The file or session that the command line means: the example, a session of Claude Code, or the name given."""
    options = vars(args)
    target: str = next((options[name] for name in ("target", "file") if options.get(name) is not None), NEWEST)
    if not target:
        raise BadRequest("the name is empty: give a file or a session")
    if options.get("example") and options.get("claude"):
        raise BadRequest("give either --example or --claude, not both")
    if options.get("example"):
        return str(example.path())
    if not options.get("claude"):
        return target
    return str(find_claude_session(claude_directory(), NEWEST if target == STDIN else target))


def read_input(file: str, max_bytes: int) -> InputFile:
    """Read a file or stdin. A request body must be valid; damaged rows of a recorded session are skipped."""
    if file != STDIN and os.path.isdir(file):
        return _recorded_session(file, b"", load(file))
    return _recognise("stdin" if file == STDIN else file, _read(file, max_bytes))


def read_input_or_history(
    target: str, settings: Settings, max_bytes: int, project: str | None = None
) -> InputFile | History:
    """Read a file, or the history of a session: of a log file, or of the store if there is no such file."""
    if target != STDIN and not os.path.exists(target):
        match = find_session_or_file(settings.store, target, project)
        if not isinstance(match, str):
            info, log = match
            return build_history(read_records(info, log), session=info.session)
        target = match
    if target == STDIN or os.path.isdir(target):
        return read_input(target, max_bytes)
    raw = _read(target, max_bytes)  # once: a pipe cannot be read again
    header = read_header(raw[: 1 << 16])
    if header is None:
        return _recognise(target, raw)
    return build_history(scan([raw], Position()).records, session=str(header.get("sessionId")), name=target)


def load_histories(args: argparse.Namespace) -> tuple[History, ...]:
    """The edits of the session that the command line means. A recording is replayed and a request fitted, in memory."""
    settings = resolve_settings(args)
    source = read_input_or_history(resolve_target(args), settings, args.max_bytes, vars(args).get("project"))
    if isinstance(source, History):
        return (source,)
    if source.recording is None:
        return (_fit(source, settings, args.wire),)
    return _replay(source, source.recording, settings)


def find_session(args: argparse.Namespace, name: str) -> tuple[Store, SessionInfo, LogReader]:
    """Find a session in the store. If two projects have one of that name, --project must say which."""
    root = resolve_settings(args).store
    store = open_store(root)
    info = _single_match(_list_sessions(store, args.project), root, name)
    return store, info, store.peek(info.session, project=info.project)


def find_session_or_file(root: str, name: str, project: str | None = None) -> tuple[SessionInfo, LogReader] | str:
    """Find a session in the store. If there is none and Claude Code has one, return the path of its file."""
    store = open_store(root)
    sessions = _list_sessions(store, project)
    if not _matches(sessions, name) and (path := _claude_file(name)):
        notify(f"{path.stem} is a session of Claude Code")
        return str(path)
    info = _single_match(sessions, root, name, or_file=True)
    return info, store.peek(info.session, project=info.project)


def _claude_file(name: str) -> Path | None:
    folder = claude_directory()
    matches = list_claude_sessions(folder, limit=1) if name == NEWEST else matching_claude_files(folder, name)
    return find_claude_session(folder, name) if matches else None


def repeat_options(args: argparse.Namespace) -> str:
    """The options that a suggested command needs to look in the same place."""
    options = vars(args)
    given = {name: show_store(options[name]) for name in ("project", "store") if options.get(name)}
    return "".join(f" --{name} {shlex.quote(value)}" for name, value in given.items())


def read_records(info: SessionInfo, log: LogReader) -> list[Record]:
    """Read the log. Another program's file may lie elsewhere than its session and project say: then use its path."""
    records = log.read().records
    if records or not info.path:
        return records
    return scan([Path(info.path).read_bytes()], Position()).records


def _list_sessions(store: Store, project: str | None) -> list[SessionInfo]:
    return [info for info in store.list_sessions() if project is None or info.project == project]


def _matches(sessions: Sequence[SessionInfo], name: str) -> list[SessionInfo]:
    if name == NEWEST:
        return list(sessions[:1])
    exact = [info for info in sessions if info.session == name]
    return exact or [info for info in sessions if name and info.session.startswith(name)]


def _single_match(sessions: Sequence[SessionInfo], root: str, name: str, *, or_file: bool = False) -> SessionInfo:
    matches, root = _matches(sessions, name), show_store(root)
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = [f"{one_line(info.session, 60)} of {one_line(info.project, 60) or 'no project'}" for info in matches]
        raise BadRequest(
            f"{name!r} matches {len(matches)} sessions: {'; '.join(names)}. Give more of the id, or --project"
        )
    if sessions:
        newest = ", ".join(one_line(info.session, 60) for info in sessions[:_LISTED])
        missing = "no file and no session" if or_file else "no session"
        raise BadRequest(f"{name!r} is {missing} in {root}; the newest are {newest}")
    problem = f"there are no sessions in {root} yet"
    if or_file and name != NEWEST:
        problem = f"{name!r} is not a file, and {problem}"
    raise BadRequest(
        f"{problem}. 'ebb run' and 'ebb chat' create sessions; 'ebb sessions --claude' lists those of Claude Code"
    )


def _fit(source: InputFile, settings: Settings, wire: str | None) -> History:
    """Fit one request as `ebb fit` does."""
    window = settings.window_for(source.model)
    behind = fit(source.data, window=window, policy=settings.policy(), wire=wire).report.behind
    records = behind.log.read().records if isinstance(behind, ReportBasis) else ()
    return build_history(records, session="fit", name=source.name, stored=False)


def _replay(source: InputFile, recording: Recording, settings: Settings) -> tuple[History, ...]:
    """Replay each conversation of a recording under the policy."""
    episodes: dict[str, list[RecordedCall]] = {}
    for call in source.calls:
        episodes.setdefault(call.episode, []).append(call)
    histories = (
        simulate(
            calls,
            watch=partial(show_progress, label=f"replaying {os.path.basename(source.name)}", total=len(calls)),
            name=episode or source.name,
            wire=recording.wire,
            format=recording.format,
            policy=settings.policy(),
            window=settings.window_for(calls[0].model),
        )[0]
        for episode, calls in episodes.items()
    )
    return tuple(replace(history, name=source.name) for history in histories)


def _recognise(name: str, raw: bytes) -> InputFile:
    try:
        tree = read_body(raw).tree
        request_error = BadRequest(f"{name}: messages.0.role: its messages have no role")
        if _is_request(tree):
            return InputFile(name=name, data=raw, recording=None, model=str(tree.get("model") or ""))
    except BadRequest as error:
        request_error = BadRequest(f"{name}: {error}")
    # The request's error fits a single object; the session reader's error fits lines.
    is_single_object = raw.lstrip()[:1] == b"{" and b"\n{" not in raw
    try:
        recording = formats.read(name, raw)
    except BadRequest as error:
        raise (request_error if is_single_object else error) from None
    if is_single_object and recording.format in _BODIES:
        # Session readers skip what they cannot read; a request to a provider must not lose anything.
        raise request_error
    return _recorded_session(name, raw, recording)


def _is_request(tree: dict[str, object]) -> bool:
    """Look at the first message: a recorded session may have a list of messages, too."""
    messages = tree.get("messages")
    if not isinstance(messages, list) or not messages:
        return True
    return not isinstance(messages[0], dict) or "role" in messages[0] or "info" not in messages[0]


def _recorded_session(name: str, raw: bytes, recording: Recording) -> InputFile:
    problems = recording.problems
    if problems:
        others = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        notify(f"{name}: row {problems[0].row}: {problems[0].reason}{others}; the other rows were read")
    calls = tuple(recording.requests())
    if not calls:
        raise BadRequest(f"{name} is a session without a model call")
    return InputFile(name=name, data=raw, recording=recording, calls=calls, model=calls[-1].model)


def _read(file: str, max_bytes: int) -> bytes:
    if file == STDIN:
        name, raw = "stdin", _read_stdin(max_bytes + 1)
    else:
        name, raw = file, read_file(file, max_bytes + 1)
    if raw.startswith(_GZIP) and len(raw) <= max_bytes:
        raw = _decompress(raw, name, max_bytes)
    if len(raw) > max_bytes:
        raise BadRequest(f"{name} is larger than {format_bytes(max_bytes)}; allow more with --max-bytes")
    return raw


def _decompress(raw: bytes, file: str, max_bytes: int) -> bytes:
    """Stop at the limit: a small file may unpack to gigabytes."""
    try:
        return gzip.GzipFile(fileobj=io.BytesIO(raw)).read(max_bytes + 1)
    except (EOFError, OSError, zlib.error) as error:
        raise BadRequest(f"{file} is cut short or damaged gzip: {error}") from None


def _read_stdin(limit: int) -> bytes:
    if sys.stdin.isatty():
        notify("reading a request from the terminal until Ctrl-D; give a FILE or --example to read that instead")
    try:
        return sys.stdin.buffer.read(limit)
    except OSError as error:
        raise BadRequest(f"stdin cannot be read: {error.strerror or error}") from None
