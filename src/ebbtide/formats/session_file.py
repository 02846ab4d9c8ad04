"""Bytes in, JSON values out. What cannot be read is kept as a problem, never dropped in silence."""

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
_LARGEST = 1 << 30
"""Bytes of a recording once it is unpacked: a hundred times the longest session that we have seen."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRow:
    """One JSON value and where it stands."""

    line: int
    value: Any
    raw: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFile:
    """A file, read: either one JSON document, which is also its only row, or a row a line."""

    path: str
    rows: tuple[JsonRow, ...]
    problems: tuple[Problem, ...]
    document: bool

    @property
    def name(self) -> str:
        """The file's name without its endings: what a session is called when the file does not say."""
        return Path(self.path).name.split(".")[0]


def open_source(path: str | os.PathLike[str]) -> SessionFile:
    return parse_source(os.fspath(path), unpack(read_file(path), os.fspath(path)))


def read_file(path: str | os.PathLike[str], limit: int = -1) -> bytes:
    """A file, or what comes through a pipe. One that nobody writes to is empty, and a device, which may never end, is
    refused: there is nothing that we would wait for."""
    name = os.fspath(path)
    try:
        with open(name, "rb", opener=_at_once) as file:
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


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def unpack(data: bytes, path: str, limit: int = _LARGEST) -> bytes:
    """Gzip is told by its first bytes; names lie. A megabyte of it may say that a terabyte follows: that is refused."""
    if not data.startswith(_GZIP):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            plain = packed.read(limit + 1)
        if len(plain) > limit:
            raise BadRequest(f"{path} unpacks to more than {limit:,} bytes; unpack it yourself and give the plain file")
        return plain
    except (EOFError, OSError, zlib.error) as error:
        raise BadRequest(f"{path} is cut short or damaged gzip: {error}") from error


def parse_source(path: str, data: bytes) -> SessionFile:
    if not data.strip():
        raise BadRequest(f"{path} is empty")
    document = _document(data)
    if document is not None:
        return SessionFile(path=path, rows=(document[0],), problems=document[1], document=True)
    rows: list[JsonRow] = []
    problems: list[Problem] = []
    for line, chunk in enumerate(data.split(b"\n"), 1):
        if not chunk.strip():
            continue
        raw, reason = _text(chunk)
        values, found = parse_values(raw)
        rows += [JsonRow(line=line, value=value, raw=raw) for value in values]
        reason = "; ".join(filter(None, (reason, found)))
        if reason:
            problems.append(Problem(row=line, reason=reason, raw=_kept(chunk)))
    if not rows and not problems:  # a mark at its beginning, or blanks that bytes do not know
        raise BadRequest(f"{path} is empty")
    return SessionFile(path=path, rows=tuple(rows), problems=tuple(problems), document=False)


def _document(data: bytes) -> tuple[JsonRow, tuple[Problem, ...]] | None:
    """The whole of the data as one value, or None: then it is rows, or nothing."""
    text, reason = _text(data)
    start = len(text) - len(text.lstrip())
    try:
        value, end = _STRICT.raw_decode(text, start)
    except (ValueError, RecursionError):
        values, found = parse_values(text)
        if len(values) != 1 or "not JSON" in found:
            return None
        value, end, reason = values[0], len(text), "; ".join(filter(None, (reason, found)))
    if text[end:].strip():
        return None
    if _ESCAPED_SURROGATE.search(text):
        value, mended = _mend(value)
        reason = "; ".join(filter(None, (reason, "half of a surrogate pair, read as U+FFFD" if mended else "")))
    problems = (Problem(row=1, reason=reason),) if reason else ()
    return JsonRow(line=1, value=value, raw=""), problems


def _text(data: bytes) -> tuple[str, str]:
    try:
        return data.decode("utf-8-sig"), ""
    except UnicodeDecodeError as error:
        return data.decode("utf-8-sig", "replace"), f"not UTF-8 at byte {error.start}, read as U+FFFD"


def _kept(data: bytes) -> str:
    """Bytes that are not text stay legible as escapes, so that nothing is lost."""
    return data.decode("utf-8", "backslashreplace")


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
    """Every JSON value that stands in the text, and what was wrong, if anything was."""
    values, reason = _scan(_STRICT, text)
    if reason:
        values, rest = _scan(_LENIENT, text)
        # Where the lenient reading gets through, the strict one says what it had to overlook.
        reason = rest or f"{reason}, read leniently"
    if len(values) > 1:
        reason = "; ".join(filter(None, (f"{len(values)} JSON values on one line, all read", reason)))
    if _ESCAPED_SURROGATE.search(text):
        mended = [_mend(value) for value in values]
        values = [value for value, _ in mended]
        if any(changed for _, changed in mended):
            reason = "; ".join(filter(None, (reason, "half of a surrogate pair, read as U+FFFD")))
    return values, reason


def _scan(decoder: json.JSONDecoder, text: str) -> tuple[list[Any], str]:
    values: list[Any] = []
    at = _SPACE.match(text, 0).end()  # type: ignore[union-attr]
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            return values, f"not JSON: {error}"
        values.append(value)
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
    return values, ""


def _mend(value: Any) -> tuple[Any, bool]:
    """A lone surrogate cannot be sent as UTF-8 by anyone."""
    if isinstance(value, str):
        mended = _SURROGATE.sub("\ufffd", value)
        return mended, mended != value
    if isinstance(value, list):
        parts = [_mend(part) for part in value]
        return [part for part, _ in parts], any(changed for _, changed in parts)
    if isinstance(value, dict):
        pairs = [(_mend(key), _mend(part)) for key, part in value.items()]
        return {key[0]: part[0] for key, part in pairs}, any(key[1] or part[1] for key, part in pairs)
    return value, False


def str_or_empty(value: Any) -> str:
    """A name, or nothing: where a name should stand a record may hold anything."""
    return value if isinstance(value, str) else ""


def is_finite(number: float) -> bool:
    """Whether it can be counted with; an integer may be too large for that."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def parse_time(value: Any) -> float | None:
    """ISO 8601, seconds or milliseconds to seconds since the epoch."""
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
        when = datetime.fromisoformat(value)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


# No model offers a window of more; a row that claims it counts something else.
_LARGEST_WINDOW = 5_000_000


def build_usage(read: Any, write: Any, fresh: Any, output: Any) -> tuple[Usage | None, str]:
    """The usage, or why it cannot be one. All zeros is no usage: no call costs nothing."""
    parts = [0 if part is None else part for part in (fresh, read, write, output)]
    if any(isinstance(part, bool) or not isinstance(part, int | float) or not is_finite(part) for part in parts):
        return None, "the usage is not made of numbers"
    whole = [int(part) for part in parts]
    if min(whole) < 0:
        return None, "the usage is negative"
    if sum(whole) > _LARGEST_WINDOW:
        return None, f"the usage claims {sum(whole)} tokens, more than any window holds"
    if not any(whole[:3]):
        return None, ""
    return Usage(input=whole[0], cache_read=whole[1], cache_write=whole[2], output=whole[3]), ""
