"""What a command is given: a request, a recorded session, or a session of the store. Told by content, never by name.

Nothing is written for bad input, and every refusal says where in the document it is.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import sys
import zlib
from dataclasses import dataclass

from ebbtide import example, formats
from ebbtide.audit.history import History, build_history
from ebbtide.config import claude_directory
from ebbtide.core.errors import BadRequest
from ebbtide.display import format_bytes
from ebbtide.formats import RecordedCall, Recording, load
from ebbtide.formats.claude_folder import NEWEST, find_claude_session
from ebbtide.formats.session_file import read_file
from ebbtide.fronts.cli.options import CommandSettings
from ebbtide.fronts.cli.screen import say, watched
from ebbtide.fronts.cli.session_lookup import records_of, session_or_file
from ebbtide.fronts.cli.simulation import fitted, rehearsed
from ebbtide.store.log_lines import Position, read_header, scan
from ebbtide.wire.body import read_body

_GZIP = b"\x1f\x8b"
_BODIES = ("request", "openai-chat")
"""Formats of which a lone object is a request body."""
STDIN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A file or stdin, read and recognised."""

    name: str
    data: bytes
    recording: Recording | None
    """None where the data is one request body."""
    calls: tuple[RecordedCall, ...] = ()
    """Of the recording, as the client had them."""
    model: str = ""
    """Of the request, or of the last call."""


def wanted(args: argparse.Namespace) -> str:
    """What the command line points at: the example, a session of Claude Code, or what it was called."""
    told = vars(args)
    target: str = next((told[name] for name in ("target", "file") if told.get(name) is not None), NEWEST)
    if not target:
        raise BadRequest("the name that was given is empty: which file, or which session?")
    if told.get("example") and told.get("claude"):
        raise BadRequest("--example or --claude: which of the two?")
    if told.get("example"):
        return str(example.path())
    if not told.get("claude"):
        return target
    return str(find_claude_session(claude_directory(), NEWEST if target == STDIN else target))


def given(file: str, max_bytes: int) -> Given:
    """Read a file or stdin. A request body is read strictly, a recorded session as far as it goes."""
    if file != STDIN and os.path.isdir(file):
        return _recorded(file, b"", load(file))
    return _recognised("stdin" if file == STDIN else file, _read(file, max_bytes))


def given_or_own(file: str, max_bytes: int) -> Given | History:
    """As `given`, or the history that a log of ours tells. Read once: what a pipe held is gone then."""
    if file == STDIN or os.path.isdir(file):
        return given(file, max_bytes)
    raw = _read(file, max_bytes)
    return _own_history(file, raw) or _recognised(file, raw)


def _recognised(name: str, raw: bytes) -> Given:
    try:
        tree = read_body(raw).tree
        strict = BadRequest(f"{name}: messages.0.role: its messages have no role")
        if _is_request(tree):
            return Given(name=name, data=raw, recording=None, model=str(tree.get("model") or ""))
    except BadRequest as refused:
        strict = BadRequest(f"{name}: {refused}")
    # Of a lone object the strict reading says where it is wrong; of lines, the reader of sessions does.
    alone = raw.lstrip()[:1] == b"{" and b"\n{" not in raw
    try:
        recording = formats.read(name, raw)
    except BadRequest as unknown:
        raise (strict if alone else unknown) from None
    if alone and recording.format in _BODIES:
        # The readers of sessions are lenient; what would go out to a provider must not be guessed.
        raise strict
    return _recorded(name, raw, recording)


def histories(
    target: str, settings: CommandSettings, max_bytes: int, *, project: str | None = None
) -> tuple[History, ...]:
    """A file's or a stored session's edits. What is not on disk under this name is looked for in the store."""
    if target != STDIN and not os.path.exists(target):
        there = session_or_file(settings.store, target, project)
        if not isinstance(there, str):
            info, log = there
            return (build_history(records_of(info, log), session=info.session),)
        target = there
    source = given_or_own(target, max_bytes)
    if isinstance(source, History):
        return (source,)
    policy = settings.policy
    if source.recording is None:
        window = settings.window_for(source.model)
        return (fitted(source.data, name=source.name, wire=settings.wire, policy=policy, window=window),)
    steps = watched(source.calls, f"replaying {os.path.basename(source.name)}", len(source.calls))
    wire = source.recording.wire
    return rehearsed(steps, name=source.name, wire=wire, policy=policy, window_for=settings.window_for)


def _own_history(path: str, raw: bytes) -> History | None:
    """A log of ours, opened by its path; None where the file is something else."""
    header = read_header(raw[: 1 << 16])
    if header is None:
        return None
    return build_history(scan([raw], Position()).records, session=str(header.get("sessionId")), name=path)


def _is_request(tree: dict[str, object]) -> bool:
    """A list of messages is one by its first: a recorded session may have a list of that name, too."""
    if "messages" not in tree:
        return True
    messages = tree["messages"]
    if not isinstance(messages, list) or not messages:
        return True
    return not isinstance(messages[0], dict) or "role" in messages[0] or "info" not in messages[0]


def _recorded(name: str, raw: bytes, recording: Recording) -> Given:
    problems = recording.problems
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        say(f"{name}: row {problems[0].row}: {problems[0].reason}{more}; the rest is read")
    calls = tuple(recording.requests())
    if not calls:
        raise BadRequest(f"{name} holds a session in which no model was called")
    return Given(name=name, data=raw, recording=recording, calls=calls, model=calls[-1].model)


def _read(file: str, max_bytes: int) -> bytes:
    if file == STDIN:
        name, raw = "stdin", _read_stdin(max_bytes + 1)
    else:
        name, raw = file, read_file(file, max_bytes + 1)
    # What is too large packed is so unpacked, and was not read to its end.
    raw = _unpacked(raw, name, max_bytes) if raw.startswith(_GZIP) and len(raw) <= max_bytes else raw
    if len(raw) > max_bytes:
        raise BadRequest(f"{name} is larger than {format_bytes(max_bytes)}; --max-bytes allows more")
    return raw


def _unpacked(raw: bytes, file: str, max_bytes: int) -> bytes:
    """No further than the limit: a small file may unpack to a disk full."""
    try:
        return gzip.GzipFile(fileobj=io.BytesIO(raw)).read(max_bytes + 1)
    except (EOFError, OSError, zlib.error) as error:
        raise BadRequest(f"{file} is cut short or damaged gzip: {error}") from None


def _read_stdin(most: int) -> bytes:
    if sys.stdin.isatty():
        say("a request is read from the terminal, until Ctrl-D; a FILE, or --example, would be read instead")
    try:
        return sys.stdin.buffer.read(most)
    except OSError as error:
        raise BadRequest(f"stdin cannot be read: {error.strerror or error}") from None
