"""The log format: one JSON record a line, with a checksum that chains each line to the one before.

A line that we write ends in `"ebbsum":"<previous sum><mark><own sum>"`. The own sum covers the previous sum, the mark
and all bytes of the line before the key, so a line proves its content and its place. The mark is `.` on the last line
of a commit and `+` on the others: a commit counts completely or not at all. Lines without a sum were written by another
program; they are read, counted as unchecked, and their bytes enter the chain.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ebbtide.core.errors import StoreError
from ebbtide.core.records import Record, format_time
from ebbtide.core.text.preview import pluralize

LogSink = Callable[[list[Record]], None]
"""Receives the records of a log in order, a few hundred at a time, and keeps what it needs."""

SUM = "ebbsum"
"""The key of the checksum, last in a line. It is added on writing and removed on reading."""

STORE = "store"
"""The key that marks the store's own records (`type: "ebb"`): header, blob sums, forks, ends that were cut off."""

_BLOB_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}\Z")

_KEY = f'"{SUM}":"'.encode()
# 16 hexadecimal digits, 64 bits: against damage, not against a forger, who could recompute any chain without a key.
_TRAILER = re.compile(rb'"ebbsum":"([0-9a-f]{16})([.+])([0-9a-f]{16})"\}')
_TRAILER_BYTES = len(_KEY) + 16 + 1 + 16 + 2
TAIL = _TRAILER_BYTES + 1
"""Bytes at the end of a log that `ends_with_commit` and `last_commit_sum` need."""
_SINK_BATCH = 256  # records that a `LogSink` gets at once: some hundred kilobytes
_MAX_DIGITS = 4300  # Python's limit for the decimal digits of an int

DamageKind = Literal["torn", "altered", "unreadable", "gap", "unfinished"]
"""`torn`: the last write was cut short. `altered`: the checksum is wrong. `unreadable`: not a JSON object. `gap`: the
line is intact, but does not follow the line it was written after. `unfinished`: intact, but its commit is not."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place between two commits of one log. Compare positions, keep them, and hand them back to their store."""

    token: str = ""
    """Its meaning is the store's business. Empty at the beginning of any log."""
    size: int = 0
    """Bytes of the log before it, to judge what a checkpoint saves; 0 if the store does not count them."""


