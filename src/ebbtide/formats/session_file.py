"""Reads a session file: unpacks it and parses its JSON. What cannot be parsed is reported as a problem."""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import re
import stat
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from ebbtide.core.errors import BadRequest
from ebbtide.core.types import Usage
from ebbtide.formats.steps import Problem

_GZIP = b"\x1f\x8b"
_MAX_BYTES = 1 << 30
"""Of a file when unpacked: a hundred times the longest session that we have seen."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE_PROBLEM = "half of a surrogate pair, read as U+FFFD"


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRow:
    """One JSON value of a file."""

    line: int
    value: Any
    raw: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFile:
    """A parsed file: one JSON document, or one JSON value a line."""

    path: str
    rows: tuple[JsonRow, ...]
    problems: tuple[Problem, ...]
    is_document: bool

    @property
    def document(self) -> Any:
        """The value of a file that is one document, else None."""
        return self.rows[0].value if self.is_document else None

    @property
    def name(self) -> str:
        """The file's name without its endings: the session's name if the file has no other."""
        return Path(self.path).name.split(".")[0]


def open_session_file(path: str | os.PathLike[str]) -> SessionFile:
    return parse_session_file(os.fspath(path), unpack(read_file(path), os.fspath(path)))


def read_file(path: str | os.PathLike[str], limit: int = -1) -> bytes:
    """Read a file or a pipe. A pipe without a writer is empty. A device is refused, since it may never end."""
    name = os.fspath(path)
    try:
        with open(name, "rb", opener=_open_without_waiting) as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISFIFO(mode):
                os.set_blocking(file.fileno(), True)
            elif not stat.S_ISREG(mode):
                raise BadRequest(f"{name} is a device, not a file")
            return file.read(limit)
    except OSError as error:
        raise BadRequest(f"{name} cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in its name
        raise BadRequest(f"{name} cannot be read: {error}") from None


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def unpack(data: bytes, path: str, limit: int = _MAX_BYTES) -> bytes:
    """Unpack gzip, which is recognised by its first bytes. Refuse a file that unpacks to more than `limit` bytes."""
    if not data.startswith(_GZIP):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            content = packed.read(limit + 1)
        if len(content) > limit:
            raise BadRequest(f"{path} unpacks to more than {limit:,} bytes; unpack it yourself and give the plain file")
        return content
    except (EOFError, OSError, zlib.error) as error:
        raise BadRequest(f"{path} is cut short or damaged gzip: {error}") from error


def parse_session_file(path: str, data: bytes) -> SessionFile:
    if not data.strip():
        raise BadRequest(f"{path} is empty")
    document = _parse_document(data)
    if document is not None:
        return SessionFile(path=path, rows=(document[0],), problems=document[1], is_document=True)
    rows: list[JsonRow] = []
    problems: list[Problem] = []
    for line, chunk in enumerate(data.split(b"\n"), 1):
        if not chunk.strip():
            continue
        raw, decode_problem = _decode(chunk)
        values, parse_problem = parse_values(raw)
        rows += [JsonRow(line=line, value=value, raw=raw) for value in values]
        if reason := _join(decode_problem, parse_problem):
            # Bytes that are not UTF-8 are shown as escapes.
            problems.append(Problem(row=line, reason=reason, raw=chunk.decode("utf-8", "backslashreplace")))
    if not rows and not problems:  # only a byte order mark, or blanks that `bytes.strip` does not know
        raise BadRequest(f"{path} is empty")
    return SessionFile(path=path, rows=tuple(rows), problems=tuple(problems), is_document=False)


def _parse_document(data: bytes) -> tuple[JsonRow, tuple[Problem, ...]] | None:
    """Parse the data as one JSON value; None if it is not one."""
    text, reason = _decode(data)
    start = len(text) - len(text.lstrip())
    try:
        value, end = _STRICT.raw_decode(text, start)
    except (ValueError, RecursionError):
        values, parse_problem = parse_values(text)
        if len(values) != 1 or "not JSON" in parse_problem:
            return None
        value, end, reason = values[0], len(text), _join(reason, parse_problem)
    if text[end:].strip():
        return None
    if _ESCAPED_SURROGATE.search(text):
        value, is_changed = _replace_surrogates(value)
        reason = _join(reason, _SURROGATE_PROBLEM if is_changed else "")
    problems = (Problem(row=1, reason=reason),) if reason else ()
    return JsonRow(line=1, value=value, raw=""), problems


def _decode(data: bytes) -> tuple[str, str]:
    try:
        return data.decode("utf-8-sig"), ""
    except UnicodeDecodeError as error:
        return data.decode("utf-8-sig", "replace"), f"not UTF-8 at byte {error.start}, read as U+FFFD"


def _join(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    # 1e999 is good JSON, and infinite in every language that sends it on.
    return number if math.isfinite(number) else _refuse(digits)


_STRICT = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
_LENIENT = json.JSONDecoder(
    strict=False,
    parse_constant=lambda _: None,
    parse_float=lambda digits: float(digits) if math.isfinite(float(digits)) else None,
)
_SPACE = re.compile(r"\s*")


def parse_values(text: str) -> tuple[list[Any], str]:
    """Return every JSON value in the text, and what was wrong with it, if anything."""
    values, reason = _parse_with(_STRICT, text)
    if reason:
        values, lenient_reason = _parse_with(_LENIENT, text)
        # If the lenient parser succeeds, the strict one says what was overlooked.
        reason = lenient_reason or f"{reason}, read leniently"
    if len(values) > 1:
        reason = _join(f"{len(values)} JSON values on one line, all read", reason)
    if _ESCAPED_SURROGATE.search(text):
        values, is_changed = _replace_surrogates(values)
        reason = _join(reason, _SURROGATE_PROBLEM if is_changed else "")
    return values, reason


def _parse_with(decoder: json.JSONDecoder, text: str) -> tuple[list[Any], str]:
    values: list[Any] = []
    offset = _SPACE.match(text, 0).end()  # type: ignore[union-attr]
    while offset < len(text):
        try:
            value, offset = decoder.raw_decode(text, offset)
        except (ValueError, RecursionError) as error:
            return values, f"not JSON: {error}"
        values.append(value)
        offset = _SPACE.match(text, offset).end()  # type: ignore[union-attr]
    return values, ""


def _replace_surrogates(value: Any) -> tuple[Any, bool]:
    """Replace lone surrogates, which cannot be sent as UTF-8. Also return whether there were any."""
    if isinstance(value, str):
        text = _SURROGATE.sub("\ufffd", value)
        return text, text != value
    if isinstance(value, list):
        parts = [_replace_surrogates(part) for part in value]
        return [part for part, _ in parts], any(is_changed for _, is_changed in parts)
    if isinstance(value, dict):
        pairs = [(_replace_surrogates(key), _replace_surrogates(part)) for key, part in value.items()]
        return {key[0]: part[0] for key, part in pairs}, any(key[1] or part[1] for key, part in pairs)
    return value, False


def str_or_empty(value: Any) -> str:
    """A record may hold anything where a string is expected."""
    return value if isinstance(value, str) else ""


def dict_or_empty(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def is_finite(number: float) -> bool:
    """Whether it is a usable number; an integer may be too large for a float."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def parse_time(value: Any) -> float | None:
    """Convert ISO 8601, seconds or milliseconds to seconds since the epoch; None if it is none of these."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        if not is_finite(value):
            return None
        # 1e11 seconds is the year 5138; as milliseconds it is 1973.
        return value / 1000 if value > 1e11 else float(value)
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


# No model has a larger window: a row with more tokens counts something else.
_LARGEST_WINDOW = 5_000_000


def build_usage(read: Any, write: Any, fresh: Any, output: Any) -> tuple[Usage | None, str]:
    """Return the usage, or why the numbers are impossible. All zeros is no usage: no call costs nothing."""
    parts = [0 if part is None else part for part in (fresh, read, write, output)]
    if any(isinstance(part, bool) or not isinstance(part, int | float) or not is_finite(part) for part in parts):
        return None, "the usage is not made of numbers"
    counts = [int(part) for part in parts]
    if min(counts) < 0:
        return None, "the usage is negative"
    if sum(counts) > _LARGEST_WINDOW:
        return None, f"the usage claims {sum(counts)} tokens, more than any window holds"
    if not any(counts[:3]):
        return None, ""
    return Usage(input=counts[0], cache_read=counts[1], cache_write=counts[2], output=counts[3]), ""