class LineEnd(NamedTuple):
    """What the token of a position says in a log of lines."""

    offset: int = 0
    lines: int = 0
    sum: str = "0" * 16
    """The chain up to here. An offset alone would not reveal that the file was replaced."""

    @property
    def position(self) -> Position:
        return Position(f"{self.offset} {self.lines} {self.sum}", self.offset) if self.offset else Position()

    @staticmethod
    def at(position: Position) -> LineEnd:
        if not position.token:
            return LineEnd()
        offset, lines, chain = position.token.split(" ")
        return LineEnd(int(offset), int(lines), chain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    kind: DamageKind
    line: int
    """Counted from 1."""
    offset: int
    reason: str
    raw: bytes = field(repr=False)
    """The bytes as they are in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """What a log holds, or what was appended to it. Damaged lines are listed in `damage`, not in `records`."""

    records: list[Record] = field(default_factory=list)
    position: Position = field(default_factory=Position)
    damage: tuple[Damage, ...] = ()
    header: Record | None = None
    """Our first line: session, project, time. None in another program's file."""
    blob_sums: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 by blob name, as recorded when the blob was saved."""
    unchecked_lines: int = 0
    """Lines without a checksum."""
    lost_ends: tuple[Record, ...] = ()
    """Records which say that the log was once longer."""


# --- the store's own records -------------------------------------------------------------------------------------


def header_record(session: str, project: str, now: float) -> Record:
    """The first line of a log. It holds the session's id and project, which a file name may not be able to."""
    return {"type": "ebb", STORE: "session", "sessionId": session, "cwd": project, "timestamp": format_time(now)}


def blob_records(sums: Mapping[str, str], at: float) -> list[Record]:
    """Written with the commit after a blob was saved, so that `verify_log` can detect a changed blob."""
    return [
        {"type": "ebb", STORE: "blob", "name": name, "sha256": digest, "timestamp": format_time(at)}
        for name, digest in sums.items()
    ]


def lost_end_record(old_end: Position, new_end: Position, at: float) -> Record:
    """Says that the end of the log was cut off. Without it the next commit would hide the loss."""
    old, new = LineEnd.at(old_end), LineEnd.at(new_end)
    lengths = {"lines": old.lines, "bytes": old.offset, "left_lines": new.lines, "left_bytes": new.offset}
    return {"type": "ebb", STORE: "lost", **lengths, "timestamp": format_time(at)}


def check_blob_name(name: str) -> str:
    """Return the name; raise `StoreError` if it cannot be a file name."""
    if not _BLOB_NAME.match(name):
        raise StoreError(
            f"{name[:80]!r} cannot name a stored result: letters, digits, '.', '_' and '-' only, at most 200"
        )
    return name


def encode_blob(text: str) -> bytes:
    """UTF-8; lone surrogates are allowed, since tool output may hold anything."""
    return text.encode("utf-8", "surrogatepass")


def blob_sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- writing and reading -----------------------------------------------------------------------------------------


_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode_commit(records: Sequence[Record], start: Position) -> tuple[bytes, Position]:
    """Return the bytes of one commit, and the end of the log after it."""
    before, lines = LineEnd.at(start), []
    previous = before.sum.encode()
    bodies = [_encode_record(record) for record in records]
    for remaining, body in zip(range(len(bodies) - 1, -1, -1), bodies, strict=True):
        mark = b"+" if remaining else b"."
        stem = body[:-1] + (b"," if len(body) > len("{}") else b"")
        own = _line_sum(previous, mark, stem)
        lines.append(stem + _KEY + previous + mark + own + b'"}\n')
        previous = own
    data = b"".join(lines)
    end = LineEnd(before.offset + len(data), before.lines + len(lines), previous.decode())
    return data, end.position


def scan(chunks: Iterable[bytes], start: Position) -> ReadResult:
    """Read and check from a position to the end. Stop before an unfinished commit, and report it as torn."""
    return _Scanner(start, _parse).scan(chunks)


def scan_for_resume(chunks: Iterable[bytes], start: Position, sink: LogSink) -> ReadResult:
    """Like `scan`, with the same checks, in bounded memory however long the log is.

    The records go to `sink`; the result has none. A message of ours has only its place in the tree (`parentUuid`,
    `uuid`, `ebbids`), not its content.
    """
    return _Scanner(start, _parse_place).scan(chunks, sink)


def read_header(start: bytes) -> Record | None:
    """Return our header if the first line is one."""
    line, _, _ = start.partition(b"\n")
    record = _parse(line)
    return record if record and record.get("type") == "ebb" and record.get(STORE) == "session" else None


def ends_with_commit(tail: bytes) -> bool:
    """Whether the last `TAIL` bytes of a log end a commit or another program's line. Checksums are not verified."""
    trailer = _TRAILER.fullmatch(tail[:-1][-_TRAILER_BYTES:])
    return tail[-1:] == b"\n" and not (trailer and trailer[2] == b"+")


def last_commit_sum(tail: bytes) -> str:
    """Return the sum of the last line if it is one of ours and ends a commit, else ""."""
    trailer = _TRAILER.fullmatch(tail[:-1][-_TRAILER_BYTES:])
    return trailer[3].decode() if trailer and trailer[2] == b"." and tail[-1:] == b"\n" else ""


_Line = tuple[int, int, bytes]
"""A line's number, its offset and its bytes."""


class _Scanner:
    """Checks lines one by one and collects the records of commits that are complete."""

    def __init__(self, start: Position, parse: Callable[[bytes], Record | None]) -> None:
        self._records: list[Record] = []
        self._damage: list[Damage] = []
        self._header: Record | None = None
        self._blob_sums: dict[str, str] = {}
        self._unchecked_lines = 0
        self._lost_ends: list[Record] = []
        self._parse = parse
        self._offset, self._line_count, chain = LineEnd.at(start)
        self._sum = chain.encode()
        self._committed = (self._offset, self._line_count, self._sum)
        """Where the last complete commit ended."""
        self._previous_intact = True
        """False after a damaged line: then a missing link is no second damage."""
        self._group: list[tuple[_Line | None, Record | None]] = []
        """Lines of the commit being read, each with its place in case the commit never ends; None for another
        program's line."""
        self._maybe_ended = False
        """The last line is too damaged to say whether it ended the commit. If a line of ours follows, it did."""
        self._is_interrupted = False
        """An empty line or another program's line is inside the commit. If our next line links to it, its writer saw
        that the commit had not ended; if not, the line was inserted later."""

    def scan(self, chunks: Iterable[bytes], sink: LogSink | None = None) -> ReadResult:
        """Read all lines. With a sink, the records go there and not into the result."""
        for raw, is_complete in _split_lines(chunks):
            if not is_complete:
                self._finish(raw)
            elif trailer := _TRAILER.fullmatch(raw, max(0, len(raw) - _TRAILER_BYTES)):
                self._read_own_line(raw, *trailer.groups())
            else:
                self._take_other(raw)
            if sink and (not is_complete or len(self._records) >= _SINK_BATCH):
                sink(self._records)
                self._records = []
        offset, lines, chain = self._committed
        return ReadResult(
            records=self._records,
            position=LineEnd(offset, lines, chain.decode()).position,
            damage=tuple(self._damage),
            header=self._header,
            blob_sums=self._blob_sums,
            unchecked_lines=self._unchecked_lines,
            lost_ends=tuple(self._lost_ends),
        )

    def _finish(self, rest: bytes) -> None:
        """End of the file; `rest` is what follows the last newline."""
        self._close_commit(is_unfinished=self._is_interrupted)
        raw = b"".join(line[2] + b"\n" for line, _ in self._group if line) + rest
        if not raw:
            return
        offset, lines, _ = self._committed
        reason = f"the last write was cut short: {pluralize(len(raw), 'byte')} of no whole commit"
        self._damage.append(Damage(kind="torn", line=lines + 1, offset=offset, reason=reason, raw=raw))

    def _read_own_line(self, raw: bytes, previous: bytes, mark: bytes, own: bytes) -> None:
        is_intact = _line_sum(previous, mark, raw[:-_TRAILER_BYTES]) == own
        if self._maybe_ended or self._is_interrupted:
            self._close_commit(is_unfinished=self._is_interrupted and is_intact and previous == self._sum)
        record = self._parse(raw) if is_intact else None
        if not is_intact:
            self._report("altered", "the checksum does not match the line", raw)
        elif record is None:
            self._report("unreadable", "the line is not a JSON object that can be read", raw)
        elif previous != self._sum and self._previous_intact:
            self._report("gap", "lines before this one are missing, changed or out of place", raw)
        self._group.append(((self._line_count + 1, self._offset, raw), record))
        self._advance(raw, own, is_intact=is_intact)
        self._maybe_ended = not is_intact  # the mark may be what was altered
        if mark == b".":
            self._collect()
            self._committed = (self._offset, self._line_count, self._sum)

    def _take_other(self, raw: bytes) -> None:
        record = None if _has_damaged_key(raw) else _parse(raw)
        is_foreign = not raw.strip() or (record is not None and SUM not in record)
        if not is_foreign:
            kind: DamageKind = "unreadable" if record is None else "altered"
            self._report(kind, "the line is neither one that we wrote nor a JSON object", raw)
            self._maybe_ended = bool(self._group)
            if self._group:
                self._group.append(((self._line_count + 1, self._offset, raw), None))
        else:
            self._unchecked_lines += 1
            self._is_interrupted = bool(self._group)
            self._group.append((None, record))
            if not self._is_interrupted:
                self._collect()
        self._advance(raw, _line_sum(self._sum, b"?", raw), is_intact=is_foreign)
        if not self._group:
            self._committed = (self._offset, self._line_count, self._sum)

    def _close_commit(self, *, is_unfinished: bool) -> None:
        """Decide whether the lines of a commit without a readable last line count."""
        if not self._maybe_ended and not self._is_interrupted:
            return
        if is_unfinished:
            self._damage += [_unfinished(line) for line, record in self._group if line and record is not None]
            self._group = [(line, record) for line, record in self._group if line is None]
        self._collect()
        self._committed = (self._offset, self._line_count, self._sum)

    def _collect(self) -> None:
        for our_line, record in self._group:
            if record is None:
                continue
            record.pop(SUM, None)
            if our_line and record.get("type") == "ebb" and STORE in record:
                self._collect_own(record)
            else:
                self._records.append(record)
        self._group, self._maybe_ended, self._is_interrupted = [], False, False

    def _collect_own(self, record: Record) -> None:
        if record[STORE] == "session" and self._header is None:
            self._header = record
        if record[STORE] == "blob":
            self._blob_sums[str(record.get("name"))] = str(record.get("sha256"))
        if record[STORE] == "lost":
            self._lost_ends.append(record)

    def _advance(self, raw: bytes, line_sum: bytes, *, is_intact: bool) -> None:
        self._offset, self._line_count = self._offset + len(raw) + 1, self._line_count + 1
        self._sum, self._previous_intact = line_sum, is_intact

    def _report(self, kind: DamageKind, reason: str, raw: bytes) -> None:
        self._damage.append(Damage(kind=kind, line=self._line_count + 1, offset=self._offset, reason=reason, raw=raw))


def _unfinished(line: _Line) -> Damage:
    number, offset, raw = line
    reason = "the commit it belongs to was never finished"
    return Damage(kind="unfinished", line=number, offset=offset, reason=reason, raw=raw)


def _line_sum(previous: bytes, mark: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(previous + mark + body, digest_size=8).hexdigest().encode()


def _has_damaged_key(raw: bytes) -> bool:
    """Whether the line ends in our key with up to two bytes changed: it is not another program's line."""
    key = raw[-_TRAILER_BYTES : len(_KEY) - _TRAILER_BYTES]
    # Two of ten bytes: another program's key would not come that close, in that place, by chance.
    return len(key) == len(_KEY) and sum(a != b for a, b in zip(key, _KEY, strict=True)) <= 2


def _split_lines(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield each complete line, then what follows the last newline. U+2028 and the like do not end a line."""
    pieces: list[bytes] = []
    for chunk in chunks:
        first, *rest = chunk.split(b"\n")
        pieces.append(first)
        for piece in rest:
            yield b"".join(pieces), True
            pieces = [piece]
    yield b"".join(pieces), False


def _encode_record(record: Record) -> bytes:
    """UTF-8. A lone surrogate, which UTF-8 cannot hold, is escaped."""
    try:
        text = _to_json({key: value for key, value in record.items() if key != SUM} if SUM in record else record)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"a record cannot be written as JSON: {error}") from error
    try:
        return text.encode()
    except UnicodeEncodeError:
        return re.sub(r"[\ud800-\udfff]", lambda lone: f"\\u{ord(lone[0]):04x}", text).encode()


def _to_json(record: Record) -> str:
    try:
        return _ENCODE(record)
    except ValueError:
        return _huge_ints_to_json(record)


def _huge_ints_to_json(record: Record) -> str:
    """Encode integers that are too long for `str`: write random tokens first, then replace them by the digits."""
    import decimal  # noqa: PLC0415 - only for numbers that hardly ever occur

    digits_by_token: dict[str, str] = {}

    def with_tokens(value: object) -> object:
        if isinstance(value, dict):
            return {key: with_tokens(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [with_tokens(inner) for inner in value]
        if isinstance(value, int) and abs(value) >= 10**_MAX_DIGITS:
            token = os.urandom(16).hex()
            digits_by_token[f'"{token}"'] = format(decimal.Decimal(value), "f")
            return token
        return value

    text = _ENCODE(with_tokens(record))
    for token, digits in digits_by_token.items():
        text = text.replace(token, digits)
    return text


_DECODE = json.JSONDecoder().decode


def _parse(raw: bytes) -> Record | None:
    try:
        text = raw.decode()
        value = _DECODE(text)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        return None
    except ValueError:  # an integer over Python's limit for decimal literals
        value = json.loads(text, parse_int=_parse_int)
    return value if isinstance(value, dict) else None


_PLACE_START = re.compile(rb'\{"parentUuid":(?:null|"([0-9a-f-]{36})"),')
_PLACE_IDS = b',"ebbids":['
_PLACE_END = re.compile(
    rb',"ebbids":\[((?:"[\w.-]+",?)*)\](?:,"ebbwire":"\w+")?,"uuid":"([0-9a-f-]{36})","timestamp":"[^"\\]*",'
)


def _parse_place(raw: bytes) -> Record | None:
    """Parse only the place of a message of ours, without its content; any other record completely.

    The keys that we write last are matched from the end. They are the record's own keys: no brace is between them and
    the record's last brace, and no unescaped quote can be inside a string.
    """
    start = _PLACE_START.match(raw)
    end = _PLACE_END.fullmatch(raw, raw.rfind(_PLACE_IDS), len(raw) - _TRAILER_BYTES) if start else None
    if start is None or end is None or b'"microcompactMetadata"' in raw:
        return _parse(raw)
    ids = end[1].decode().replace('"', "").split(",") if end[1] else []
    return {"parentUuid": start[1].decode() if start[1] else None, "uuid": end[2].decode(), "ebbids": ids}


def _parse_int(digits: str) -> int:
    import decimal  # noqa: PLC0415 - as above

    return int(digits) if len(digits) <= _MAX_DIGITS else int(decimal.Decimal(digits))
